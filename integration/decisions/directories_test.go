//go:build integration

package decisions

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/integration/harness"
	"github.com/klamm/klamm/metadata"
	"github.com/klamm/klamm/protocol"
)

// TestDirectories: brokers with several log directories say which one they have
// put a replica in. Where one of them fails, by its volume going away, its replicas
// leave the in-sync sets, and the other goes on.
func TestDirectories(t *testing.T) {
	c := harness.StartLed(t, 3, append([]string{
		"log.dirs=$NODE/data,$NODE/more", "metadata.log.dir=$NODE/metadata",
		"replica.high.watermark.checkpoint.interval.ms=200",
	}, settings...)...)
	w := newWorld(t, c)
	w.metadata = filepath.Join(filepath.Dir(c.Node(1).Data()), "metadata")
	w.anyDir = true
	w.until("a cluster", all(fenced(1, false), fenced(2, false), fenced(3, false)))
	w.part("replicas are put into directories", func() {
		w.silent = true
		w.ask(w.broker(2), "create", create(topic("c", "2,3")))
		w.assigned("c")
		w.ask(w.broker(2), "create", create(topic("solo", "2")))
		w.assigned("solo")
		w.inSync()
		w.state("c", "solo")
	})
	var dir string
	for _, name := range []string{"data", "more"} {
		path := filepath.Join(filepath.Dir(c.Node(2).Data()), name)
		if _, err := os.Stat(filepath.Join(path, "c-0")); err == nil {
			dir = path
		}
	}
	w.part("a directory fails", func() {
		if err := os.Rename(dir, dir+".away"); err != nil {
			t.Fatal(err)
		}
		w.until("without it", func(img *metadata.Image) bool {
			b, _ := img.Broker(2)
			return len(b.LogDirs) == 1
		})
		w.state("c", "solo")
		w.ask(w.broker(1), "what is left", describe("c", "solo"))
		w.append(2, "solo")
		w.append(3, "c")
		w.logDirs(2)
	})
	w.part("what comes meanwhile goes elsewhere", func() {
		w.ask(w.broker(1), "create", create(topic("later", "2")))
		w.ask(w.broker(1), "elect", elect(preferred, "c 0"))
		w.state("later", "c")
	})
	w.part("it is put back, and the broker started again", func() {
		w.Node(2).Stop()
		if err := os.RemoveAll(dir); err != nil { // where the stop wrote to it
			t.Fatal(err)
		}
		if err := os.Rename(dir+".away", dir); err != nil {
			t.Fatal(err)
		}
		w.Node(2).Restart()
		w.until("not fenced", fenced(2, false))
		w.inSync()
		w.state("c", "solo", "later")
		w.logDirs(2)
	})
	compare(t, "directories", w.out.String())
}

// assigned waits until the log says where each replica of a topic is.
func (w *world) assigned(topic string) {
	w.t.Helper()
	w.until("directories of "+topic, func(img *metadata.Image) bool {
		p, ok := img.Partition(protocol.TopicPartition{Topic: topic})
		return ok && !slices.Contains(p.Directories, protocol.UnassignedDir)
	})
}

// state writes down what the log says of partition 0 of topics.
func (w *world) state(topics ...string) {
	w.t.Helper()
	for _, name := range topics {
		p, _ := w.image.Partition(protocol.TopicPartition{Topic: name})
		var dirs []string
		for _, dir := range p.Directories {
			dirs = append(dirs, w.renamed(dir.String()))
		}
		fmt.Fprintf(&w.out, "%s-0 replicas %v isr %v leader %d leader epoch %d elr %v in %v\n", name, p.Replicas, p.ISR, p.Leader, p.LeaderEpoch, p.ELR, dirs)
	}
}

// logDirs writes down a broker's directories: which can be used, and what is in them.
func (w *world) logDirs(id int32) {
	w.t.Helper()
	resp, err := w.send(w.broker(id), newest, kmsg.NewPtrDescribeLogDirsRequest())
	if err != nil {
		w.t.Fatal(err)
	}
	var lines []string
	for _, dir := range resp.(*kmsg.DescribeLogDirsResponse).Dirs {
		var names []string
		for _, t := range dir.Topics {
			names = append(names, t.Topic)
		}
		slices.Sort(names)
		lines = append(lines, fmt.Sprintf("a directory of %d: %v, with %v\n", id, protocol.Error(dir.ErrorCode), names))
	}
	slices.Sort(lines)
	for _, line := range lines {
		w.out.WriteString(line)
	}
}
