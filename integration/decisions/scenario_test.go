//go:build integration

package decisions

import (
	"syscall"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/integration/harness"
	"github.com/klamm/klamm/metadata"
	"github.com/klamm/klamm/protocol"
)

// settings are those of all nodes. The controller fences late enough for a leader
// to find that a replica lags before it.
var settings = []string{
	"auto.create.topics.enable=false",
	"auto.leader.rebalance.enable=false",
	"replica.lag.time.max.ms=3000",
	"broker.session.timeout.ms=9000",
	"broker.heartbeat.interval.ms=500",
	"metadata.max.idle.interval.ms=0",
	"log.segment.delete.delay.ms=100",
	"authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
	"super.users=User:ANONYMOUS",
	"offsets.topic.replication.factor=1",
	"unclean.leader.election.interval.ms=200",
}

// TestDecisions: what a controller answers and writes.
func TestDecisions(t *testing.T) {
	w := newWorld(t, harness.StartLed(t, 3, settings...))
	w.until("a cluster", all(fenced(1, false), fenced(2, false), fenced(3, false), func(img *metadata.Image) bool {
		_, ok := img.Controller(1)
		return ok
	}))
	w.topics()
	w.elections()
	w.reassignmentsRefused()
	w.brokerAway()
	w.reassignments()
	w.controlledShutdown()
	w.eligibleLeaders()
	w.uncleanElections()
	w.unregistration()
	w.configs()
	w.features()
	w.security()
	w.brokersWords()
	compare(t, "decisions", w.out.String())
}

func (w *world) topics() {
	w.part("create topics", func() {
		w.ask(w.broker(2), "every kind of assignment", create(
			topic("t", "1,2,3 2,3,1 3,1,2", "min.insync.replicas=2"),
			topic("r", "1,2"), topic("d", "1,2"), topic("e", "2,3", "min.insync.replicas=2"),
			topic("f", "1,2"), topic("only3", "3"), topic("z", "3,2"), topic("y", "3,2"),
			topic("unknown-broker", "1,9"), topic("twice", "1,1"), topic("empty", "-"), topic("uneven", "1,2 3"),
			topic("bad.config", "1", "min.insync.replicas=0"), topic("no-config", "1", "nonsense=1"), topic("bad name", "1"),
			placed("four", 1, 4), placed("none", 1, 0), placed("no-partitions", 0, 1),
			kmsg.CreateTopicsRequestTopic{Topic: "both", NumPartitions: 2, ReplicationFactor: -1, ReplicaAssignment: topic("", "1").ReplicaAssignment},
			kmsg.CreateTopicsRequestTopic{Topic: "both2", NumPartitions: -1, ReplicationFactor: 2, ReplicaAssignment: topic("", "1").ReplicaAssignment},
		))
		w.ask(w.broker(2), "exists, collides", create(topic("t", "1"), topic("t_", "1"), topic("bad.config", "1"), topic("bad_config", "1")))
		w.ask(w.broker(2), "only validated", validate(topic("v", "1,2,3"), topic("t", "1"), placed("v4", 1, 4)))
		w.ask(w.controller(1), "one more, and one that exists", create(topic("k", "2,1 1,2"), topic("t", "1")))
		w.inSync()
	})
	w.part("grow topics", func() {
		w.ask(w.broker(2), "as it should be", grow("k 3 1,2"))
		w.ask(w.broker(2), "wrongly", grow("k 3", "nobody 2", "r 0", "e 3 1,2", "t 4 1,9", "only3 2 1,2", "d 2 1,1"))
		w.ask(w.controller(1), "at the controller", grow("k 4 2,1"))
		w.inSync()
	})
	w.part("delete topics", func() {
		w.ask(w.broker(2), "one, one that is not, one twice", remove("bad.config", "nobody", "k", "k"))
		w.ask(w.controller(1), "at the controller", remove("k"))
		w.ask(w.controller(1), "again", remove("k"))
	})
}

func (w *world) elections() {
	w.part("elections that nobody needs", func() {
		w.ask(w.broker(2), "preferred", elect(preferred, "t 0,1,7", "nobody 0", "r 0"))
		w.ask(w.broker(2), "unclean", elect(unclean, "t 0,7", "nobody 0"))
		w.ask(w.broker(2), "preferred, all", elect(preferred))
		w.ask(w.controller(1), "unclean, all", elect(unclean))
		w.ask(w.broker(2), "unknown kind", elect(7, "t 0"))
		w.askIn(0, w.broker(2), "before kinds", elect(preferred, "t 0"))
	})
}

func (w *world) reassignmentsRefused() {
	w.part("reassignments that are refused", func() {
		w.ask(w.broker(2), "what is not there", move("nobody 0 1,2", "r 7 1,2", "r 0"))
		w.ask(w.broker(2), "what can not be", move("r 0 1,9", "d 0 1,1", "e 0 -", "t 0 1,-5"))
		w.ask(w.broker(2), "another number of replicas", keepSize(move("r 0 1,2,3", "t 0 1", "d 0 1,3,2")))
		w.ask(w.broker(2), "as it is", move("r 0 1,2"))
		w.ask(w.broker(2), "list", moves())
		w.ask(w.controller(1), "list of some", moves("r 0,7", "nobody 0"))
	})
}

// brokerAway is what a broker's death brings, and what may be asked meanwhile.
func (w *world) brokerAway() {
	w.part("a broker is killed", func() {
		w.Node(3).Kill()
		w.until("fenced", fenced(3, true))
		w.ask(w.broker(2), "what is left", describe("t", "e", "only3", "z"))
	})
	w.part("elections while it is away", func() {
		w.ask(w.broker(2), "preferred", elect(preferred, "t 2,0", "only3 0"))
		w.ask(w.broker(2), "unclean", elect(unclean, "only3 0", "t 2"))
		w.ask(w.broker(2), "preferred, all", elect(preferred))
		w.ask(w.broker(2), "unclean, all", elect(unclean))
	})
	w.part("topics while it is away", func() {
		w.ask(w.broker(2), "create", create(topic("late", "3,1"), topic("later", "3")))
		w.ask(w.broker(2), "grow", grow("r 2 3,1", "d 2 3"))
	})
	w.part("reassignments that wait for it", func() {
		w.ask(w.broker(2), "start", move("r 0 1,3", "d 0 3,1"))
		w.ask(w.broker(2), "as many as it is to have, and more", keepSize(move("r 0 3,1", "d 0 3,1,2")))
		w.ask(w.broker(2), "list", moves())
		w.ask(w.broker(2), "list of one", moves("r 0,1"))
		w.ask(w.broker(2), "the same again", move("r 0 1,3"))
		w.ask(w.broker(2), "retarget", move("r 0 3,2"))
		w.ask(w.broker(2), "list", moves("r 0"))
		w.ask(w.broker(2), "delete a topic on its way", remove("d"))
		w.ask(w.broker(2), "list", moves())
		w.ask(w.broker(2), "cancel", move("r 0", "r 1", "d 0"))
		w.ask(w.broker(2), "cancel again", move("r 0"))
		w.ask(w.controller(1), "more", move("f 0 1,2,3"))
		w.ask(w.broker(2), "as many as it is to have", keepSize(move("f 0 3,2,1")))
		w.ask(w.broker(2), "as many as it has had", keepSize(move("f 0 3,1")))
		w.ask(w.broker(2), "list", moves())
		w.ask(w.broker(2), "describe", describe("r", "f"))
	})
	w.part("a reassignment without the replicas that an earlier one has brought", func() {
		w.ask(w.broker(2), "fewer", move("f 0 2"))
		w.ask(w.broker(2), "list", moves())
		w.ask(w.broker(2), "delete", remove("f"))
	})
	w.part("it comes back", func() {
		w.Node(3).Restart()
		w.until("not fenced", fenced(3, false))
		w.inSync()
	})
}

func (w *world) reassignments() {
	w.part("reassignments that end", func() {
		w.ask(w.broker(2), "to others", move("r 0 3,1", "e 0 1,2"))
		w.until("the end", all(isr("r", 0, 1, 3), isr("e", 0, 1, 2)))
		w.ask(w.broker(2), "list", moves())
	})
	w.part("replicas in another order", func() {
		w.ask(w.broker(2), "reorder", move("r 0 1,3", "t 0 3,2,1"))
		w.inSync()
	})
	w.part("replicas go", func() {
		w.ask(w.broker(2), "shrink", move("t 0 2,1"))
		w.until("the end", isr("t", 0, 1, 2))
		w.ask(w.broker(2), "grow and back", move("t 0 2,1,3"))
		w.until("the end", isr("t", 0, 1, 2, 3))
		w.ask(w.broker(2), "back to where others expect it", move("e 0 2,3"))
		w.until("the end", isr("e", 0, 2, 3))
	})
	w.part("preferred elections", func() {
		w.ask(w.broker(2), "of some", elect(preferred, "r 0", "t 2,0"))
		w.ask(w.controller(1), "of all", elect(preferred))
		w.ask(w.controller(1), "of all again", elect(preferred))
	})
}

func (w *world) controlledShutdown() {
	w.part("a controlled shutdown", func() {
		w.Node(3).Stop()
		w.until("fenced", fenced(3, true))
		w.ask(w.broker(2), "what is left", describe("t", "e", "only3", "z"))
	})
	w.part("it comes back from a controlled shutdown", func() {
		w.Node(3).Restart()
		w.until("not fenced", fenced(3, false))
		w.inSync()
	})
}

// eligibleLeaders is about an in-sync set below min.insync.replicas (KIP-966).
func (w *world) eligibleLeaders() {
	w.part("preferred again", func() {
		w.ask(w.broker(2), "of all", elect(preferred))
	})
	w.part("a replica lags", func() {
		w.Node(3).Signal(syscall.SIGSTOP)
		// Kafka takes a replica for in sync that has all there is, however silent it is.
		w.append(2, "e")
		w.until("out of the in-sync set", isr("e", 0, 2))
		w.ask(w.broker(2), "eligible", describe("e"))
		w.Node(3).Signal(syscall.SIGCONT)
		w.inSync()
	})
	w.part("both replicas go, one after the other", func() {
		w.Node(3).Kill()
		w.until("fenced", fenced(3, true))
		w.Node(2).Kill()
		w.until("fenced", fenced(2, true))
		w.ask(w.broker(1), "eligible", describe("e", "z", "t"))
		w.ask(w.broker(1), "unclean", elect(unclean, "e 0", "z 0"))
	})
	w.part("an eligible replica comes back from an unclean stop", func() {
		w.Node(3).Restart()
		w.until("not fenced", fenced(3, false))
		w.inSync()
		w.ask(w.broker(1), "eligible", describe("e", "z", "t"))
	})
	w.part("the last known leader comes back from an unclean stop", func() {
		w.Node(2).Restart()
		w.until("not fenced", fenced(2, false))
		w.inSync()
		w.ask(w.broker(1), "eligible", describe("e", "z", "t"))
	})
	w.part("both replicas stop in order, and come back", func() {
		w.Node(3).Stop()
		w.until("fenced", fenced(3, true))
		w.Node(2).Stop()
		w.until("fenced", fenced(2, true))
		w.ask(w.broker(1), "eligible", describe("e", "z", "t"))
		w.Node(3).Restart()
		w.until("not fenced", fenced(3, false))
		w.inSync()
		w.ask(w.broker(1), "eligible", describe("e", "z", "t"))
	})
	w.part("the other replica comes back", func() {
		w.Node(2).Restart()
		w.until("not fenced", fenced(2, false))
		w.inSync()
	})
	w.part("min.insync.replicas changes while replicas are eligible", func() {
		w.Node(3).Stop()
		w.until("fenced", fenced(3, true))
		w.ask(w.broker(2), "before", describe("e"))
		w.ask(w.broker(2), "of the topic", alter(change(ofTopic, "e", "min.insync.replicas=1")))
		w.ask(w.broker(2), "after", describe("e"))
		w.ask(w.broker(2), "of all", alter(change(ofBroker, "", "min.insync.replicas=2")))
		w.ask(w.broker(2), "of a broker", alter(change(ofBroker, "2", "min.insync.replicas=2")))
		w.ask(w.broker(2), "none of all", alter(change(ofBroker, "", "min.insync.replicas")))
		w.ask(w.broker(2), "back", alter(change(ofTopic, "e", "min.insync.replicas=2"), change(ofBroker, "", "min.insync.replicas=1")))
	})
}

// uncleanElections begins with broker 3 away.
func (w *world) uncleanElections() {
	leads := func(topic string, id protocol.NodeID) func(*metadata.Image) bool {
		return func(img *metadata.Image) bool {
			p, ok := img.Partition(protocol.TopicPartition{Topic: topic, Partition: 0})
			return ok && p.Leader == id
		}
	}
	w.part("the replica in sync goes while the other is out", func() {
		w.Node(3).Restart()
		w.until("not fenced", fenced(3, false))
		w.inSync()
		w.ask(w.broker(1), "preferred", elect(preferred))
		w.Node(2).Kill()
		w.until("fenced", fenced(2, true))
		w.Node(3).Stop()
		w.until("fenced", fenced(3, true))
		w.Node(2).Restart()
		w.until("not fenced", fenced(2, false))
		w.inSync()
		w.ask(w.broker(1), "leaderless", describe("z", "y", "only3"))
	})
	w.part("unclean elections", func() {
		w.ask(w.broker(1), "preferred does not", elect(preferred, "z 0"))
		w.ask(w.broker(1), "asked for", elect(unclean, "z 0", "only3 0"))
		w.ask(w.broker(1), "allowed for a topic", alter(change(ofTopic, "y", "unclean.leader.election.enable=true")))
		w.until("leaders", all(leads("z", 2), leads("y", 2)))
		w.inSync()
		w.ask(w.broker(1), "led", describe("z", "y"))
	})
	w.part("the one that was in sync comes back", func() {
		w.Node(3).Restart()
		w.until("not fenced", fenced(3, false))
		w.inSync()
	})
}

func (w *world) unregistration() {
	w.part("unregister brokers", func() {
		w.ask(w.broker(2), "nobody", unregister(9))
		w.ask(w.broker(2), "negative", unregister(-1))
		w.Node(3).Stop()
		w.until("fenced", fenced(3, true))
		w.ask(w.broker(2), "one that is away", unregister(3))
		w.ask(w.controller(1), "again", unregister(3))
		w.ask(w.broker(2), "create on it", create(topic("gone", "1,3")))
		w.ask(w.broker(2), "what is left", describe("t", "e", "only3", "z"))
	})
	w.part("it registers again", func() {
		w.Node(3).Restart()
		w.until("not fenced", fenced(3, false))
		w.inSync()
		w.ask(w.broker(1), "preferred", elect(preferred))
	})
}
