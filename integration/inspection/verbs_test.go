//go:build integration

package inspection

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/klamm/klamm/integration/harness"
)

// TestVerbs: every command that reads metadata does on a running node's directory,
// a stopped one's, the metadata log's own, a segment and a snapshot, also where the
// log begins behind a snapshot, and says so.
func TestVerbs(t *testing.T) {
	c := harness.StartSplit(t, make([]harness.Kind, 1), make([]harness.Kind, 2), "auto.create.topics.enable=false",
		"offsets.topic.replication.factor=2", "metadata.log.max.record.bytes.between.snapshots=3000")
	w := newWorld(t, c)
	w.create("orders", 3, 2)
	after := time.Now()
	moment := after.UTC().Format(time.RFC3339Nano)
	w.Await("the next millisecond", func() bool { return time.Now().UnixMilli() > after.UnixMilli() })
	for _, name := range []string{"a", "b", "c", "d"} {
		w.create(name, 3, 2)
	}
	w.awaitInSync("orders", 2)
	whole, short := c.Nodes[0], c.Nodes[1]
	short.Stop()
	w.Await("a snapshot of the controller", func() bool { return len(checkpoints(t, c.Controllers[0])) > 1 })
	short.Wipe()
	short.Restart()
	w.awaitInSync("orders", 2)
	w.create("last", 1, 2)
	w.Await("the last topic everywhere", func() bool {
		_, _, one := harness.Run(t, "metadata", "show", whole.Data(), "topics/last")
		_, _, two := harness.Run(t, "metadata", "show", short.Data(), "topics/last")
		return one && two
	})

	// Where the log reaches back to its beginning.
	for _, path := range paths(t, whole) {
		w.verbs(path)
		if filepath.Ext(path) == ".checkpoint" {
			continue
		}
		says(t, w.klamm("metadata", "history", path, "topic", "orders"), "the whole of the log", "TOPIC_RECORD  CreateTopics by User:ANONYMOUS")
		says(t, w.klamm("metadata", "explain", path, "orders/0"), "in sync: ", ", since offset ")
	}
	then := w.klamm("metadata", "show", "--at", moment, whole.Data(), "topics")
	if says(t, then, "orders\n"); strings.Contains(then, "a\n") {
		t.Errorf("before its creation there is the topic a:\n%s", then)
	}

	// Where it begins behind a snapshot.
	base := w.start(short)
	if base == 0 {
		t.Fatal("the wiped broker has the log from its beginning")
	}
	for _, path := range paths(t, short) {
		if filepath.Ext(path) == ".log" {
			// Without the snapshot a segment says nothing of a state.
			_, text, ok := harness.Run(t, "metadata", "show", path)
			if ok {
				t.Errorf("%s shows a state", path)
			}
			says(t, text, "the records from 0 on are missing: name a directory that has them or a checkpoint")
			says(t, w.klamm("metadata", "dump", path), "Log starting offset: "+strconv.FormatInt(base, 10))
			continue
		}
		w.verbs(path)
		history := w.klamm("metadata", "history", path, "topic", "orders")
		says(t, history, "as the snapshot has it")
		if filepath.Ext(path) != ".checkpoint" {
			says(t, history, "offsets "+strconv.FormatInt(base, 10)+" to ", "behind a snapshot: the log does not reach further back")
		} else {
			says(t, history, "a snapshot: there is no log to say what happened")
		}
		says(t, w.klamm("metadata", "explain", path, "a/0"), "since before offset ", "where the log begins")
	}
	for _, early := range []string{"5", moment} {
		_, text, ok := harness.Run(t, "metadata", "show", "--at", early, short.Data())
		if ok {
			t.Errorf("at %s, before the log begins, there is a state", early)
		}
		says(t, text, "holds nothing that early")
	}

	// The same, stopped.
	w.killAll(w.All()...)
	for _, n := range []*harness.Node{whole, short} {
		for _, path := range paths(t, n) {
			if n == short && filepath.Ext(path) == ".log" {
				continue
			}
			w.verbs(path)
		}
		says(t, w.klamm("quorum", "status", n.Data()), "no process holds it", "voters of a static quorum: 101", "newest snapshot: offsets below ")
	}
	says(t, w.klamm("quorum", "status", c.Controllers[0].Data()), "voted for 101", "Raft's store: term ")
}

// verbs runs every verb on a path that holds the topic a.
func (w *world) verbs(path string) {
	w.T.Helper()
	says(w.T, w.klamm("metadata", "dump", path), "baseOffset: ")
	for line := range strings.Lines(w.klamm("metadata", "dump", "--json", path)) {
		if !json.Valid([]byte(line)) {
			w.T.Errorf("%s: dump --json prints %q", path, line)
		}
	}
	says(w.T, w.klamm("metadata", "show", path), "topics\n", "  a\n", "brokers\n")
	var tree struct {
		Image  struct{ Offset int64 }
		Topics map[string]any
	}
	if err := json.Unmarshal([]byte(w.klamm("metadata", "show", "--json", path)), &tree); err != nil || tree.Topics["a"] == nil {
		w.T.Errorf("%s: %v, %v", path, err, tree)
	}
	at := strconv.FormatInt(tree.Image.Offset, 10)
	says(w.T, w.klamm("metadata", "show", "--at", at, path, "topics/a/partitions/0"), "replicas: [")
	says(w.T, w.klamm("metadata", "show", "--at", time.Now().Add(time.Hour).UTC().Format(time.RFC3339), "--json", path, "topics/a/topicId"), `"`)
	says(w.T, w.klamm("metadata", "digest", "--at", at, path), "offset "+at+" epoch ", " digest ")
	if diff := w.klamm("metadata", "diff", path+"@"+at, path+"@"+at); strings.Count(diff, "\n") != 2 {
		w.T.Errorf("%s differs from itself:\n%s", path, diff)
	}
	says(w.T, w.klamm("metadata", "explain", path, "a/0"), "a-0 is ", "leader: ")
	says(w.T, w.klamm("metadata", "history", path, "partition", "a/0"), "partition a-0, ")
	for line := range strings.Lines(w.klamm("metadata", "history", "--json", path, "broker", "1")) {
		if !json.Valid([]byte(line)) {
			w.T.Errorf("%s: history --json prints %q", path, line)
		}
	}
	says(w.T, w.klamm("quorum", "status", path), "log: offsets ")
	if out := w.klamm("quorum", "status", "--json", path); !json.Valid([]byte(out)) {
		w.T.Errorf("%s: quorum status --json prints %s", path, out)
	}
}

// paths are all ways to name what a node has: its log directory, the metadata
// log's, the first segment, the newest snapshot.
func paths(t *testing.T, n *harness.Node) []string {
	t.Helper()
	log := filepath.Join(n.Data(), "__cluster_metadata-0")
	segments, err := filepath.Glob(filepath.Join(log, "*.log"))
	if err != nil || len(segments) == 0 {
		t.Fatalf("segments of %s: %v, %v", log, segments, err)
	}
	return []string{n.Data(), log, segments[0], slices.Max(checkpoints(t, n))}
}

func checkpoints(t *testing.T, n *harness.Node) []string {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(n.Data(), "__cluster_metadata-0", "*.checkpoint"))
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// start is the offset at which a node's metadata log begins.
func (w *world) start(n *harness.Node) int64 {
	w.T.Helper()
	var status struct{ StartOffset int64 }
	if err := json.Unmarshal([]byte(w.klamm("quorum", "status", "--json", n.Data())), &status); err != nil {
		w.T.Fatal(err)
	}
	return status.StartOffset
}
