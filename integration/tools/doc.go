// Package tools compares what Kafka's command-line tools print on klamm with
// what they print on Kafka. The files of testdata hold the commands and, as
// recorded on Apache Kafka 4.4.0, their output; each runs on a node of its own.
//
//	go test -tags integration ./integration/tools
//
// runs them on klamm and compares,
//
//	KLAMM_NODE=kafka go test -tags integration ./integration/tools -args -rewrite
//
// records again, on a real Kafka. A command line is written as in a shell,
// without "kafka-" and ".sh"; --bootstrap-server is added where it is not given,
// and $BROKER, $CONTROLLER, $DATA and $TMP stand for the addresses and
// directories of this run. Lines below it that begin with "< " are its standard
// input. What differs from run to run (ids, times, ports) is replaced in the
// output, see normal_test.go.
//
// Where klamm is known to differ, the directive names one of the reasons in
// tools_test.go; a difference that is gone fails as well.
//
// Two files run on clusters too that have nodes of both kinds (TestMixed).
//
// All tools run in one JVM, since starting one takes a second of CPU each:
// Runner.java, which is started from source and so takes a JDK. Package harness
// says which variables name the binary and Kafka's tools.
//
// Start reading at TestTools.
package tools
