package history

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"
)

// Anomaly is a kind of what may not be. The names are Jepsen's where it has one.
type Anomaly string

// The anomalies.
const (
	// Lost: acknowledged, or read by somebody, and not in the log, which goes on behind it.
	Lost Anomaly = "lost-write"
	// Unseen: the same where the log ends before it; or in the log, and a consumer
	// that reads all has not come to it.
	Unseen Anomaly = "unseen"
	// Duplicate: one value at two offsets, whose producer is idempotent or sends once.
	Duplicate Anomaly = "duplicate"
	// Inconsistent: two values at one offset.
	Inconsistent Anomaly = "inconsistent-offsets"
	// Aborted: read though its producer was told that it will not be there (G1a).
	Aborted Anomaly = "aborted-read"
	// SendOrder: a producer's later record is before an earlier one.
	SendOrder Anomaly = "nonmonotonic-send"
	// ReadOrder: a consumer went back, without having been moved.
	ReadOrder Anomaly = "nonmonotonic-poll"
	// Skipped: a consumer left out offsets, without having been moved.
	Skipped Anomaly = "poll-skip"
	// Hole: the log has no record at an offset.
	Hole Anomaly = "hole"
	// Invented: a record that nobody sent there.
	Invented Anomaly = "invented"
)

// Finding is an anomaly in a partition.
type Finding struct {
	Anomaly   Anomaly
	Partition int32
	Offset    int64
	Text      string
}

func (f Finding) String() string {
	return fmt.Sprintf("%s: partition %d, offset %d: %s", f.Anomaly, f.Partition, f.Offset, f.Text)
}

// Report is what Check found.
type Report struct {
	Sent, Acked, Refused, Unknown int // values
	Logged                        int // records of the last reading
	Findings                      []Finding
	// Gap is the longest time that a partition went without an acknowledgement
	// while records to it were waiting for one.
	Gap time.Duration
}

// Count is how often there is an anomaly.
func (r *Report) Count(a Anomaly) (n int) {
	for _, f := range r.Findings {
		if f.Anomaly == a {
			n++
		}
	}
	return n
}

func (r *Report) String() string {
	s := fmt.Sprintf("%d sent, %d acknowledged, %d refused, %d unknown, %d in the log, at most %v without an acknowledgement",
		r.Sent, r.Acked, r.Refused, r.Unknown, r.Logged, r.Gap.Round(time.Millisecond))
	counts := make(map[Anomaly]int)
	for _, f := range r.Findings {
		counts[f.Anomaly]++
	}
	for _, a := range slices.Sorted(maps.Keys(counts)) {
		s += fmt.Sprintf(", %d %s", counts[a], a)
	}
	return s
}

// place is where a record is.
type place struct {
	partition int32
	offset    int64
}

// sent is what became of a value.
type sent struct {
	client    string
	partition int32
	repeats   bool
	outcome   Kind
}

// check is the state of Check.
type check struct {
	*Report
	values map[string]*sent            // by the value
	seen   map[string]map[place]string // places of a value, and who told of each
	held   map[place]string            // the first value that was told of
	acks   map[string]place            // by the value
	final  map[int32][]Event
}

// Check finds what may not be in a history that has a last reading.
func Check(events []Event) *Report {
	c := &check{
		Report: &Report{},
		values: make(map[string]*sent),
		seen:   make(map[string]map[place]string),
		held:   make(map[place]string),
		acks:   make(map[string]place),
		final:  make(map[int32][]Event),
	}
	// A consumer may be faster to tell than the producer.
	for _, e := range events {
		if e.Kind == Send {
			c.Sent++
			c.values[e.Value] = &sent{e.Client, e.Partition, e.Repeats, Unknown}
		}
	}
	for _, e := range events {
		switch e.Kind {
		case Ack, Refused, Unknown:
			if s := c.values[e.Value]; s != nil {
				s.outcome = e.Kind
			}
			if e.Kind == Ack {
				c.acks[e.Value] = place{e.Partition, e.Offset}
				c.saw(e)
			}
		case Read, Glimpse:
			c.saw(e)
		case Final:
			c.Logged++
			c.final[e.Partition] = append(c.final[e.Partition], e)
			c.saw(e)
		}
	}
	for _, s := range c.values {
		switch s.outcome {
		case Ack:
			c.Acked++
		case Refused:
			c.Refused++
		default:
			c.Unknown++
		}
	}
	c.missing()
	c.holes()
	c.sendOrder(events)
	c.readOrder(events)
	c.readers(events)
	c.Gap = gap(events)
	slices.SortStableFunc(c.Findings, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.Anomaly, b.Anomaly), cmp.Compare(a.Partition, b.Partition), cmp.Compare(a.Offset, b.Offset), cmp.Compare(a.Text, b.Text))
	})
	return c.Report
}

func (c *check) found(a Anomaly, partition int32, offset int64, format string, args ...any) {
	c.Findings = append(c.Findings, Finding{a, partition, offset, fmt.Sprintf(format, args...)})
}

// saw compares a record that was told of with all that were.
func (c *check) saw(e Event) {
	at := place{e.Partition, e.Offset}
	who := e.Client
	if e.Kind == Final {
		who = "the log"
	}
	if c.seen[e.Value] == nil {
		c.seen[e.Value] = make(map[place]string)
	}
	if _, known := c.seen[e.Value][at]; known {
		return // all that could be said of it was said
	}
	if s := c.values[e.Value]; s == nil || !s.repeats {
		for other, by := range c.seen[e.Value] {
			c.found(Duplicate, at.partition, at.offset, "%s says %s, which is at %d of partition %d for %s", who, e.Value, other.offset, other.partition, by)
			break
		}
	}
	c.seen[e.Value][at] = who
	if held, ok := c.held[at]; !ok {
		c.held[at] = e.Value
	} else if held != e.Value {
		c.found(Inconsistent, at.partition, at.offset, "%s says %s, %s says %s", who, e.Value, c.seen[held][at], held)
	}
	switch s := c.values[e.Value]; {
	case s == nil:
		c.found(Invented, at.partition, at.offset, "%s says %q, which nobody sent", who, e.Value)
	case s.partition != at.partition:
		c.found(Invented, at.partition, at.offset, "%s says %s, which was sent to partition %d", who, e.Value, s.partition)
	}
}

// missing finds what was acknowledged or read, and is not in the log, and what is
// somewhere though it was refused.
func (c *check) missing() {
	logged := make(map[string]bool)
	there := make(map[place]string)
	end := make(map[int32]int64)
	for p, records := range c.final {
		for _, e := range records {
			logged[e.Value] = true
			there[place{p, e.Offset}] = e.Value
			end[p] = max(end[p], e.Offset+1)
		}
	}
	for value, places := range c.seen {
		for at, who := range places {
			s := c.values[value]
			repeats := s != nil && s.repeats
			if s != nil && s.outcome == Refused && !repeats {
				c.found(Aborted, at.partition, at.offset, "%s says %s, which %s was told is not there", who, value, s.client)
			}
			if there[at] == value || logged[value] && !repeats {
				continue // that it is elsewhere has been found
			}
			how := "was read by " + who
			if acked, ok := c.acks[value]; ok && acked == at {
				how = "was acknowledged to " + c.values[value].client
			}
			anomaly := Lost
			if at.offset >= end[at.partition] {
				anomaly = Unseen
			}
			c.found(anomaly, at.partition, at.offset, "%s %s", value, how)
		}
	}
}

// holes finds offsets that the log lacks.
func (c *check) holes() {
	for p, records := range c.final {
		next := int64(0)
		for _, e := range records {
			if e.Offset != next {
				c.found(Hole, p, next, "the next record is at %d", e.Offset)
			}
			next = e.Offset + 1
		}
	}
}

// stream is what one client does with one partition.
type stream struct {
	client    string
	partition int32
}

// sendOrder finds a producer's records that are not in the order in which it sent them.
func (c *check) sendOrder(events []Event) {
	last := make(map[stream]place)
	before := make(map[stream]string)
	for _, e := range events {
		at, acked := c.acks[e.Value]
		if e.Kind != Send || !acked || e.Repeats { // what it sends again may come behind what it had in flight
			continue
		}
		s := stream{e.Client, e.Partition}
		if previous, ok := last[s]; ok && previous.offset >= at.offset {
			c.found(SendOrder, at.partition, at.offset, "%s sent %s after %s, which is at %d", e.Client, e.Value, before[s], previous.offset)
		}
		last[s], before[s] = at, e.Value
	}
}

// readOrder finds consumers that went back or left something out.
func (c *check) readOrder(events []Event) {
	next := make(map[stream]int64)
	for _, e := range events {
		s := stream{e.Client, e.Partition}
		switch e.Kind {
		case Moved:
			delete(next, s)
		case Read:
			want, ok := next[s]
			if ok && e.Offset < want {
				c.found(ReadOrder, e.Partition, e.Offset, "%s read it after %d", e.Client, want-1)
			} else if ok && e.Offset > want {
				c.found(Skipped, e.Partition, want, "%s read %d after %d", e.Client, e.Offset, want-1)
			}
			next[s] = e.Offset + 1
		}
	}
}

// readers finds what is in the log and was not read by those who read all.
func (c *check) readers(events []Event) {
	read := make(map[string]map[place]bool) // by group
	for _, e := range events {
		if e.Kind != Read && e.Kind != Moved {
			continue
		}
		group := cmp.Or(e.Group, e.Client)
		if read[group] == nil {
			read[group] = make(map[place]bool)
		}
		if e.Kind == Read {
			read[group][place{e.Partition, e.Offset}] = true
		}
	}
	for group, places := range read {
		for p, records := range c.final {
			for _, e := range records {
				if !places[place{p, e.Offset}] {
					c.found(Unseen, p, e.Offset, "%s has not read %s", group, e.Value)
				}
			}
		}
	}
}

// gap is Report's Gap.
func gap(events []Event) (longest time.Duration) {
	type waiting struct {
		count int
		since time.Duration // of the first that waits, or of the last acknowledgement
	}
	partitions := make(map[int32]*waiting)
	for _, e := range events {
		w := partitions[e.Partition]
		if w == nil {
			w = &waiting{}
			partitions[e.Partition] = w
		}
		switch e.Kind {
		case Send:
			if w.count++; w.count == 1 {
				w.since = e.At
			}
		case Ack:
			longest = max(longest, e.At-w.since)
			w.count--
			w.since = e.At
		case Refused, Unknown:
			w.count--
		}
	}
	return longest
}
