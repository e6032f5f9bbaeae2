package decide

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/metadata"
	"github.com/klamm/klamm/metadata/record"
	"github.com/klamm/klamm/protocol"
)

// DeleteTopics decides a deletion, by names (up to v5) or by names or ids. A
// topic that is named twice is not deleted at all. Kafka shuffles the answers; ours
// have the order of the request, the refused ones first.
func DeleteTopics(img *metadata.Image, req *kmsg.DeleteTopicsRequest, env Env) ([]record.Record, *kmsg.DeleteTopicsResponse) {
	d := deletion{img: img, resp: kmsg.NewPtrDeleteTopicsResponse()}
	wanted := req.Topics
	if req.Version < 6 {
		wanted = nil
		for i := range req.TopicNames {
			wanted = append(wanted, kmsg.DeleteTopicsRequestTopic{Topic: &req.TopicNames[i]})
		}
	}
	if !env.DeleteTopics {
		err := protocol.Errorf(protocol.ErrTopicDeletionDisabled, "Topic deletion is disabled.")
		if req.Version < 3 { // which has no such code
			err = protocol.Errorf(protocol.ErrInvalidRequest, "Topic deletion is disabled.")
		}
		for _, w := range wanted {
			d.answer(w.Topic, w.TopicID, err)
		}
		return nil, d.resp
	}
	topics := d.resolve(d.readable(wanted))
	var records []record.Record
	for _, t := range topics {
		d.answer(&t.Name, t.ID, nil)
		records = append(records, &record.RemoveTopic{TopicID: t.ID})
	}
	return records, d.resp
}

type deletion struct {
	img  *metadata.Image
	resp *kmsg.DeleteTopicsResponse
}

// readable returns the names and ids that come once, and how often each id was
// given, and answers the entries that make no sense.
func (d *deletion) readable(wanted []kmsg.DeleteTopicsRequestTopic) (names []string, ids []protocol.UUID, given map[protocol.UUID]int) {
	nameCount, idCount := map[string]int{}, map[protocol.UUID]int{}
	for _, w := range wanted {
		switch {
		case w.Topic != nil && w.TopicID != protocol.ZeroUUID:
			d.answer(w.Topic, w.TopicID, protocol.Errorf(protocol.ErrInvalidRequest,
				"You may not specify both topic name and topic id."))
		case w.Topic != nil:
			nameCount[*w.Topic]++
		case w.TopicID != protocol.ZeroUUID:
			idCount[w.TopicID]++
		default:
			d.answer(nil, protocol.ZeroUUID, protocol.Errorf(protocol.ErrInvalidRequest,
				"Neither topic name nor id were specified."))
		}
	}
	for _, w := range wanted {
		switch {
		case w.Topic != nil && w.TopicID == protocol.ZeroUUID:
			if n := nameCount[*w.Topic]; n == 1 {
				names = append(names, *w.Topic)
			} else if n > 1 {
				d.answer(w.Topic, protocol.ZeroUUID, protocol.Errorf(protocol.ErrInvalidRequest, "Duplicate topic name."))
				nameCount[*w.Topic] = 0
			}
		case w.Topic == nil && w.TopicID != protocol.ZeroUUID:
			if n := idCount[w.TopicID]; n == 1 {
				ids = append(ids, w.TopicID)
			} else if n > 1 {
				d.answer(nil, w.TopicID, protocol.Errorf(protocol.ErrInvalidRequest, "Duplicate topic id."))
				idCount[w.TopicID] = -n
			}
		}
	}
	return names, ids, idCount
}

// resolve returns the topics to delete, and answers what is unknown or is named
// both ways.
func (d *deletion) resolve(names []string, ids []protocol.UUID, given map[protocol.UUID]int) []*metadata.Topic {
	var topics []*metadata.Topic
	for _, id := range ids {
		t, ok := d.img.TopicByID(id)
		if !ok {
			d.answer(nil, id, protocol.Errorf(protocol.ErrUnknownTopicID, "This server does not host this topic ID."))
			continue
		}
		topics = append(topics, t)
	}
	twice := map[protocol.UUID]bool{}
	for _, name := range names {
		t, ok := d.img.Topic(name)
		switch {
		case !ok:
			d.answer(&name, protocol.ZeroUUID, protocol.Errorf(protocol.ErrUnknownTopicOrPartition,
				"This server does not host this topic-partition."))
		case given[t.ID] != 0:
			d.answer(&name, t.ID, protocol.Errorf(protocol.ErrInvalidRequest,
				"The provided topic name maps to an ID that was already supplied."))
			twice[t.ID] = true
		default:
			topics = append(topics, t)
		}
	}
	kept := topics[:0]
	for _, t := range topics {
		if !twice[t.ID] {
			kept = append(kept, t)
		}
	}
	return kept
}

func (d *deletion) answer(name *string, id protocol.UUID, err error) {
	t := kmsg.NewDeleteTopicsResponseTopic()
	t.Topic, t.TopicID = name, id
	t.ErrorCode, t.ErrorMessage = int16(protocol.CodeOf(err)), messageOf(err)
	d.resp.Topics = append(d.resp.Topics, t)
}
