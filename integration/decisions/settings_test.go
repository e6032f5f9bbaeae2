//go:build integration

package decisions

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/integration/harness"
	"github.com/klamm/klamm/protocol"
)

func (w *world) configs() {
	w.part("configs of brokers", func() {
		w.ask(w.broker(2), "its own", alter(change(ofBroker, "2", "log.cleaner.threads=2")))
		w.ask(w.broker(1), "another's", alter(change(ofBroker, "2", "log.cleaner.threads=2")))
		w.ask(w.broker(1), "of all", alter(change(ofBroker, "", "log.cleaner.threads=3")))
		w.ask(w.broker(2), "of a broker that is not there", alter(change(ofBroker, "9", "log.cleaner.threads=2")))
		w.ask(w.broker(2), "of no number", alter(change(ofBroker, "two", "log.cleaner.threads=2")))
		w.ask(w.broker(2), "what is not dynamic", alter(change(ofBroker, "2", "log.dirs=/tmp")))
		w.ask(w.broker(2), "what is not there", alter(change(ofBroker, "2", "nonsense=2")))
		w.ask(w.broker(2), "no value of it", alter(change(ofBroker, "2", "log.cleaner.threads=many")))
		w.ask(w.broker(2), "not at once as much", alter(change(ofBroker, "2", "num.io.threads=100")))
		w.ask(w.broker(2), "described", configs(ofBroker, "2", "log.cleaner.threads", "min.insync.replicas"))
		w.ask(w.broker(1), "described by another", configs(ofBroker, "2", "log.cleaner.threads"))
		w.ask(w.broker(1), "described for all", configs(ofBroker, ""))
		w.ask(w.broker(2), "away", alter(change(ofBroker, "2", "log.cleaner.threads"), change(ofBroker, "", "log.cleaner.threads")))
	})
	w.part("configs asked of the controller", func() {
		w.ask(w.controller(1), "of a topic", alter(change(ofTopic, "t", "retention.ms=1000", "cleanup.policy+=compact")))
		w.ask(w.controller(1), "of a broker", alter(change(ofBroker, "2", "log.cleaner.threads=2")))
		w.ask(w.controller(1), "of its own node", alter(change(ofBroker, "1", "log.cleaner.threads=2")))
		w.ask(w.controller(1), "of all", alter(change(ofBroker, "", "background.threads=11")))
		w.ask(w.controller(1), "of its node, what is not dynamic", alter(change(ofBroker, "1", "log.dirs=/tmp")))
		w.ask(w.controller(1), "of its loggers", alter(change(ofLogger, "1", "root=INFO")))
		w.ask(w.controller(1), "of another's loggers", alter(change(ofLogger, "2", "root=INFO")))
		w.ask(w.controller(1), "described, of another", configs(ofBroker, "2", "log.cleaner.threads"))
		w.ask(w.controller(1), "described, of a topic", configs(ofTopic, "t", "retention.ms", "cleanup.policy"))
		w.ask(w.controller(1), "described, of no topic", configs(ofTopic, "nobody", "retention.ms"))
		w.ask(w.controller(1), "replaced", replace(ofTopic, "t", "min.insync.replicas=2"))
		w.ask(w.controller(1), "replaced, of all", replace(ofBroker, ""))
		w.ask(w.controller(1), "away", alter(change(ofBroker, "", "background.threads")))
		w.ask(w.broker(2), "replaced, of a broker", replace(ofBroker, "2"))
		w.ask(w.broker(1), "replaced, of the other", replace(ofBroker, "1"))
	})
	w.part("configs of topics", func() {
		w.ask(w.broker(2), "wrongly", alter(
			change(ofTopic, "nobody", "retention.ms=1"), change(ofTopic, "t", "retention.ms=x"), change(ofTopic, "r", "nonsense=1"),
			change(ofTopic, "e", "retention.ms+=1"), change(ofTopic, "z", "min.insync.replicas=0"), change(ofTopic, "", "retention.ms=1"),
		))
		w.ask(w.broker(2), "one twice", alter(change(ofTopic, "t", "retention.ms=1"), change(ofTopic, "r", "retention.ms=1"), change(ofTopic, "t", "retention.ms=2")))
		w.ask(w.controller(1), "one twice", alter(change(ofTopic, "t", "retention.ms=1"), change(ofTopic, "r", "retention.ms=1"), change(ofTopic, "t", "retention.ms=2")))
		w.ask(w.broker(2), "one key twice", alter(change(ofTopic, "t", "retention.ms=1", "retention.ms=2")))
		w.ask(w.controller(1), "one key twice", alter(change(ofTopic, "t", "retention.ms=1", "retention.ms=2")))
	})
}

func (w *world) features() {
	w.part("features that are refused", func() {
		for _, levels := range [][]string{
			{"nonsense=1"},
			{"metadata.version=99"},
			{"metadata.version=-1"},
			{"metadata.version=0"},
			{"transaction.version=9"},
			{"metadata.version=32"},
			{"metadata.version=6"},
			{"transaction.version=2", "nonsense=1"},
			{"kraft.version=2"},
		} {
			w.ask(w.broker(2), "up "+levels[0], features(up, levels...))
		}
		for _, levels := range [][]string{{"metadata.version=32"}, {"metadata.version=31"}, {"metadata.version=7"}, {"transaction.version=3"}, {"kraft.version=0"}, {"nonsense=0"}} {
			w.ask(w.broker(2), "safe "+levels[0], features(safe, levels...))
			w.ask(w.broker(2), "unsafe "+levels[0], features(unsafe, levels...))
			w.ask(w.broker(2), "tried, unsafe "+levels[0], tried(features(unsafe, levels...)))
		}
		w.ask(w.broker(2), "no kind", features(0, "transaction.version=1"))
		w.ask(w.broker(2), "unknown kind", features(7, "transaction.version=1"))
		w.ask(w.broker(2), "nothing", features(up))
		w.askIn(0, w.broker(2), "down", features(up, "transaction.version=1"))
		w.askIn(1, w.broker(2), "one of two", features(up, "group.version=1", "nonsense=1"))
	})
	w.part("features go down and up", func() {
		w.ask(w.broker(2), "tried", tried(features(safe, "transaction.version=1")))
		w.ask(w.broker(2), "down", features(safe, "transaction.version=1", "share.version=0"))
		w.ask(w.controller(1), "up", features(up, "transaction.version=2", "share.version=2"))
		w.askIn(1, w.controller(1), "again", features(up, "transaction.version=2"))
		w.askIn(0, w.controller(1), "down and up", features(safe, "streams.version=0"))
		w.askIn(0, w.controller(1), "down and up", features(up, "streams.version=1"))
	})
	w.part("eligible leaders go and come", func() {
		w.ask(w.broker(2), "of the cluster", alter(change(ofBroker, "", "min.insync.replicas=2")))
		w.ask(w.broker(2), "down", features(safe, "eligible.leader.replicas.version=0"))
		w.ask(w.broker(2), "of a broker", alter(change(ofBroker, "2", "min.insync.replicas=1")))
		w.ask(w.broker(2), "none of the cluster", alter(change(ofBroker, "", "min.insync.replicas")))
		w.ask(w.broker(2), "up", features(up, "eligible.leader.replicas.version=1"))
	})
}

func (w *world) security() {
	w.part("quotas", func() {
		w.ask(w.broker(2), "some", quotas(harness.Quota("user=ann", "producer_byte_rate=1024", "consumer_byte_rate=2048"), harness.Quota("user", "request_percentage=50"), harness.Quota("client-id=c user=bob", "producer_byte_rate=1")))
		w.ask(w.controller(1), "changed", quotas(harness.Quota("user=ann", "producer_byte_rate", "consumer_byte_rate=2048"), harness.Quota("ip=127.0.0.1", "connection_creation_rate=10")))
		w.ask(w.broker(2), "wrongly", quotas(harness.Quota("user=ann", "nonsense=1"), harness.Quota("", "producer_byte_rate=1"), harness.Quota("user=", "producer_byte_rate=1"), harness.Quota("ip=300.1.1.1", "connection_creation_rate=1"), harness.Quota("user=ann", "producer_byte_rate=-1")))
		w.ask(w.controller(1), "none", quotas(harness.Quota("user=ann", "consumer_byte_rate"), harness.Quota("user", "request_percentage"), harness.Quota("client-id=c user=bob", "producer_byte_rate"), harness.Quota("ip=127.0.0.1", "connection_creation_rate")))
	})
	w.part("credentials", func() {
		w.ask(w.broker(2), "some", scram("ann 1 4096", "bob 2 8192"))
		w.ask(w.broker(2), "wrongly", scram("cid 1 10", "dan 7 4096", "eve 1", "fay 1 4096", "fay 1"))
		w.ask(w.broker(2), "described", credentials("ann", "nobody"))
		w.ask(w.controller(1), "none", scram("ann 1", "bob 2"))
	})
	w.part("credentials described by a controller", func() {
		w.ask(w.controller(1), "of some", credentials("ann", "nobody"))
	})
	w.part("access", func() {
		w.ask(w.broker(2), "some", permit(acl(kmsg.ACLResourceTypeTopic, "t", "User:ann", kmsg.ACLOperationRead), acl(kmsg.ACLResourceTypeGroup, "g", "User:ann", kmsg.ACLOperationRead)))
		w.ask(w.controller(1), "again and another", permit(acl(kmsg.ACLResourceTypeTopic, "t", "User:ann", kmsg.ACLOperationRead), acl(kmsg.ACLResourceTypeCluster, "kafka-cluster", "User:bob", kmsg.ACLOperationAlter)))
		w.ask(w.broker(2), "another cluster", permit(acl(kmsg.ACLResourceTypeCluster, "c", "User:bob", kmsg.ACLOperationAlter), acl(kmsg.ACLResourceTypeTopic, "t", "User:cid", kmsg.ACLOperationRead)))
		w.ask(w.broker(2), "no name", permit(acl(kmsg.ACLResourceTypeTopic, "", "User:bob", kmsg.ACLOperationRead)))
		w.ask(w.controller(1), "no name", permit(acl(kmsg.ACLResourceTypeTopic, "", "User:bob", kmsg.ACLOperationRead)))
		w.ask(w.broker(2), "any operation", permit(acl(kmsg.ACLResourceTypeTopic, "t", "User:bob", kmsg.ACLOperationAny)))
		w.ask(w.broker(2), "a principal of no type", permit(acl(kmsg.ACLResourceTypeTopic, "t", "bob", kmsg.ACLOperationRead), acl(kmsg.ACLResourceTypeTopic, "t", "User:dan", kmsg.ACLOperationRead)))
		w.ask(w.controller(1), "a principal of no type", permit(acl(kmsg.ACLResourceTypeTopic, "t", "bob", kmsg.ACLOperationRead)))
		w.ask(w.controller(1), "described", acls("User:bob"))
		w.ask(w.broker(2), "away", forbid("User:bob", "User:nobody", "User:cid", "User:dan"))
		w.ask(w.controller(1), "away", forbid("User:ann"))
	})
}

// brokersWords is what brokers say to a controller: broker 1's own epochs are the
// right ones, all else must change nothing.
func (w *world) brokersWords() {
	b, _ := w.image.Broker(1)
	self, _ := w.image.Controller(1)
	to := w.controller(1)
	w.part("blocks of producer ids", func() {
		ask := func(what string, id int32, epoch protocol.BrokerEpoch) {
			req := kmsg.NewPtrAllocateProducerIDsRequest()
			req.BrokerID, req.BrokerEpoch = id, int64(epoch)
			w.ask(to, what, req)
		}
		ask("one", 1, b.Epoch)
		ask("another", 1, b.Epoch)
		ask("an older life", 1, b.Epoch-1)
		ask("a later life", 1, b.Epoch+1)
		ask("a stranger", 9, 0)
	})
	w.part("in-sync sets", func() {
		t, _ := w.image.Topic("r")
		p, _ := t.Partition(0)
		ask := func(what string, with func(*kmsg.AlterPartitionRequest, *kmsg.AlterPartitionRequestTopicPartition)) {
			req := kmsg.NewPtrAlterPartitionRequest()
			req.BrokerID, req.BrokerEpoch = int32(p.Leader), w.epoch(p.Leader)
			part := kmsg.NewAlterPartitionRequestTopicPartition()
			part.LeaderEpoch, part.PartitionEpoch = int32(p.LeaderEpoch), int32(p.PartitionEpoch)
			part.NewEpochISR = w.members(p.ISR...)
			of := kmsg.NewAlterPartitionRequestTopic()
			of.TopicID = t.ID
			with(req, &part)
			of.Partitions = append(of.Partitions, part)
			req.Topics = append(req.Topics, of)
			w.ask(to, what, req)
		}
		type (
			request   = kmsg.AlterPartitionRequest
			partition = kmsg.AlterPartitionRequestTopicPartition
		)
		ask("as it is", func(*request, *partition) {})
		ask("an older life of the broker", func(r *request, _ *partition) { r.BrokerEpoch-- })
		ask("a later life of the broker", func(r *request, _ *partition) { r.BrokerEpoch++ })
		ask("a stranger", func(r *request, _ *partition) { r.BrokerID = 9 })
		ask("an older leader epoch", func(_ *request, p *partition) { p.LeaderEpoch-- })
		ask("a later leader epoch", func(_ *request, p *partition) { p.LeaderEpoch++ })
		ask("an older partition epoch", func(_ *request, p *partition) { p.PartitionEpoch-- })
		ask("a later partition epoch", func(_ *request, p *partition) { p.PartitionEpoch++ })
		ask("not the leader", func(r *request, _ *partition) { r.BrokerID, r.BrokerEpoch = 2, w.epoch(2) })
		ask("without the leader", func(_ *request, p *partition) { p.NewEpochISR = p.NewEpochISR[:0] })
		ask("a member that has no replica", func(_ *request, p *partition) { p.NewEpochISR = append(p.NewEpochISR, w.members(2)...) })
		ask("a member twice", func(_ *request, p *partition) { p.NewEpochISR = append(p.NewEpochISR, p.NewEpochISR[0]) })
		ask("an older life of a member", func(_ *request, p *partition) { p.NewEpochISR[len(p.NewEpochISR)-1].BrokerEpoch-- })
		ask("a recovery that none is", func(_ *request, p *partition) { p.LeaderRecoveryState = 1; p.NewEpochISR = p.NewEpochISR[:1] })
		ask("no such partition", func(_ *request, p *partition) { p.Partition = 9 })
	})
	w.part("heartbeats", func() {
		ask := func(what string, id int32, epoch protocol.BrokerEpoch) {
			req := kmsg.NewPtrBrokerHeartbeatRequest()
			req.BrokerID, req.BrokerEpoch, req.CurrentMetadataOffset = id, int64(epoch), w.image.Offset()
			w.ask(to, what, req)
		}
		ask("alive", 1, b.Epoch)
		ask("an older life", 1, b.Epoch-1)
		ask("a later life", 1, b.Epoch+1)
		ask("a stranger", 9, 0)
	})
	w.part("registrations", func() {
		ask := func(what string, with func(*kmsg.BrokerRegistrationRequest)) {
			req := w.registration(9)
			with(req)
			w.ask(to, what, req)
		}
		ask("another cluster", func(r *kmsg.BrokerRegistrationRequest) { r.ClusterID = "b3RoZXItY2x1c3Rlci1pZA" })
		ask("an id that is taken", func(r *kmsg.BrokerRegistrationRequest) { r.BrokerID = 2 })
		ask("no features", func(r *kmsg.BrokerRegistrationRequest) { r.Features = nil })
		ask("a level too low", func(r *kmsg.BrokerRegistrationRequest) {
			for i := range r.Features {
				if r.Features[i].Name == "metadata.version" {
					r.Features[i].MaxSupportedVersion = 20
				}
			}
		})
		ask("no directories", func(r *kmsg.BrokerRegistrationRequest) { r.LogDirs = nil })
		ask("a reserved directory", func(r *kmsg.BrokerRegistrationRequest) { r.LogDirs = [][16]byte{protocol.UnassignedDir} })
		ask("a directory twice", func(r *kmsg.BrokerRegistrationRequest) { r.LogDirs = append(r.LogDirs, r.LogDirs[0]) })
		ask("another's directory", func(r *kmsg.BrokerRegistrationRequest) { r.LogDirs = [][16]byte{b.LogDirs[0]} })
		ask("of ZooKeeper", func(r *kmsg.BrokerRegistrationRequest) { r.IsMigratingZkBroker = true })
		ask("no listeners", func(r *kmsg.BrokerRegistrationRequest) { r.Listeners = nil })
		ask("as it should be", func(*kmsg.BrokerRegistrationRequest) {})
		ask("the same again", func(*kmsg.BrokerRegistrationRequest) {})
		ask("another life, the first not yet unfenced", func(r *kmsg.BrokerRegistrationRequest) { r.IncarnationID[0]++ })
		w.ask(w.broker(2), "away", unregister(9))
	})
	w.part("registrations of controllers", func() {
		ask := func(what string, with func(*kmsg.ControllerRegistrationRequest)) {
			req := kmsg.NewPtrControllerRegistrationRequest()
			req.ControllerID, req.IncarnationID = 1, self.IncarnationID
			with(req)
			w.ask(to, what, req)
		}
		ask("no features", func(*kmsg.ControllerRegistrationRequest) {})
		un := kmsg.NewPtrUnregisterControllerRequest()
		un.ControllerID = 9
		w.ask(w.broker(2), "nobody", un)
	})
	w.part("directories of replicas", w.directories)
}

func (w *world) epoch(id protocol.NodeID) int64 {
	b, ok := w.image.Broker(id)
	if !ok {
		w.t.Fatalf("broker %d is not registered", id)
	}
	return int64(b.Epoch)
}

func (w *world) members(ids ...protocol.NodeID) []kmsg.AlterPartitionRequestTopicPartitionNewEpochISR {
	var out []kmsg.AlterPartitionRequestTopicPartitionNewEpochISR
	for _, id := range ids {
		m := kmsg.NewAlterPartitionRequestTopicPartitionNewEpochISR()
		m.BrokerID, m.BrokerEpoch = int32(id), w.epoch(id)
		out = append(out, m)
	}
	return out
}

// registration is that of a broker like the others, with an id of its own.
func (w *world) registration(id int32) *kmsg.BrokerRegistrationRequest {
	like, _ := w.image.Broker(1)
	req := kmsg.NewPtrBrokerRegistrationRequest()
	req.BrokerID, req.ClusterID, req.PreviousBrokerEpoch = id, harness.ClusterID, -1
	req.IncarnationID, req.LogDirs = [16]byte{1, 2, 3}, [][16]byte{{4, 5, 6}}
	l := kmsg.NewBrokerRegistrationRequestListener()
	l.Name, l.Host, l.Port = "PLAINTEXT", "localhost", 1
	req.Listeners = append(req.Listeners, l)
	for _, f := range like.Features {
		r := kmsg.NewBrokerRegistrationRequestFeature()
		r.Name, r.MinSupportedVersion, r.MaxSupportedVersion = f.Name, f.Min, f.Max
		req.Features = append(req.Features, r)
	}
	return req
}

// directories asks what AssignReplicasToDirs is refused for, and what it does: in
// the name of a broker that is away, since one that is there would contradict.
func (w *world) directories() {
	w.Node(3).Stop()
	w.until("fenced", fenced(3, true))
	b, _ := w.image.Broker(3)
	t, _ := w.image.Topic("t")
	elsewhere, _ := w.image.Topic("t_")
	ask := func(what string, epoch protocol.BrokerEpoch, dir, topic [16]byte, partitions ...int32) {
		req := kmsg.NewPtrAssignReplicasToDirsRequest()
		req.BrokerID, req.BrokerEpoch = 3, int64(epoch)
		d := kmsg.NewAssignReplicasToDirsRequestDirectory()
		d.ID = dir
		of := kmsg.NewAssignReplicasToDirsRequestDirectoryTopic()
		of.TopicID = topic
		for _, id := range partitions {
			p := kmsg.NewAssignReplicasToDirsRequestDirectoryTopicPartition()
			p.Partition = id
			of.Partitions = append(of.Partitions, p)
		}
		d.Topics = append(d.Topics, of)
		req.Directories = append(req.Directories, d)
		w.ask(w.controller(1), what, req)
	}
	ask("as they are", b.Epoch, b.LogDirs[0], t.ID, 0, 1, 2)
	ask("an older life", b.Epoch-1, b.LogDirs[0], t.ID, 0)
	ask("a later life", b.Epoch+1, b.LogDirs[0], t.ID, 0)
	ask("no such partition", b.Epoch, b.LogDirs[0], t.ID, 9)
	ask("no such topic", b.Epoch, b.LogDirs[0], [16]byte{7}, 0)
	ask("no replica here", b.Epoch, b.LogDirs[0], elsewhere.ID, 0)
	ask("no directory yet", b.Epoch, protocol.UnassignedDir, t.ID, 0)
	ask("migrating", b.Epoch, protocol.MigratingDir, t.ID, 0)
	ask("another's directory", b.Epoch, [16]byte{9, 9, 9}, t.ID, 0)
	ask("lost", b.Epoch, protocol.LostDir, t.ID, 1, 2)
	ask("found", b.Epoch, b.LogDirs[0], t.ID, 0, 1, 2)
}
