//go:build integration

package faults

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/integration/harness"
	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/protocol/batch"
)

// What is done to a node's files while it is stopped.

func readFile(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func writeFile(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
}

// filesOf are the files of a partition with a suffix, oldest first.
func filesOf(t *testing.T, n *harness.Node, topic, suffix string) []string {
	t.Helper()
	files, err := filepath.Glob(n.Data(topic+"-0", "*"+suffix))
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(files)
	return files
}

// stamped is a batch of one record with a time of its own.
func stamped(opts batch.Options, at int64, value string) []byte {
	b := batch.NewBuilder(opts)
	b.Append(batch.Record{Timestamp: at, Value: []byte(value)})
	return build(b)
}

// fillSegments makes a topic whose records lie a second apart and in a segment
// each.
func fillSegments(c *conn, records int) string {
	c.t.Helper()
	topic := createTopic(c, "segment.ms", "500")
	from := now() - int64(records)*1000
	for i := range int64(records) {
		wantCode(c.t, "produce", produce(c, topic, stamped(batch.Options{}, from+i*1000, fmt.Sprint(i))).ErrorCode, protocol.None)
	}
	return topic
}

// mustStart starts a node that was ended.
func mustStart(t *testing.T, n *harness.Node) *conn {
	t.Helper()
	n.Restart()
	return dial(t, n.Address)
}

// awaitLed waits until the topic's leader answers.
func awaitLed(c *conn, topic string) {
	c.t.Helper()
	eventually(c.t, topic+" is led", func() bool { return listOffset(c, topic, latest).ErrorCode == 0 })
}

// TestB206KillDuringAStart: a node that was killed while it loaded its logs left
// the mark of the clean stop before, and the next start checked nothing.
func TestB206KillDuringAStart(t *testing.T) {
	t.Parallel()
	n := ownNode(t)
	c := dial(t, n.Address)
	topic := createTopic(c)
	mustProduce(c, topic, ten...)
	n.End(syscall.SIGTERM)
	mark := n.Data(".kafka_cleanshutdown")
	readFile(t, mark)
	n.Launch()
	eventually(t, "the mark of the clean stop is gone", func() bool {
		_, err := os.Stat(mark)
		return os.IsNotExist(err)
	})
	n.Kill()
	if _, err := os.Stat(mark); err == nil {
		t.Error("the mark is there again")
	}
	segments := filesOf(t, n, topic, ".log")
	last := segments[len(segments)-1]
	writeFile(t, last, append(readFile(t, last), make([]byte, 100)...))
	c = mustStart(t, n)
	awaitLed(c, topic)
	wantOffsets(c, topic, 0, 10)
	mustProduce(c, topic, "next")
	wantOffsets(c, topic, 0, 11)
	if got := offsetsOf(t, fetch(c, topic, fetchPartition(0)).RecordBatches); len(got) != 11 {
		t.Errorf("records at %v", got)
	}
}

// TestB209SegmentsThatAreNotRead: a stop and a start went through every segment.
// After a clean stop none is read, after a kill those from the recovery point
// on: a bit that is flipped in an older one is not noticed.
func TestB209SegmentsThatAreNotRead(t *testing.T) {
	t.Parallel()
	n := ownNode(t)
	c := dial(t, n.Address)
	const records = 6
	topic := fillSegments(c, records)
	n.End(syscall.SIGTERM) // which moves the recovery point to the end
	segments := filesOf(t, n, topic, ".log")
	if len(segments) != records {
		t.Fatalf("%d segments, want one per record", len(segments))
	}
	for _, segment := range segments[:records-1] {
		data := readFile(t, segment)
		data[len(data)-1] ^= 1
		writeFile(t, segment, data)
	}
	c = mustStart(t, n)
	awaitLed(c, topic)
	wantOffsets(c, topic, 0, records)
	mustProduce(c, topic, "next")
	restart(n, syscall.SIGKILL)
	c = dial(t, n.Address)
	awaitLed(c, topic)
	wantOffsets(c, topic, 0, records+1)
}

// TestB210HalfAnEpochCheckpoint: the file of the leader epochs was found cut off
// after a crash of the machine. It is made anew from the batches, and the
// partition is online.
func TestB210HalfAnEpochCheckpoint(t *testing.T) {
	t.Parallel()
	if onKafka {
		t.Skip("Kafka takes the directory offline, and ends if it is the only one")
	}
	n := ownNode(t)
	c := dial(t, n.Address)
	topic := createTopic(c)
	endOf := func(epoch int32) int64 {
		t.Helper()
		req := kmsg.NewPtrOffsetForLeaderEpochRequest()
		req.ReplicaID = -1
		partition := kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
		partition.LeaderEpoch = epoch
		asked := kmsg.NewOffsetForLeaderEpochRequestTopic()
		asked.Topic, asked.Partitions = topic, append(asked.Partitions, partition)
		req.Topics = append(req.Topics, asked)
		return ask[*kmsg.OffsetForLeaderEpochResponse](c, 4, req).Topics[0].Partitions[0].EndOffset
	}
	// Each restart is a new epoch.
	var epochs []int32
	for i := range 3 {
		mustProduce(c, topic, ten...)
		epochs = append(epochs, metadata(c, topic).Partitions[0].LeaderEpoch)
		if got, want := endOf(epochs[i]), int64(10*(i+1)); got != want {
			t.Fatalf("epoch %d ends at %d, want %d", epochs[i], got, want)
		}
		restart(n, syscall.SIGTERM)
		c = dial(t, n.Address)
		awaitLed(c, topic)
	}
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		n.End(signal)
		file := n.Data(topic+"-0", "leader-epoch-checkpoint")
		data := readFile(t, file)
		writeFile(t, file, data[:len(data)-3])
		c = mustStart(t, n)
		awaitLed(c, topic)
		wantOffsets(c, topic, 0, 30)
		for i, epoch := range epochs {
			if got, want := endOf(epoch), int64(10*(i+1)); got != want {
				t.Errorf("after %v epoch %d ends at %d, want %d", signal, epoch, got, want)
			}
		}
	}
}

// TestB212EmptyActiveSegment: an active segment without records and without
// indexes was taken for damage.
func TestB212EmptyActiveSegment(t *testing.T) {
	t.Parallel()
	n := ownNode(t)
	c := dial(t, n.Address)
	topic := createTopic(c)
	mustProduce(c, topic, ten...)
	n.End(syscall.SIGTERM)
	// As a roll leaves it, but for the indexes.
	writeFile(t, n.Data(topic+"-0", "00000000000000000010.log"), nil)
	c = mustStart(t, n)
	awaitLed(c, topic)
	wantOffsets(c, topic, 0, 10)
	mustProduce(c, topic, "next")
	wantOffsets(c, topic, 0, 11)
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		restart(n, signal)
		c = dial(t, n.Address)
		awaitLed(c, topic)
		wantOffsets(c, topic, 0, 11)
	}
	if got := offsetsOf(t, fetch(c, topic, fetchPartition(10)).RecordBatches); len(got) != 1 || got[0] != 10 {
		t.Errorf("records at %v, want 10", got)
	}
}

// TestB213RecoveryPointBehindTheEnd: a recovery point behind the end of the log
// had what was damaged believed. What is not whole is cut off, and new records go
// on there.
func TestB213RecoveryPointBehindTheEnd(t *testing.T) {
	t.Parallel()
	n := ownNode(t)
	c := dial(t, n.Address)
	topic := createTopic(c)
	value := strings.Repeat("v", 700)
	mustProduce(c, topic, value, value, value, value, value)
	n.Kill()
	segment := filesOf(t, n, topic, ".log")[0]
	data := readFile(t, segment)
	writeFile(t, segment, data[:len(data)-1000]) // one batch and a part of the one before
	file := n.Data("recovery-point-offset-checkpoint")
	writeFile(t, file, fmt.Appendf(nil, "0\n1\n%s 0 5\n", topic))
	c = mustStart(t, n)
	awaitLed(c, topic)
	wantOffsets(c, topic, 0, 3)
	mustProduce(c, topic, "a", "b")
	restart(n, syscall.SIGKILL)
	c = dial(t, n.Address)
	awaitLed(c, topic)
	wantOffsets(c, topic, 0, 5)
	if got := offsetsOf(t, fetch(c, topic, fetchPartition(0)).RecordBatches); len(got) != 5 {
		t.Errorf("records at %v", got)
	}
}

// TestB216DamagedProducerSnapshot: the snapshot of the producers was not synced,
// and after a power cut records that were sent again were taken twice. One that
// is not what it should be is made anew.
func TestB216DamagedProducerSnapshot(t *testing.T) {
	t.Parallel()
	for what, damage := range map[string]func([]byte) []byte{
		"zeros": func(b []byte) []byte { return make([]byte, len(b)) },
		"empty": func([]byte) []byte { return nil },
		"half":  func(b []byte) []byte { return b[:len(b)/2] },
	} {
		t.Run(what, func(t *testing.T) {
			n := ownNode(t)
			c := dial(t, n.Address)
			topic := createTopic(c, "segment.ms", "500")
			producer := initProducer(c)
			opts := func(sequence int32) batch.Options {
				return batch.Options{Producer: &batch.Producer{ID: producer.ProducerID, Epoch: producer.ProducerEpoch, BaseSequence: sequence}}
			}
			at := now() - 60_000
			for i := range int32(3) {
				wantCode(t, "produce", produce(c, topic, stamped(opts(i), at, "numbered")).ErrorCode, protocol.None)
			}
			// Another segment, and so a snapshot of what the producer has sent.
			wantCode(t, "produce", produce(c, topic, stamped(batch.Options{}, at+10_000, "plain")).ErrorCode, protocol.None)
			eventually(t, "the snapshot is written", func() bool { return len(filesOf(t, n, topic, ".snapshot")) > 0 })
			n.Kill()
			snapshots := filesOf(t, n, topic, ".snapshot")
			newest := snapshots[len(snapshots)-1]
			writeFile(t, newest, damage(readFile(t, newest)))
			c = mustStart(t, n)
			awaitLed(c, topic)
			again := produce(c, topic, stamped(opts(2), at, "numbered"))
			wantCode(t, "the last batch again", again.ErrorCode, protocol.None)
			if again.BaseOffset != 2 {
				t.Errorf("the batch was sent again and is at %d, want 2", again.BaseOffset)
			}
			wantOffsets(c, topic, 0, 4)
			next := produce(c, topic, stamped(opts(3), now(), "numbered"))
			wantCode(t, "the next batch", next.ErrorCode, protocol.None)
		})
	}
}

// TestB218UnknownVersionOfAFile: files of a version that did not exist yet were
// read as if it were known. The start is refused, and the file and its version
// are named. (Checkpoints, of offsets and of leader epochs, are made anew.)
func TestB218UnknownVersionOfAFile(t *testing.T) {
	t.Parallel()
	n := ownNode(t)
	c := dial(t, n.Address)
	topic := createTopic(c)
	mustProduce(c, topic, ten...)
	n.End(syscall.SIGTERM)
	for _, file := range []struct {
		path    []string
		version string // in the file, a regular expression
		newer   string
	}{
		{[]string{"meta.properties"}, `version=1`, `version=99`},
		{[]string{"__cluster_metadata-0", "quorum-state"}, `"data_version":\d`, `"data_version":99`},
		{[]string{topic + "-0", "partition.metadata"}, `version: 0`, `version: 99`},
	} {
		path := n.Data(file.path...)
		if onKafka && filepath.Base(path) == "partition.metadata" {
			continue // it does not serve then, but its process goes on
		}
		before := readFile(t, path)
		after := regexp.MustCompile(file.version).ReplaceAll(before, []byte(file.newer))
		if bytes.Equal(before, after) {
			t.Fatalf("%s has no version: %q", path, before)
		}
		writeFile(t, path, after)
		said := n.Refuses(path)
		if !strings.Contains(said, filepath.Base(path)) && !onKafka || !strings.Contains(said, "99") {
			t.Errorf("%s: the log says\n%s", path, said)
		}
		writeFile(t, path, before)
	}
	c = mustStart(t, n)
	awaitLed(c, topic)
	wantOffsets(c, topic, 0, 10)
}

// TestB219WrongDirectory: a directory of another cluster or another node was
// used by mistake. The start is refused, and both values are named.
func TestB219WrongDirectory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	n := ownNode(t, "log.dirs="+filepath.Join(dir, "one")+","+filepath.Join(dir, "two"))
	c := dial(t, n.Address)
	topic := createTopic(c)
	mustProduce(c, topic, ten...)
	n.End(syscall.SIGTERM)
	one, two := filepath.Join(dir, "one", "meta.properties"), filepath.Join(dir, "two", "meta.properties")
	directory := regexp.MustCompile(`directory.id=.*`).Find(readFile(t, one))
	before := readFile(t, two)
	for _, change := range []struct {
		key, to string
		named   []string
	}{
		{`cluster.id=.*`, "cluster.id=b3RoZXItY2x1c3Rlci1pZA", []string{harness.ClusterID, "b3RoZXItY2x1c3Rlci1pZA"}},
		{`node.id=.*`, "node.id=7", []string{"7", "1"}},
		{`directory.id=.*`, string(directory), []string{strings.TrimPrefix(string(directory), "directory.id=")}},
	} {
		writeFile(t, two, regexp.MustCompile(change.key).ReplaceAll(before, []byte(change.to)))
		said := n.Refuses(change.to)
		for _, value := range change.named {
			if !strings.Contains(said, value) {
				t.Errorf("%s: the log does not name %s:\n%s", change.to, value, said)
			}
		}
		writeFile(t, two, before)
	}
	c = mustStart(t, n)
	awaitLed(c, topic)
	wantOffsets(c, topic, 0, 10)
}
