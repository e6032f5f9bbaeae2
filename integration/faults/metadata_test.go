//go:build integration

package faults

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/integration/harness"
	"github.com/klamm/klamm/protocol"
)

// What becomes of the metadata log and its snapshots. Their files but for the log
// and the checkpoints are klamm's own, and so are its log's lines: Kafka is asked
// for what clients see.

// changes alters a topic's config so many times, one record each.
func changes(c *conn, topic string, count int) {
	c.t.Helper()
	for i := range count {
		value := fmt.Sprint(1_000_000 + i)
		wantCode(c.t, "retention.ms", alterTopic(c, topic, op{"retention.ms", set, &value}), protocol.None)
	}
}

func quorumEpoch(c *conn) int32 {
	c.t.Helper()
	resp := ask[*kmsg.DescribeQuorumResponse](c, 2, harness.QuorumRequest(protocol.MetadataTopic, 0))
	wantCode(c.t, "DescribeQuorum", resp.ErrorCode, protocol.None)
	return resp.Topics[0].Partitions[0].LeaderEpoch
}

// checkpoints are the snapshots of the metadata, oldest first.
func checkpoints(t *testing.T, n *harness.Node) []string {
	t.Helper()
	files, err := filepath.Glob(n.Data("__cluster_metadata-0", "*.checkpoint"))
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// awaitSnapshot waits for a snapshot behind the bootstrap one.
func awaitSnapshot(t *testing.T, n *harness.Node) {
	t.Helper()
	eventually(t, "a snapshot is there", func() bool {
		files := checkpoints(t, n)
		return len(files) > 0 && !strings.HasPrefix(filepath.Base(files[len(files)-1]), "00000000000000000000-")
	})
}

// loads are what the node says of each start: the checkpoint it began with, the
// last offset, and the records in between.
func loads(t *testing.T, n *harness.Node) (lines []struct{ Checkpoint, Offset, Replayed int64 }) {
	t.Helper()
	for line := range bytes.Lines([]byte(n.Log())) {
		if !bytes.Contains(line, []byte(`"loaded metadata"`)) {
			continue
		}
		var l struct{ Checkpoint, Offset, Replayed int64 }
		if err := json.Unmarshal(line, &l); err != nil {
			t.Fatal(err)
		}
		lines = append(lines, l)
	}
	return lines
}

// shown is the whole state by a stopped node's directory.
func shown(t *testing.T, n *harness.Node) string {
	t.Helper()
	return harness.MustRun(t, "metadata", "show", n.Data())
}

// TestB071EpochOfEveryLeadership: a controller that was started again took itself
// for the leader before it had caught up. Every leadership has an epoch of its
// own, and begins with everything that was acknowledged.
func TestB071EpochOfEveryLeadership(t *testing.T) {
	t.Parallel()
	n := ownNode(t)
	c := dial(t, n.Address)
	var topics []string
	epoch := quorumEpoch(c)
	for range 2 * restarts() {
		topic := unique(t, "topic")
		wantCode(t, "creation", tryCreateTopic(c, topic).ErrorCode, protocol.None)
		topics = append(topics, topic)
		restart(n, syscall.SIGKILL)
		c = dial(t, n.Address)
		for _, topic := range topics {
			wantCode(t, "metadata of "+topic, metadata(c, topic).ErrorCode, protocol.None)
		}
		if next := quorumEpoch(c); next <= epoch {
			t.Fatalf("epoch %d after %d", next, epoch)
		} else {
			epoch = next
		}
	}
}

// TestB072OlderMetadataStore: a controller whose store was replaced by an older
// copy cut off what had been committed. It refuses, or has everything still.
func TestB072OlderMetadataStore(t *testing.T) {
	t.Parallel()
	if onKafka {
		t.Skip("its metadata log is its only store: an older copy is an older state")
	}
	n := ownNode(t)
	c := dial(t, n.Address)
	before := createTopic(c)
	n.End(syscall.SIGTERM)
	store := n.Data("__cluster_metadata-0", "raft.db")
	old := readFile(t, store)
	c = mustStart(t, n)
	after := createTopic(c)
	n.End(syscall.SIGTERM)
	newer := readFile(t, store)
	log := readFile(t, n.Data("__cluster_metadata-0", "00000000000000000000.log"))
	writeFile(t, store, old)
	if said := n.Refuses("an older store"); said != "" && !strings.Contains(said, "raft.db") && !strings.Contains(said, "__cluster_metadata") {
		t.Errorf("the log does not say which file it is about:\n%s", said)
	}
	if now := readFile(t, n.Data("__cluster_metadata-0", "00000000000000000000.log")); !bytes.HasPrefix(now, log) {
		t.Error("the metadata log has been cut")
	}
	writeFile(t, store, newer)
	c = mustStart(t, n)
	for _, topic := range []string{before, after} {
		wantCode(t, "metadata of "+topic, metadata(c, topic).ErrorCode, protocol.None)
	}
}

// TestB075SnapshotIsMissing: a node whose metadata log begins behind 0 was started
// without the snapshot that covers what is missing.
func TestB075SnapshotIsMissing(t *testing.T) {
	t.Parallel()
	if onKafka {
		t.Skip("it keeps a log for an hour at least")
	}
	n := ownNode(t, "metadata.log.max.record.bytes.between.snapshots=2000", "metadata.max.retention.bytes=1000", "metadata.log.segment.bytes=8388608", "metadata.log.segment.ms=10")
	c := dial(t, n.Address)
	topic := createTopic(c)
	log := n.Data("__cluster_metadata-0", "00000000000000000000.log")
	for {
		changes(c, topic, 50)
		if _, err := os.Stat(log); err != nil {
			break // trimmed
		}
		if len(checkpoints(t, n)) > 50 {
			t.Fatal("the log is not trimmed")
		}
	}
	n.End(syscall.SIGTERM)
	aside := t.TempDir()
	for _, file := range checkpoints(t, n) {
		if err := os.Rename(file, filepath.Join(aside, filepath.Base(file))); err != nil {
			t.Fatal(err)
		}
	}
	if said := n.Refuses("no snapshot"); !strings.Contains(said, "snapshot") && !strings.Contains(said, "checkpoint") {
		t.Errorf("the log does not say that a snapshot is missing:\n%s", said)
	}
	moved, err := filepath.Glob(filepath.Join(aside, "*.checkpoint"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range moved {
		if err := os.Rename(file, n.Data("__cluster_metadata-0", filepath.Base(file))); err != nil {
			t.Fatal(err)
		}
	}
	c = mustStart(t, n)
	wantCode(t, "metadata", metadata(c, topic).ErrorCode, protocol.None)
}

// TestB077OffsetOfASnapshot: a snapshot was named after the last offset in it
// instead of the next, and a record was left out or applied twice. The log goes on
// exactly where the snapshot ends.
func TestB077OffsetOfASnapshot(t *testing.T) {
	t.Parallel()
	n := ownNode(t, "metadata.log.max.record.bytes.between.snapshots=5000")
	c := dial(t, n.Address)
	topic := createTopic(c)
	changes(c, topic, 200)
	awaitSnapshot(t, n)
	changes(c, topic, 3)
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		restart(n, signal)
		c = dial(t, n.Address)
		wantConfig(c, topic, "retention.ms", "1000002", kmsg.ConfigSourceDynamicTopicConfig)
	}
	if onKafka {
		return
	}
	n.End(syscall.SIGTERM)
	starts := loads(t, n)
	for _, l := range starts[len(starts)-2:] {
		if l.Checkpoint == 0 || l.Replayed != l.Offset+1-l.Checkpoint {
			t.Errorf("from checkpoint %d to offset %d %d records were replayed", l.Checkpoint, l.Offset, l.Replayed)
		}
	}
	// What the log alone adds up to is what snapshot and log do.
	whole := shown(t, n)
	for _, file := range checkpoints(t, n) {
		if !strings.HasPrefix(filepath.Base(file), "00000000000000000000-") {
			if err := os.Remove(file); err != nil {
				t.Fatal(err)
			}
		}
	}
	if alone := shown(t, n); alone != whole {
		t.Errorf("with the snapshots:\n%s\nwithout:\n%s", whole, alone)
	}
}

// TestB078SnapshotsOfRestarts: at every start snapshots were written, one per
// commit. One is written when there is enough for it.
func TestB078SnapshotsOfRestarts(t *testing.T) {
	t.Parallel()
	n := ownNode(t)
	c := dial(t, n.Address)
	for range 100 {
		wantCode(t, "creation", tryCreateTopic(c, unique(t, "topic")).ErrorCode, protocol.None)
	}
	before := len(checkpoints(t, n))
	const starts = 5
	for range starts {
		restart(n, syscall.SIGTERM)
	}
	if after := len(checkpoints(t, n)); after > before+starts {
		t.Errorf("%d snapshots after %d restarts, %d before", after, starts, before)
	}
}

// TestB080StartFromTheSnapshot: whoever began at the log's start read all of it,
// although there was a snapshot.
func TestB080StartFromTheSnapshot(t *testing.T) {
	t.Parallel()
	if onKafka {
		t.Skip("it does not say in its log how much it has read")
	}
	n := ownNode(t, "metadata.log.max.record.bytes.between.snapshots=5000")
	c := dial(t, n.Address)
	const count = 2000
	changes(c, createTopic(c), count)
	awaitSnapshot(t, n)
	restart(n, syscall.SIGTERM)
	starts := loads(t, n)
	// A record of a change takes some 100 bytes.
	if last := starts[len(starts)-1]; last.Checkpoint < count/2 || last.Replayed > count/4 {
		t.Errorf("began at checkpoint %d and replayed %d records up to %d", last.Checkpoint, last.Replayed, last.Offset)
	}
}
