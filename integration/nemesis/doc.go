// Package nemesis breaks clusters under load and looks whether anything that was
// promised is broken with them. Processes are killed, stand still, are cut off or
// lose their disks, while clients that others wrote write and read; what each of
// them was told is taken down and checked (package history).
//
// A cluster is three controllers and three brokers, each a process on a host of its
// own (harness.Network), and one topic of eight partitions, three replicas and
// min.insync.replicas=2. On it are at once
//
//	franz-go     an idempotent producer, one that is not and repeats
//	librdkafka   the same, the latter with five requests in flight
//	franz-go     a consumer that assigns itself all, two in a group
//	librdkafka   a consumer that assigns itself all, one in a group
//	franz-go     one who creates and deletes topics, and asks for metadata
//
// Each scenario ends with the same looks (world.end): all is healed, all replicas are
// in sync, every consumer comes to the end, nothing in the history is an anomaly, no
// idempotent producer has given a record up, topics are those that were acknowledged,
// nodes have the same metadata, leaders were elected from those in sync with
// epochs that only go up, and the replicas' logs are equal byte for byte.
//
// The tests carry the build tag integration. As part of `make integration` one short
// scenario runs; `make nemesis` runs those that are marked as stated. By hand:
//
//	go test -tags integration -v -timeout 2h ./integration/nemesis -scenario all
//
//	-scenario short|stated|all|NUMBER,...   which
//	-duration 45s                           how long each is broken for
//	-seed N                                 repeats what an earlier run drew
//	-rate 100                               records a second, of each producer
//	-keep DIR                               each run leaves directories, logs and history there
//
// # To add a scenario
//
// It is a file of its own, which registers it:
//
//	var _ = register(scenario{
//		number: 1, name: "leader-killed",
//		does: "the leader of a partition is killed, again and again",
//		run: func(w *world) {
//			for w.next(10 * time.Second) {
//				victim := w.leader(w.anyPartition())
//				w.kill(victim)
//				w.goesOn()
//				w.start(victim)
//			}
//		},
//	})
//
// run is called with the load running. It may do what it likes to w.Cluster and w.Net,
// as long as it uses w's words for the life of nodes (kill, stop, start, freeze, thaw,
// wipe): what they did is undone at the end (world.heal). w.rand is the only source of chance. What
// must hold beyond the common end is said in run, with w.T.Errorf, or in then, which
// comes after the nodes were healed and the history was checked, before they are
// stopped to compare their files. The fields of scenario say what else can be different:
// settings, the topic's configs, the producers' acks, the number of brokers, the binary.
//
// Start reading at nemesis_test.go, then world_test.go, and leader_test.go.
package nemesis
