package inspect

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/klamm/klamm/metadata"
	"github.com/klamm/klamm/metadata/feature"
	"github.com/klamm/klamm/protocol"
)

// Explain says of a partition what state it is in and why: who leads, who is in
// sync, and who has to return. Path is what Load takes.
func Explain(w io.Writer, path string, at At, partition Object) error {
	img, err := Load(path, at)
	if err != nil {
		return err
	}
	p, ok := img.Partition(partition.tp)
	if !ok {
		return fmt.Errorf("there is no partition %s at offset %d", partition.tp, img.Offset())
	}
	objects := []Object{partition}
	for _, id := range p.Replicas {
		objects = append(objects, brokerObject(id))
	}
	offset := img.Offset() // the node may have gone on
	h, err := LoadHistory(path, At{Offset: &offset}, objects...)
	if err != nil {
		return err
	}
	out := bufio.NewWriter(w)
	for _, line := range explain(h, partition) {
		fmt.Fprintln(out, line)
	}
	return out.Flush()
}

func brokerObject(id protocol.NodeID) Object {
	o, err := ParseObject("broker", strconv.Itoa(int(id)))
	if err != nil {
		panic(fmt.Sprintf("inspect: broker %d: %v", id, err))
	}
	return o
}

// explain is Explain's text, from the history of the partition and of the brokers
// that have its replicas; the partition exists at its end.
func explain(h *History, of Object) []string {
	t, _ := h.Image.Topic(of.tp.Topic)
	p, _ := t.Partition(of.tp.Partition)
	e := explanation{h: h, img: h.Image, t: t, p: p, events: h.of(of)}
	e.say("%s is %s, at offset %d (%s)", of.tp, e.state(), h.Image.Offset(), timeText(h.Image.TimestampMs()))
	e.leader()
	e.members()
	e.missing()
	e.reassignment()
	e.writes()
	if p.Leader == protocol.NoNode {
		e.say("must return: %s", e.saviours())
	}
	return e.lines
}

type explanation struct {
	h      *History
	img    *metadata.Image
	t      *metadata.Topic
	p      *metadata.Partition
	events []Event // of the partition
	lines  []string
}

func (e *explanation) say(format string, args ...any) {
	e.lines = append(e.lines, fmt.Sprintf(format, args...))
}

func (e *explanation) state() string {
	var words []string
	switch {
	case e.p.Leader == protocol.NoNode:
		words = append(words, "offline")
	case e.p.LeaderRecovery != 0:
		words = append(words, "online, recovering from an election that may have lost records")
	default:
		words = append(words, "online")
	}
	if len(e.outside()) > 0 {
		words = append(words, "under-replicated")
	}
	if len(e.p.AddingReplicas)+len(e.p.RemovingReplicas) > 0 {
		words = append(words, "on its way to other brokers")
	}
	return strings.Join(words, ", ")
}

// outside are the replicas that are not in sync, but for those that only come.
func (e *explanation) outside() []protocol.NodeID {
	return slices.DeleteFunc(slices.Clone(e.p.Replicas), func(id protocol.NodeID) bool {
		return slices.Contains(e.p.ISR, id) || slices.Contains(e.p.AddingReplicas, id)
	})
}

func (e *explanation) leader() {
	since := e.since(e.events, "leader")
	if e.p.Leader == protocol.NoNode {
		e.say("leader: none%s", since)
		return
	}
	e.say("leader: %d, leader epoch %d%s", e.p.Leader, e.p.LeaderEpoch, since)
	if preferred := e.p.Replicas[0]; preferred != e.p.Leader {
		switch status, ok := e.status(preferred); {
		case !ok:
			e.say("  preferred is %d: %s", preferred, status)
		case !slices.Contains(e.p.ISR, preferred):
			e.say("  preferred is %d, which is not in sync", preferred)
		default:
			e.say("  preferred is %d, which could lead: the next preferred election gives the partition back", preferred)
		}
	}
}

func (e *explanation) members() {
	e.say("in sync: %s of replicas %s%s", ids(e.p.ISR), ids(e.p.Replicas), e.since(e.events, "isr"))
	if len(e.p.ELR) > 0 {
		e.say("  eligible to lead, for nothing was committed without them: %s", ids(e.p.ELR))
	}
}

// missing says of each replica out of sync when and why it left, and what it takes
// to come back.
func (e *explanation) missing() {
	for _, id := range e.outside() {
		e.say("  replica %d left%s", id, e.left(id))
		status, lives := e.status(id)
		switch {
		case !lives:
			e.say("    it must return: %s", status)
		case e.p.Leader == protocol.NoNode:
			e.say("    it lives, and waits for a leader")
		default:
			e.say("    it lives, and is back when it has caught up with the leader")
		}
	}
}

// left says when a replica left the ISR.
func (e *explanation) left(id protocol.NodeID) string {
	for _, event := range slices.Backward(e.events) {
		for _, c := range event.Changes {
			if c.Path == "isr" && slices.Contains(parseIDs(c.From), id) && !slices.Contains(parseIDs(c.To), id) {
				return event.when()
			}
		}
	}
	return e.unknown()
}

// since says when a value of an object became what it is.
func (e *explanation) since(events []Event, path string) string {
	for _, event := range slices.Backward(events) {
		if event.Record != "" && slices.ContainsFunc(event.Changes, func(c Change) bool { return c.Path == path }) {
			return event.when()
		}
	}
	return e.unknown()
}

func (e *Event) when() string {
	return fmt.Sprintf(", since offset %d (%s): %s", e.Offset, timeText(e.TimestampMs), e.why())
}

func (e *Event) why() string {
	if e.Cause == "" {
		return "the record says no cause"
	}
	return printable(e.Cause)
}

func (e *explanation) unknown() string {
	return fmt.Sprintf(", since before offset %d, where the log begins", e.h.From)
}

// status says what keeps a broker from serving its replica; ok where nothing does.
func (e *explanation) status(id protocol.NodeID) (text string, ok bool) {
	events := e.h.of(brokerObject(id))
	b, known := e.img.Broker(id)
	switch {
	case !known && len(events) > 0:
		return fmt.Sprintf("broker %d is not registered%s", id, events[len(events)-1].when()), false
	case !known:
		return fmt.Sprintf("broker %d is not registered", id), false
	case b.Fenced:
		return fmt.Sprintf("broker %d is fenced%s", id, e.since(events, "fenced")), false
	case b.InControlledShutdown:
		return fmt.Sprintf("broker %d is shutting down%s", id, e.since(events, "inControlledShutdown")), false
	}
	at := slices.Index(e.p.Replicas, id)
	if at >= 0 && at < len(e.p.Directories) && e.lost(b, e.p.Directories[at]) {
		return fmt.Sprintf("its directory %s on broker %d is offline", e.p.Directories[at], id), false
	}
	return "", true
}

func (e *explanation) lost(b *metadata.Broker, dir protocol.UUID) bool {
	switch dir {
	case protocol.UnassignedDir, protocol.MigratingDir:
		return false
	case protocol.LostDir:
		return true
	}
	return len(b.LogDirs) > 0 && !slices.Contains(b.LogDirs, dir)
}

func (e *explanation) reassignment() {
	if len(e.p.AddingReplicas)+len(e.p.RemovingReplicas) == 0 {
		return
	}
	path := "addingReplicas"
	if len(e.p.AddingReplicas) == 0 {
		path = "removingReplicas"
	}
	e.say("reassignment: adds %s, removes %s%s", ids(e.p.AddingReplicas), ids(e.p.RemovingReplicas), e.since(e.events, path))
	for _, id := range e.p.AddingReplicas {
		if slices.Contains(e.p.ISR, id) {
			continue
		}
		if status, ok := e.status(id); !ok {
			e.say("  it waits for %d: %s", id, status)
		} else {
			e.say("  it waits for %d to catch up", id)
		}
	}
}

// writes says whether acks=all is accepted, as far as records tell.
func (e *explanation) writes() {
	least, from := 1, "Kafka's default, if no server.properties says otherwise"
	for _, layer := range []struct {
		res  metadata.Resource
		name string
	}{
		{metadata.Resource{Type: metadata.ResourceTopic, Name: e.t.Name}, "the topic's config"},
		{metadata.Resource{Type: metadata.ResourceBroker}, "the brokers' default config"},
	} {
		if value, ok := e.img.Config(layer.res, "min.insync.replicas"); ok {
			if n, err := strconv.Atoi(value); err == nil {
				least, from = n, layer.name
				break
			}
		}
	}
	verb := "refused"
	switch {
	case e.p.Leader == protocol.NoNode:
		verb = "impossible without a leader"
	case len(e.p.ISR) >= min(least, len(e.p.Replicas)):
		verb = "accepted"
	}
	e.say("writes with acks=all: %s; %d in sync, min.insync.replicas is %d (%s)", verb, len(e.p.ISR), least, from)
}

// saviours are the replicas of which one must return for a leader without loss, in
// the order of an election.
func (e *explanation) saviours() string {
	level, _ := e.img.Feature(feature.ELR)
	switch {
	case len(e.p.ISR) > 0:
		return e.any(e.p.ISR, "in sync")
	case level >= 1 && len(e.p.ELR) > 0:
		return e.any(e.p.ELR, "eligible")
	case level >= 1 && len(e.p.LastKnownELR) == 1:
		return e.any(e.p.LastKnownELR, "the last known leader, which may lack records")
	}
	return "nobody who is known to have all records; an unclean election takes what there is"
}

func (e *explanation) any(candidates []protocol.NodeID, what string) string {
	var texts []string
	for _, id := range candidates {
		status, ok := e.status(id)
		if ok {
			status = fmt.Sprintf("broker %d lives", id)
		}
		texts = append(texts, fmt.Sprintf("%d (%s)", id, status))
	}
	return strings.Join(texts, " or ") + ": " + what
}

func ids(list []protocol.NodeID) string {
	text, _ := json.Marshal(list) // numbers always marshal
	if len(list) == 0 {
		return "[]"
	}
	return string(text)
}

func parseIDs(value string) []protocol.NodeID {
	var list []protocol.NodeID
	if json.Unmarshal([]byte(value), &list) != nil {
		return nil
	}
	return list
}
