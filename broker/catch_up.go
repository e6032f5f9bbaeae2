package broker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/protocol"
)

// askTimeout bounds a question to the controller. Who asked it may wait shorter.
const askTimeout = 5 * time.Second

// catchUp finds out how far the controller has committed. Those who ask while it is
// being asked share the next question: an answer is of use to who came before the
// question alone.
type catchUp struct {
	controller Controller
	need       chan struct{} // size 1: somebody has come; more adds nothing

	mu   sync.Mutex // a leaf
	next *question  // of those who come now
}

// question is one to the controller, and its answer once done is closed.
type question struct {
	done      chan struct{}
	committed int64 // the last offset
	err       error
}

func newQuestion() *question { return &question{done: make(chan struct{})} }

func newCatchUp(controller Controller) *catchUp {
	return &catchUp{controller: controller, need: make(chan struct{}, 1), next: newQuestion()}
}

// committed returns an offset up to which everything had been committed when it was
// called.
func (c *catchUp) committed(ctx context.Context) (int64, error) {
	c.mu.Lock()
	q := c.next
	c.mu.Unlock()
	select {
	case c.need <- struct{}{}:
	default:
	}
	select {
	case <-q.done:
		return q.committed, q.err
	case <-ctx.Done():
		return -1, ctx.Err()
	}
}

// run asks, one question at a time, until ctx ends.
func (c *catchUp) run(ctx context.Context) {
	for {
		select {
		case <-c.need:
		case <-ctx.Done():
			return
		}
		c.mu.Lock()
		q := c.next
		c.next = newQuestion()
		c.mu.Unlock()
		q.committed, q.err = c.ask(ctx)
		close(q.done)
	}
}

func (c *catchUp) ask(ctx context.Context) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	req := kmsg.NewPtrDescribeQuorumRequest()
	topic := kmsg.NewDescribeQuorumRequestTopic()
	topic.Topic = protocol.MetadataTopic
	topic.Partitions = append(topic.Partitions, kmsg.NewDescribeQuorumRequestTopicPartition())
	req.Topics = append(req.Topics, topic)
	answer, err := c.controller.Do(ctx, req)
	if err != nil {
		return -1, err
	}
	resp, ok := answer.(*kmsg.DescribeQuorumResponse)
	if !ok {
		return -1, fmt.Errorf("the controller answered %T", answer)
	}
	if code := protocol.Error(resp.ErrorCode); code != protocol.None {
		return -1, code
	}
	if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		return -1, errors.New("the answer to DescribeQuorum is not about one partition")
	}
	p := &resp.Topics[0].Partitions[0]
	if code := protocol.Error(p.ErrorCode); code != protocol.None {
		return -1, code
	}
	return p.HighWatermark - 1, nil
}

// CatchUp waits until this broker has acted on all that the controller had committed
// when it was called: what is not known afterwards did not exist then.
func (b *Broker) CatchUp(ctx context.Context) error {
	committed, err := b.catchUp.committed(ctx)
	if err != nil {
		return fmt.Errorf("ask the controller how far it is: %w", err)
	}
	return b.applied.WaitApplied(ctx, committed)
}
