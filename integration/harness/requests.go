//go:build integration

package harness

import (
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// MetadataRequest asks for one topic.
func MetadataRequest(topic string) *kmsg.MetadataRequest {
	req := kmsg.NewPtrMetadataRequest()
	t := kmsg.NewMetadataRequestTopic()
	t.Topic = &topic
	req.Topics = append(req.Topics, t)
	return req
}

// QuorumRequest asks who votes on a partition, which is the metadata's if any is.
func QuorumRequest(topic string, partition int32) *kmsg.DescribeQuorumRequest {
	req := kmsg.NewPtrDescribeQuorumRequest()
	t := kmsg.NewDescribeQuorumRequestTopic()
	t.Topic = topic
	p := kmsg.NewDescribeQuorumRequestTopicPartition()
	p.Partition = partition
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	return req
}

// Quota is what an entity ("user=ann client-id"; without "=" the default) may do:
// "KEY=VALUE", or "KEY" to remove it.
func Quota(entity string, ops ...string) kmsg.AlterClientQuotasRequestEntry {
	entry := kmsg.NewAlterClientQuotasRequestEntry()
	for _, part := range strings.Fields(entity) {
		e := kmsg.NewAlterClientQuotasRequestEntryEntity()
		kind, name, named := strings.Cut(part, "=")
		if e.Type = kind; named {
			e.Name = &name
		}
		entry.Entity = append(entry.Entity, e)
	}
	for _, op := range ops {
		o := kmsg.NewAlterClientQuotasRequestEntryOp()
		key, value, set := strings.Cut(op, "=")
		if o.Key, o.Remove = key, !set; set {
			var err error
			if o.Value, err = strconv.ParseFloat(value, 64); err != nil {
				panic(err) // a test is written wrongly
			}
		}
		entry.Ops = append(entry.Ops, o)
	}
	return entry
}
