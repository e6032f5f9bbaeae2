package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"github.com/klamm/klamm/metadata/record"
	"github.com/klamm/klamm/metadata/snapshot"
	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/protocol/batch"
	"github.com/klamm/klamm/raftlog"
	"github.com/klamm/klamm/storage/vfs"
)

// makeLone changes the directory, and returns what it has put aside.
func (l *leftover) makeLone(epoch protocol.ControllerEpoch, listener *record.VoterEndpoint) (saved []string, err error) {
	aside := backup{dir: l.q.Dir, suffix: ".before-recover-" + time.Now().UTC().Format("20060102T150405.000000Z")}
	var voters []record.Control
	if l.q.Dynamic {
		voters = []record.Control{&record.Voters{Voters: []record.Voter{*l.self(listener)}}}
	}
	if l.q.Store == nil {
		err = l.takeOver(&aside, epoch, voters)
		return aside.saved, err
	}
	if err := aside.copy(raftStore); err != nil {
		return aside.saved, err
	}
	snapshots, err := snapshot.OpenStore(vfs.OS(), l.q.Dir, zerolog.Nop())
	if err != nil {
		return aside.saved, err
	}
	lone := raftlog.Lone{
		Dir: l.q.Dir, NodeID: l.q.Meta.NodeID, DirectoryID: l.q.Meta.DirectoryID, ClusterID: l.q.Meta.ClusterID,
		Snapshots: snapshots, Epoch: epoch,
	}
	if voters != nil {
		lone.Voters = func(epoch protocol.ControllerEpoch) []byte {
			return record.EncodeControlBatch(voters, 0, epoch, time.Now().UnixMilli())
		}
	}
	return aside.saved, raftlog.MakeLone(lone)
}

// takeOver has the node begin a Raft store on what its metadata log holds, as on a
// directory of Apache Kafka's: it has none, or none that is of use.
func (l *leftover) takeOver(aside *backup, epoch protocol.ControllerEpoch, voters []record.Control) error {
	names, err := os.ReadDir(l.q.Dir)
	if err != nil {
		return err
	}
	for _, e := range names {
		if n := e.Name(); raftlog.IsStoreFile(n) || snapshot.IsSidecar(n) {
			if err := aside.move(n); err != nil {
				return err
			}
		}
	}
	// The first term of the new store is not below the epoch that this file tells.
	if err := aside.copy("quorum-state"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	var ids []protocol.NodeID
	if !l.q.Dynamic {
		ids = []protocol.NodeID{l.q.Meta.NodeID}
	}
	if err := raftlog.WriteObserverState(l.q.Dir, protocol.NoNode, epoch, ids); err != nil || voters == nil {
		return err
	}
	// The voters go last: with them it is done, and who was stopped before does all again.
	return l.appendVoters(aside, voters)
}

// appendVoters appends control records to the metadata log's last segment.
func (l *leftover) appendVoters(aside *backup, voters []record.Control) error {
	names, err := os.ReadDir(l.q.Dir) // sorted, which is by offset
	if err != nil {
		return err
	}
	var name string
	for _, e := range names {
		if strings.HasSuffix(e.Name(), ".log") {
			name = e.Name()
		}
	}
	if name == "" {
		return fmt.Errorf("%s has no segment", l.q.Dir)
	}
	if err := aside.copy(name); err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(l.q.Dir, name), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	// The end of the last whole batch: a node that was killed may have left a part.
	s := record.NewScanner(bufio.NewReader(f))
	for err == nil {
		_, err = s.Next()
	}
	if err != io.EOF && !errors.Is(err, batch.ErrIncomplete) {
		return fmt.Errorf("%s: position %d: %w", name, s.Position(), err)
	}
	if err := f.Truncate(s.Position()); err != nil {
		return err
	}
	b := record.EncodeControlBatch(voters, l.q.EndOffset, l.q.LastEpoch, time.Now().UnixMilli())
	if _, err := f.WriteAt(b, s.Position()); err != nil {
		return err
	}
	return f.Sync()
}

// backup puts files aside, under their names and a suffix.
type backup struct {
	dir, suffix string
	saved       []string
}

func (b *backup) copy(name string) (err error) {
	from, err := os.Open(filepath.Join(b.dir, name))
	if err != nil {
		return err
	}
	defer from.Close()
	path := filepath.Join(b.dir, name+b.suffix)
	to, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(to, from)
	if err := errors.Join(err, to.Sync(), to.Close()); err != nil {
		return err
	}
	b.saved = append(b.saved, path)
	return vfs.OS().SyncDir(b.dir)
}

func (b *backup) move(name string) error {
	path := filepath.Join(b.dir, name+b.suffix)
	if err := os.Rename(filepath.Join(b.dir, name), path); err != nil {
		return err
	}
	b.saved = append(b.saved, path)
	return vfs.OS().SyncDir(b.dir)
}
