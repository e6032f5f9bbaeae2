package decide

import (
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/metadata"
	"github.com/klamm/klamm/metadata/record"
	"github.com/klamm/klamm/protocol"
)

// The log directories of brokers, and which of them replicas are in (KIP-858).

// AssignReplicasToDirs takes a broker's word for the directories that its replicas
// are in, each for itself. It leaves the in-sync sets of those that it puts into a
// directory which is not in service.
func AssignReplicasToDirs(img *metadata.Image, req *kmsg.AssignReplicasToDirsRequest, env Env) ([]record.Record, *kmsg.AssignReplicasToDirsResponse, error) {
	if !img.Level().HasDirectories() {
		return nil, nil, protocol.Errorf(protocol.ErrUnsupportedVersion, "Directory assignment is not supported yet.")
	}
	broker := protocol.NodeID(req.BrokerID)
	if _, err := checkBrokerEpoch(img, broker, protocol.BrokerEpoch(req.BrokerEpoch)); err != nil {
		return nil, nil, err
	}
	resp := kmsg.NewPtrAssignReplicasToDirsResponse()
	var records []record.Record
	var offline []hosted
	for i := range req.Directories {
		dir := &req.Directories[i]
		answer := kmsg.NewAssignReplicasToDirsResponseDirectory()
		answer.ID = dir.ID
		for j := range dir.Topics {
			topic := kmsg.NewAssignReplicasToDirsResponseDirectoryTopic()
			topic.TopicID = dir.Topics[j].TopicID
			for _, asked := range dir.Topics[j].Partitions {
				at, err := replicaOn(img, broker, topic.TopicID, asked.Partition)
				if err == nil {
					if rec := moveTo(at, broker, dir.ID); rec != nil {
						records = append(records, rec)
					}
					if !dirOnline(img, broker, dir.ID) {
						offline = append(offline, at)
					}
				}
				p := kmsg.NewAssignReplicasToDirsResponseDirectoryTopicPartition()
				p.Partition, p.ErrorCode = asked.Partition, int16(protocol.CodeOf(err))
				topic.Partitions = append(topic.Partitions, p)
			}
			answer.Topics = append(answer.Topics, topic)
		}
		resp.Directories = append(resp.Directories, answer)
	}
	because(records, ofBroker(broker, "names the directory"))
	return append(records, because(leaveISRsOf(img, env, broker, offline), ofBroker(broker, diskFailed))...), resp, nil
}

// diskFailed is why replicas leave that are in a directory which is not in service.
const diskFailed = "disk failed"

// replicaOn is a partition that a broker has a replica of.
func replicaOn(img *metadata.Image, broker protocol.NodeID, topic protocol.UUID, partition int32) (hosted, error) {
	t, ok := img.TopicByID(topic)
	if !ok {
		return hosted{}, protocol.ErrUnknownTopicID
	}
	p, ok := t.Partition(partition)
	if !ok {
		return hosted{}, protocol.ErrUnknownTopicOrPartition
	}
	if !slices.Contains(p.Replicas, broker) {
		return hosted{}, protocol.ErrNotLeaderForPartition
	}
	return hosted{t, p}, nil
}

// moveTo records another directory of a replica.
func moveTo(at hosted, broker protocol.NodeID, dir protocol.UUID) record.Record {
	p := at.partition
	dirs := make([]protocol.UUID, len(p.Replicas))
	for i, id := range p.Replicas {
		switch {
		case id == broker:
			dirs[i] = dir
		case i < len(p.Directories):
			dirs[i] = p.Directories[i]
		}
	}
	if slices.Equal(dirs, p.Directories) {
		return nil
	}
	rec := record.NewPartitionChange(at.topic.ID, p.ID)
	rec.Directories = dirs
	return rec
}

// loseDirs is what a heartbeat that names directories as out of service changes:
// the replicas in them leave, then the broker is known without them. Where there
// are many replicas the rest is for the next heartbeat, which names them again.
func loseDirs(img *metadata.Image, b *metadata.Broker, req *kmsg.BrokerHeartbeatRequest, env Env) []record.Record {
	if !img.Level().HasDirectories() || len(req.OfflineLogDirs) == 0 {
		return nil
	}
	lost := uuids(req.OfflineLogDirs)
	left := slices.DeleteFunc(slices.Clone(b.LogDirs), func(dir protocol.UUID) bool { return slices.Contains(lost, dir) })
	if len(left) == len(b.LogDirs) {
		return nil
	}
	var leaving []hosted
	for t, p := range img.PartitionsOn(b.ID) {
		i := slices.Index(p.Replicas, b.ID)
		if i >= len(p.Directories) || !slices.Contains(lost, p.Directories[i]) || !slices.Contains(p.ISR, b.ID) && p.Leader != b.ID {
			continue
		}
		leaving = append(leaving, hosted{t, p})
	}
	more := len(leaving) > env.maxPartitions()
	if more {
		leaving = leaving[:env.maxPartitions()]
	}
	records := leaveISRsOf(img, env, b.ID, leaving)
	if !more && len(left) > 0 { // with the last one the broker goes
		records = append(records, &record.BrokerRegistrationChange{BrokerID: b.ID, BrokerEpoch: b.Epoch, LogDirs: left})
	}
	return because(records, ofBroker(b.ID, fmt.Sprintf("%s, %d of %d log directories left", diskFailed, len(left), len(b.LogDirs))))
}

// leaveISRsOf returns a change for each of some partitions that a broker has to
// leave though it lives.
func leaveISRsOf(img *metadata.Image, env Env, broker protocol.NodeID, leaving []hosted) []record.Record {
	cache := rulesCache{img: img, env: env, mayLead: func(id protocol.NodeID) bool {
		return id != broker && active(img, id)
	}}
	var records []record.Record
	for _, h := range leaving {
		want := as(h.partition)
		want.isr = without(h.partition.ISR, broker)
		if rec := partitionChange(h.topic.ID, h.partition, want, cache.of(h.topic)); rec != nil {
			records = append(records, rec)
		}
	}
	return records
}
