package api

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"

	"github.com/klamm/klamm/broker/replica"
	"github.com/klamm/klamm/protocol"
)

// sessionWorld runs sessions without a broker: the answer for a partition is a
// high watermark that the script sets, and records where it lies above the offset.
type sessionWorld struct {
	sessions *fetchSessions
	now      time.Time
	end      map[string]int64 // high watermark by "topic-partition"
	broken   map[string]bool  // partitions that answer an error
}

func newSessionWorld(slots int) *sessionWorld {
	w := &sessionWorld{
		sessions: newFetchSessions(slots, 2*time.Minute), now: time.Unix(0, 0),
		end: map[string]int64{}, broken: map[string]bool{},
	}
	next := int32(0)
	w.sessions.newID = func() int32 { next++; return next }
	return w
}

// fetch runs one request through the sessions and returns what is answered, in
// order, and the session id.
func (w *sessionWorld) fetch(req *kmsg.FetchRequest, follower bool) (int32, []string, error) {
	run := &fetchRun{byID: req.Version >= 13, follower: follower}
	if err := w.sessions.begin(run, req, w.now); err != nil {
		return 0, nil, err
	}
	for i := range run.items {
		w.read(&run.items[i])
	}
	id, err := w.sessions.finish(run, w.now)
	if err != nil {
		return id, nil, err
	}
	var told []string
	for i := range run.items {
		it := &run.items[i]
		if it.unchanged {
			continue
		}
		said := fmt.Sprintf("%s-%d", it.key.name, it.key.partition)
		switch {
		case it.err != nil:
			said += ":error"
		case it.size > 0:
			said += fmt.Sprintf(":%d..%d", it.want.offset, it.fetched.HighWatermark)
		default:
			said += fmt.Sprintf(":hw=%d", it.fetched.HighWatermark)
		}
		told = append(told, said)
	}
	return id, told, nil
}

func (w *sessionWorld) read(it *fetchItem) {
	name := fmt.Sprintf("%s-%d", it.key.name, it.key.partition)
	if w.broken[name] {
		it.err = protocol.ErrUnknownTopicOrPartition
		return
	}
	it.fetched = replica.Fetched{HighWatermark: w.end[name]}
	if it.want.offset < w.end[name] {
		it.size = 1
	}
}

// TestFetchSessions runs testdata/fetch_session.
func TestFetchSessions(t *testing.T) {
	datadriven.Walk(t, "testdata/fetch_session", func(t *testing.T, path string) {
		w := newSessionWorld(2)
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "fetch":
				return w.runFetch(t, d)
			case "set":
				for _, f := range strings.Fields(d.Input) {
					name, value, _ := strings.Cut(f, "=")
					w.broken[name] = value == "error"
					if value != "error" {
						w.end[name] = parseInt(t, value)
					}
				}
				return ""
			case "sleep":
				length, err := time.ParseDuration(strings.TrimSpace(d.Input))
				if err != nil {
					t.Fatal(err)
				}
				w.now = w.now.Add(length)
				return ""
			case "sessions":
				return fmt.Sprintf("%v\n", slices.Sorted(maps.Keys(w.sessions.byID)))
			}
			d.Fatalf(t, "unknown command")
			return ""
		})
	})
}

// runFetch reads session, epoch, version and the partitions: topic-partition@offset,
// or -topic-partition to forget one.
func (w *sessionWorld) runFetch(t *testing.T, d *datadriven.TestData) string {
	req := kmsg.NewPtrFetchRequest()
	version, id, epoch := 12, 0, 0
	d.MaybeScanArgs(t, "version", &version)
	d.MaybeScanArgs(t, "session", &id)
	d.MaybeScanArgs(t, "epoch", &epoch)
	req.Version, req.SessionID, req.SessionEpoch = int16(version), int32(id), int32(epoch)
	for _, f := range strings.Fields(d.Input) {
		if rest, forget := strings.CutPrefix(f, "-"); forget {
			topic, partition, _ := strings.Cut(rest, "-")
			req.ForgottenTopics = append(req.ForgottenTopics, kmsg.FetchRequestForgottenTopic{
				Topic: topic, Partitions: []int32{int32(parseInt(t, partition))},
			})
			continue
		}
		name, offset, _ := strings.Cut(f, "@")
		topic, partition, _ := strings.Cut(name, "-")
		p := kmsg.NewFetchRequestTopicPartition()
		p.Partition, p.FetchOffset = int32(parseInt(t, partition)), parseInt(t, offset)
		req.Topics = append(req.Topics, kmsg.FetchRequestTopic{Topic: topic, Partitions: []kmsg.FetchRequestTopicPartition{p}})
	}
	session, told, err := w.fetch(req, d.HasArg("follower"))
	if err != nil {
		return fmt.Sprintf("%s, session %d\n", protocol.CodeOf(err), session)
	}
	return fmt.Sprintf("session %d: %s\n", session, strings.Join(told, " "))
}

func parseInt(t *testing.T, s string) int64 {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestSessionAgainstModel compares incremental answers with a model that
// remembers what the client was told: nothing that changed may be left out, and
// nothing that did not may be said.
func TestSessionAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newSessionWorld(10)
		const partitions = 4
		offsets := map[int32]int64{}
		told := map[string]string{}
		session, epoch := int32(0), int32(0)
		for range rapid.IntRange(1, 15).Draw(t, "steps") {
			for p := range int32(partitions) {
				if rapid.Bool().Draw(t, "append") {
					w.end[fmt.Sprintf("t-%d", p)]++
				}
			}
			req := kmsg.NewPtrFetchRequest()
			req.Version, req.SessionID, req.SessionEpoch = 12, session, epoch
			topic := kmsg.FetchRequestTopic{Topic: "t"}
			for p := range int32(partitions) {
				_, known := offsets[p]
				if known && !rapid.Bool().Draw(t, "list") {
					continue
				}
				part := kmsg.NewFetchRequestTopicPartition()
				part.Partition = p
				part.FetchOffset = rapid.Int64Range(0, w.end[fmt.Sprintf("t-%d", p)]).Draw(t, "offset")
				offsets[p] = part.FetchOffset
				topic.Partitions = append(topic.Partitions, part)
			}
			req.Topics = append(req.Topics, topic)
			id, got, err := w.fetch(req, false)
			if err != nil || id == 0 {
				t.Fatalf("session %d, %v", id, err)
			}
			var want []string
			for p, offset := range offsets {
				name := fmt.Sprintf("t-%d", p)
				hw := fmt.Sprint(w.end[name])
				switch {
				case offset < w.end[name]:
					want = append(want, fmt.Sprintf("%s:%d..%s", name, offset, hw))
				case told[name] != hw:
					want = append(want, fmt.Sprintf("%s:hw=%s", name, hw))
				}
				told[name] = hw
			}
			slices.Sort(got)
			slices.Sort(want)
			if !slices.Equal(got, want) {
				t.Fatalf("told %v, want %v", got, want)
			}
			session, epoch = id, nextFetchEpoch(epoch)
		}
	})
}
