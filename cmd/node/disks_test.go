package node

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/storage"
	"github.com/klamm/klamm/storage/vfs"
)

// startDirs is startWorld with two log directories, a and b in the returned one.
// The metadata log lies where it is said, or in a.
func startDirs(t *testing.T, metadata string) (w *world, dirs string) {
	t.Helper()
	ports := freePorts(t, 2)
	w = &world{broker: "127.0.0.1:" + ports[0], controller: "127.0.0.1:" + ports[1], ended: make(chan error, 1)}
	dirs = t.TempDir()
	lines := []string{
		"process.roles=broker,controller", "node.id=1",
		"controller.quorum.voters=1@" + w.controller, "controller.listener.names=CONTROLLER",
		"listeners=PLAINTEXT://" + w.broker + ",CONTROLLER://" + w.controller,
		"log.dirs=" + filepath.Join(dirs, "a") + "," + filepath.Join(dirs, "b"),
	}
	if metadata != "a" {
		lines = append(lines, "metadata.log.dir="+filepath.Join(dirs, metadata))
	}
	for _, name := range []string{"a", "b"} {
		if name != metadata {
			meta := storage.MetaProperties{ClusterID: "test", NodeID: 1, DirectoryID: protocol.NewUUID()}
			check(t, storage.Format(vfs.OS(), filepath.Join(dirs, name), meta, time.Now()))
		}
	}
	w.start(t, 1, filepath.Join(dirs, metadata), lines)
	w.awaitPort(t)
	return w, dirs
}

// lose has a directory's volume go away.
func lose(t *testing.T, dir string) {
	t.Helper()
	check(t, os.Rename(dir, dir+".away"))
}

// touch asks for a topic, which is written into some directory. The node may end
// before it answers.
func (w *world) touch(t *testing.T, topic string) {
	t.Helper()
	nc, err := net.Dial("tcp", w.broker)
	if err != nil {
		return
	}
	defer nc.Close()
	req := kmsg.NewPtrCreateTopicsRequest()
	req.Version, req.TimeoutMillis = 7, 10_000
	req.Topics = []kmsg.CreateTopicsRequestTopic{{Topic: topic, NumPartitions: 2, ReplicationFactor: 1}}
	check(t, nc.SetDeadline(time.Now().Add(time.Minute)))
	if _, err := nc.Write(frame(req.Key(), req.Version, 1, req.AppendTo(nil))); err == nil {
		_, _ = readFrame(nc)
	}
}

// offline is how many log directories the broker says are out of service.
func (w *world) offline(t *testing.T) (n int) {
	t.Helper()
	req := kmsg.NewPtrDescribeLogDirsRequest()
	req.Version = 4
	for _, dir := range w.ask(t, protocol.BrokerListener, req).(*kmsg.DescribeLogDirsResponse).Dirs {
		if protocol.Error(dir.ErrorCode) == protocol.ErrKafkaStorageError {
			n++
		}
	}
	return n
}

// wantEnd waits for the node's end, with an error that says why.
func (w *world) wantEnd(t *testing.T, why string) {
	t.Helper()
	select {
	case err := <-w.ended:
		w.ended <- nil // for the end of the test
		if err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("the node ended with %v, want %q", err, why)
		}
	case <-time.After(time.Minute):
		t.Fatal("the node goes on")
	}
}

// A node goes on without one of two log directories, and stops without the last.
func TestLastLogDirectoryFails(t *testing.T) {
	w, dirs := startDirs(t, "metadata")
	w.topic(t, "before")
	lose(t, filepath.Join(dirs, "a"))
	for deadline := time.Now().Add(time.Minute); w.offline(t) == 0; {
		w.touch(t, "during"+time.Now().Format("150405.000000"))
		if time.Now().After(deadline) {
			t.Fatal("nobody finds that the directory is gone")
		}
	}
	w.topic(t, "without") // it works
	lose(t, filepath.Join(dirs, "b"))
	w.touch(t, "after")
	w.wantEnd(t, "no log directory is left")
}

// It stops without the one that holds the metadata log, whatever else is left.
func TestMetadataDirectoryFails(t *testing.T) {
	w, dirs := startDirs(t, "a")
	lose(t, filepath.Join(dirs, "a"))
	w.touch(t, "t")
	w.wantEnd(t, "the metadata log lies there")
}
