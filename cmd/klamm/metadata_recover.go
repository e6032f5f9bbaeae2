package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/klamm/klamm/metadata/inspect"
	"github.com/klamm/klamm/metadata/record"
	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/storage/vfs"
)

func newRecoverCommand() *cobra.Command {
	var yes bool
	var listener string
	cmd := &cobra.Command{
		Use:   "recover DIR...",
		Short: "Begin a new quorum after most controllers were lost for good",
		Long: `Make one directory the only voter of a new quorum, where so many controllers were
lost for good that the others can elect nobody. Name the log directories (those
with meta.properties; of several per node the one with __cluster_metadata-0) of
all nodes that are left, controllers and brokers: the one whose metadata log is the
longest, by last epoch and then offset, is taken. All nodes must be stopped.

What only the lost controllers had is lost: what they acknowledged in their last
moments, and more if those that are left were behind. Without --yes this command
shows what it would do and changes nothing. With it, whatever changes in the
directory is first copied beside it. Do it once, on one directory: two recovered
directories are two clusters.`,
		Example: `  klamm metadata recover /mnt/node1 /mnt/node4
  klamm metadata recover --yes /mnt/node1 /mnt/node4`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usagef("%s takes the directories that are left; see %s --help", cmd.CommandPath(), cmd.CommandPath())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := openRecovery(args)
			if err != nil {
				return err
			}
			defer r.close()
			if listener != "" {
				if r.listener, err = parseEndpoint(listener); err != nil {
					return err
				}
			}
			return r.run(cmd.OutOrStdout(), yes)
		},
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "do it")
	cmd.Flags().StringVar(&listener, "listener", "", "NAME://HOST:PORT of the controller listener, where the directory's node was no voter of its dynamic quorum")
	return cmd
}

// epochsSkipped is how far the new quorum's epochs are above all that the
// directories have known: what was lost may have had elections of which nobody
// that is left has heard, and no broker follows an epoch that is lower than one it
// knows.
const epochsSkipped = 100

// recovery is the directories that are left, held so that no node starts on them.
type recovery struct {
	nodes    []*leftover
	locks    map[string]io.Closer  // by directory
	listener *record.VoterEndpoint // of the node that is taken; nil where it was not said
}

type leftover struct {
	path string
	q    *inspect.Quorum
}

func openRecovery(paths []string) (_ *recovery, err error) {
	r := &recovery{locks: map[string]io.Closer{}}
	defer func() {
		if err != nil {
			r.close()
		}
	}()
	for _, path := range paths {
		path = filepath.Clean(path)
		if path, err = filepath.Abs(path); err != nil {
			return nil, err
		}
		if slices.ContainsFunc(r.nodes, func(n *leftover) bool { return n.path == path }) {
			continue
		}
		lock, err := vfs.OS().Lock(filepath.Join(path, ".lock"))
		if errors.Is(err, vfs.ErrLocked) {
			return nil, fmt.Errorf("a process holds %s: stop its node first", path)
		}
		if err != nil {
			return nil, err
		}
		r.locks[path] = lock
		q, err := inspect.LoadHeldQuorum(path)
		if err != nil {
			return nil, err
		}
		if q.Meta == nil {
			return nil, fmt.Errorf("%s has no meta.properties: name the log directory, not the metadata log's own", path)
		}
		for _, other := range r.nodes {
			switch {
			case other.q.Meta.ClusterID != q.Meta.ClusterID:
				return nil, fmt.Errorf("%s is of cluster %s, and %s of %s", other.path, other.q.Meta.ClusterID, path, q.Meta.ClusterID)
			case other.q.Meta.NodeID == q.Meta.NodeID:
				return nil, fmt.Errorf("%s and %s are both of node %d: name one", other.path, path, q.Meta.NodeID)
			}
		}
		r.nodes = append(r.nodes, &leftover{path, q})
	}
	return r, nil
}

func (r *recovery) close() {
	for path, lock := range r.locks {
		// As a node that stops does: a lock file that stays does no harm.
		_ = os.Remove(filepath.Join(path, ".lock"))
		_ = lock.Close()
	}
}

func (r *recovery) run(w io.Writer, yes bool) error {
	best := slices.MaxFunc(r.nodes, compareLeftovers)
	r.table(w, best)
	if err := r.check(best); err != nil {
		return err
	}
	r.losses(w, best)
	if !yes {
		fmt.Fprintln(w, "\nNothing was changed. With --yes this directory becomes the only voter of a new quorum.")
		return nil
	}
	epoch := r.epoch()
	saved, err := best.makeLone(epoch, r.listener)
	if err != nil {
		return fmt.Errorf("%s: %w", best.path, err)
	}
	fmt.Fprintf(w, "\n%s is the only voter of a new quorum now, from epoch %d on.\nWhat was changed lies beside it as it was:\n", best, epoch)
	for _, path := range saved {
		fmt.Fprintln(w, " ", path)
	}
	r.advice(w, best)
	return nil
}

func parseEndpoint(text string) (*record.VoterEndpoint, error) {
	name, address, ok := strings.Cut(text, "://")
	host, port, err := protocol.SplitAddress(address)
	if !ok || err != nil || name == "" || host == "" || port == 0 {
		return nil, usagef("--listener %q is no NAME://HOST:PORT", text)
	}
	return &record.VoterEndpoint{Name: name, Host: host, Port: port}, nil
}

// compareLeftovers is Raft's order: the last epoch, then the length. Of two that
// are equal, that of a controller.
func compareLeftovers(a, b *leftover) int {
	return cmp.Or(cmp.Compare(a.lastTerm(), b.lastTerm()), cmp.Compare(a.q.EndOffset, b.q.EndOffset),
		cmp.Compare(a.hasStore(), b.hasStore()), cmp.Compare(b.q.Meta.NodeID, a.q.Meta.NodeID))
}

// lastTerm is that of the last entry, which may be one of Raft's own.
func (l *leftover) lastTerm() uint64 {
	term := uint64(max(l.q.LastEpoch, 0))
	if l.q.Store != nil {
		term = max(term, l.q.Store.LastTerm)
	}
	return term
}

func (l *leftover) hasStore() int {
	if l.q.Store != nil {
		return 1
	}
	return 0
}

func (l *leftover) String() string { return fmt.Sprintf("%s (node %d)", l.path, l.q.Meta.NodeID) }

// voters are those of the quorum that was, as this node knows it.
func (l *leftover) voters() []protocol.NodeID {
	var ids []protocol.NodeID
	for _, m := range l.q.Members {
		ids = append(ids, m.ID)
	}
	switch {
	case l.q.Store != nil:
		return l.q.Store.Voters
	case l.q.Dynamic:
		return ids
	}
	return l.q.Voters
}

func (r *recovery) table(w io.Writer, best *leftover) {
	fmt.Fprintf(w, "cluster %s\n\n", best.q.Meta.ClusterID)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "DIRECTORY\tNODE\tLAST OFFSET\tEPOCH\tWRITTEN\tSNAPSHOT\tRAFT'S STORE")
	for _, n := range r.nodes {
		snap, store := "-", "none"
		if n.q.HasSnapshot {
			snap = fmt.Sprintf("below %d", n.q.Snapshot.Offset)
		}
		switch {
		case n.q.Store != nil:
			store = fmt.Sprintf("term %d, entry %d of term %d", n.q.Store.Term, n.q.Store.LastIndex, n.q.Store.LastTerm)
		case !errors.Is(n.q.StoreErr, fs.ErrNotExist):
			store = "not usable"
		}
		fmt.Fprintf(table, "%s\t%d\t%d\t%d\t%s\t%s\t%s\n", n.path, n.q.Meta.NodeID, n.q.EndOffset-1, n.lastTerm(), written(n.q.LastMs), snap, store)
	}
	_ = table.Flush() // an error of w comes back at the next write
	for _, n := range r.nodes {
		if n.q.Store == nil && !errors.Is(n.q.StoreErr, fs.ErrNotExist) {
			fmt.Fprintf(w, "%s: %v; its metadata log counts\n", n.path, n.q.StoreErr)
		}
	}
	fmt.Fprintf(w, "\nThe longest is %s.\n", best)
}

func written(ms int64) string {
	if ms < 0 {
		return "-"
	}
	return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z")
}

// check refuses where there is nothing to recover, or no way to.
func (r *recovery) check(best *leftover) error {
	voters := best.voters()
	whole := 0
	for _, n := range r.nodes {
		if n.q.Store != nil && slices.Contains(voters, n.q.Meta.NodeID) {
			whole++
		}
	}
	switch {
	case slices.Equal(voters, []protocol.NodeID{best.q.Meta.NodeID}):
		return fmt.Errorf("%s is the only voter already: start its node", best)
	case len(voters) > 1 && whole > len(voters)/2:
		return fmt.Errorf("%d of the voters %s are here, a majority: nothing is lost, start their nodes. "+
			"Where they can not be started, name only the directories of those that you give up last", whole, join(voters))
	case best.q.EndOffset == 0:
		return errors.New("there is no metadata to go on with: format the nodes anew")
	case best.q.Dynamic && best.self(r.listener) == nil:
		return fmt.Errorf("node %d is no voter of the dynamic quorum that its log tells of: say with --listener NAME://HOST:PORT where it is to listen as a controller",
			best.q.Meta.NodeID)
	}
	return nil
}

func join(ids []protocol.NodeID) string {
	var texts []string
	for _, id := range ids {
		texts = append(texts, strconv.Itoa(int(id)))
	}
	return strings.Join(texts, ", ")
}

// self is this node as a voter of a dynamic quorum; nil where nothing says where it
// listens.
func (l *leftover) self(listener *record.VoterEndpoint) *record.Voter {
	v := record.Voter{ID: l.q.Meta.NodeID, DirectoryID: l.q.Meta.DirectoryID, MaxKRaft: 1}
	if listener != nil {
		v.Endpoints = []record.VoterEndpoint{*listener}
		return &v
	}
	for _, m := range l.q.Members {
		if m.ID == v.ID && m.DirectoryID == v.DirectoryID {
			return &m
		}
	}
	return nil
}

func (r *recovery) losses(w io.Writer, best *leftover) {
	var gone []protocol.NodeID
	for _, id := range best.voters() {
		if !slices.ContainsFunc(r.nodes, func(n *leftover) bool { return n.q.Meta.NodeID == id }) {
			gone = append(gone, id)
		}
	}
	if len(gone) > 0 {
		fmt.Fprintf(w, "Of the voters (%s) these are missing: %s. What they had committed behind offset %d (%s) is lost:\n"+
			"topics that were created, deleted or changed, leaders and in-sync sets, configs, users and ACLs since then.\n",
			join(best.voters()), join(gone), best.q.EndOffset-1, written(best.q.LastMs))
	}
	if best.q.Unapplied > 0 {
		fmt.Fprintf(w, "Its last %d records are of Raft's store and may never have been committed; they will be.\n", best.q.Unapplied)
	}
	for _, n := range r.nodes {
		if n != best && n.q.EndOffset > best.q.EndOffset {
			fmt.Fprintf(w, "%s goes to offset %d, but in an older epoch: that was not committed, as far as the directories tell.\n", n, n.q.EndOffset-1)
		}
	}
}

// epoch is that from which on the new quorum counts.
func (r *recovery) epoch() protocol.ControllerEpoch {
	var newest protocol.ControllerEpoch
	for _, n := range r.nodes {
		newest = max(newest, n.q.NewestEpoch())
	}
	return newest + epochsSkipped
}

// address is where the node listens as a controller, as far as it is known.
func (l *leftover) address(listener *record.VoterEndpoint) string {
	if v := l.self(listener); v != nil && len(v.Endpoints) > 0 {
		return v.Endpoints[0].Address()
	}
	if img, err := inspect.Load(l.path, inspect.At{}); err == nil {
		if c, ok := img.Controller(l.q.Meta.NodeID); ok && len(c.Endpoints) > 0 {
			return c.Endpoints[0].Address()
		}
	}
	return "HOST:PORT"
}

// advice says what is left to do by hand.
func (r *recovery) advice(w io.Writer, best *leftover) {
	id := best.q.Meta.NodeID
	where := best.address(r.listener)
	key, value := "controller.quorum.voters", fmt.Sprintf("%d@%s", id, where)
	if best.q.Dynamic {
		key, value = "controller.quorum.bootstrap.servers", where
	}
	fmt.Fprintf(w, "\nNow, in this order:\n"+
		"1. in the server.properties of every node, controllers and brokers: %s=%s, its controller listener;\n"+
		"   in node %d's own, process.roles must name controller;\n"+
		"2. start node %d;\n", key, value, id, id)
	fmt.Fprintf(w, "3. the other brokers may run on or be started. One that says \"the logs are of two histories\" had metadata that is\n"+
		"   lost now: move its %s away, and it fetches what there is. The records of its topics stay;\n",
		filepath.Base(best.q.Dir))
	fmt.Fprintf(w, "4. the other controllers must not come back as they were: format new directories for them.")
	if best.q.Dynamic {
		fmt.Fprintf(w, " klamm quorum add lets\n"+
			"   them vote again. One that is a broker too and must keep its records comes back as a broker alone, process.roles=broker,\n"+
			"   with its %s moved away;\n", filepath.Base(best.q.Dir))
	} else {
		fmt.Fprint(w, " In a static quorum\n   they come back as brokers; kafka-features upgrade --feature kraft.version=1 makes it a dynamic one, and klamm quorum\n   add lets them vote again;\n")
	}
	fmt.Fprintln(w, "5. a partition without a leader had its last in-sync replicas on brokers that are lost too. What others have of it is\n"+
		"   taken by kafka-leader-election --election-type unclean --all-topic-partitions.")
}
