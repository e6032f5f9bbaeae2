package api

import (
	"encoding/binary"
	"io"
	"net"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/klamm/klamm/broker/replica"
	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/protocol/server"
)

// Five acks=all requests that a producer has in flight wait for one round of
// replication: all are in the log before the first is answered, and one fetch of the
// follower answers all.
func TestPipelinedProducesWaitForOneRound(t *testing.T) {
	w := newDataWorld(t)
	id := w.topic("t", 1, 1, 1, 2)
	s, err := server.New(server.Config{Listener: "PLAINTEXT"}, []server.API{w.produce.API()}, zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error)
	go func() { served <- s.Serve(t.Context(), ln) }()
	t.Cleanup(func() { <-served }) // its context ends before
	nc, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	const requests = 5
	for i := range int32(requests) {
		req := produceRequest(9, acksAll, "t", plainBatch(1))
		req.TimeoutMillis = 60_000
		frame := protocol.AppendRequestHeader(make([]byte, 4), req.Key(), req.Version, i, "producer")
		frame = req.AppendTo(frame)
		binary.BigEndian.PutUint32(frame, uint32(len(frame)-4))
		if _, err := nc.Write(frame); err != nil {
			t.Fatal(err)
		}
	}
	logEnd := func() int64 {
		at, err := w.partition(id).ListOffset(replica.ListOffsetRequest{Timestamp: replica.LatestTimestamp, CurrentLeaderEpoch: -1})
		if err != nil {
			t.Fatal(err)
		}
		return at.Offset
	}
	for until := time.Now().Add(30 * time.Second); logEnd() < requests; time.Sleep(time.Millisecond) {
		if time.Now().After(until) {
			t.Fatalf("%d of %d requests are in the log, and none is answered", logEnd(), requests)
		}
	}
	end := followerFetch("t")
	end.Topics[0].Partitions[0].FetchOffset, end.MaxWaitMillis = requests, 0
	w.ask(end)
	_ = nc.SetReadDeadline(time.Now().Add(30 * time.Second))
	for i := range int32(requests) {
		var head [8]byte
		if _, err := io.ReadFull(nc, head[:]); err != nil {
			t.Fatalf("answer %d: %v", i, err)
		}
		if got := int32(binary.BigEndian.Uint32(head[4:])); got != i {
			t.Fatalf("answer %d is that to request %d", i, got)
		}
		if _, err := io.CopyN(io.Discard, nc, int64(binary.BigEndian.Uint32(head[:]))-4); err != nil {
			t.Fatal(err)
		}
	}
}
