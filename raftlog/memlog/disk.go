package memlog

import (
	"slices"
	"sync"

	"github.com/klamm/klamm/raftlog"
)

// Disk is what a Log leaves to the next one: the node's term and entries.
type Disk struct {
	mu      sync.Mutex
	term    uint64
	last    uint64 // index of the last entry
	entries []raftlog.Entry
	// base is the index of the last entry that a snapshot stands for.
	base, baseTerm uint64
}

// Has tells whether the log on disk holds an entry, be it in a snapshot.
func (d *Disk) Has(index, term uint64) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if index <= d.base {
		return true
	}
	e, ok := d.atLocked(index)
	return ok && e.Term == term
}

func (d *Disk) atLocked(index uint64) (raftlog.Entry, bool) {
	if index <= d.base || index > d.base+uint64(len(d.entries)) {
		return raftlog.Entry{}, false
	}
	return d.entries[index-d.base-1], true
}

// end is the index and term of the last entry.
func (d *Disk) end() (index, term uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if n := len(d.entries); n > 0 {
		return d.entries[n-1].Index, d.entries[n-1].Term
	}
	return d.base, d.baseTerm
}

// append adds an entry in the current term.
func (d *Disk) append(data []byte) raftlog.Entry {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.last++
	e := raftlog.Entry{Index: d.last, Term: d.term, Data: data}
	d.entries = append(d.entries, e)
	return e
}

// begin makes sure that the log goes on behind a snapshot. Entries behind it
// stay.
func (d *Disk) begin(index, term uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.last = max(d.last, index)
	d.term = max(d.term, term)
	if index > d.base {
		d.trimLocked(index, term)
	}
}

func (d *Disk) termOf(index uint64) uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, e := range d.entries {
		if e.Index == index {
			return e.Term
		}
	}
	if index == d.base {
		return d.baseTerm
	}
	return d.term
}

func (d *Disk) trim(upTo uint64) {
	term := d.termOf(upTo)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.trimLocked(upTo, term)
}

func (d *Disk) trimLocked(upTo, term uint64) {
	d.base, d.baseTerm = upTo, term
	d.entries = slices.DeleteFunc(d.entries, func(e raftlog.Entry) bool { return e.Index <= upTo })
}

func (d *Disk) drop(index uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if n := len(d.entries); n > 0 && d.entries[n-1].Index == index {
		d.entries = d.entries[:n-1]
	}
}
