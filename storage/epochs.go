package storage

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/klamm/klamm/protocol"
)

// undefined is the epoch, and the end offset, of a question that has no answer.
const undefined = -1

// epochEntry says at which offset the first record of a leader epoch stands.
type epochEntry struct {
	epoch protocol.LeaderEpoch
	start int64
}

// epochCache is the history of leader epochs of one log, in memory; both
// columns strictly grow. It is what leader-epoch-checkpoint holds. The file may
// lag behind by what a recovery reads from the batches: it is written before
// the recovery point passes an entry (Log.Flush). Guarded by Log.mu.
type epochCache struct {
	entries []epochEntry
	// saved is what the file holds, unreadableEpochs where nobody knows.
	// Neither array is written to once it is there.
	saved []epochEntry
}

// unreadableEpochs stands for a file that has to be written anew: nothing equals it.
var unreadableEpochs = []epochEntry{{undefined, undefined}}

// unsaved tells whether the file lacks something. An epoch without records is
// no reason to write it: whoever opens the log forgets such a one, and it ends
// where it began.
func (c *epochCache) unsaved(leo int64) bool {
	return !slices.Equal(recorded(c.entries, leo), recorded(c.saved, leo))
}

// recorded returns the entries that there are records of.
func recorded(entries []epochEntry, leo int64) []epochEntry {
	n := len(entries)
	for n > 0 && entries[n-1].start >= leo {
		n--
	}
	return entries[:n:n]
}

// assign notes that an epoch starts at an offset. Entries that contradict it
// go: those of this or a later epoch, and those that start there or later.
func (c *epochCache) assign(epoch protocol.LeaderEpoch, start int64) {
	if n := len(c.entries); n > 0 {
		last := c.entries[n-1]
		if last.epoch == epoch && last.start <= start {
			return
		}
	}
	keep := len(c.entries)
	for keep > 0 && (c.entries[keep-1].epoch >= epoch || c.entries[keep-1].start >= start) {
		keep--
	}
	c.entries = append(c.entries[:keep:keep], epochEntry{epoch, start})
}

// latest returns the newest epoch.
func (c *epochCache) latest() (protocol.LeaderEpoch, bool) {
	if len(c.entries) == 0 {
		return undefined, false
	}
	return c.entries[len(c.entries)-1].epoch, true
}

// endOffsetFor returns the largest known epoch that is not above the one asked
// for, and the offset at which it ends (exclusive): where the logs of a leader
// and of a follower with that last epoch may part (KIP-101, KIP-279). It is −1,
// −1 where the epoch is unknown or newer than all we know.
func (c *epochCache) endOffsetFor(epoch protocol.LeaderEpoch, leo int64) (protocol.LeaderEpoch, int64) {
	latest, ok := c.latest()
	switch {
	case !ok || epoch == undefined || epoch > latest:
		return undefined, undefined
	case epoch == latest:
		return epoch, leo
	}
	higher := slices.IndexFunc(c.entries, func(e epochEntry) bool { return e.epoch > epoch })
	if higher == 0 {
		// Older than all we have: it ended where the first of ours began.
		return epoch, c.entries[0].start
	}
	return c.entries[higher-1].epoch, c.entries[higher].start
}

// epochFor returns the epoch in which the record at an offset was appended.
func (c *epochCache) epochFor(offset int64) protocol.LeaderEpoch {
	epoch := protocol.LeaderEpoch(undefined)
	for _, e := range c.entries {
		if e.start > offset {
			break
		}
		epoch = e.epoch
	}
	return epoch
}

// truncateFromEnd drops the epochs that start at or after the new log end.
func (c *epochCache) truncateFromEnd(leo int64) {
	c.entries = recorded(c.entries, leo)
}

// truncateFromStart makes the epoch of the new log start begin there, and
// drops those before it.
func (c *epochCache) truncateFromStart(logStart int64) {
	keep := 0
	for keep+1 < len(c.entries) && c.entries[keep+1].start <= logStart {
		keep++
	}
	if len(c.entries) == 0 || c.entries[0].start > logStart || keep == 0 && c.entries[0].start == logStart {
		return
	}
	c.entries = slices.Clone(c.entries[keep:])
	c.entries[0].start = logStart
}

// formatEpochs writes the entries as leader-epoch-checkpoint: version, number
// of entries, then "epoch offset" lines.
func formatEpochs(entries []epochEntry) []byte {
	b := fmt.Appendf(nil, "%s\n%d\n", checkpointVersion, len(entries))
	for _, e := range entries {
		b = fmt.Appendf(b, "%d %d\n", e.epoch, e.start)
	}
	return b
}

func parseEpochs(data []byte) ([]epochEntry, error) {
	lines, err := checkpointLines(data)
	if err != nil {
		return nil, err
	}
	var entries []epochEntry
	for i, line := range lines {
		left, right, _ := strings.Cut(line, " ")
		epoch, err1 := strconv.ParseInt(left, 10, 32)
		start, err2 := strconv.ParseInt(right, 10, 64)
		if err1 != nil || err2 != nil || epoch < 0 || start < 0 {
			return nil, fmt.Errorf("line %d: %q is not: epoch offset", i+3, line)
		}
		if n := len(entries); n > 0 && (entries[n-1].epoch >= protocol.LeaderEpoch(epoch) || entries[n-1].start >= start) {
			return nil, fmt.Errorf("line %d: %q is not above the line before", i+3, line)
		}
		entries = append(entries, epochEntry{protocol.LeaderEpoch(epoch), start})
	}
	return entries, nil
}
