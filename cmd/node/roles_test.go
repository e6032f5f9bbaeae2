package node

import (
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/protocol"
)

// TestSplitRoles: a controller and a broker in nodes of their own make a cluster.
// The broker follows the metadata by Fetch, and the controller lists it as an
// observer. The broker's metrics say who leads.
func TestSplitRoles(t *testing.T) {
	ports := freePorts(t, 3)
	w := &world{broker: "127.0.0.1:" + ports[0], controller: "127.0.0.1:" + ports[1], ended: make(chan error, 1)}
	quorum := []string{
		"controller.quorum.voters=1@" + w.controller,
		"controller.listener.names=CONTROLLER",
		"num.partitions=1",
	}
	metrics := "127.0.0.1:" + ports[2]
	dirs := t.TempDir()
	controller := &world{ended: make(chan error, 1)}
	controller.start(t, 1, filepath.Join(dirs, "controller"), append([]string{
		"process.roles=controller", "node.id=1", "listeners=CONTROLLER://" + w.controller,
		"log.dirs=" + filepath.Join(dirs, "controller"),
	}, quorum...))
	w.start(t, 2, filepath.Join(dirs, "broker"), append([]string{
		"process.roles=broker", "node.id=2", "listeners=PLAINTEXT://" + w.broker,
		"log.dirs=" + filepath.Join(dirs, "broker"), "klamm.metrics.listener=" + metrics,
	}, quorum...))
	w.awaitPort(t)
	w.topic(t, "t")
	if topics := w.topics(t); len(topics) != 1 || *topics[0].Topic != "t" || topics[0].Partitions[0].Leader != 2 {
		t.Errorf("topics %+v", topics)
	}
	req := kmsg.NewPtrDescribeQuorumRequest()
	req.Version = 2
	req.Topics = []kmsg.DescribeQuorumRequestTopic{{
		Topic: protocol.MetadataTopic, Partitions: []kmsg.DescribeQuorumRequestTopicPartition{{}},
	}}
	p := w.ask(t, protocol.BrokerListener, req).(*kmsg.DescribeQuorumResponse).Topics[0].Partitions[0]
	if len(p.CurrentVoters) != 1 || p.CurrentVoters[0].ReplicaID != 1 || len(p.Observers) != 1 || p.Observers[0].ReplicaID != 2 {
		t.Errorf("voters %+v, observers %+v", p.CurrentVoters, p.Observers)
	}
	if o := p.Observers[0]; o.LogEndOffset <= 0 || o.LastFetchTimestamp <= 0 || o.ReplicaDirectoryID == (protocol.UUID{}) {
		t.Errorf("observer %+v", o)
	}
	resp, err := http.Get("http://" + metrics + "/metrics")
	check(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	check(t, err)
	for _, want := range []string{"kafka_server_raft_metrics_current_leader 1\n", "kafka_controller_kafkacontroller_activecontrollercount 0\n"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %q in the broker's metrics:\n%s", want, text)
		}
	}
}
