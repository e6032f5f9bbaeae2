//go:build integration

package faults

import (
	"bytes"
	"net"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/protocol/batch"
)

// alterBroker changes configs of broker 1, or with the name "" those of all.
func alterBroker(c *conn, name string, pairs ...string) {
	c.t.Helper()
	var ops []op
	for i := 0; i < len(pairs); i += 2 {
		ops = append(ops, op{pairs[i], set, &pairs[i+1]})
	}
	wantCode(c.t, "alter "+strings.Join(pairs, " "), incrementalAlter(c, kmsg.ConfigResourceTypeBroker, name, ops...), protocol.None)
}

// resetBroker takes configs of broker 1, or of all, away.
func resetBroker(c *conn, name string, keys ...string) {
	c.t.Helper()
	var ops []op
	for _, key := range keys {
		ops = append(ops, op{key, unset, nil})
	}
	wantCode(c.t, "reset "+strings.Join(keys, " "), incrementalAlter(c, kmsg.ConfigResourceTypeBroker, name, ops...), protocol.None)
}

// TestBrokerConfigsTakeEffect: what is set for all brokers or for one counts at
// once for topics that say nothing themselves, and what is reset does not.
func TestBrokerConfigsTakeEffect(t *testing.T) {
	t.Parallel()
	n := ownNode(t)
	c := dial(t, n.Address)
	topic := createTopic(c)
	mustProduce(c, topic, "a")
	large := records(batch.Options{}, strings.Repeat("x", 5000))
	at := func(ms int64) []byte {
		b := batch.NewBuilder(batch.Options{})
		b.Append(batch.Record{Value: []byte("v"), Timestamp: ms})
		return build(b)
	}
	try := func(data []byte) func() int16 { return func() int16 { return produce(c, topic, data).ErrorCode } }
	for _, test := range []struct {
		key, value string
		do         func() int16
		with       protocol.Error
	}{
		{"message.max.bytes", "1000", try(large), protocol.ErrMessageTooLarge},
		{"max.decompressed.message.bytes", "1000", try(records(batch.Options{Codec: batch.CodecGzip}, strings.Repeat("x", 5000))), protocol.ErrInvalidRecord},
		{"log.message.timestamp.before.max.ms", "60000", try(at(now() - 3600_000)), protocol.ErrInvalidTimestamp},
		{"log.message.timestamp.after.max.ms", "1000", try(at(now() + 600_000)), protocol.ErrInvalidTimestamp},
		{"log.cleanup.policy", "compact", try(at(now())), protocol.ErrInvalidRecord},
	} {
		for _, name := range []string{"", "1"} {
			wantCode(t, "before "+test.key, test.do(), protocol.None)
			alterBroker(c, name, test.key, test.value)
			eventually(t, test.key+" counts", func() bool { return test.do() == int16(test.with) })
			resetBroker(c, name, test.key)
			eventually(t, test.key+" does not count any more", func() bool { return test.do() == 0 })
		}
	}

	// The broker's own beats that of all, and the topic's beats both.
	alterBroker(c, "", "message.max.bytes", "1000")
	alterBroker(c, "1", "message.max.bytes", "100000")
	eventually(t, "the broker's own value counts", func() bool { return try(large)() == 0 })
	wantCode(t, "the topic's own", alterTopic(c, topic, op{"max.message.bytes", set, kmsg.StringPtr("500")}), protocol.None)
	eventually(t, "the topic's own value counts", func() bool { return try(large)() == int16(protocol.ErrMessageTooLarge) })
	wantCode(t, "the topic's own", alterTopic(c, topic, op{"max.message.bytes", unset, nil}), protocol.None)
	resetBroker(c, "1", "message.max.bytes")
	resetBroker(c, "", "message.max.bytes")

	alterBroker(c, "", "log.message.timestamp.type", "LogAppendTime", "compression.type", "gzip", "compression.gzip.level", "9")
	eventually(t, "append time and gzip", func() bool {
		p := produce(c, topic, records(batch.Options{}, "again"))
		got := fetch(c, topic, fetchPartition(p.BaseOffset))
		return p.LogAppendTime > 0 && len(got.RecordBatches) > batch.HeaderSize && batch.Batch(got.RecordBatches).Codec() == batch.CodecGzip
	})
	// What was set counts after a restart too.
	restart(n, syscall.SIGKILL)
	c = dial(t, n.Address)
	if p := produce(c, topic, records(batch.Options{}, "and again")); p.ErrorCode != 0 || p.LogAppendTime <= 0 {
		t.Errorf("after a restart: %+v", p)
	}
}

// TestSegmentsFollowTheBroker: a segment rolls, and old ones go, as what is set
// for all brokers says, also in a log that is open.
func TestSegmentsFollowTheBroker(t *testing.T) {
	t.Parallel()
	n := ownNode(t, "log.retention.check.interval.ms=50")
	c := dial(t, n.Address)
	topic := createTopic(c)
	dir := n.Data(topic + "-0")
	segments := func() int {
		files, err := filepath.Glob(filepath.Join(dir, "*.log"))
		if err != nil {
			t.Fatal(err)
		}
		return len(files)
	}
	value := strings.Repeat("x", 400_000)
	fill := func() {
		for range 6 {
			mustProduce(c, topic, value)
		}
	}
	fill()
	if got := segments(); got != 1 {
		t.Fatalf("%d segments before", got)
	}
	alterBroker(c, "", "log.segment.bytes", "1048576")
	eventually(t, "smaller segments", func() bool { fill(); return segments() > 3 })
	alterBroker(c, "", "log.retention.bytes", "1000000")
	eventually(t, "retention by size", func() bool { return listOffset(c, topic, -2).Offset > 0 })
	end := listOffset(c, topic, -1).Offset
	alterBroker(c, "1", "log.retention.ms", "1")
	eventually(t, "retention by time", func() bool { return listOffset(c, topic, -2).Offset == end })
	resetBroker(c, "1", "log.retention.ms")
	resetBroker(c, "", "log.segment.bytes", "log.retention.bytes")
	alterBroker(c, "1", "log.roll.ms", "1")
	before := segments()
	eventually(t, "roll by time", func() bool { mustProduce(c, topic, "a"); return segments() > before })
}

// TestConnectionLimitsChange: limits of connections count for the next one, names
// of listeners and overrides of addresses included.
func TestConnectionLimitsChange(t *testing.T) {
	t.Parallel()
	n := ownNode(t)
	c := dial(t, n.Address)
	// answered tells whether one more connection is served.
	answered := func() bool {
		nc, err := net.Dial("tcp", n.Address)
		if err != nil {
			return false
		}
		defer nc.Close()
		_ = nc.SetDeadline(time.Now().Add(patience))
		if _, err := nc.Write([]byte("\x00\x00\x00\x0a\x00\x12\x00\x00\x00\x00\x00\x07\xff\xff")); err != nil {
			return false
		}
		head := make([]byte, 8)
		n, _ := nc.Read(head)
		return n == 8 && bytes.Equal(head[4:], []byte{0, 0, 0, 7})
	}
	for _, pairs := range [][]string{
		{"max.connections", "1"},
		{"max.connections.per.ip", "1"},
		{"listener.name.plaintext.max.connections", "1"},
		{"max.connections.per.ip.overrides", "127.0.0.1:1,::1:1"},
		{"max.connections.per.ip.overrides", "localhost:1"},
	} {
		eventually(t, "a connection before "+pairs[0], answered)
		for _, name := range []string{"", "1"} {
			alterBroker(c, name, pairs...)
			eventually(t, strings.Join(pairs, "=")+" keeps one out", func() bool { return !answered() })
			resetBroker(c, name, pairs[0])
			eventually(t, pairs[0]+" is gone", answered)
		}
	}

	// What was set counts from the start on, next time.
	alterBroker(c, "", "max.connections", "2")
	restart(n, syscall.SIGKILL)
	dial(t, n.Address) // stays to the end, as the next one does
	eventually(t, "a second connection", answered)
	dial(t, n.Address)
	eventually(t, "no third connection", func() bool { return !answered() })
}

// TestLogLevelChanges: the level of the broker's logger is set while it runs, to a
// louder one too.
func TestLogLevelChanges(t *testing.T) {
	t.Parallel()
	n := ownNode(t)
	c := dial(t, n.Address)
	logged := func(level string) int {
		return strings.Count(n.Log(), `"level":"`+level+`"`)
	}
	if logged("debug") > 0 {
		t.Fatal("debug lines by default")
	}
	level := func(to string) {
		t.Helper()
		wantCode(t, to, incrementalAlter(c, kmsg.ConfigResourceTypeBrokerLogger, "1", op{"root", set, &to}), protocol.None)
	}
	level("DEBUG")
	createTopic(c)
	eventually(t, "debug lines", func() bool { return logged("debug") > 0 })
	level("ERROR")
	before := logged("info") + logged("debug")
	createTopic(c)
	if after := logged("info") + logged("debug"); after != before {
		t.Errorf("%d more lines at ERROR", after-before)
	}
}
