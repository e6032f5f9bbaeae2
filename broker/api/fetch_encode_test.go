package api

import (
	"bytes"
	"os"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"

	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/protocol/server"
)

// memRegion is a region without a file.
type memRegion struct {
	data     []byte
	released int
}

func (r *memRegion) Size() int                               { return len(r.data) }
func (r *memRegion) ReadAt(p []byte, off int64) (int, error) { return copy(p, r.data[off:]), nil }
func (r *memRegion) File() (*os.File, int64, bool)           { return nil, 0, false }
func (r *memRegion) Release()                                { r.released++ }

// joinParts is the answer as it goes over the wire. It releases the regions.
func joinParts(parts []server.Part) []byte {
	var out []byte
	for _, p := range parts {
		if p.Region == nil {
			out = append(out, p.Bytes...)
			continue
		}
		at := len(out)
		out = append(out, make([]byte, p.Region.Size())...)
		if _, err := p.Region.ReadAt(out[at:], 0); err != nil {
			panic(err)
		}
		p.Region.Release()
	}
	return out
}

// fetchTopicAnswer is one topic of a drawn answer.
type fetchTopicAnswer struct {
	name       string
	id         protocol.UUID
	partitions []fetchPartitionAnswer
}

func drawFetchTopics(t *rapid.T) []fetchTopicAnswer {
	draw := func(name string) int64 { return rapid.Int64().Draw(t, name) }
	partition := rapid.Custom(func(t *rapid.T) fetchPartitionAnswer {
		a := fetchPartitionAnswer{
			partition: rapid.Int32().Draw(t, "partition"), code: protocol.Error(rapid.Int16().Draw(t, "code")),
			highWatermark: draw("hw"), lastStableOffset: draw("lso"), logStartOffset: draw("start"),
			abortedNull: rapid.Bool().Draw(t, "null"), elsewhere: protocol.NodeID(rapid.Int32Min(-1).Draw(t, "elsewhere")), currentLeader: -1, currentLeaderEpoch: -1,
		}
		if !a.abortedNull {
			for range rapid.IntRange(0, 3).Draw(t, "aborted") {
				a.aborted = append(a.aborted, abortedTransaction{draw("producer"), draw("first")})
			}
		}
		if n := rapid.IntRange(0, 300).Draw(t, "records"); n > 0 {
			a.records = &memRegion{data: bytes.Repeat([]byte{0xab}, n)}
		}
		if rapid.Bool().Draw(t, "diverges") {
			a.diverges, a.divergingEpoch, a.divergingEnd = true, protocol.LeaderEpoch(rapid.Int32Min(0).Draw(t, "epoch")), draw("end")
		}
		if rapid.Bool().Draw(t, "leader") {
			a.currentLeader, a.currentLeaderEpoch = protocol.NodeID(rapid.Int32Min(0).Draw(t, "node")), 7
		}
		return a
	})
	topic := rapid.Custom(func(t *rapid.T) fetchTopicAnswer {
		return fetchTopicAnswer{
			name: rapid.StringN(0, 40, 200).Draw(t, "name"), id: protocol.UUID{1, byte(rapid.Uint8().Draw(t, "id"))},
			partitions: rapid.SliceOfN(partition, 0, 4).Draw(t, "partitions"),
		}
	})
	return rapid.SliceOfN(topic, 0, 4).Draw(t, "topics")
}

// kmsgFetchResponse is the same answer for kmsg to write.
func kmsgFetchResponse(version int16, code protocol.Error, session int32, topics []fetchTopicAnswer, nodes []nodeEndpoint) []byte {
	resp := kmsg.NewPtrFetchResponse()
	resp.Version, resp.ErrorCode, resp.SessionID = version, int16(code), session
	for _, in := range topics {
		t := kmsg.NewFetchResponseTopic()
		t.Topic, t.TopicID = in.name, in.id
		for _, a := range in.partitions {
			p := kmsg.NewFetchResponseTopicPartition()
			p.Partition, p.ErrorCode = a.partition, int16(a.code)
			p.HighWatermark, p.LastStableOffset, p.LogStartOffset = a.highWatermark, a.lastStableOffset, a.logStartOffset
			if !a.abortedNull {
				p.AbortedTransactions = []kmsg.FetchResponseTopicPartitionAbortedTransaction{}
				for _, x := range a.aborted {
					out := kmsg.NewFetchResponseTopicPartitionAbortedTransaction()
					out.ProducerID, out.FirstOffset = x.producerID, x.firstOffset
					p.AbortedTransactions = append(p.AbortedTransactions, out)
				}
			}
			p.PreferredReadReplica = int32(a.elsewhere)
			p.RecordBatches = []byte{}
			if r, ok := a.records.(*memRegion); ok {
				p.RecordBatches = r.data
			}
			if a.diverges {
				p.DivergingEpoch.Epoch, p.DivergingEpoch.EndOffset = int32(a.divergingEpoch), a.divergingEnd
			}
			p.CurrentLeader.LeaderID, p.CurrentLeader.LeaderEpoch = int32(a.currentLeader), int32(a.currentLeaderEpoch)
			t.Partitions = append(t.Partitions, p)
		}
		resp.Topics = append(resp.Topics, t)
	}
	for _, n := range nodes {
		b := kmsg.NewFetchResponseBroker()
		b.NodeID, b.Host, b.Port, b.Rack = int32(n.id), n.host, n.port, n.rack
		resp.Brokers = append(resp.Brokers, b)
	}
	return resp.AppendTo(nil)
}

// TestFetchWriterEqualsKmsg: what we write ourselves is byte for byte what kmsg
// writes, in every version.
func TestFetchWriterEqualsKmsg(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		version := rapid.Int16Range(4, 18).Draw(t, "version")
		code := protocol.Error(rapid.Int16().Draw(t, "code"))
		session := rapid.Int32().Draw(t, "session")
		topics := drawFetchTopics(t)
		var nodes []nodeEndpoint
		for range rapid.IntRange(0, 3).Draw(t, "nodes") {
			n := nodeEndpoint{id: protocol.NodeID(rapid.Int32().Draw(t, "id")), host: rapid.StringN(0, 200, 300).Draw(t, "host"), port: 9092}
			if rapid.Bool().Draw(t, "rack") {
				rack := rapid.String().Draw(t, "rack name")
				n.rack = &rack
			}
			nodes = append(nodes, n)
		}
		regions := 0
		// The size hint is only a hint: growing in the middle spoils nothing.
		w := newFetchWriter(version, rapid.IntRange(0, 4096).Draw(t, "hint"), regions)
		w.header(code, session, len(topics))
		for i := range topics {
			w.topic(topics[i].name, topics[i].id, len(topics[i].partitions))
			for j := range topics[i].partitions {
				w.partition(&topics[i].partitions[j])
			}
		}
		w.trailer(nodes)
		got := joinParts(w.finish())
		want := kmsgFetchResponse(version, code, session, topics, nodes)
		if !bytes.Equal(got, want) {
			t.Fatalf("version %d\n got %x\nwant %x", version, got, want)
		}
	})
}
