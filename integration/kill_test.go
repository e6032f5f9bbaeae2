//go:build integration

package integration

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/klamm/klamm/integration/harness"
)

var (
	kills    = flag.Int("kills", 20, "how often TestKillUnderLoad ends the node")
	killSeed = flag.Uint64("kill-seed", 0, "what TestKillUnderLoad draws from (0: anything)")
)

// codecOf are the codecs of the partitions that are written to.
var codecOf = []kgo.CompressionCodec{
	kgo.NoCompression(), kgo.GzipCompression(), kgo.SnappyCompression(), kgo.Lz4Compression(), kgo.ZstdCompression(),
}

// TestKillUnderLoad: a node is killed over and over, now and then while it
// starts or stops, or stopped in order; -kills says how often. Meanwhile
// idempotent producers write in every codec; a group of three reads it, and its
// members come and go; offsets are committed and deleted, topics created,
// changed and deleted, logs trimmed, by DeleteRecords and by retention, and
// segments rolled all the time. Nothing that was acknowledged is missing after
// any of the kills, or there twice, and nothing that was deleted comes back.
//
// A kill leaves the page cache as it is: that acknowledged bytes are synced
// where they have to be is for the tests with a file system that crashes
// (storage, metadata/replay, raftlog). What it shows is an answer that left
// before what it promises was written, and a start that misreads what is there.
func TestKillUnderLoad(t *testing.T) {
	seed := *killSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("-kills %d -kill-seed %d", *kills, seed)
	rnd := rand.New(rand.NewPCG(seed, 0))

	n := harness.Start(t,
		"group.initial.rebalance.delay.ms=0", "offsets.topic.num.partitions=3",
		"log.retention.check.interval.ms=150", "log.segment.delete.delay.ms=100",
		"log.flush.offset.checkpoint.interval.ms=200", "log.flush.start.offset.checkpoint.interval.ms=200",
		"metadata.log.max.record.bytes.between.snapshots=20000")
	t.Cleanup(func() {
		if t.Failed() { // at the end of the log there is only what came of it
			path := filepath.Join(os.TempDir(), fmt.Sprintf("klamm-kill-%d.log", seed))
			t.Logf("the node's log is in %s: %v", path, os.WriteFile(path, []byte(n.Log()), 0o644))
		}
	})
	partitions := int32(len(codecOf))
	createTopic(t, n.Address, "killed", partitions, "segment.ms", "1000")
	createTopic(t, n.Address, "retained", 1, "segment.ms", "100", "retention.bytes", "50000")
	var writers []*writer
	for p, codec := range codecOf {
		writers = append(writers, newWriterOf(t, n.Address, "killed", []int32{int32(p)}, 500*time.Microsecond,
			kgo.ProducerBatchCompression(codec), kgo.ProducerLinger(0), kgo.MaxBufferedRecords(10)))
	}
	retained := newWriterOf(t, n.Address, "retained", []int32{0}, 200*time.Microsecond, kgo.ProducerLinger(0), kgo.MaxBufferedRecords(100))
	g := newReaders(t, n.Address, "killed", partitions)
	k := startKeepers(t, n.Address, seed, writers)

	for i := range *kills {
		// Each life must have taken something before it ends.
		writers[rnd.IntN(len(writers))].waitForMore(t, 1+rnd.IntN(100))
		retained.waitForMore(t, 50)
		if i%10 == 5 {
			g.change(rnd)
			g.waitForCommits(1000)
		}
		k.waitForMore(10)
		time.Sleep(time.Duration(rnd.IntN(100)) * time.Millisecond)
		end(n, rnd)
		n.Restart()
		if t.Failed() {
			t.Fatalf("after %d kills", i+1)
		}
	}
	k.stop()
	total := 0
	var ends []int64
	for p, w := range writers {
		w.waitForMore(t, 100)
		acked := w.stop(t)[int32(p)]
		checkProducer(t, n.Address, "killed", int32(p), w)
		ends = append(ends, endOffset(t, n.Address, "killed", int32(p)))
		checkLog(t, readFrom(t, n.Address, "killed", int32(p), 0, ends[p]), acked)
		total += len(acked)
	}
	acked := retained.stop(t)[0]
	start, end := bounds(t, n.Address, "retained", 0)
	checkLog(t, readFrom(t, n.Address, "retained", 0, start, end), acked)
	if start == 0 {
		t.Error("retention has deleted nothing")
	}
	g.finish(ends)
	t.Logf("%d kills, %d records acknowledged and %d of them deleted by retention, %d other changes: all there", *kills, total+len(acked), start, k.total())
}

// end ends the node in one of the ways in which nodes end.
func end(n *harness.Node, rnd *rand.Rand) {
	switch rnd.IntN(10) {
	case 0: // in order
		n.Stop()
	case 1: // in the middle of a stop
		n.Signal(syscall.SIGTERM)
		time.Sleep(time.Duration(rnd.IntN(50)) * time.Millisecond)
		n.Kill()
	case 2, 3: // and again during the start after it
		n.Kill()
		n.Launch()
		time.Sleep(time.Duration(rnd.IntN(150)) * time.Millisecond)
		n.Kill()
	default:
		n.Kill()
	}
}

// checkLog compares a partition with what was acknowledged. Of what it begins
// behind nothing can be said.
func checkLog(t *testing.T, recs []*kgo.Record, acked []int64) {
	t.Helper()
	seen := make(map[int]int64, len(recs))
	last := -1
	for _, r := range recs {
		seq, err := strconv.Atoi(strings.TrimSpace(string(r.Value)))
		if err != nil {
			t.Fatalf("partition %d, offset %d: %v", r.Partition, r.Offset, err)
		}
		if at, twice := seen[seq]; twice {
			t.Fatalf("partition %d: record %d is at offset %d and %d", r.Partition, seq, at, r.Offset)
		}
		if seq != last+1 && last >= 0 {
			t.Fatalf("partition %d: record %d at offset %d comes after %d", r.Partition, seq, r.Offset, last)
		}
		seen[seq], last = r.Offset, seq
	}
	if len(recs) == 0 {
		t.Fatal("the log is empty")
	}
	for seq, offset := range acked {
		if at, ok := seen[seq]; offset >= recs[0].Offset && (!ok || at != offset) {
			t.Fatalf("partition %d: record %d was acknowledged at offset %d and is at %d (there: %v); the log has %d records", recs[0].Partition, seq, offset, at, ok, len(recs))
		}
	}
}

// readFrom reads a partition from an offset to an end; there are no gaps.
func readFrom(t *testing.T, address, topic string, partition int32, from, end int64) []*kgo.Record {
	t.Helper()
	c := client(t, address, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {partition: kgo.NewOffset().At(from)}}))
	defer c.Close()
	var recs []*kgo.Record
	for int64(len(recs)) < end-from {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		fetches := c.PollFetches(ctx)
		cancel()
		if err := fetches.Err(); err != nil {
			t.Fatalf("%d of %d records read from %s-%d: %v", len(recs), end-from, topic, partition, err)
		}
		recs = append(recs, fetches.Records()...)
	}
	for i, r := range recs {
		if r.Offset != from+int64(i) {
			t.Fatalf("record %d of %s-%d has offset %d", i, topic, partition, r.Offset)
		}
	}
	return recs
}
