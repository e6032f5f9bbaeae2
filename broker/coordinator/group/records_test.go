package group

import (
	"bytes"
	"encoding/binary"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/broker/coordinator"
	"github.com/klamm/klamm/protocol/batch"
)

// kafkaRecords are the records of a segment of Kafka 4.4's __consumer_offsets.
func kafkaRecords(t testing.TB, name string) []coordinator.Record {
	buf, err := os.ReadFile("testdata/kafka/" + name)
	if err != nil {
		t.Fatal(err)
	}
	var records []coordinator.Record
	for len(buf) > 0 {
		b, rest, err := batch.Next(buf)
		if err != nil {
			t.Fatal(err)
		}
		if err := b.Each(func(r batch.Record) error {
			records = append(records, coordinator.Record{Key: bytes.Clone(r.Key), Value: bytes.Clone(r.Value)})
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		buf = rest
	}
	return records
}

// What Kafka wrote is written back byte for byte.
func TestRecordsAreKafkas(t *testing.T) {
	offsets, groups := 0, 0
	for _, name := range []string{"offsets.log", "groups.log"} {
		for i, r := range kafkaRecords(t, name) {
			if r.Value == nil {
				continue
			}
			m := NewMachine(Config{}, zerolog.Nop())
			if err := m.replay(r); err != nil {
				t.Fatalf("%s, record %d: %v", name, i, err)
			}
			if len(m.groups) != 1 {
				t.Fatalf("%s, record %d: %d groups", name, i, len(m.groups))
			}
			for _, g := range m.groups {
				var again coordinator.Record
				switch binary.BigEndian.Uint16(r.Key) {
				case uint16(groupKey):
					groups++
					again = groupRecord(g, func(m *member) []byte { return m.assignment })
				default:
					offsets++
					for topic, of := range g.offsets {
						for partition, o := range of {
							again = offsetRecord(g.name, topic, partition, o)
						}
					}
				}
				if !bytes.Equal(again.Key, r.Key) {
					t.Errorf("%s, record %d: key\n%x, want\n%x", name, i, again.Key, r.Key)
				}
				if !bytes.Equal(again.Value, r.Value) {
					t.Errorf("%s, record %d: value\n%x, want\n%x", name, i, again.Value, r.Value)
				}
			}
		}
	}
	if offsets < 5 || groups < 4 {
		t.Errorf("only %d offsets and %d groups", offsets, groups)
	}
}

func TestFoundedRecord(t *testing.T) {
	// The first record of the groups in testdata is of one that was founded.
	for _, r := range kafkaRecords(t, "offsets.log") {
		if binary.BigEndian.Uint16(r.Key) != uint16(groupKey) {
			continue
		}
		var key kmsg.GroupMetadataKey
		if err := key.ReadFrom(r.Key); err != nil {
			t.Fatal(err)
		}
		g := newGroup(key.Group)
		g.sinceMs = int64(binary.BigEndian.Uint64(r.Value[12:]))
		g.protocolType, g.leader = consumerType, "somebody"
		if again := foundedRecord(g); !bytes.Equal(again.Value, r.Value) || !bytes.Equal(again.Key, r.Key) {
			t.Errorf("got %x, want %x", again.Value, r.Value)
		}
		return
	}
	t.Error("no such record")
}

// Old versions of keys and values are read; what is not understood is left out.
func TestReplayOfOthers(t *testing.T) {
	var out bytes.Buffer
	m := NewMachine(Config{MaxSize: 10}, zerolog.New(&out))
	key := func(version int16) []byte {
		k := kmsg.OffsetCommitKey{Version: version, Group: "g", Topic: "t", Partition: int32(version)}
		return k.AppendTo(nil)
	}
	value := func(version int16) []byte {
		v := kmsg.OffsetCommitValue{Version: version, Offset: 7, LeaderEpoch: 2, Metadata: "m", CommitTimestamp: 5, ExpireTimestamp: 9}
		return v.AppendTo(nil)
	}
	for version := range int16(5) {
		m.Replay(coordinator.Record{Key: key(version % 2), Value: value(version)})
		o := m.groups["g"].offsets["t"][int32(version%2)]
		want := offset{offset: 7, leaderEpoch: -1, metadata: "m", commitMs: 5, expireMs: -1}
		if version >= 3 {
			want.leaderEpoch = 2
		}
		if version == 1 {
			want.expireMs = 9
		}
		if o != want {
			t.Errorf("v%d: got %+v", version, o)
		}
	}
	for version := range int16(5) {
		leader, chosen := "m", "range"
		v := kmsg.GroupMetadataValue{Version: version, ProtocolType: "consumer", Generation: 3, Leader: &leader, Protocol: &chosen, CurrentStateTimestamp: 8}
		for _, id := range []string{"n", "m", "m"} {
			member := kmsg.NewGroupMetadataValueMember()
			member.MemberID, member.SessionTimeoutMillis = id, 100
			v.Members = append(v.Members, member)
		}
		k := kmsg.GroupMetadataKey{Version: 2, Group: "h"}
		m.Replay(coordinator.Record{Key: k.AppendTo(nil), Value: v.AppendTo(nil)})
		g := m.groups["h"]
		if g.state != stable || len(g.members) != 2 || g.leader != "m" || g.generation != 3 || g.members[0].rebalanceTimeoutMs != 100 {
			t.Errorf("v%d: got %+v", version, g)
		}
	}
	if out.Len() > 0 {
		t.Errorf("logged %s", out.String())
	}
	for _, r := range []coordinator.Record{
		{},
		{Key: []byte{0}},
		{Key: []byte{0, 1}, Value: []byte{0, 3}},
		{Key: key(1)[:8], Value: value(3)},
		{Key: key(1), Value: value(3)[:9]},
		{Key: key(1), Value: []byte{}},
		{Key: key(1), Value: []byte{0, 5, 0}},
		{Key: key(1), Value: []byte{0xff, 0xff}},
		{Key: []byte{0, 2, 0, 1}},
		{Key: []byte{0, 2, 0, 1, 'x'}, Value: []byte{0, 3, 0, 1}},
	} {
		out.Reset()
		m.Replay(r)
		if strings.Count(out.String(), "\n") != 1 {
			t.Errorf("%x: logged %q", r.Key, out.String())
		}
	}
	out.Reset()
	for range 10 {
		m.Replay(coordinator.Record{Key: []byte{0, 3, 0, 1, 'g'}, Value: []byte{0, 0}})
	}
	if out.Len() > 0 {
		t.Errorf("logged %s", out.String())
	}
	m.Loaded(time.UnixMilli(0))
	if got := out.String(); strings.Count(got, "left out") != 1 || !strings.Contains(got, `"records":10`) {
		t.Errorf("logged %s", got)
	}
	m.Replay(coordinator.Record{Key: []byte{0, 3, 0, 1, 'g'}, Value: []byte{0, 0}}) // nobody writes that now
	if len(m.groups) != 2 || len(m.groups["g"].offsets["t"]) != 2 {
		t.Errorf("groups %v", m.groups)
	}
}

// FuzzReplay reads records as anybody may have written them, and goes on with
// what came of them.
func FuzzReplay(f *testing.F) {
	for _, name := range []string{"offsets.log", "groups.log"} {
		last := coordinator.Record{}
		for _, r := range kafkaRecords(f, name) {
			f.Add(last.Key, last.Value, r.Key, r.Value)
			last = r
		}
	}
	f.Add([]byte{0, 3}, []byte{}, []byte{0, 2}, []byte{0, 3})
	f.Fuzz(func(t *testing.T, key, value, nextKey, nextValue []byte) {
		m := NewMachine(Config{MaxSize: 1, RetentionCheck: 1}, zerolog.Nop())
		m.Replay(coordinator.Record{Key: key, Value: value})
		m.Replay(coordinator.Record{Key: nextKey, Value: nextValue, Offset: 1, TimestampMs: -1})
		m.Replay(coordinator.Record{Key: key, Value: nextValue, Offset: 2, TimestampMs: 1 << 62})
		m.Loaded(time.UnixMilli(0))
		var names []string
		for name := range m.groups {
			names = append(names, name)
		}
		for _, event := range []any{List{}, retentionCheck{}} {
			m.Handle(time.UnixMilli(1<<40), 1, event)
		}
		for _, name := range names {
			req := kmsg.NewPtrJoinGroupRequest()
			req.Version, req.Group, req.ProtocolType = 3, name, consumerType
			req.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range"}}
			for _, event := range []any{Describe{Group: name}, Fetch{Group: name, All: true}, Join{Request: req, Fresh: "f"}, Delete{Group: name}} {
				m.Handle(time.UnixMilli(1<<40), 1, event)
			}
		}
	})
}

// FuzzReadTopics reads consumers' subscriptions.
func FuzzReadTopics(f *testing.F) {
	f.Add(consumerMetadata("topics:a;b"))
	f.Add([]byte{0, 0, 0x7f, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, p []byte) {
		topics := map[string]struct{}{}
		ok := readTopics(p, topics)
		m := kmsg.NewConsumerMemberMetadata()
		// It takes a negative count for no topics; Kafka does not.
		if m.ReadFrom(p) != nil || m.Version < 0 || m.Topics == nil {
			return
		}
		if !ok {
			t.Errorf("%x is a subscription", p)
		}
		for _, topic := range m.Topics {
			if _, ok := topics[topic]; !ok {
				t.Errorf("%x subscribes to %q", p, topic)
			}
		}
	})
}
