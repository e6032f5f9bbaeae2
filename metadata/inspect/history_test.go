package inspect

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/klamm/klamm/metadata"
	"github.com/klamm/klamm/metadata/feature"
	"github.com/klamm/klamm/metadata/record"
	"github.com/klamm/klamm/metadata/snapshot"
	"github.com/klamm/klamm/protocol"
)

// TestHistory and TestExplain run scripts over a log that they write, one batch a
// line, and over Kafka's.
func TestHistory(t *testing.T) { runScript(t, "testdata/history.txt") }

func TestExplain(t *testing.T) { runScript(t, "testdata/explain.txt") }

func runScript(t *testing.T, path string) {
	s := &script{dir: t.TempDir(), epoch: 1}
	datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
		var err error
		var out strings.Builder
		dir, at := s.dir, At{}
		if d.HasArg("kafka") {
			dir = kafkaDir
		}
		if d.HasArg("at") {
			var moment string
			d.ScanArgs(t, "at", &moment)
			if at, err = ParseAt(moment); err != nil {
				t.Fatal(err)
			}
		}
		switch d.Cmd {
		case "new":
			s = &script{dir: t.TempDir(), epoch: 1}
		case "epoch":
			s.epoch++
		case "log":
			for line := range strings.Lines(d.Input) {
				s.write(t, strings.TrimSpace(line))
			}
		case "snapshot": // and forget what is before
			s.snapshot(t)
		case "history":
			kind, name := d.CmdArgs[0].Key, ""
			if d.HasArg("name") {
				d.ScanArgs(t, "name", &name)
			}
			var o Object
			if o, err = ParseObject(kind, name); err == nil {
				var h *History
				if h, err = LoadHistory(dir, at, o); err == nil {
					err = ShowHistory(&out, h, o, Options{JSON: d.HasArg("json")})
				}
			}
		case "explain":
			var name string
			d.ScanArgs(t, "name", &name)
			var o Object
			if o, err = ParseObject("partition", name); err == nil {
				err = Explain(&out, dir, at, o)
			}
		default:
			t.Fatalf("unknown command %s", d.Cmd)
		}
		if err != nil {
			return "error: " + err.Error() + "\n"
		}
		return out.String()
	})
}

// script is a log in the making.
type script struct {
	dir   string
	data  []byte // of the segment
	base  int64  // of the segment
	next  int64
	epoch protocol.ControllerEpoch
}

// write adds one batch with one record: its fields, then // and the cause.
func (s *script) write(t *testing.T, line string) {
	fields, cause, _ := strings.Cut(line, " // ")
	rec := parseRecord(t, strings.Fields(fields))
	record.SetCause(rec, cause)
	s.data = append(s.data, record.EncodeBatch([]record.Record{rec}, feature.Latest, s.next, s.epoch, 1000*s.next)...)
	s.next++
	s.save(t)
}

func (s *script) save(t *testing.T) {
	path := filepath.Join(s.dir, fmt.Sprintf("%020d.log", s.base))
	if err := os.WriteFile(path, s.data, 0o600); err != nil {
		t.Fatal(err)
	}
}

func (s *script) snapshot(t *testing.T) {
	img := mustLoad(t, s.dir, At{})
	if err := os.Remove(filepath.Join(s.dir, fmt.Sprintf("%020d.log", s.base))); err != nil {
		t.Fatal(err)
	}
	id := snapshot.ID{Offset: s.next, Epoch: s.epoch}
	f, err := os.Create(filepath.Join(s.dir, id.FileName()))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := snapshot.Encode(f, s.epoch, snapshot.Header{LastTimestampMs: img.TimestampMs()}, img.Records()); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	s.base, s.data = s.next, nil
	s.save(t)
}

func parseRecord(t *testing.T, words []string) record.Record {
	t.Helper()
	args := map[string]string{}
	var rest []string
	for _, w := range words[1:] {
		if key, value, ok := strings.Cut(w, "="); ok {
			args[key] = value
		} else {
			rest = append(rest, w)
		}
	}
	number := func(i int) int32 {
		n, err := strconv.ParseInt(rest[i], 10, 32)
		if err != nil {
			t.Fatal(err)
		}
		return int32(n)
	}
	list := func(key string) []protocol.NodeID {
		value, ok := args[key]
		if !ok {
			return nil
		}
		ids := []protocol.NodeID{}
		for text := range strings.SplitSeq(value, ",") {
			if n, err := strconv.Atoi(text); err == nil {
				ids = append(ids, protocol.NodeID(n))
			}
		}
		return ids
	}
	leader := func(otherwise protocol.NodeID) protocol.NodeID {
		if ids := list("leader"); len(ids) > 0 {
			return ids[0]
		}
		return otherwise
	}
	id := func() protocol.UUID { return protocol.UUID{14: 1, 15: rest[0][0]} }
	switch words[0] {
	case "topic":
		return &record.Topic{Name: rest[0], TopicID: id()}
	case "remove":
		return &record.RemoveTopic{TopicID: id()}
	case "partition":
		p := &record.Partition{
			TopicID: id(), PartitionID: number(1), Replicas: list("replicas"), ISR: list("isr"), Leader: leader(protocol.NoNode),
			LeaderEpoch: 0, Directories: make([]protocol.UUID, len(list("replicas"))),
			AddingReplicas: []protocol.NodeID{}, RemovingReplicas: []protocol.NodeID{},
		}
		for i, broker := range p.Replicas {
			p.Directories[i] = protocol.UUID{14: 9, 15: byte(broker)}
		}
		return p
	case "change":
		c := record.NewPartitionChange(id(), number(1))
		c.Leader = leader(record.LeaderUnchanged)
		c.ISR, c.ELR, c.LastKnownELR = list("isr"), list("elr"), list("last")
		c.Replicas, c.AddingReplicas, c.RemovingReplicas = list("replicas"), list("adding"), list("removing")
		if args["recovery"] != "" {
			c.LeaderRecovery = int8(list("recovery")[0])
		}
		return c
	case "broker":
		broker := protocol.NodeID(number(0))
		return &record.RegisterBroker{
			BrokerID: broker, BrokerEpoch: protocol.BrokerEpoch(broker), Fenced: true,
			LogDirs: []protocol.UUID{{14: 9, 15: byte(broker)}},
		}
	case "unregister":
		return &record.UnregisterBroker{BrokerID: protocol.NodeID(number(0)), BrokerEpoch: protocol.BrokerEpoch(number(0))}
	case "fence", "unfence", "shutdown", "dirs":
		c := &record.BrokerRegistrationChange{BrokerID: protocol.NodeID(number(0)), BrokerEpoch: protocol.BrokerEpoch(number(0))}
		switch words[0] {
		case "fence":
			c.Fenced = 1
		case "unfence":
			c.Fenced = -1
		case "shutdown":
			c.InControlledShutdown = 1
		case "dirs":
			c.LogDirs = []protocol.UUID{{14: 8, 15: byte(number(1))}}
		}
		return c
	case "config":
		kinds := map[string]int8{"topic": metadata.ResourceTopic, "broker": metadata.ResourceBroker}
		name := rest[1]
		if name == "default" {
			name = ""
		}
		c := &record.Config{ResourceType: kinds[rest[0]], ResourceName: name, Name: rest[2]}
		if len(rest) > 3 {
			c.Value = &rest[3]
		}
		return c
	case "feature":
		return &record.FeatureLevel{Name: rest[0], Level: int16(number(1))}
	case "acl":
		return &record.AccessControlEntry{
			ACLID: id(), ResourceType: 2, ResourceName: rest[1], PatternType: 3, Principal: rest[2], Host: "*", Operation: 3, PermissionType: 3,
		}
	case "no-acl":
		return &record.RemoveAccessControlEntry{ACLID: id()}
	case "scram":
		return &record.UserScramCredential{Name: rest[0], Mechanism: 1, Iterations: number(1), Salt: []byte{1}, StoredKey: []byte{2}, ServerKey: []byte{3}}
	case "quota":
		return &record.ClientQuota{Entity: []record.QuotaEntity{{Type: "user", Name: &rest[0]}}, Key: rest[1], Value: float64(number(2))}
	case "begin":
		return &record.BeginTransaction{}
	case "end":
		return &record.EndTransaction{}
	case "abort":
		return &record.AbortTransaction{}
	}
	t.Fatalf("no record %q", words[0])
	return nil
}

// What a client calls itself does not reach the terminal raw.
func TestPrintableCause(t *testing.T) {
	for cause, want := range map[string]string{
		"CreateTopics by User:ä": "CreateTopics by User:ä",
		"x by User:\x1b[2J\n":    `"x by User:\x1b[2J\n"`,
	} {
		if got := printable(cause); got != want {
			t.Errorf("%q prints as %s, want %s", cause, got, want)
		}
	}
}

// A dump as JSON says the cause, one as text is what Kafka's tool prints.
func TestDumpOfCauses(t *testing.T) {
	s := &script{dir: t.TempDir(), epoch: 1}
	s.write(t, "topic a // CreateTopics by User:\"x\"")
	for _, opts := range []Options{{}, {JSON: true}} {
		var out strings.Builder
		if err := Dump(&out, s.dir, opts); err != nil {
			t.Fatal(err)
		}
		shown := strings.Contains(out.String(), `"data":{"name":"a","topicId":"AAAAAAAAAAAAAAAAAAABYQ"},"cause":"CreateTopics by User:\"x\""}`)
		if shown != opts.JSON || strings.Contains(out.String(), "cause") != opts.JSON {
			t.Errorf("as JSON %t: %s", opts.JSON, out.String())
		}
	}
}
