package raftlog

import (
	"context"
	"fmt"
	"io"

	"github.com/klamm/klamm/protocol"
)

// Entry is one committed proposal.
type Entry struct {
	Index uint64 // Raft's index: gaps are entries of Raft's own
	Term  uint64 // term in which the leader appended it
	Data  []byte // as proposed; the state machine may change it in place
}

// Skipped is what StateMachine.Apply reports for an entry that changes nothing.
const Skipped int64 = -1

// MaxEntryBytes bounds one proposal. Kafka's metadata batches end at 8 MiB
// too; the controller closes a round at 1 MiB, so only a bug gets here.
const MaxEntryBytes = 8 << 20

// ErrUnknownOutcome is what Propose returns for an entry that may be in the
// log, or get there yet. Only what is applied afterwards tells. Towards a
// client it is REQUEST_TIMED_OUT, which it may retry.
var ErrUnknownOutcome = fmt.Errorf("the entry may be committed yet: %w", protocol.ErrRequestTimedOut)

// StateMachine is what committed entries drive. All methods but
// Snapshot.WriteTo are called on one goroutine at a time, in log order.
type StateMachine interface {
	// Apply applies committed entries and returns for each the offset of its
	// first record in the metadata log, or Skipped. An error is fatal to the
	// node: the log can not go on. After a restart, entries behind the last
	// snapshot come again, with the same index, term and data.
	Apply(entries []Entry) ([]int64, error)
	// Snapshot captures the state at the last applied entry. It returns fast.
	Snapshot() (Snapshot, error)
	// Restore replaces the state by a snapshot's. It may go backwards.
	Restore(meta SnapshotMeta, r io.Reader) error
}

// Snapshot writes a captured state while Apply goes on.
type Snapshot interface {
	// WriteTo streams the state, which SnapshotStore or a peer reads again.
	WriteTo(w io.Writer) (int64, error)
	// Release ends the capture, written or not.
	Release()
}

// SnapshotMeta is what Raft must know of a snapshot.
type SnapshotMeta struct {
	ID                 string
	Index, Term        uint64
	Configuration      []byte // Raft's membership at ConfigurationIndex, opaque
	ConfigurationIndex uint64
	Size               int64
}

// SnapshotStore keeps snapshots. A snapshot exists once its sink is closed
// without an error, and from then on for good, as far as the disk is healthy.
type SnapshotStore interface {
	Create(meta SnapshotMeta) (SnapshotSink, error)
	// List returns what is there, highest index first.
	List() ([]SnapshotMeta, error)
	Open(id string) (SnapshotMeta, io.ReadCloser, error)
}

// SnapshotSink takes a snapshot's bytes.
type SnapshotSink interface {
	io.WriteCloser
	ID() string
	// Cancel throws away what was written.
	Cancel() error
}

// Leadership is who leads, as this node knows it. Leading is reported only
// once the leader's own first entry has been applied here.
type Leadership struct {
	Leading bool
	Epoch   protocol.ControllerEpoch // Raft's term
	Leader  protocol.NodeID          // NoNode where unknown
	Offset  int64                    // of the first batch of this leadership, where Leading
}

// Log is the replicated log as the controller uses it.
type Log interface {
	// Run starts the engine and returns nil when ctx is done and everything has
	// ended, or the error that makes it impossible to go on.
	Run(ctx context.Context) error
	// Propose appends one entry in the given epoch, waits until it is committed
	// and applied here, and returns what StateMachine.Apply said of it.
	// protocol.ErrNotController: surely without effect, because it was not
	// appended, or appended in another term, for which the state machine skips
	// it. ErrUnknownOutcome: it may yet be committed. Concurrent callers wait
	// for each other.
	Propose(ctx context.Context, epoch protocol.ControllerEpoch, data []byte) (offset int64, err error)
	// Leadership returns the latest state and a channel that is closed at the
	// next change.
	Leadership() (Leadership, <-chan struct{})
	// Status reports the progress of all voters, for DescribeQuorum.
	Status() Status
	// TakeSnapshot writes a snapshot of what is applied, and trims the log
	// behind it. It does nothing where the newest snapshot has everything.
	TakeSnapshot(ctx context.Context) error
}

// Status is the quorum as the leader sees it; elsewhere only its own part is known.
type Status struct {
	Leadership Leadership
	LastIndex  uint64
	Voters     []Peer
	Observers  []Peer
}

// Peer is one Raft server's progress.
type Peer struct {
	ID          protocol.NodeID
	DirectoryID protocol.UUID // zero in a static quorum
	AckedIndex  uint64        // last index known to be stored there
	LastFetchMs int64         // last answer, ms since the epoch; −1 = never
	CaughtUpMs  int64         // last time it had everything; −1 = never
}
