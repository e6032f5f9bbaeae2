package storage

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/protocol/batch"
	"github.com/klamm/klamm/storage/vfs"
)

// TestEpochs runs testdata/epochs: the history of leader epochs.
func TestEpochs(t *testing.T) {
	datadriven.Walk(t, "testdata/epochs", func(t *testing.T, path string) {
		var c epochCache
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			var epoch int32
			var offset int64
			scan(t, d, "epoch", &epoch)
			scan(t, d, "offset", &offset)
			switch d.Cmd {
			case "new":
				c = epochCache{}
			case "assign":
				c.assign(protocol.LeaderEpoch(epoch), offset)
			case "see":
				c.see(protocol.LeaderEpoch(epoch), offset)
			case "truncate-end":
				c.truncateFromEnd(offset)
			case "truncate-start":
				c.truncateFromStart(offset)
			case "end-offset-for": // offset is the log end
				found, end := c.endOffsetFor(protocol.LeaderEpoch(epoch), offset)
				return fmt.Sprintf("epoch %d ends at %d\n", found, end)
			case "epoch-for":
				return fmt.Sprintf("epoch %d\n", c.epochFor(offset))
			default:
				d.Fatalf(t, "unknown command %s", d.Cmd)
			}
			out := string(formatEpochs(c.entries))
			if _, err := parseEpochs([]byte(out)); err != nil {
				d.Fatalf(t, "the file of %v is unreadable: %v", c.entries, err)
			}
			return strings.Join(strings.Split(out, "\n")[2:], "\n")
		})
	})
}

func scan(t *testing.T, d *datadriven.TestData, name string, to ...any) {
	t.Helper()
	if d.HasArg(name) {
		d.ScanArgs(t, name, to...)
	}
}

// TestLogScripts runs testdata/truncate and testdata/producers: what is
// appended to one log, how it is cut, and what is left of it in memory and
// after a restart.
func TestLogScripts(t *testing.T) {
	for _, dir := range []string{"testdata/truncate", "testdata/producers"} {
		datadriven.Walk(t, dir, func(t *testing.T, path string) {
			mem := vfs.NewMem()
			l := openTest(t, mem, "/t-0", scriptOptions())
			datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
				return runScript(t, d, &mem, &l)
			})
		})
	}
}

func scriptOptions() LogOptions {
	opts := smallOptions()
	opts.Config.IndexIntervalBytes = 100
	return opts
}

func runScript(t *testing.T, d *datadriven.TestData, mem **vfs.Mem, l **Log) string {
	var offset int64
	scan(t, d, "offset", &offset)
	var err error
	switch d.Cmd {
	case "new":
		*mem = vfs.NewMem()
		*l = openTest(t, *mem, "/t-0", scriptOptions())
	case "append":
		return runAppend(t, d, *l)
	case "marker":
		var id int64
		var epoch int16
		var coordinator int32
		scan(t, d, "id", &id)
		scan(t, d, "producer-epoch", &epoch)
		scan(t, d, "coordinator", &coordinator)
		data := marker(t, id, epoch, coordinator, d.HasArg("abort"))
		return appended((*l).AppendAsLeader(data, 0, AppendOptions{Coordinator: true}))
	case "roll":
		err = (*l).Roll()
	case "flush":
		err = (*l).Flush((*l).LEO())
	case "truncate":
		err = (*l).TruncateTo(offset)
	case "truncate-fully":
		err = (*l).TruncateFullyAndStartAt(offset)
	case "advance-start":
		err = (*l).AdvanceLogStart(offset)
	case "delete-segments":
		_, err = (*l).DeleteSegmentsBelowStart()
	case "assign-epoch":
		var epoch int32
		scan(t, d, "epoch", &epoch)
		(*l).AssignEpoch(protocol.LeaderEpoch(epoch), offset)
	case "kill", "power-cut", "restart":
		opts := scriptOptions()
		opts.LogStartOffset = (*l).LogStartOffset()
		opts.RecoveryPoint = (*l).FlushedTo()
		switch d.Cmd {
		case "kill":
			*mem = (*mem).Kill()
		case "power-cut":
			*mem = (*mem).Crash(nil)
		case "restart":
			opts.Clean, opts.RecoveryPoint = true, (*l).LEO()
			check(t, (*l).Close())
		}
		*l = openTest(t, *mem, "/t-0", opts)
	case "log":
		return describe(t, *l)
	case "producers":
		return describeProducers(*l)
	case "stable":
		return fmt.Sprintf("last stable offset %d\n", (*l).LastStableOffset(offset))
	default:
		d.Fatalf(t, "unknown command %s", d.Cmd)
	}
	if err != nil {
		return err.Error() + "\n"
	}
	return describe(t, *l)
}

// runAppend appends batches of records: count, epoch, size, and with id
// idempotent ones: producer-epoch, seq, txn.
func runAppend(t *testing.T, d *datadriven.TestData, l *Log) string {
	p := produced{records: 1, size: 20}
	var count, epoch int
	count = 1
	scan(t, d, "count", &count)
	scan(t, d, "epoch", &epoch)
	scan(t, d, "records", &p.records)
	scan(t, d, "size", &p.size)
	if d.HasArg("id") {
		p.producer = &batch.Producer{}
		scan(t, d, "id", &p.producer.ID)
		scan(t, d, "producer-epoch", &p.producer.Epoch)
		scan(t, d, "seq", &p.producer.BaseSequence)
		p.txn = d.HasArg("txn")
	}
	var out strings.Builder
	for range count {
		r, err := l.AppendAsLeader(p.build(t), protocol.LeaderEpoch(epoch), AppendOptions{Verified: d.HasArg("verified")})
		out.Reset()
		out.WriteString(appended(r, err))
		if p.producer != nil {
			p.producer.BaseSequence += int32(p.records)
		}
	}
	return out.String()
}

func appended(r AppendResult, err error) string {
	if err != nil {
		return err.Error() + "\n"
	}
	duplicate := ""
	if r.Duplicate {
		duplicate = " duplicate"
	}
	return fmt.Sprintf("offsets %d to %d%s\n", r.FirstOffset, r.LastOffset, duplicate)
}

// describe prints where the log begins and ends, its segments and epochs.
func describe(t *testing.T, l *Log) string {
	var out strings.Builder
	fmt.Fprintf(&out, "log %d to %d, synced to %d\n", l.LogStartOffset(), l.LEO(), l.FlushedTo())
	l.mu.Lock()
	for _, s := range l.segments {
		fmt.Fprintf(&out, "segment %d: %d bytes", s.base, s.size)
		for _, txn := range s.aborted {
			fmt.Fprintf(&out, ", aborted %+v", txn)
		}
		fmt.Fprintln(&out)
	}
	for _, e := range l.epochs.entries {
		fmt.Fprintf(&out, "epoch %d from %d\n", e.epoch, e.start)
	}
	l.mu.Unlock()
	bytes := int64(0)
	for _, b := range all(t, l, l.LogStartOffset()) {
		bytes += int64(b.Size())
	}
	if first := l.LogStartOffset(); first == l.segments[0].base && bytes != l.Size() {
		fmt.Fprintf(&out, "%d bytes can be read of %d\n", bytes, l.Size())
	}
	return out.String()
}

func describeProducers(l *Log) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	producers, err := parseSnapshot(appendSnapshot(nil, l.producers))
	if err != nil {
		return err.Error()
	}
	var out strings.Builder
	for _, p := range producers {
		fmt.Fprintf(&out, "id %d epoch %d: last sequence %d", p.id, p.epoch, p.lastSequence())
		if p.count > 0 {
			fmt.Fprintf(&out, " at %d", p.batches[0].lastOffset)
		}
		fmt.Fprintf(&out, ", %d batches remembered", l.producers.byID[p.id].count)
		if p.txnFirstOffset != noTxn {
			fmt.Fprintf(&out, ", transaction from %d", p.txnFirstOffset)
		}
		if p.coordinatorEpoch >= 0 {
			fmt.Fprintf(&out, ", coordinator epoch %d", p.coordinatorEpoch)
		}
		fmt.Fprintln(&out)
	}
	return out.String()
}
