package api

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/metadata"
	"github.com/klamm/klamm/metadata/record"
	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/protocol/server"
)

// The commands of testdata/metadata:
//
//	image                                 an image of these lines:
//	broker ID LISTENER=HOST:PORT... [rack=R] [fenced] [dirs=N,N]
//	topic NAME id=N
//	partition NAME/P replicas=1,2 isr=1,2 leader=1 epoch=3 [dirs=N,N]
//
//	metadata v=N listener=L [topics=a,b|all|none] [ids=N,N] [auto] [operations]
//
// Ids are small numbers. A topic "null" has no name; with ids, topics are by id.
func TestMetadata(t *testing.T) {
	datadriven.Walk(t, "testdata/metadata", func(t *testing.T, path string) {
		var img *metadata.Image
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "image":
				img = parseImage(t, d.Input)
				return ""
			case "metadata":
				return runMetadata(t, d, img)
			}
			t.Fatalf("%s: no command %s", d.Pos, d.Cmd)
			return ""
		})
	})
}

// A broker that is being stopped, the only one, does not say that there is none.
func TestMetadataWithoutBrokers(t *testing.T) {
	for _, test := range []struct {
		image  string
		closes bool
	}{
		{"broker 1 PLAINTEXT=one:9092 fenced=", true},
		{"broker 1 OTHER=one:9092", true},
		{"broker 1 PLAINTEXT=one:9092 fenced=\nbroker 2 PLAINTEXT=two:9092", false},
	} {
		a := &Admin{NodeID: 1, Image: imageFunc(parseImage(t, test.image+"\ntopic a id=1")), Log: zerolog.Nop()}
		body := kmsg.NewPtrMetadataRequest()
		body.Version = 9
		answer := a.metadata(t.Context(), &server.Request{Body: body, Conn: &server.Conn{Listener: "PLAINTEXT"}})
		if closes := answer.Close != nil; closes != test.closes || closes == (answer.Response != nil) {
			t.Errorf("%q: answer is %+v", test.image, answer)
		}
	}
}

func runMetadata(t *testing.T, d *datadriven.TestData, img *metadata.Image) string {
	req := kmsg.NewPtrMetadataRequest()
	listener := "PLAINTEXT"
	for _, arg := range d.CmdArgs {
		switch arg.Key {
		case "v":
			v, _ := strconv.ParseInt(arg.Vals[0], 10, 16)
			req.Version = int16(v)
		case "listener":
			listener = arg.Vals[0]
		case "auto":
			req.AllowAutoTopicCreation = true
		case "operations":
			req.IncludeTopicAuthorizedOperations, req.IncludeClusterAuthorizedOperations = true, true
		case "topics":
			for _, name := range strings.Split(arg.Vals[0], ",") {
				topic := kmsg.NewMetadataRequestTopic()
				switch name {
				case "all":
					continue
				case "none":
					req.Topics = []kmsg.MetadataRequestTopic{}
					continue
				case "null":
				case "empty":
					topic.Topic = new(string)
				default:
					topic.Topic = &name
				}
				req.Topics = append(req.Topics, topic)
			}
		case "ids":
			for _, id := range strings.Split(arg.Vals[0], ",") {
				topic := kmsg.NewMetadataRequestTopic()
				topic.TopicID = uuid(t, id)
				req.Topics = append(req.Topics, topic)
			}
		default:
			t.Fatalf("%s: no argument %s", d.Pos, arg.Key)
		}
	}
	if err := checkMetadata(req); err != nil {
		return printMetadata(refusedMetadata(req, err), nil)
	}
	m := metadataAnswer{self: 1, clusterID: "cluster", img: img, listener: listener, autoCreate: req.Version < 4 || req.AllowAutoTopicCreation}
	resp := m.answer(req)
	return printMetadata(resp, m.missing)
}

// printMetadata prints what a client of that version sees.
func printMetadata(resp *kmsg.MetadataResponse, created []string) string {
	seen := kmsg.NewPtrMetadataResponse()
	seen.Version = resp.Version
	if err := seen.ReadFrom(resp.AppendTo(nil)); err != nil {
		return err.Error()
	}
	var b strings.Builder
	cluster := "null"
	if seen.ClusterID != nil {
		cluster = *seen.ClusterID
	}
	fmt.Fprintf(&b, "cluster %s controller %d", cluster, seen.ControllerID)
	if seen.ErrorCode != 0 {
		fmt.Fprintf(&b, " %v", protocol.Error(seen.ErrorCode))
	}
	b.WriteString(operations(seen.AuthorizedOperations) + "\n")
	for _, n := range seen.Brokers {
		fmt.Fprintf(&b, "broker %d %s:%d", n.NodeID, n.Host, n.Port)
		if n.Rack != nil {
			fmt.Fprintf(&b, " rack=%s", *n.Rack)
		}
		b.WriteByte('\n')
	}
	for _, topic := range seen.Topics {
		name := "null"
		if topic.Topic != nil {
			name = strconv.Quote(*topic.Topic)
		}
		fmt.Fprintf(&b, "topic %s id=%d", name, topic.TopicID[0])
		if topic.IsInternal {
			b.WriteString(" internal")
		}
		if topic.ErrorCode != 0 {
			fmt.Fprintf(&b, " %v", protocol.Error(topic.ErrorCode))
		}
		b.WriteString(operations(topic.AuthorizedOperations) + "\n")
		for _, p := range topic.Partitions {
			fmt.Fprintf(&b, "  %d leader=%d epoch=%d replicas=%v isr=%v offline=%v", p.Partition, p.Leader, p.LeaderEpoch, p.Replicas, p.ISR, p.OfflineReplicas)
			if p.ErrorCode != 0 {
				fmt.Fprintf(&b, " %v", protocol.Error(p.ErrorCode))
			}
			b.WriteByte('\n')
		}
	}
	for _, name := range created {
		fmt.Fprintf(&b, "to be created: %s\n", name)
	}
	return b.String()
}

func operations(bits int32) string {
	if bits == -1<<31 {
		return ""
	}
	return fmt.Sprintf(" operations=%d", bits)
}

func uuid(t testing.TB, text string) protocol.UUID {
	n, err := strconv.ParseUint(text, 10, 8)
	if err != nil {
		t.Fatal(err)
	}
	return protocol.UUID{byte(n)}
}

func parseImage(t testing.TB, text string) *metadata.Image {
	var records []record.Record
	ids := make(map[string]protocol.UUID)
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		args := make(map[string]string)
		for _, w := range words[2:] {
			key, value, _ := strings.Cut(w, "=")
			args[key] = value
		}
		switch words[0] {
		case "broker":
			records = append(records, parseBroker(t, words[1], args))
		case "topic":
			ids[words[1]] = uuid(t, args["id"])
			records = append(records, &record.Topic{Name: words[1], TopicID: ids[words[1]]})
		case "partition":
			name, p, _ := strings.Cut(words[1], "/")
			records = append(records, &record.Partition{
				TopicID: ids[name], PartitionID: int32(number(t, p)),
				Replicas: nodes(t, args["replicas"]), ISR: nodes(t, args["isr"]), Leader: protocol.NodeID(number(t, args["leader"])),
				LeaderEpoch: protocol.LeaderEpoch(number(t, args["epoch"])), Directories: dirs(t, args["dirs"]),
			})
		default:
			t.Fatalf("no line %q", line)
		}
	}
	return imageOf(t, records...)
}

func parseBroker(t testing.TB, id string, args map[string]string) *record.RegisterBroker {
	b := &record.RegisterBroker{BrokerID: protocol.NodeID(number(t, id)), BrokerEpoch: 1}
	for key, value := range args {
		switch key {
		case "fenced":
			b.Fenced = true
		case "rack":
			b.Rack = &value
		case "dirs":
			b.LogDirs = dirs(t, value)
		default:
			host, port, _ := strings.Cut(value, ":")
			b.Endpoints = append(b.Endpoints, record.Endpoint{Name: key, Host: host, Port: uint16(number(t, port))})
		}
	}
	return b
}

func number(t testing.TB, text string) int64 {
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func split(text string) []string {
	return slices.DeleteFunc(strings.Split(text, ","), func(s string) bool { return s == "" })
}

func nodes(t testing.TB, text string) (ids []protocol.NodeID) {
	for _, s := range split(text) {
		ids = append(ids, protocol.NodeID(number(t, s)))
	}
	return ids
}

func dirs(t testing.TB, text string) (ids []protocol.UUID) {
	for _, s := range split(text) {
		switch s {
		case "unassigned":
			ids = append(ids, protocol.UnassignedDir)
		case "lost":
			ids = append(ids, protocol.LostDir)
		default:
			ids = append(ids, uuid(t, s))
		}
	}
	return ids
}
