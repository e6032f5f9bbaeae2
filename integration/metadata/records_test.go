//go:build integration

package metadata

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/klamm/klamm/integration/harness"
	metarecord "github.com/klamm/klamm/metadata/record"
	"github.com/klamm/klamm/metadata/snapshot"
)

var record = flag.Bool("record", false, "ask a Kafka node instead and write its answers to testdata")

const firstSegment = "00000000000000000000.log"

// shellRelease is the newest that Kafka's metadata shell reads.
const shellRelease = "4.3-IV0"

// life is what happened to a node, and what of its metadata log came of what.
type life struct {
	n     *node
	parts []part
	// Copies of files as they were on the way; empty where nobody asked.
	checkpoint, log string
}

// part is the records that an operation brought about: those behind the end of
// the part before.
type part struct {
	name string
	end  int64 // of the log, in bytes
}

func (l *life) ended(name string) {
	l.n.t.Helper()
	info, err := os.Stat(l.n.metadata(firstSegment))
	if err != nil {
		l.n.t.Fatal(err)
	}
	l.parts = append(l.parts, part{name, info.Size()})
}

// restart starts the node anew after a signal, with more settings.
func (l *life) restart(s syscall.Signal, settings ...string) {
	l.n.t.Helper()
	l.n.end(s)
	l.n.Configure(settings...)
	l.n.start()
}

// newest runs through all operations and the ends that a node may have, at the
// newest metadata.version.
func newest(t *testing.T, k harness.Kind) *life {
	// Without NoOps a checkpoint follows on an operation or not at all.
	n := newNode(t, k, "", append(operationSettings, "metadata.max.idle.interval.ms=0")...)
	l := &life{n: n}
	n.start()
	l.ended("start")
	for _, o := range operations {
		o.do(n)
		l.ended(o.name)
	}
	l.restart(syscall.SIGTERM, "metadata.log.max.record.bytes.between.snapshots=1")
	l.ended("stop and start")
	createTopics(n, topic("again", 1))
	l.ended("create another topic")
	l.copyCheckpoint()
	l.restart(syscall.SIGKILL, "metadata.log.max.record.bytes.between.snapshots=20971520") // the default
	l.ended("kill and start")
	n.stop()
	l.ended("stop")
	return l
}

// older runs through all operations at the level that the shell reads, then
// makes it the newest.
func older(t *testing.T, k harness.Kind) *life {
	n := newNode(t, k, shellRelease, operationSettings...)
	l := &life{n: n}
	n.start()
	l.ended("start")
	for _, o := range operations {
		o.do(n)
		l.ended(o.name)
	}
	n.wait("NoOp", func() bool { return n.logHas(&metarecord.NoOp{}) })
	l.log = filepath.Join(t.TempDir(), firstSegment)
	copyFile(t, n.metadata(firstSegment), l.log)
	features(n, "metadata.version=33")
	l.ended("raise metadata.version")
	features(n, "share.version=2")
	createTopics(n, topic("again", 1))
	l.ended("use what is new")
	n.stop()
	l.ended("stop")
	return l
}

// copyCheckpoint waits for the checkpoint that has all of the log.
func (l *life) copyCheckpoint() {
	l.n.t.Helper()
	end := l.n.logEnd()
	var path string
	l.n.wait("checkpoint", func() bool {
		paths, err := filepath.Glob(l.n.metadata("*.checkpoint"))
		if err != nil || len(paths) == 0 {
			return false
		}
		path = slices.Max(paths)
		id, ok := snapshot.ParseFileName(filepath.Base(path))
		return ok && id.Offset == end
	})
	l.checkpoint = filepath.Join(l.n.t.TempDir(), filepath.Base(path))
	copyFile(l.n.t, path, l.checkpoint)
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	data, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, data, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestRecords: the same requests leave the same records in the same batches,
// and the same checkpoints, in the words of Kafka's dump tool, and the same tree
// in its metadata shell.
func TestRecords(t *testing.T) {
	k := harness.Klamm
	if *record {
		k = harness.Kafka
	}
	whole, old := newest(t, k), older(t, k)
	bootstrap := whole.n.metadata("00000000000000000000-0000000000.checkpoint")
	oldBootstrap := old.n.metadata("00000000000000000000-0000000000.checkpoint")
	log, oldLog := whole.n.metadata(firstSegment), old.n.metadata(firstSegment)
	dumps := dumpLog(t, bootstrap, oldBootstrap, log, oldLog, whole.checkpoint)

	t.Run("newest", func(t *testing.T) {
		golden(t, "newest", formatted(t, whole, dumps[bootstrap])+whole.records(t, dumps[log]))
	})
	t.Run("older", func(t *testing.T) {
		golden(t, "older", formatted(t, old, dumps[oldBootstrap])+old.records(t, dumps[oldLog]))
	})
	t.Run("checkpoint", func(t *testing.T) {
		golden(t, "checkpoint", "== checkpoint\n"+checkpointText(t, whole.n, dumps[whole.checkpoint]))
	})
	t.Run("tree", func(t *testing.T) {
		golden(t, "tree", "== tree\n"+treeText(tree(old.n, old.log), old.n))
	})
}

// formatted prints what the format tool wrote.
func formatted(t *testing.T, l *life, dump string) string {
	t.Helper()
	return "== format\n" + checkpointText(t, l.n, dump) + "\n"
}

// records prints the batches of a log under the operations that they came from.
// NoOps, which time brings about, are left out.
func (l *life) records(t *testing.T, dump string) string {
	t.Helper()
	z := newNamer(l.n)
	noOps := 0
	batches := parse(t, dump)
	for i, b := range batches {
		batches[i].entries = slices.DeleteFunc(b.entries, func(e entry) bool { return e.kind() == "NO_OP_RECORD" })
		noOps += len(b.entries) - len(batches[i].entries)
	}
	batches = rejoin(batches)
	var out strings.Builder
	for _, p := range l.parts {
		fmt.Fprintf(&out, "== %s\n", p.name)
		for ; len(batches) > 0 && batches[0].position < p.end; batches = batches[1:] {
			z.sortRuns(batches[0].entries, "CONFIG_RECORD", "CLEAR_ELR_RECORD", "PARTITION_CHANGE_RECORD",
				"FEATURE_LEVEL_RECORD", "REMOVE_ACCESS_CONTROL_ENTRY_RECORD")
			out.WriteString(z.print(batches[0]))
		}
		out.WriteString("\n")
	}
	fmt.Fprintf(&out, "== NoOps in between\n%t\n", noOps > 0)
	return out.String()
}

// rejoin drops empty batches and undoes what is a matter of time, in Kafka too.
// What a broker says of its directories and the change of state that it asks for
// come in one heartbeat or in two: here always in one. The registrations of
// broker and controller may share a batch: here never.
func rejoin(batches []batch) []batch {
	var out []batch
	var cordoned []entry
	for _, b := range batches {
		if len(b.entries) == 0 {
			continue
		}
		switch first := b.entries[0]; {
		case len(b.entries) == 1 && strings.Contains(first.data, `"cordonedLogDirs":`) && first.kind() == "BROKER_REGISTRATION_CHANGE_RECORD":
			cordoned = b.entries
			continue
		case strings.Contains(first.data, `"fenced":-1`):
			b.entries, cordoned = append(b.entries, cordoned...), nil
		case len(b.entries) > 1 && first.kind() == "REGISTER_CONTROLLER_RECORD":
			alone := b
			alone.entries, b.entries = b.entries[:1], b.entries[1:]
			out = append(out, alone)
		}
		out = append(out, b)
	}
	return out
}

// checkpointText prints a checkpoint.
func checkpointText(t *testing.T, n *node, dump string) string {
	t.Helper()
	z := newNamer(n)
	var out strings.Builder
	for _, b := range parse(t, dump) {
		z.sortRuns(b.entries, "FEATURE_LEVEL_RECORD", "TOPIC_RECORD", "CONFIG_RECORD", "CLIENT_QUOTA_RECORD",
			"ACCESS_CONTROL_ENTRY_RECORD", "USER_SCRAM_CREDENTIAL_RECORD")
		out.WriteString(z.print(b))
	}
	return out.String()
}

// differences are the parts in which klamm's records are not Kafka's, and why;
// what they are instead is in testdata/differences.txt.
var differences = map[string]string{
	"kill and start": "Kafka refuses a broker until the session of its former life has ended, which writes a batch of its own; " +
		"klamm knows that a new incarnation means the end of the old one",
}

// golden compares with what Kafka said, or takes it down.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name+".txt")
	if *record {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want := sections(t, path)
	ours := sections(t, "testdata/differences.txt")
	have := strings.Split(got, "\n== ")
	for i, g := range have {
		if i >= len(want) {
			t.Fatalf("Kafka has nothing of this:\n%s", strings.Join(have[i:], "\n== "))
		}
		w := want[i]
		if title, _, _ := strings.Cut(g, "\n"); differences[title] != "" {
			at := slices.IndexFunc(ours, func(s string) bool { return strings.HasPrefix(s, title+"\n") })
			if at < 0 {
				t.Fatalf("testdata/differences.txt does not say what klamm has instead of this:\n%s\nbut this:\n%s", w, g)
			}
			w = ours[at]
		}
		if name == "checkpoint" {
			w = strings.Join(slices.DeleteFunc(strings.SplitAfter(w, "\n"), func(line string) bool { return strings.Contains(line, revived) }), "")
		}
		if strings.TrimSpace(g) != strings.TrimSpace(w) {
			t.Errorf("%s: - has Kafka only, + klamm only\n%s", name, difference(w, g))
		}
	}
	if len(want) > len(have) {
		t.Errorf("klamm has nothing of this:\n%s", strings.Join(want[len(have):], "\n== "))
	}
}

// revived are configs that Kafka 4.4 brings back when it replays the log in one
// go: those of a deleted topic go to the next one of its name.
const revived = `"resourceName":"configured","name":`

// difference is the lines that two texts do not share, or both texts where it is
// only their order.
func difference(a, b string) string {
	title, _, _ := strings.Cut(b, "\n")
	out := title + "\n"
	left, right := strings.Split(a, "\n"), strings.Split(b, "\n")
	for _, line := range left {
		if !slices.Contains(right, line) {
			out += "-" + line + "\n"
		}
	}
	for _, line := range right {
		if !slices.Contains(left, line) {
			out += "+" + line + "\n"
		}
	}
	if out == title+"\n" {
		return "in another order or number: Kafka has\n" + a + "\nklamm\n" + b
	}
	return out
}

// sections are the parts of a file, each behind "== ".
func sections(t *testing.T, path string) []string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(string(text), "\n== ")
}
