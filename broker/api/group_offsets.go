package api

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/broker/coordinator"
	"github.com/klamm/klamm/broker/coordinator/group"
	"github.com/klamm/klamm/metadata"
	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/protocol/server"
)

// Versions that name topics by id in place of their name.
const (
	commitByID = 10
	fetchByID  = 10
)

// findTopic finds a topic that a request names one way or the other.
func findTopic(img *metadata.Image, byID bool, name string, id protocol.UUID) (*metadata.Topic, protocol.Error) {
	if byID {
		if t, ok := img.TopicByID(id); ok {
			return t, protocol.None
		}
		return nil, protocol.ErrUnknownTopicID
	}
	if t, ok := img.Topic(name); ok {
		return t, protocol.None
	}
	return nil, protocol.ErrUnknownTopicOrPartition
}

// commit commits the offsets of partitions that exist. The others have their
// answer already, and a commit of none but those is none of the coordinator's.
func (h *Groups) commit(_ context.Context, req *server.Request) server.Answer {
	body := req.Body.(*kmsg.OffsetCommitRequest)
	img := h.images.Image()
	resp := kmsg.NewPtrOffsetCommitResponse()
	resp.Version = body.Version
	resp.Topics = make([]kmsg.OffsetCommitResponseTopic, len(body.Topics))
	event := group.Commit{
		Group: body.Group, Member: body.MemberID, Instance: body.InstanceID, Generation: body.Generation,
		RetentionMs: body.RetentionTimeMillis, FromNine: body.Version >= 9,
	}
	var answers []*int16 // one per offset of the event
	for i := range body.Topics {
		t, r := &body.Topics[i], &resp.Topics[i]
		topic, code := findTopic(img, body.Version >= commitByID, t.Topic, t.TopicID)
		r.Topic, r.TopicID = t.Topic, t.TopicID
		r.Partitions = make([]kmsg.OffsetCommitResponseTopicPartition, len(t.Partitions))
		for j := range t.Partitions {
			p, out := &t.Partitions[j], &r.Partitions[j]
			out.Partition, out.ErrorCode = p.Partition, int16(code)
			if topic == nil {
				continue
			}
			if _, ok := topic.Partition(p.Partition); !ok {
				out.ErrorCode = int16(protocol.ErrUnknownTopicOrPartition)
				continue
			}
			offset := group.NewOffset{
				TopicIDPartition: group.TopicIDPartition{Topic: topic.Name, ID: topic.ID, Partition: p.Partition},
				Offset:           p.Offset, LeaderEpoch: p.LeaderEpoch,
			}
			if p.Metadata != nil {
				offset.Metadata = *p.Metadata
			}
			event.Offsets = append(event.Offsets, offset)
			answers = append(answers, &out.ErrorCode)
		}
	}
	if len(event.Offsets) == 0 {
		return server.Answer{Response: resp}
	}
	return h.settle(h.submit(img, body.Group, event), func(answer any, err error) kmsg.Response {
		committed, _ := answer.([]group.Committed)
		for i, code := range answers {
			*code = int16(protocol.CodeOf(err))
			if err == nil {
				*code = int16(committed[i].Err)
			}
		}
		return resp
	})
}

// groupFetch is one group of an OffsetFetch on its way.
type groupFetch struct {
	name   string
	all    bool
	topics []fetchedTopic
	call   *coordinator.Call
	code   protocol.Error
}

// fetchedTopic is a topic of the answer, by name and, from v10 on, by id.
type fetchedTopic struct {
	name       string
	id         protocol.UUID
	code       protocol.Error // of a topic that is not known
	partitions []int32
	found      []group.FoundOffset // as many, unless there is a code
}

// fetch answers for several groups from v8 on.
func (h *Groups) fetch(_ context.Context, req *server.Request) server.Answer {
	body := req.Body.(*kmsg.OffsetFetchRequest)
	img := h.images.Image()
	var groups []*groupFetch
	if body.Version < 8 {
		g := &groupFetch{name: body.Group, all: body.Topics == nil}
		for _, t := range body.Topics {
			g.topics = append(g.topics, fetchedTopic{name: t.Topic, partitions: t.Partitions})
		}
		groups = append(groups, g)
	}
	for _, asked := range body.Groups {
		g := &groupFetch{name: asked.Group, all: asked.Topics == nil}
		for _, t := range asked.Topics {
			g.topics = append(g.topics, fetchedTopic{name: t.Topic, id: t.TopicID, partitions: t.Partitions})
		}
		groups = append(groups, g)
	}
	for _, g := range groups {
		event := group.Fetch{Group: g.name, All: g.all}
		for i := range g.topics {
			event.Partitions = append(event.Partitions, g.topics[i].resolve(img, body.Version)...)
		}
		g.call = h.submit(img, g.name, event)
	}
	return server.Answer{Wait: func(ctx context.Context) server.Answer {
		for _, g := range groups {
			answer, err := h.await(ctx, g.call)
			if ctx.Err() != nil {
				return server.Answer{Close: fmt.Errorf("group request was parked: %w", ctx.Err())}
			}
			g.code = protocol.CodeOf(err)
			if err == nil {
				g.take(answer.([]group.FoundOffset), img, body.Version)
			}
		}
		return server.Answer{Response: offsetFetchResponse(body.Version, groups)}
	}}
}

// resolve gives the partitions to ask the coordinator for. A topic that does not
// exist may have offsets by its name; by an id it has none.
func (t *fetchedTopic) resolve(img *metadata.Image, version int16) []group.TopicIDPartition {
	topic, code := findTopic(img, version >= fetchByID, t.name, t.id)
	name, id := t.name, protocol.ZeroUUID
	switch {
	case topic != nil:
		name, id = topic.Name, topic.ID
	case version >= fetchByID:
		t.code = code
		return nil
	}
	partitions := make([]group.TopicIDPartition, len(t.partitions))
	for i, p := range t.partitions {
		partitions[i] = group.TopicIDPartition{Topic: name, ID: id, Partition: p}
	}
	return partitions
}

// take spreads what was found over the topics. Where all was asked for it makes
// them: of topics that are still the ones that were committed for.
func (g *groupFetch) take(found []group.FoundOffset, img *metadata.Image, version int16) {
	if !g.all {
		for i := range g.topics {
			if t := &g.topics[i]; t.code == protocol.None {
				t.found, found = found[:len(t.partitions)], found[len(t.partitions):]
			}
		}
		return
	}
	for _, f := range found {
		topic, known := img.Topic(f.Topic)
		if known && f.ID != protocol.ZeroUUID && f.ID != topic.ID || !known && version >= fetchByID {
			continue
		}
		if n := len(g.topics); n == 0 || g.topics[n-1].name != f.Topic {
			t := fetchedTopic{name: f.Topic}
			if known {
				t.id = topic.ID
			}
			g.topics = append(g.topics, t)
		}
		t := &g.topics[len(g.topics)-1]
		t.partitions = append(t.partitions, f.Partition)
		t.found = append(t.found, f)
	}
}

// offsetFetchResponse writes what became of each group, in the form of the
// version: up to v7 there is one group, and up to v1 no code for it as a whole.
func offsetFetchResponse(version int16, groups []*groupFetch) *kmsg.OffsetFetchResponse {
	resp := kmsg.NewPtrOffsetFetchResponse()
	resp.Version = version
	if version >= 8 {
		for _, g := range groups {
			r := kmsg.NewOffsetFetchResponseGroup()
			r.Group, r.ErrorCode = g.name, int16(g.code)
			if g.code == protocol.None {
				r.Topics = g.response(version)
			}
			resp.Groups = append(resp.Groups, r)
		}
		return resp
	}
	g := groups[0]
	if g.code != protocol.None {
		resp.ErrorCode = int16(g.code)
		if version >= 2 {
			return resp
		}
		for i := range g.topics {
			g.topics[i].code = g.code
		}
	}
	for _, t := range g.response(version) {
		r := kmsg.NewOffsetFetchResponseTopic()
		r.Topic = t.Topic
		for _, p := range t.Partitions {
			r.Partitions = append(r.Partitions, kmsg.OffsetFetchResponseTopicPartition{
				Partition: p.Partition, Offset: p.Offset, LeaderEpoch: p.LeaderEpoch, Metadata: p.Metadata, ErrorCode: p.ErrorCode,
			})
		}
		resp.Topics = append(resp.Topics, r)
	}
	return resp
}

func (g *groupFetch) response(version int16) []kmsg.OffsetFetchResponseGroupTopic {
	var topics []kmsg.OffsetFetchResponseGroupTopic
	for i := range g.topics {
		t := &g.topics[i]
		r := kmsg.NewOffsetFetchResponseGroupTopic()
		r.Topic = t.name
		if version >= fetchByID {
			r.TopicID = t.id
		}
		for j, partition := range t.partitions {
			metadata := ""
			p := kmsg.NewOffsetFetchResponseGroupTopicPartition()
			p.Partition, p.ErrorCode, p.Metadata = partition, int16(t.code), &metadata
			p.Offset, p.LeaderEpoch = -1, -1
			if t.code == protocol.None {
				f := &t.found[j]
				p.Offset, p.LeaderEpoch, metadata = f.Offset, f.LeaderEpoch, f.Metadata
			}
			r.Partitions = append(r.Partitions, p)
		}
		topics = append(topics, r)
	}
	return topics
}

// deleteOffsets deletes the offsets of partitions that exist; the coordinator is
// asked in any case, for what it says of the group.
func (h *Groups) deleteOffsets(_ context.Context, req *server.Request) server.Answer {
	body := req.Body.(*kmsg.OffsetDeleteRequest)
	img := h.images.Image()
	resp := kmsg.NewPtrOffsetDeleteResponse()
	resp.Version = body.Version
	var topics []kmsg.OffsetDeleteResponseTopic // each once, however often it is named
	index := make(map[string]int)
	event := group.DeleteOffsets{Group: body.Group}
	var asked [][2]int // of the event's partitions, where in topics
	for _, t := range body.Topics {
		at, ok := index[t.Topic]
		if !ok {
			at = len(topics)
			index[t.Topic] = at
			topics = append(topics, kmsg.OffsetDeleteResponseTopic{Topic: t.Topic})
		}
		r := &topics[at]
		topic, _ := img.Topic(t.Topic)
		for _, p := range t.Partitions {
			out := kmsg.NewOffsetDeleteResponseTopicPartition()
			out.Partition, out.ErrorCode = p.Partition, int16(protocol.ErrUnknownTopicOrPartition)
			if topic != nil {
				if _, ok := topic.Partition(p.Partition); ok {
					event.Partitions = append(event.Partitions, protocol.TopicPartition{Topic: t.Topic, Partition: p.Partition})
					asked = append(asked, [2]int{at, len(r.Partitions)})
				}
			}
			r.Partitions = append(r.Partitions, out)
		}
	}
	return h.settle(h.submit(img, body.Group, event), func(answer any, err error) kmsg.Response {
		if err != nil {
			resp.ErrorCode = int16(protocol.CodeOf(err))
			return resp
		}
		committed, _ := answer.([]group.Committed)
		for i, at := range asked {
			topics[at[0]].Partitions[at[1]].ErrorCode = int16(committed[i].Err)
		}
		resp.Topics = topics
		return resp
	})
}
