package api

import (
	"context"
	"fmt"
	"time"

	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/broker/replica"
	"github.com/klamm/klamm/metadata"
	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/protocol/server"
)

// DeleteRecords raises log starts, and answers when all replicas that are alive
// have followed.
type DeleteRecords struct {
	images     imageSource
	partitions partitionSource
	log        zerolog.Logger
}

// NewDeleteRecords returns the handler over the partitions of this broker.
func NewDeleteRecords(images imageSource, partitions partitionSource, log zerolog.Logger) *DeleteRecords {
	return &DeleteRecords{images: images, partitions: partitions, log: log}
}

// API returns what the server serves by this handler.
func (h *DeleteRecords) API() server.API {
	return server.Serve(kmsg.DeleteRecords, h.Handle)
}

// deleteRun is one request on its way, owned by one goroutine at a time.
type deleteRun struct {
	h        *DeleteRecords
	version  int16
	deadline time.Time
	entries  []deleteEntry // by topic as the request has them, one per partition
}

// deleteEntry is what becomes of one partition.
type deleteEntry struct {
	tp        protocol.TopicPartition
	offset    int64
	partition *replica.Partition
	deletion  replica.Deletion
	pending   bool // some replica still has the records
	low       int64
	err       error
}

// Handle raises the log starts and leaves waiting to the connection's writer.
func (h *DeleteRecords) Handle(_ context.Context, req *server.Request) server.Answer {
	body := req.Body.(*kmsg.DeleteRecordsRequest)
	run := &deleteRun{
		h: h, version: body.Version,
		deadline: req.Received.Add(time.Duration(body.TimeoutMillis) * time.Millisecond),
	}
	run.list(body)
	img := h.images.Image()
	for i := range run.entries {
		e := &run.entries[i]
		e.low = -1
		if e.err = run.delete(img, e); e.err == nil {
			e.pending = true
		}
	}
	return server.Answer{Wait: run.wait}
}

// list takes the partitions out of the request. Where one is listed twice the
// last offset counts and there is one answer, as in Kafka.
func (run *deleteRun) list(body *kmsg.DeleteRecordsRequest) {
	at := make(map[protocol.TopicPartition]int)
	for i := range body.Topics {
		for _, p := range body.Topics[i].Partitions {
			tp := protocol.TopicPartition{Topic: body.Topics[i].Topic, Partition: p.Partition}
			if known, ok := at[tp]; ok {
				run.entries[known].offset = p.Offset
				continue
			}
			at[tp] = len(run.entries)
			run.entries = append(run.entries, deleteEntry{tp: tp, offset: p.Offset})
		}
	}
}

func (run *deleteRun) delete(img *metadata.Image, e *deleteEntry) error {
	p, err := hosted(img, run.h.partitions, e.tp)
	switch {
	case protocol.CodeOf(err) == protocol.ErrUnknownTopicOrPartition:
		return err
	case protocol.IsInternalTopic(e.tp.Topic):
		return fmt.Errorf("%q is internal: %w", e.tp.Topic, protocol.ErrInvalidTopicException)
	case err != nil:
		return err
	}
	e.partition = p
	e.deletion, err = p.DeleteRecords(e.offset)
	return err
}

// settle looks at what is pending and returns how many partitions still are.
func (run *deleteRun) settle() int {
	img := run.h.images.Image()
	alive := func(id protocol.NodeID) bool {
		b, ok := img.Broker(id)
		return ok && !b.Fenced
	}
	pending := 0
	for i := range run.entries {
		e := &run.entries[i]
		if !e.pending {
			continue
		}
		low, done, err := e.partition.Deleted(e.deletion, alive)
		e.low, e.err, e.pending = low, err, !done && err == nil
		if e.pending {
			pending++
		}
	}
	return pending
}

// save makes the deletions durable.
func (run *deleteRun) save() {
	for i := range run.entries {
		if e := &run.entries[i]; e.pending {
			if err := e.partition.SaveDeletion(); err != nil {
				e.err, e.pending = err, false
			}
		}
	}
}

// wait makes the deletions durable and parks the request until the replicas have
// followed, or its deadline. It runs on the connection's writer goroutine.
func (run *deleteRun) wait(ctx context.Context) server.Answer {
	run.save()
	if run.settle() == 0 {
		return run.answer()
	}
	w := replica.NewWaiter(len(run.entries))
	for {
		for i := range run.entries {
			if e := &run.entries[i]; e.pending {
				e.partition.ParkForDeletion(w, e.deletion)
			}
		}
		woken := w.Wait(ctx, run.deadline)
		if err := ctx.Err(); err != nil {
			return server.Answer{Close: fmt.Errorf("delete records was parked: %w", err)}
		}
		if run.settle() == 0 || !woken || !time.Now().Before(run.deadline) {
			return run.answer()
		}
	}
}

func (run *deleteRun) answer() server.Answer {
	resp := kmsg.NewPtrDeleteRecordsResponse()
	resp.Version = run.version
	topics := make(map[string]int)
	for i := range run.entries {
		e := &run.entries[i]
		p := kmsg.NewDeleteRecordsResponseTopicPartition()
		p.Partition, p.LowWatermark = e.tp.Partition, e.low
		switch {
		case e.pending:
			p.ErrorCode = int16(protocol.ErrRequestTimedOut)
		case e.err != nil:
			p.LowWatermark, p.ErrorCode = -1, int16(run.h.code(e))
		}
		at, ok := topics[e.tp.Topic]
		if !ok {
			at = len(resp.Topics)
			topics[e.tp.Topic] = at
			t := kmsg.NewDeleteRecordsResponseTopic()
			t.Topic = e.tp.Topic
			resp.Topics = append(resp.Topics, t)
		}
		resp.Topics[at].Partitions = append(resp.Topics[at].Partitions, p)
	}
	return server.Answer{Response: resp}
}

func (h *DeleteRecords) code(e *deleteEntry) protocol.Error {
	if protocol.IsBug(e.err) {
		h.log.Error().Err(e.err).Str("topic", e.tp.Topic).Int32("partition", e.tp.Partition).Msg("delete records failed")
	}
	return protocol.CodeOf(e.err)
}
