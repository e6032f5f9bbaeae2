//go:build integration

package nemesis

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/integration/harness"
	"github.com/klamm/klamm/integration/nemesis/history"
	"github.com/klamm/klamm/protocol"
)

// end heals the cluster and looks whether all is as promised.
func (w *world) end() {
	w.T.Helper()
	w.heal()
	w.awaitWhole()
	w.load.producers.end()
	w.load.admin.end()
	ends := [partitions]int64(w.Ends(topic))
	if !w.loses { // a consumer that read what is lost may stop
		w.comeToTheEnd(ends)
	}
	w.readAll(ends)
	w.load.consumers.end()
	w.report = history.Check(w.history.Events())
	w.T.Log(w.report)
	for what, count := range w.load.gaveUp {
		w.T.Logf("given up: %d of %s", count, what)
		if strings.Contains(what, "idempotent") && !w.loses {
			w.T.Error("an idempotent producer gave up")
		}
	}
	if w.loses {
		w.mustLose()
		return
	}
	for i, f := range w.report.Findings {
		if i == 20 {
			w.T.Errorf("and %d more", len(w.report.Findings)-i)
			break
		}
		w.T.Error(f)
	}
	w.topics()
	w.sameMetadata()
	w.elections()
	w.controllers()
	if w.then != nil {
		w.then(w)
	}
	w.sameLogs()
}

// mustLose is the end of a control: the checker has found lost records.
func (w *world) mustLose() {
	w.T.Helper()
	if w.report.Count(history.Lost)+w.report.Count(history.Unseen) == 0 {
		w.T.Error("records must have been lost, and the checker did not find it")
	}
	for _, f := range w.report.Findings {
		if f.Anomaly == history.Lost {
			w.T.Logf("for example %v", f)
			break
		}
	}
}

// comeToTheEnd waits until all consumers have. Those that do not are found in the
// history, with what they have not seen.
func (w *world) comeToTheEnd(ends [partitions]int64) {
	w.T.Helper()
	began := time.Now()
	for last := began.Add(w.Patience); ; w.rest(w.Pause) {
		behind := w.load.behind(ends)
		if behind == "" {
			w.T.Logf("all consumers are at the end after %v", time.Since(began).Round(time.Millisecond))
			return
		}
		if time.Now().After(last) {
			w.T.Errorf("not at the end after %v: %s", w.Patience, behind)
			return
		}
	}
}

// readAll is the last reading.
func (w *world) readAll(ends [partitions]int64) {
	w.T.Helper()
	all := make(map[int32]kgo.Offset)
	left := int64(0)
	for p, end := range ends {
		all[int32(p)] = kgo.NewOffset().At(0)
		left += end
	}
	client := w.NewClient(kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: all}))
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), w.Patience)
	defer cancel()
	for at := [partitions]int64{}; at != ends; {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			w.T.Fatalf("the last reading, at %v of %v: %v", at, ends, err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			if r.Offset < ends[r.Partition] {
				w.history.Add(history.Event{Kind: history.Final, Partition: r.Partition, Offset: r.Offset, Value: string(r.Value)})
				at[r.Partition] = r.Offset + 1
			}
		})
	}
}

// topics looks whether all brokers know the topics that were created, and not those
// that were deleted.
func (w *world) topics() {
	w.T.Helper()
	for _, id := range w.brokers() {
		req := kmsg.NewPtrMetadataRequest()
		req.Topics = nil // all of them
		var wrong []string
		w.Await(fmt.Sprintf("broker %d to know all topics", id), func() bool {
			resp, err := w.Client.Broker(int(id)).Request(w.Within(), req)
			if err != nil {
				return false
			}
			known := make(map[string]bool)
			for _, t := range resp.(*kmsg.MetadataResponse).Topics {
				known[*t.Topic] = protocol.Error(t.ErrorCode) == protocol.None
			}
			wrong = wrong[:0]
			for name, made := range w.load.admin.made {
				if known[name] != made {
					wrong = append(wrong, name)
				}
			}
			return len(wrong) == 0
		})
	}
	w.T.Logf("%d topics were created or deleted", len(w.load.admin.made))
}

// sameMetadata waits until the nodes' metadata is the same, which it soon must be
// when nothing changes it any more.
func (w *world) sameMetadata() {
	w.T.Helper()
	w.Await("equal digests", func() bool {
		digests := make(map[string]bool)
		for _, n := range w.All() {
			digests[harness.MustRun(w.T, "metadata", "digest", n.Data())] = true
		}
		return len(digests) == 1
	})
}

// change is a record about a partition, as `klamm metadata history` prints it.
type change struct {
	Epoch   int // of the controller
	Cause   string
	Changes []struct {
		Path string
		To   json.RawMessage
	}
}

// elections looks whether each leader was in sync, or eligible, when it was elected,
// and epochs only went up.
func (w *world) elections() {
	w.T.Helper()
	total, controllerEpoch := 0, 0
	w.least = len(w.replicas)
	for p := range partitions {
		controllerEpoch = 0
		name := fmt.Sprintf("%s/%d", topic, p)
		text := harness.MustRun(w.T, "metadata", "history", "--json", w.All()[0].Data(), "partition", name)
		state := struct {
			leader, leaderEpoch, partitionEpoch int32
			isr, eligible, last                 []int32
		}{leader: -1, leaderEpoch: -1, partitionEpoch: -1}
		for line := range strings.Lines(text) {
			var c change
			if err := json.Unmarshal([]byte(line), &c); err != nil {
				w.T.Fatalf("%s: %v", line, err)
			}
			if c.Epoch < controllerEpoch {
				w.T.Errorf("%s: written by controller epoch %d after %d", name, c.Epoch, controllerEpoch)
			}
			controllerEpoch = c.Epoch
			before := state
			for _, field := range c.Changes {
				to := map[string]any{
					"leader": &state.leader, "leaderEpoch": &state.leaderEpoch, "partitionEpoch": &state.partitionEpoch,
					"isr": &state.isr, "eligibleLeaderReplicas": &state.eligible, "lastKnownElr": &state.last,
				}[field.Path]
				if to == nil {
					continue
				}
				// A list is read into a new one.
				if list, ok := to.(*[]int32); ok {
					*list = nil
				}
				if err := json.Unmarshal(field.To, to); err != nil {
					w.T.Fatalf("%s: %v", line, err)
				}
			}
			w.least = min(w.least, len(state.isr))
			if before.leaderEpoch < 0 {
				continue // its creation
			}
			if state.partitionEpoch != before.partitionEpoch+1 || state.leaderEpoch < before.leaderEpoch {
				w.T.Errorf("%s: epochs do not go up: %s", name, line)
			}
			if state.leader == before.leader {
				continue
			}
			total++
			if state.leaderEpoch != before.leaderEpoch+1 {
				w.T.Errorf("%s: another leader, not the next epoch: %s", name, line)
			}
			may := slices.Concat(before.isr, before.eligible)
			if len(before.isr)+len(state.eligible) == 0 && strings.Contains(c.Cause, "last known leader elected") {
				may = before.last // who led alone has all that was acknowledged, unless its disk lost it
			}
			if strings.Contains(c.Cause, "reassignment completed") {
				may = append(may, state.isr...)
			}
			if state.leader >= 0 && !slices.Contains(may, state.leader) && !w.unclean {
				w.T.Errorf("%s: a leader that was neither of %v: %s", name, may, line)
			}
		}
	}
	w.T.Logf("%d elections, at least %d in sync", total, w.least)
}

var elected = regexp.MustCompile(`"epoch":(\d+),.*"message":"elected controller"`)

// controllers looks whether each controller epoch had one controller, and epochs only
// went up.
func (w *world) controllers() {
	w.T.Helper()
	by := make(map[int]int32)
	for _, id := range w.ids() {
		last := 0
		for _, m := range elected.FindAllStringSubmatch(w.Node(id).Log(), -1) {
			epoch, err := strconv.Atoi(m[1])
			if err != nil {
				w.T.Fatal(err)
			}
			if other, ok := by[epoch]; ok || epoch <= last {
				w.T.Errorf("%d became the controller in epoch %d, after %d; it was %d's", id, epoch, last, other)
			}
			by[epoch], last = id, epoch
		}
	}
	if len(by) == 0 {
		w.T.Error("no log tells of a controller's election")
	}
	w.T.Logf("%d elections of a controller", len(by))
}

// sameLogs ends all nodes and compares the bytes of the replicas.
func (w *world) sameLogs() {
	w.T.Helper()
	for _, n := range w.All() {
		n.Kill()
	}
	first := w.Logs(int(w.replicas[0]-1), topic)
	if len(first) != partitions {
		w.T.Errorf("broker %d has %d partitions of %s", w.replicas[0], len(first), topic)
	}
	for _, id := range w.replicas[1:] {
		other := w.Logs(int(id-1), topic)
		for dir, data := range first {
			if !bytes.Equal(data, other[dir]) {
				w.T.Errorf("%s: broker %d has %d bytes, broker %d %d others", dir, id, len(other[dir]), w.replicas[0], len(data))
			}
		}
	}
}
