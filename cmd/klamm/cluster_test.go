package main

import (
	"context"
	"encoding/json"
	"io"
	"regexp"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// What a cluster is asked wrongly is answered at once, by what was wrong and what
// would be right.
func TestAskedWrongly(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	greeting, out := io.Pipe()
	ended := make(chan int)
	go func() {
		code := run(ctx, []string{"server", "--dev", "--listen", "localhost:0", "--data", t.TempDir()}, out, io.Discard)
		out.Close()
		ended <- code
	}()
	defer func() {
		cancel()
		if code := <-ended; code != 0 {
			t.Errorf("the node ended with %d", code)
		}
	}()
	text := make([]byte, 1000)
	n, err := greeting.Read(text)
	if err != nil {
		t.Fatal(err)
	}
	go io.Copy(io.Discard, greeting) // until the node has ended
	found := regexp.MustCompile(`bootstrap\.servers=(\S+)\)`).FindSubmatch(text[:n])
	if found == nil {
		t.Fatalf("no address in %q", text[:n])
	}
	broker := string(found[1])

	code, status, errs := klamm("quorum", "status", "--json", "--bootstrap-server", broker)
	var quorum quorumStatus
	if err := json.Unmarshal([]byte(status), &quorum); code != 0 || err != nil {
		t.Fatal(code, err, errs)
	}
	_, controller, _ := strings.Cut(quorum.Voters[0].Endpoints[0], "://")

	create := kmsg.NewPtrCreateTopicsRequest()
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = "orders", 3, 1
	create.Topics, create.TimeoutMillis = append(create.Topics, topic), 60_000
	conn, err := dial(ctx, broker)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if answer, err := conn.Request(ctx, create); err != nil || answer.(*kmsg.CreateTopicsResponse).Topics[0].ErrorCode != 0 {
		t.Fatal(answer, err)
	}

	const noBroker, noController = "is where a controller listens, and --bootstrap-server takes brokers", "is where a broker listens, and --bootstrap-controller takes controllers"
	for _, test := range []struct {
		args string // B and C are the addresses
		code int
		text string
	}{
		{"can-stop 1 --bootstrap-server C", 1, noBroker},
		{"reassign status --bootstrap-server C", 1, noBroker},
		{"replicas verify orders --bootstrap-server C", 1, noBroker},
		{"quorum status --bootstrap-server C", 1, noBroker},
		{"quorum status --bootstrap-controller B", 1, noController},
		{"quorum remove 1 --bootstrap-controller B", 1, noController},
		{"can-stop 1 7 --bootstrap-server B", 1, "the cluster has no node 7"},
		{"replicas verify none --bootstrap-server B", 1, "the cluster has no topic none"},
		{"replicas verify no/ne --bootstrap-server B", 1, `"no/ne" is no name of a topic`},
		{"replicas verify orders --partitions 2,3 --bootstrap-server B", 1, "topic orders has no partition 3, it has 3 of them"},
		{"replicas verify orders --partitions 0,2 --bootstrap-server B", 0, ""},
		{"reassign status --bootstrap-server B", 0, ""},
		{"can-stop 1 --bootstrap-server B --timeout 1s", 1, "not to be stopped now: 1"},
	} {
		args := strings.Fields(test.args)
		for i := range args {
			switch args[i] {
			case "B":
				args[i] = broker
			case "C":
				args[i] = controller
			}
		}
		code, _, errs := klamm(args...)
		if code != test.code || !strings.Contains(errs, test.text) {
			t.Errorf("klamm %s: %d %q, want %d %q", test.args, code, errs, test.code, test.text)
		}
		if strings.Contains(errs, "no answer after") {
			t.Errorf("klamm %s was asked again and again", test.args)
		}
	}
}
