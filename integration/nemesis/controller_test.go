//go:build integration

package nemesis

import (
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/protocol"
)

var _ = register(scenario{
	number: 8, name: "controller-frozen", atLeast: 75 * time.Second,
	does: "the active controller stands still for ten seconds, and once for a minute",
	run: func(w *world) {
		for long := time.Minute; w.next(2 * time.Second); long = 10 * time.Second {
			victim := w.active()
			w.freeze(victim)
			w.goesOn()
			w.awaitController(victim)
			w.rest(long)
			w.goesOn()
			w.thaw(victim)
			w.goesOn()
		}
	},
})

var _ = register(scenario{
	number: 9, name: "controller-killed-creating", stated: true,
	does: "the active controller is killed while a thousand topics are created, which then are there, each whole",
	run: func(w *world) {
		for round := 0; w.next(time.Second); round++ {
			var names []string
			for i := range 1000 {
				names = append(names, fmt.Sprintf("many-%d-%04d", round, i))
			}
			created := make(chan time.Duration, 1)
			began := time.Now()
			go func() {
				w.createMany(names)
				created <- time.Since(began)
			}()
			victim := w.active()
			w.rest(time.Duration(w.rand.Int64N(int64(400 * time.Millisecond))))
			w.kill(victim)
			killed := time.Now()
			next := w.awaitController(victim)
			w.T.Logf("%d is the controller %v after the kill, which was %v after the beginning", next,
				time.Since(killed).Round(time.Millisecond), killed.Sub(began).Round(time.Millisecond))
			w.wholeOrNot(names, false)
			w.T.Logf("all are created %v after the beginning", (<-created).Round(time.Millisecond))
			w.wholeOrNot(names, true)
			w.start(victim)
			w.goesOn()
			w.deleteMany(names)
		}
	},
})

var _ = register(scenario{
	number: 10, name: "controllers-killed", atLeast: 70 * time.Second,
	does: "two of three controllers are gone for a minute: leaders serve, and nothing else changes",
	run: func(w *world) {
		for w.next(2 * time.Second) {
			active := w.active()
			others := slices.DeleteFunc([]int32{101, 102, 103}, func(id int32) bool { return id == active })
			other := others[w.rand.IntN(len(others))]
			w.kill(active, other)
			client := w.NewClient()
			for began := time.Now(); time.Since(began) < time.Minute; {
				w.goesOn()
				for _, id := range w.brokers() {
					err := createTopic(w, client.Broker(int(id)), "not-now")
					w.T.Logf("create a topic at broker %d: %v", id, err)
					if err == nil {
						w.T.Errorf("broker %d created a topic without a majority", id)
					}
					if code, ok := err.(protocol.Error); ok && !kerr.IsRetriable(kerr.ErrorForCode(int16(code))) {
						w.T.Errorf("broker %d says %v, which clients do not try again after", id, code)
					}
				}
				w.rest(5 * time.Second)
			}
			w.start(active, other)
			w.goesOn()
		}
	},
})

// awaitController waits until another than this one is the active controller, and
// metadata can be written.
func (w *world) awaitController(old int32) (next int32) {
	w.T.Helper()
	w.Await(fmt.Sprintf("another controller than %d", old), func() bool {
		next = w.active()
		return next != old
	})
	return next
}

// createMany creates topics in one request, which is sent until all are there.
func (w *world) createMany(names []string) {
	client := w.NewClient()
	for last := time.Now().Add(w.Patience); ; w.rest(50 * time.Millisecond) {
		req := kmsg.NewPtrCreateTopicsRequest()
		req.TimeoutMillis = 30_000
		for _, name := range names {
			t := kmsg.NewCreateTopicsRequestTopic()
			t.Topic, t.NumPartitions, t.ReplicationFactor = name, 1, 3
			req.Topics = append(req.Topics, t)
		}
		resp, err := client.Broker(w.someBroker()).Request(w.T.Context(), req)
		codes := make(map[protocol.Error]int)
		if err == nil {
			for _, t := range resp.(*kmsg.CreateTopicsResponse).Topics {
				codes[protocol.Error(t.ErrorCode)]++
			}
			if codes[protocol.None]+codes[protocol.ErrTopicAlreadyExists] == len(names) {
				return
			}
		}
		w.T.Logf("the creation is answered with %v, %v", codes, err)
		if time.Now().After(last) {
			w.T.Errorf("topics are not created: %v, %v", codes, err)
			return
		}
	}
}

// deleteMany deletes them, likewise.
func (w *world) deleteMany(names []string) {
	w.T.Helper()
	w.Await("topics to be deleted", func() bool {
		req := kmsg.NewPtrDeleteTopicsRequest()
		req.TimeoutMillis = 30_000
		for _, name := range names {
			t := kmsg.NewDeleteTopicsRequestTopic()
			t.Topic = &name
			req.Topics = append(req.Topics, t)
		}
		req.TopicNames = names
		resp, err := w.Client.Request(w.Within(), req)
		return err == nil && !slices.ContainsFunc(resp.(*kmsg.DeleteTopicsResponse).Topics, func(t kmsg.DeleteTopicsResponseTopic) bool {
			code := protocol.Error(t.ErrorCode)
			return code != protocol.None && code != protocol.ErrUnknownTopicOrPartition
		})
	})
}

// wholeOrNot looks whether each topic is at each broker with its partition, or, unless
// all have to be there, not at all.
func (w *world) wholeOrNot(names []string, all bool) {
	w.T.Helper()
	for _, id := range w.brokers() {
		var there, broken int
		w.Await(fmt.Sprintf("all topics at broker %d", id), func() bool {
			req := kmsg.NewPtrMetadataRequest()
			for _, name := range names {
				t := kmsg.NewMetadataRequestTopic()
				t.Topic = &name
				req.Topics = append(req.Topics, t)
			}
			resp, err := w.Client.Broker(int(id)).Request(w.Within(), req)
			if err != nil {
				return false
			}
			there, broken = 0, 0
			for _, t := range resp.(*kmsg.MetadataResponse).Topics {
				if protocol.Error(t.ErrorCode) == protocol.ErrUnknownTopicOrPartition {
					continue
				}
				there++
				if t.ErrorCode != 0 || len(t.Partitions) != 1 || len(t.Partitions[0].Replicas) != 3 {
					broken++
				}
			}
			return !all || there == len(names)
		})
		if broken > 0 {
			w.T.Errorf("broker %d has %d of %d topics that are not whole", id, broken, there)
		}
		w.T.Logf("broker %d has %d topics", id, there)
	}
}

// someBroker is one that is taken to live, for a client's Broker.
func (w *world) someBroker() int {
	ids := slices.DeleteFunc(w.brokers(), func(id int32) bool { return w.dead[id] || w.frozen[id] })
	return int(ids[0])
}
