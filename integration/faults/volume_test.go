//go:build integration && linux

package faults

import (
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/integration/harness"
	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/protocol/batch"
)

// smallVolume is a node whose log directory is on a volume of 50 MiB.
func smallVolume(t *testing.T) *harness.Node {
	t.Helper()
	n := configure(t)
	data := n.Data()
	if err := os.Mkdir(data, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", data, "tmpfs", 0, "size=50m"); err != nil {
		t.Skipf("only root may mount a volume: %v", err)
	}
	t.Cleanup(func() {
		n.Kill()
		if err := syscall.Unmount(data, 0); err != nil {
			t.Error(err)
		}
	})
	n.Format()
	n.Restart()
	return n
}

func left(t *testing.T, n *harness.Node) int64 {
	t.Helper()
	var stat syscall.Statfs_t
	if err := syscall.Statfs(n.Data(), &stat); err != nil {
		t.Fatal(err)
	}
	return int64(stat.Bavail) * stat.Bsize
}

// TestB152TightVolume: with large segments and many partitions the disk filled
// before any segment closed. 200 MB go through 10 partitions that keep 1 MB each.
func TestB152TightVolume(t *testing.T) {
	t.Parallel()
	n := smallVolume(t)
	c := dial(t, n.Address)
	topics := make([]string, 10)
	for i := range topics {
		topics[i] = createTopic(c, "retention.bytes", "1000000", "segment.bytes", "1073741824")
	}
	data := records(batch.Options{}, strings.Repeat("x", 500_000))
	least := int64(50 << 20)
	for range 40 {
		for _, topic := range topics {
			wantCode(t, "produce", produce(c, topic, data).ErrorCode, protocol.None)
			least = min(least, left(t, n))
		}
	}
	if least < 5<<20 {
		t.Errorf("%d bytes were left at the least", least)
	}
	for _, topic := range topics {
		if end := listOffset(c, topic, -1).Offset; end != 40 {
			t.Errorf("%s ends at %d", topic, end)
		}
		if start := listOffset(c, topic, -2).Offset; start == 0 || start > 38 {
			t.Errorf("%s starts at %d, and keeps less than 1 MB or all", topic, start)
		}
	}
}

// TestFullVolumeRefusesAndGoesOn: a node whose disk is full answers producers
// KAFKA_STORAGE_ERROR and everybody else as ever; offsets are committed and
// topics deleted, which frees the space, and producers go on. It starts on a full
// disk, too.
func TestFullVolumeRefusesAndGoesOn(t *testing.T) {
	t.Parallel()
	n := smallVolume(t)
	c := dial(t, n.Address)
	other, large := createTopic(c), createTopic(c)
	mustProduce(c, other, "a")
	awaitCoordinator(c, "g")
	data := records(batch.Options{}, strings.Repeat("x", 500_000))
	fill := func() {
		t.Helper()
		eventually(t, "the volume is full", func() bool {
			return produce(c, large, data).ErrorCode == int16(protocol.ErrKafkaStorageError)
		})
	}
	served := func() {
		t.Helper()
		wantCode(t, "produce on a full disk", produce(c, other, data).ErrorCode, protocol.ErrKafkaStorageError)
		if got := fetch(c, other, fetchPartition(0)); got.ErrorCode != 0 || len(got.RecordBatches) == 0 {
			t.Errorf("fetch: %+v", got)
		}
		wantCode(t, "commit an offset", commit(c, "g", other, 1, -1, -1, ""), protocol.None)
		wantCode(t, "set a config", alterTopic(c, other, op{"retention.ms", set, kmsg.StringPtr("3600000")}), protocol.None)
	}
	fill()
	served()
	restart(n, syscall.SIGKILL)
	c = dial(t, n.Address)
	awaitCoordinator(c, "g")
	served()
	restart(n, syscall.SIGTERM)
	c = dial(t, n.Address)
	awaitCoordinator(c, "g")
	served()
	deleteTopic(c, large)
	eventually(t, "producers go on", func() bool { return produce(c, other, data).ErrorCode == 0 })
	large = createTopic(c)
	fill()
}

// TestStartsOnAVolumeWithoutAByte: somebody else has filled the volume to the last
// byte. The node starts, and metadata can be changed; another start finds space
// again, if there was some in between.
func TestStartsOnAVolumeWithoutAByte(t *testing.T) {
	t.Parallel()
	n := smallVolume(t)
	c := dial(t, n.Address)
	topic := createTopic(c)
	mustProduce(c, topic, "a")
	for range 2 {
		eventually(t, "space is kept for a start", func() bool {
			info, err := os.Stat(n.Data("__cluster_metadata-0", "klamm.ballast"))
			return err == nil && info.Size() > 1<<20
		})
		filler := n.Data("filler")
		fillVolume(t, filler)
		if n := left(t, n); n != 0 {
			t.Fatalf("%d bytes are left", n)
		}
		restart(n, syscall.SIGKILL)
		c = dial(t, n.Address)
		wantCode(t, "set a config", alterTopic(c, topic, op{"retention.ms", set, kmsg.StringPtr("3600000")}), protocol.None)
		if got := fetch(c, topic, fetchPartition(0)); got.ErrorCode != 0 || len(got.RecordBatches) == 0 {
			t.Errorf("fetch: %+v", got)
		}
		deleteTopic(c, createTopic(c))
		if err := os.Remove(filler); err != nil {
			t.Fatal(err)
		}
	}
}

// fillVolume writes a file until not a page is left for it.
func fillVolume(t *testing.T, path string) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for size := 1 << 20; size > 0; {
		if _, err := f.Write(make([]byte, size)); errors.Is(err, syscall.ENOSPC) {
			size /= 2
		} else if err != nil {
			t.Fatal(err)
		}
	}
}
