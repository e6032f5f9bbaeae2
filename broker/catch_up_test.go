package broker

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/protocol"
)

// quorum is a controller that says how far it is, after a while.
type quorum struct {
	takes time.Duration
	fail  error

	mu    sync.Mutex
	end   int64
	asked int
}

func (q *quorum) Do(ctx context.Context, req kmsg.Request) (kmsg.Response, error) {
	asked := req.(*kmsg.DescribeQuorumRequest)
	q.mu.Lock()
	q.asked++
	end := q.end // as of the arrival: what is committed later is not in the answer
	q.mu.Unlock()
	sleep(ctx, q.takes)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if q.fail != nil && !errors.Is(q.fail, protocol.ErrNotLeaderForPartition) {
		return nil, q.fail
	}
	resp := kmsg.NewPtrDescribeQuorumResponse()
	topic := kmsg.NewDescribeQuorumResponseTopic()
	topic.Topic = asked.Topics[0].Topic
	p := kmsg.NewDescribeQuorumResponseTopicPartition()
	p.HighWatermark, p.ErrorCode = end, int16(protocol.CodeOf(q.fail))
	topic.Partitions = append(topic.Partitions, p)
	resp.Topics = append(resp.Topics, topic)
	return resp, nil
}

func (q *quorum) commit() int64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.end++
	return q.end - 1
}

func runCatchUp(t *testing.T, q *quorum, test func(t *testing.T, c *catchUp)) {
	synctest.Test(t, func(t *testing.T) {
		c := newCatchUp(q)
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { c.run(ctx) })
		test(t, c)
		cancel()
		running.Wait()
	})
}

// Whoever asks is told at least what was committed before it asked, and all who ask
// meanwhile cost the controller one question more.
func TestCatchUp(t *testing.T) {
	q := &quorum{takes: time.Second, end: 7}
	runCatchUp(t, q, func(t *testing.T, c *catchUp) {
		var asking sync.WaitGroup
		for i := range 100 {
			asking.Go(func() {
				time.Sleep(time.Duration(i) * 5 * time.Millisecond) // all while the first is under way
				least := q.commit()
				if got, err := c.committed(t.Context()); err != nil || got < least {
					t.Errorf("%d was committed, the answer is %d, %v", least, got, err)
				}
			})
		}
		asking.Wait()
		if q.asked != 2 {
			t.Errorf("the controller was asked %d times, want 2", q.asked)
		}
	})
}

// A controller that does not answer, or does not know, is no reason to wait for ever.
func TestCatchUpFails(t *testing.T) {
	for _, fail := range []error{errors.New("refused"), protocol.ErrNotLeaderForPartition} {
		runCatchUp(t, &quorum{fail: fail}, func(t *testing.T, c *catchUp) {
			if _, err := c.committed(t.Context()); !errors.Is(err, fail) {
				t.Errorf("%v: %v", fail, err)
			}
		})
	}
	runCatchUp(t, &quorum{takes: time.Hour}, func(t *testing.T, c *catchUp) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := c.committed(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("silent controller: %v", err)
		}
	})
}
