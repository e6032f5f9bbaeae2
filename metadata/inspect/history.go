package inspect

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/klamm/klamm/metadata"
	"github.com/klamm/klamm/metadata/record"
	"github.com/klamm/klamm/protocol"
)

// Event is one record that says something about an object.
type Event struct {
	Offset      int64
	TimestampMs int64
	Epoch       protocol.ControllerEpoch
	Record      string // its type; "" for the state in a snapshot
	Cause       string // "" where the record has none
	Changes     []Change

	object Object
}

// History is what happened to objects, as far back as the files reach.
type History struct {
	Events []Event
	Image  *metadata.Image // as of the end
	// From is the first offset that the history knows. Where it is not 0, the
	// history begins with the state in a snapshot.
	From int64
}

// LoadHistory reads the history of objects up to a moment, from what Load takes.
func LoadHistory(path string, at At, objects ...Object) (*History, error) {
	return again(func() (*History, error) { return loadHistory(path, at, objects) })
}

func loadHistory(path string, at At, objects []Object) (*History, error) {
	past := &history{objects: objects, names: map[protocol.UUID]string{}, settled: -1}
	img, err := load(path, at, past)
	if err != nil {
		return nil, err
	}
	if past.settled >= 0 {
		past.Events = past.Events[:past.settled]
	}
	past.Image = img
	return &past.History, nil
}

// of are the events of one of the objects.
func (h *History) of(o Object) []Event {
	var events []Event
	for _, e := range h.Events {
		if e.object == o {
			events = append(events, e)
		}
	}
	return events
}

// history is a History in the making.
type history struct {
	History
	objects []Object
	names   map[protocol.UUID]string // of topics that are or were
	settled int                      // events before the open transaction; −1 without one
}

// begin takes the state in a snapshot.
func (h *history) begin(img *metadata.Image) {
	h.From = img.Offset() + 1
	for t := range img.Topics() {
		h.names[t.ID] = t.Name
	}
	for _, o := range h.objects {
		if changes := o.changes(metadata.Empty(), img, nil); len(changes) > 0 {
			h.Events = append(h.Events, Event{
				Offset: img.Offset(), TimestampMs: img.TimestampMs(), Epoch: img.Epoch(), Changes: changes, object: o,
			})
		}
	}
}

// replay takes in a record that delta is to replay.
func (h *history) replay(delta *metadata.Delta, e record.Entry, epoch protocol.ControllerEpoch) error {
	switch r := e.Record.(type) {
	case *record.Topic:
		h.names[r.TopicID] = r.Name
	case *record.BeginTransaction:
		h.settled = len(h.Events)
	case *record.EndTransaction:
		h.settled = -1
	case *record.AbortTransaction:
		if h.settled >= 0 {
			h.Events = h.Events[:h.settled]
		}
		h.settled = -1
	}
	touched := slices.ContainsFunc(h.objects, func(o Object) bool { return o.touchedBy(e.Record, h.names) })
	if !touched {
		return delta.Replay(e.Record)
	}
	before := delta.Apply(e.Offset-1, epoch, e.TimestampMs)
	if err := delta.Replay(e.Record); err != nil {
		return err
	}
	after := delta.Apply(e.Offset, epoch, e.TimestampMs)
	for _, o := range h.objects {
		if !o.touchedBy(e.Record, h.names) {
			continue
		}
		event := Event{
			Offset: e.Offset, TimestampMs: e.TimestampMs, Epoch: epoch, Record: record.Name(e.Record),
			Cause: record.CauseOf(e.Record), Changes: o.changes(before, after, e.Record), object: o,
		}
		if len(event.Changes) > 0 || !h.incidental(e.Record) {
			h.Events = append(h.Events, event)
		}
	}
	return nil
}

// incidental tells of a record that names no object, and so has nothing to do with
// one that it does not change.
func (h *history) incidental(rec record.Record) bool {
	switch rec.(type) {
	case *record.ClearELR, *record.RemoveAccessControlEntry, *record.RemoveTopic:
		return true
	}
	return false
}

// ShowHistory prints what happened to an object: a line for each record, then what
// it changed; or one JSON object per record.
func ShowHistory(w io.Writer, h *History, o Object, opts Options) error {
	out := bufio.NewWriter(w)
	if !opts.JSON {
		fmt.Fprintf(out, "%s, %s\n", o, h.span())
	}
	events := h.of(o)
	if len(events) == 0 && !opts.JSON {
		fmt.Fprintln(out, "nothing is said about it")
	}
	for _, e := range events {
		if opts.JSON {
			e.writeJSON(out)
			continue
		}
		fmt.Fprintf(out, "\noffset %d  %s  epoch %d  %s\n", e.Offset, timeText(e.TimestampMs), e.Epoch, e.title())
		if e.gone() {
			fmt.Fprintln(out, "  gone")
			continue
		}
		for _, c := range e.Changes {
			fmt.Fprintf(out, "  %s: %s\n", c.Path, c.text())
		}
	}
	return out.Flush()
}

// span says what the history covers.
func (h *History) span() string {
	switch last := h.Image.Offset(); {
	case h.From == 0:
		return fmt.Sprintf("offsets 0 to %d, the whole of the log", last)
	case h.From > last:
		return fmt.Sprintf("offset %d, a snapshot: there is no log to say what happened", last)
	default:
		return fmt.Sprintf("offsets %d to %d, behind a snapshot: the log does not reach further back", h.From, last)
	}
}

func (e *Event) title() string {
	switch {
	case e.Record == "":
		return "as the snapshot has it"
	case e.Cause == "":
		return e.Record + " (it says no cause)"
	}
	return e.Record + "  " + printable(e.Cause)
}

// gone tells whether the record is the end of the object.
func (e *Event) gone() bool {
	return e.Record == record.Name(&record.RemoveTopic{}) || e.Record == record.Name(&record.UnregisterBroker{})
}

func (c Change) text() string {
	switch {
	case c.From == "":
		return plain(c.To)
	case c.To == "":
		return plain(c.From) + " -> gone"
	}
	return plain(c.From) + " -> " + plain(c.To)
}

func (e *Event) writeJSON(out *bufio.Writer) {
	type change struct {
		Path string          `json:"path"`
		From json.RawMessage `json:"from"`
		To   json.RawMessage `json:"to"`
	}
	line := struct {
		Offset    int64    `json:"offset"`
		Timestamp int64    `json:"timestamp"`
		Epoch     int32    `json:"epoch"`
		Type      string   `json:"type,omitempty"`
		Cause     string   `json:"cause,omitempty"`
		Changes   []change `json:"changes"`
	}{e.Offset, e.TimestampMs, int32(e.Epoch), e.Record, e.Cause, []change{}}
	for _, c := range e.Changes {
		line.Changes = append(line.Changes, change{c.Path, raw(c.From), raw(c.To)})
	}
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(line); err != nil {
		panic(fmt.Sprintf("inspect: an event is no JSON: %v", err))
	}
}

// raw is a value of a Change, nil for none.
func raw(value string) json.RawMessage {
	if value == "" {
		return nil
	}
	return json.RawMessage(value)
}

func timeText(ms int64) string {
	if ms < 0 {
		return "-"
	}
	return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z")
}

// printable is a cause as a terminal may get it: a client chooses its name.
func printable(cause string) string {
	if strings.ContainsFunc(cause, func(c rune) bool { return !unicode.IsPrint(c) }) {
		return strconv.Quote(cause)
	}
	return cause
}
