package replay

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/rs/zerolog"

	"github.com/klamm/klamm/metadata"
	"github.com/klamm/klamm/metadata/feature"
	"github.com/klamm/klamm/metadata/record"
	"github.com/klamm/klamm/metadata/snapshot"
	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/protocol/batch"
	"github.com/klamm/klamm/raftlog"
	"github.com/klamm/klamm/storage"
	"github.com/klamm/klamm/storage/vfs"
)

const metadataDir = "/data/__cluster_metadata-0"

// world is one node's metadata: a disk, a replayer on it, and what Raft holds.
type world struct {
	t       testing.TB
	fs      *vfs.Mem
	log     *storage.Log
	store   *snapshot.Store
	r       *Replayer
	entries []raftlog.Entry // committed, by index from 1
	term    uint64
	seen    []string // what the subscriber was told
}

func newWorld(t testing.TB) *world {
	w := &world{t: t, fs: vfs.NewMem(), term: 1}
	for _, dir := range []string{"/data", metadataDir} {
		if err := errors.Join(w.fs.Mkdir(dir), w.fs.SyncDir(filepath.Dir(dir))); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.open(); err != nil {
		t.Fatal(err)
	}
	w.seen = nil
	return w
}

// open starts the node on its disk; Raft has not spoken yet.
func (w *world) open() error {
	var err error
	cfg := storage.DefaultLogConfig()
	cfg.RetentionMs = -1         // the entries are of 1970
	cfg.SegmentIndexBytes = 4096 // which the file system in memory has to copy
	w.log, err = storage.OpenLog(w.fs, metadataDir, storage.LogOptions{
		Config: cfg, TopicID: protocol.MetadataTopicID, Log: zerolog.Nop(),
	})
	if err != nil {
		return err
	}
	if w.store, err = snapshot.OpenStore(w.fs, metadataDir, zerolog.Nop()); err != nil {
		return err
	}
	if w.r, err = New(Config{Log: w.log, FS: w.fs, Dir: metadataDir}, zerolog.Nop()); err != nil {
		return err
	}
	w.seen = nil
	w.r.Subscribe(w)
	return nil
}

func (w *world) Publish(delta *metadata.Delta, img *metadata.Image) {
	w.seen = append(w.seen, printDelta(delta, img))
}

// restartRaft hands over Raft's newest snapshot, as Raft does at a start, and
// returns the index that it covers.
func (w *world) restartRaft() (uint64, error) {
	metas, err := w.store.List()
	if err != nil || len(metas) == 0 {
		return 0, err
	}
	return metas[0].Index, w.restore(w.store, metas[0].ID)
}

func (w *world) restore(store *snapshot.Store, id string) error {
	meta, src, err := store.Open(id)
	if err != nil {
		return err
	}
	return errors.Join(w.r.Restore(meta, src), src.Close())
}

// entry encodes lines as the next entry of Raft's log, stamped as decided in term stamp.
func (w *world) entry(lines []string, stamp uint64) raftlog.Entry {
	index := uint64(len(w.entries) + 1)
	var recs []record.Record
	var controls []record.Control
	for _, line := range lines {
		rec, control := parseRecord(w.t, line)
		if control != nil {
			controls = append(controls, control)
		} else {
			recs = append(recs, rec)
		}
	}
	epoch, time := protocol.ControllerEpoch(stamp), int64(1000*index)
	data := record.EncodeBatch(recs, feature.Latest, 0, epoch, time)
	if len(controls) > 0 {
		data = record.EncodeControlBatch(controls, 0, epoch, time)
	}
	e := raftlog.Entry{Index: index, Term: w.term, Data: data}
	w.entries = append(w.entries, e)
	return e
}

func (w *world) apply(entries []raftlog.Entry) string {
	before := make([][]byte, len(entries))
	for i, e := range entries {
		before[i] = bytes.Clone(e.Data)
	}
	offsets, err := w.r.Apply(entries)
	for i, e := range entries {
		if !bytes.Equal(e.Data, before[i]) {
			w.t.Error("Raft's bytes were changed")
		}
	}
	if err != nil {
		return fmt.Sprintf("error: %v", err)
	}
	var out []string
	for i, offset := range offsets {
		text := fmt.Sprintf("entry %d: offset %d", entries[i].Index, offset)
		if offset == raftlog.Skipped {
			text = fmt.Sprintf("entry %d: skipped", entries[i].Index)
		}
		out = append(out, text)
	}
	return strings.Join(append(out, w.news()...), "\n")
}

func (w *world) news() []string {
	seen := w.seen
	w.seen = nil
	return seen
}

// printLog prints the metadata log's batches.
func (w *world) printLog() string {
	out := []string{fmt.Sprintf("offsets %d to %d", w.log.LogStartOffset(), w.log.LEO())}
	for offset := w.log.LogStartOffset(); offset < w.log.LEO(); {
		slice, err := w.log.Read(offset, 1, w.log.LEO(), true)
		if err != nil {
			w.t.Fatal(err)
		}
		b := make(batch.Batch, slice.Size())
		if _, err := slice.ReadAt(b, 0); err != nil {
			w.t.Fatal(err)
		}
		slice.Release()
		out = append(out, fmt.Sprintf("  %d epoch %d", b.BaseOffset(), b.LeaderEpoch()))
		err = record.Each(b, func(e record.Entry) error {
			name := ""
			if e.Control != nil {
				name = record.ControlName(e.Control)
			} else {
				name = record.Name(e.Record)
			}
			out[len(out)-1] += " " + name
			return nil
		})
		if err != nil {
			w.t.Fatal(err)
		}
		offset = b.NextOffset()
	}
	return strings.Join(out, "\n")
}

func (w *world) takeSnapshot(index uint64) error {
	state, err := w.r.Snapshot()
	if err != nil {
		return err
	}
	defer state.Release()
	sink, err := w.store.Create(raftlog.SnapshotMeta{Index: index, Term: w.term})
	if err != nil {
		return err
	}
	if _, err := state.WriteTo(sink); err != nil {
		return errors.Join(err, sink.Cancel())
	}
	return sink.Close()
}

func (w *world) files() string {
	entries, err := w.fs.ReadDir(metadataDir)
	if err != nil {
		w.t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		if strings.Contains(e.Name, "checkpoint") && strings.Contains(e.Name, "0") || strings.Contains(e.Name, "raft") {
			out = append(out, e.Name)
		}
	}
	return strings.Join(out, "\n")
}

func split(input, by string) []string {
	var out []string
	for part := range strings.SplitSeq(input, by) {
		if strings.TrimSpace(part) != "" {
			out = append(out, strings.TrimSpace(part))
		}
	}
	return out
}

func report(err error, ok string) string {
	if err != nil {
		return "error: " + err.Error()
	}
	return ok
}

// Scripts of what Raft commits, of restarts and of snapshots.
func TestReplay(t *testing.T) {
	datadriven.Walk(t, "testdata/replay", func(t *testing.T, path string) {
		w := newWorld(t)
		var leader *world
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			w.t = t
			return w.command(t, d, &leader)
		})
	})
}

func (w *world) command(t *testing.T, d *datadriven.TestData, leader **world) string {
	switch d.Cmd {
	case "term": // Raft's term changes
		w.term = uint64(number(t, d.CmdArgs[0].Key))
		return "ok"
	case "apply": // entries between lines of ---, committed and applied together
		stamp := w.term
		if d.HasArg("stamp") {
			d.ScanArgs(t, "stamp", &stamp)
		}
		var entries []raftlog.Entry
		for _, lines := range split(d.Input, "---") {
			entries = append(entries, w.entry(split(lines, "\n"), stamp))
		}
		return w.apply(entries)
	case "apply-bytes": // an entry that no controller of ours wrote
		e := raftlog.Entry{Index: uint64(len(w.entries) + 1), Term: w.term, Data: []byte(d.Input)}
		return w.apply([]raftlog.Entry{e})
	case "image":
		return printImage(w.r.Image())
	case "quorum":
		out := fmt.Sprintf("kraft.version %d", w.r.Quorum().Version)
		if v := w.r.Quorum().Voters; v != nil {
			for _, voter := range v.Voters {
				out += fmt.Sprintf(" voter %d", voter.ID)
			}
		}
		return out
	case "log":
		return w.printLog()
	case "transaction":
		if offset, open := w.r.OpenTransaction(); open {
			return fmt.Sprintf("open since %d", offset)
		}
		return "none"
	case "snapshot": // Raft takes a snapshot of all that it has applied
		return report(w.takeSnapshot(uint64(len(w.entries))), w.files())
	case "files":
		return w.files()
	case "remove":
		return report(w.fs.Remove(filepath.Join(metadataDir, d.CmdArgs[0].Key)), "ok")
	case "kill", "power-cut": // and start again
		if d.Cmd == "kill" {
			w.fs = w.fs.Kill()
		} else {
			w.fs = w.fs.Crash(nil)
		}
		err := w.open()
		return report(err, strings.Join(w.news(), "\n"))
	case "raft-starts": // with its newest snapshot, before it knows of any commit
		index, err := w.restartRaft()
		return report(err, strings.Join(append(w.news(), fmt.Sprintf("snapshot at index %d", index)), "\n"))
	case "repeat": // Raft repeats its entries from an index on
		from := number(t, d.CmdArgs[0].Key)
		return w.apply(w.entries[from-1:])
	case "drop-log": // as an installation of an older copy would
		return report(w.log.TruncateTo(number(t, d.CmdArgs[0].Key)), "ok")
	case "rewrite": // Raft's history becomes another: an entry has other records
		i := number(t, d.CmdArgs[0].Key) - 1
		kept := w.entries
		w.entries = w.entries[:i]
		e := w.entry(split(d.Input, "\n"), kept[i].Term)
		w.entries = append(append(w.entries[:i:i], e), kept[i+1:]...)
		return "ok"
	case "leader": // a second node, which goes on from the same entries
		*leader = newWorld(t)
		(*leader).term, (*leader).entries = w.term, append([]raftlog.Entry(nil), w.entries...)
		return (*leader).apply((*leader).entries)
	case "leader-term":
		(*leader).term = uint64(number(t, d.CmdArgs[0].Key))
		return "ok"
	case "leader-apply":
		return (*leader).command(t, &datadriven.TestData{Cmd: "apply", Input: d.Input}, nil)
	case "receive": // the leader's snapshot arrives, and the node dies
		l := *leader
		if err := l.takeSnapshot(uint64(len(l.entries))); err != nil {
			return report(err, "")
		}
		w.entries = append([]raftlog.Entry(nil), l.entries...)
		return report(w.installFrom(l, false), w.files())
	case "install": // the leader's snapshot is installed here
		l := *leader
		index := uint64(len(l.entries))
		if err := l.takeSnapshot(index); err != nil {
			return report(err, "")
		}
		if len(l.entries) > len(w.entries) {
			w.entries = append([]raftlog.Entry(nil), l.entries...)
		}
		err := w.installFrom(l, true)
		if err == nil && w.r.Image().Offset() == l.r.Image().Offset() && w.r.Image().Digest() != l.r.Image().Digest() {
			t.Error("the images differ")
		}
		return report(err, strings.Join(w.news(), "\n"))
	}
	t.Fatalf("no such command: %s", d.Cmd)
	return ""
}

// installFrom copies the leader's snapshot into the own store and restores it,
// or dies before it does.
func (w *world) installFrom(l *world, restore bool) error {
	metas, err := l.store.List()
	if err != nil {
		return err
	}
	meta, src, err := l.store.Open(metas[0].ID)
	if err != nil {
		return err
	}
	defer src.Close()
	sink, err := w.store.Create(meta)
	if err != nil {
		return err
	}
	if _, err := io.Copy(sink, src); err != nil {
		return err
	}
	if err := sink.Close(); err != nil || !restore {
		return err
	}
	return w.restore(w.store, sink.ID())
}
