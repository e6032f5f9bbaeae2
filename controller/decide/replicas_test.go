package decide

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/protocol"
)

// replicas are the commands about who holds a partition, and who leads it.
func (c *cluster) replicas(t *testing.T, d *datadriven.TestData) {
	switch d.Cmd {
	case "isr":
		c.proposeISR(t, d)
	case "elect":
		c.elect(t, d)
	case "assign-dirs":
		c.assignDirs(t, d)
	case "reassign":
		c.reassign(d)
	case "reassignments":
		c.reassignments(d)
	case "rebalance", "elect-unclean":
		most, chore := 1000, Rebalance
		d.MaybeScanArgs(t, "most", &most)
		if d.Cmd == "elect-unclean" {
			chore = ElectUnclean
		}
		records, more := chore(c.img, most, c.env)
		c.apply(records)
		fmt.Fprintln(&c.out, "more", more)
	default:
		d.Fatalf(t, "unknown command %s", d.Cmd)
	}
}

// partition reads "a-0".
func partition(t *testing.T, d *datadriven.TestData, name string) (string, int32) {
	i := strings.LastIndexByte(name, '-')
	if i < 0 {
		d.Fatalf(t, "%s is no partition", name)
	}
	n, err := strconv.Atoi(name[i+1:])
	if err != nil {
		d.Fatalf(t, "%s is no partition", name)
	}
	return name[:i], int32(n)
}

// proposeISR takes a partition a line, with the ISR that its leader proposes:
// a-0 1,2 [leader-epoch=N] [partition-epoch=N] [recovery=N] [lost=FROM-TO] [epoch-of-2=N].
// Epochs are the present ones unless they are given.
func (c *cluster) proposeISR(t *testing.T, d *datadriven.TestData) {
	req := kmsg.NewPtrAlterPartitionRequest()
	version := 3
	d.MaybeScanArgs(t, "version", &version)
	req.Version = int16(version)
	d.ScanArgs(t, "from", &req.BrokerID)
	if b, ok := c.img.Broker(protocol.NodeID(req.BrokerID)); ok {
		req.BrokerEpoch = int64(b.Epoch)
	}
	d.MaybeScanArgs(t, "broker-epoch", &req.BrokerEpoch)
	for line := range strings.Lines(d.Input) {
		words := strings.Fields(line)
		name, id := partition(t, d, words[0])
		topic := kmsg.NewAlterPartitionRequestTopic()
		topic.TopicID = [16]byte{'?'}
		p := kmsg.NewAlterPartitionRequestTopicPartition()
		p.Partition = id
		if known, ok := c.img.Topic(name); ok {
			topic.TopicID = known.ID
			if part, ok := known.Partition(id); ok {
				p.LeaderEpoch, p.PartitionEpoch = int32(part.LeaderEpoch), int32(part.PartitionEpoch)
			}
		}
		brokerEpochs := map[string]int64{}
		for _, word := range words[2:] {
			key, value, _ := strings.Cut(word, "=")
			n, _ := strconv.Atoi(value)
			switch key {
			case "leader-epoch":
				p.LeaderEpoch = int32(n)
			case "partition-epoch":
				p.PartitionEpoch = int32(n)
			case "recovery":
				p.LeaderRecoveryState = int8(n)
			case "lost": // FROM-TO
				var loss protocol.Loss
				if _, err := fmt.Sscanf(value, "%d-%d", &loss.From, &loss.To); err != nil {
					d.Fatalf(t, "%s: %v", word, err)
				}
				loss.Committed = loss.To
				loss.Tag(&p.UnknownTags)
			default:
				brokerEpochs[strings.TrimPrefix(key, "epoch-of-")] = int64(n)
			}
		}
		for _, member := range strings.Split(words[1], ",") {
			n, err := strconv.Atoi(member)
			if err != nil {
				continue
			}
			m := kmsg.NewAlterPartitionRequestTopicPartitionNewEpochISR()
			m.BrokerID, m.BrokerEpoch = int32(n), -1
			if b, ok := c.img.Broker(protocol.NodeID(n)); ok {
				m.BrokerEpoch = int64(b.Epoch)
			}
			if epoch, ok := brokerEpochs[member]; ok {
				m.BrokerEpoch = epoch
			}
			p.NewEpochISR = append(p.NewEpochISR, m)
			p.NewISR = append(p.NewISR, int32(n))
		}
		topic.Partitions = append(topic.Partitions, p)
		req.Topics = append(req.Topics, topic)
	}
	records, resp, err := AlterPartition(c.img, req, c.env)
	c.apply(records)
	if err != nil {
		c.err(err)
		return
	}
	for i, topic := range resp.Topics {
		for _, p := range topic.Partitions {
			fmt.Fprint(&c.out, strings.Fields(strings.Split(d.Input, "\n")[i])[0], ": ")
			if p.ErrorCode != 0 {
				fmt.Fprintln(&c.out, protocol.Error(p.ErrorCode))
				continue
			}
			fmt.Fprintf(&c.out, "isr %v leader %d epochs %d/%d recovery %d\n", p.ISR, p.LeaderID, p.LeaderEpoch, p.PartitionEpoch, p.LeaderRecoveryState)
		}
	}
}

// elect takes a partition a line; without any, all are meant.
func (c *cluster) elect(t *testing.T, d *datadriven.TestData) {
	req := kmsg.NewPtrElectLeadersRequest()
	req.Version = 2
	kind := 0
	d.MaybeScanArgs(t, "type", &kind)
	req.ElectionType = int8(kind)
	for line := range strings.Lines(d.Input) {
		name, id := partition(t, d, strings.TrimSpace(line))
		topic := kmsg.NewElectLeadersRequestTopic()
		topic.Topic, topic.Partitions = name, []int32{id}
		req.Topics = append(req.Topics, topic)
	}
	records, resp, err := ElectLeaders(c.img, req, c.env)
	c.apply(records)
	c.err(err)
	if err != nil {
		return
	}
	for _, topic := range resp.Topics {
		for _, p := range topic.Partitions {
			c.answer(fmt.Sprintf("%s-%d", topic.Topic, p.Partition), p.ErrorCode, p.ErrorMessage)
		}
	}
}

// reassign takes a partition a line: a-0 1,2 to move it, a-0 cancel.
func (c *cluster) reassign(d *datadriven.TestData) {
	req := kmsg.NewPtrAlterPartitionAssignmentsRequest()
	req.Version, req.AllowReplicationFactorChange = 1, !d.HasArg("same-factor")
	for line := range strings.Lines(d.Input) {
		words := strings.Fields(line)
		i := strings.LastIndexByte(words[0], '-')
		id, _ := strconv.Atoi(words[0][i+1:])
		topic := kmsg.NewAlterPartitionAssignmentsRequestTopic()
		topic.Topic = words[0][:i]
		p := kmsg.NewAlterPartitionAssignmentsRequestTopicPartition()
		p.Partition = int32(id)
		if words[1] != "cancel" {
			p.Replicas = assignment(0, words[1]).Replicas
			if p.Replicas == nil {
				p.Replicas = []int32{}
			}
		}
		topic.Partitions = append(topic.Partitions, p)
		req.Topics = append(req.Topics, topic)
	}
	records, resp := AlterPartitionReassignments(c.img, req, c.env)
	c.apply(records)
	for _, topic := range resp.Topics {
		for _, p := range topic.Partitions {
			c.answer(fmt.Sprintf("%s-%d", topic.Topic, p.Partition), p.ErrorCode, p.ErrorMessage)
		}
	}
}

// reassignments takes a partition a line; without any, all are meant.
func (c *cluster) reassignments(d *datadriven.TestData) {
	req := kmsg.NewPtrListPartitionReassignmentsRequest()
	for line := range strings.Lines(d.Input) {
		name, id, _ := strings.Cut(strings.TrimSpace(line), "-")
		n, _ := strconv.Atoi(id)
		topic := kmsg.NewListPartitionReassignmentsRequestTopic()
		topic.Topic, topic.Partitions = name, []int32{int32(n)}
		req.Topics = append(req.Topics, topic)
	}
	for _, topic := range ListPartitionReassignments(c.img, req).Topics {
		for _, p := range topic.Partitions {
			fmt.Fprintf(&c.out, "%s-%d replicas %v adding %v removing %v\n", topic.Topic, p.Partition, p.Replicas, p.AddingReplicas, p.RemovingReplicas)
		}
	}
}

// assignDirs is what a broker says of its replicas: on a line a directory, as
// BROKER.NUMBER or by the name of a reserved one, and partitions.
func (c *cluster) assignDirs(t *testing.T, d *datadriven.TestData) {
	req := kmsg.NewPtrAssignReplicasToDirsRequest()
	d.ScanArgs(t, "id", &req.BrokerID)
	if b, ok := c.img.Broker(protocol.NodeID(req.BrokerID)); ok {
		req.BrokerEpoch = int64(b.Epoch)
	}
	d.MaybeScanArgs(t, "epoch", &req.BrokerEpoch)
	reserved := map[string]protocol.UUID{"unassigned": protocol.UnassignedDir, "migrating": protocol.MigratingDir, "lost": protocol.LostDir}
	for line := range strings.Lines(d.Input) {
		words := strings.Fields(line)
		dir := kmsg.NewAssignReplicasToDirsRequestDirectory()
		if id, ok := reserved[words[0]]; ok {
			dir.ID = id
		} else {
			var broker, n byte
			if _, err := fmt.Sscanf(words[0], "%d.%d", &broker, &n); err != nil {
				d.Fatalf(t, "%s is no directory", words[0])
			}
			dir.ID = [16]byte{'D', broker, n, 15: 1}
		}
		for _, word := range words[1:] {
			name, id := partition(t, d, word)
			of := kmsg.NewAssignReplicasToDirsRequestDirectoryTopic()
			if topic, ok := c.img.Topic(name); ok {
				of.TopicID = topic.ID
			}
			p := kmsg.NewAssignReplicasToDirsRequestDirectoryTopicPartition()
			p.Partition = id
			of.Partitions = append(of.Partitions, p)
			dir.Topics = append(dir.Topics, of)
		}
		req.Directories = append(req.Directories, dir)
	}
	records, resp, err := AssignReplicasToDirs(c.img, req, c.env)
	c.apply(records)
	c.err(err)
	if err != nil {
		return
	}
	for _, dir := range resp.Directories {
		for _, of := range dir.Topics {
			for _, p := range of.Partitions {
				fmt.Fprintf(&c.out, "%s %s-%d: %s\n", dirNames([]protocol.UUID{dir.ID})[0], c.topicName(of.TopicID), p.Partition, protocol.Error(p.ErrorCode))
			}
		}
	}
}
