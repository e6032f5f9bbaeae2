// Package telemetry is what the parts of a node share for being watched from
// outside: metrics for Prometheus, and a bound on log lines that clients can
// cause at will.
//
//	m := telemetry.New(version)
//	m.Gauge("kafka_server_kafkaserver_brokerstate", "…", func() float64 { … })
//	err := m.Serve(ctx, ln) // GET /metrics, until ctx ends
//
//	log = telemetry.LimitRepeats(log)
//
// Metrics have the names that Kafka's JMX beans have behind the JMX exporter, so
// that dashboards and alerts go on working: kafka.server:type=KafkaServer,
// name=BrokerState for the one above, in lower case. What Kafka has no bean for
// begins with klamm_; go_ and process_ are Prometheus's own. A gauge is a
// function that is called when somebody looks: what nobody asks for costs
// nothing, and the components whose numbers these are know nothing of Prometheus.
// Which numbers there are is said in one place, cmd/node.
//
// A line's kind is its message, which is a constant phrase all over the node, so
// the bound is one hook of the logger and no matter of those who write lines.
//
// Only Serve starts goroutines, those of net/http. Start reading at metrics.go
// and repeats.go.
package telemetry
