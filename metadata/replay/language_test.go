package replay

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/klamm/klamm/metadata"
	"github.com/klamm/klamm/metadata/record"
	"github.com/klamm/klamm/protocol"
)

// The language of the scripts: one record per line, for example
//
//	topic orders 1
//	partition 1 0 replicas=1,2 leader=1
//	change 1 0 leader=2
//
// where 1 after a topic's name stands for the id that ends in 1.

func id(t testing.TB, s string) protocol.UUID {
	return protocol.UUID{15: byte(number(t, s))}
}

func number(t testing.TB, s string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func nodes(t testing.TB, s string) []protocol.NodeID {
	ids := []protocol.NodeID{}
	for part := range strings.SplitSeq(s, ",") {
		if part != "" {
			ids = append(ids, protocol.NodeID(number(t, part)))
		}
	}
	return ids
}

// parseRecord reads one line: a record or a control record.
func parseRecord(t testing.TB, line string) (record.Record, record.Control) {
	t.Helper()
	f := strings.Fields(line)
	options := map[string]string{}
	var args []string
	for _, word := range f[1:] {
		if key, value, ok := strings.Cut(word, "="); ok {
			options[key] = value
		} else {
			args = append(args, word)
		}
	}
	switch f[0] {
	case "feature":
		return &record.FeatureLevel{Name: args[0], Level: int16(number(t, args[1]))}, nil
	case "broker":
		return &record.RegisterBroker{
			BrokerID: protocol.NodeID(number(t, args[0])), BrokerEpoch: protocol.BrokerEpoch(number(t, args[1])), Fenced: true,
		}, nil
	case "unfence":
		return &record.BrokerRegistrationChange{
			BrokerID: protocol.NodeID(number(t, args[0])), BrokerEpoch: protocol.BrokerEpoch(number(t, args[1])), Fenced: -1,
		}, nil
	case "topic":
		return &record.Topic{Name: args[0], TopicID: id(t, args[1])}, nil
	case "remove":
		return &record.RemoveTopic{TopicID: id(t, args[0])}, nil
	case "partition":
		replicas := nodes(t, options["replicas"])
		return &record.Partition{
			TopicID: id(t, args[0]), PartitionID: int32(number(t, args[1])),
			Replicas: replicas, ISR: replicas, Leader: protocol.NodeID(number(t, options["leader"])),
			Directories: make([]protocol.UUID, len(replicas)),
		}, nil
	case "change":
		c := record.NewPartitionChange(id(t, args[0]), int32(number(t, args[1])))
		c.Leader = protocol.NodeID(number(t, options["leader"]))
		return c, nil
	case "config":
		rec := &record.Config{ResourceType: metadata.ResourceTopic, ResourceName: args[0]}
		for key, value := range options {
			rec.Name = key
			if value != "" {
				rec.Value = &value
			}
		}
		return rec, nil
	case "producer-ids":
		return &record.ProducerIDs{NextProducerID: number(t, args[0])}, nil
	case "noop":
		return &record.NoOp{}, nil
	case "begin":
		return &record.BeginTransaction{}, nil
	case "end":
		return &record.EndTransaction{}, nil
	case "abort":
		return &record.AbortTransaction{}, nil
	case "remove-acl": // of one that is not there
		return &record.RemoveAccessControlEntry{ACLID: id(t, args[0])}, nil
	case "leader":
		return nil, &record.LeaderChange{LeaderID: protocol.NodeID(number(t, args[0]))}
	case "kraft":
		return nil, &record.KRaftVersion{Version: int16(number(t, args[0]))}
	case "voters":
		v := &record.Voters{}
		for _, n := range nodes(t, args[0]) {
			v.Voters = append(v.Voters, record.Voter{ID: n})
		}
		return nil, v
	}
	t.Fatalf("no such record: %s", line)
	return nil, nil
}

// printImage prints what an image holds, without what it shares with every other.
func printImage(img *metadata.Image) string {
	var out strings.Builder
	fmt.Fprintf(&out, "offset %d epoch %d time %d", img.Offset(), img.Epoch(), img.TimestampMs())
	for name, level := range img.Features() {
		fmt.Fprintf(&out, "\n  feature %s %d", name, level)
	}
	for b := range img.Brokers() {
		fmt.Fprintf(&out, "\n  broker %d epoch %d", b.ID, b.Epoch)
		if b.Fenced {
			out.WriteString(" fenced")
		}
	}
	for t := range img.Topics() {
		fmt.Fprintf(&out, "\n  topic %s %d", t.Name, t.ID[15])
		for p := range t.Partitions() {
			fmt.Fprintf(&out, "\n    %d replicas %v leader %d leader epoch %d partition epoch %d",
				p.ID, p.Replicas, p.Leader, p.LeaderEpoch, p.PartitionEpoch)
		}
	}
	for res := range img.ConfigResources() {
		for key, value := range img.Configs(res) {
			fmt.Fprintf(&out, "\n  config %s %s=%s", res.Name, key, value)
		}
	}
	if n := img.NextProducerID(); n > 0 {
		fmt.Fprintf(&out, "\n  next producer id %d", n)
	}
	return out.String()
}

// printDelta prints what a subscriber learns.
func printDelta(d *metadata.Delta, img *metadata.Image) string {
	parts := []string{fmt.Sprintf("published offset %d epoch %d:", img.Offset(), img.Epoch())}
	for c := range d.ChangedTopics() {
		sign := "~"
		switch {
		case c.Old == nil:
			sign = "+"
		case c.New == nil:
			sign = "-"
		}
		parts = append(parts, fmt.Sprintf("%stopic %s", sign, c.Name))
	}
	for before, after := range d.ChangedBrokers() {
		switch {
		case before == nil:
			parts = append(parts, fmt.Sprintf("+broker %d", after.ID))
		case after == nil:
			parts = append(parts, fmt.Sprintf("-broker %d", before.ID))
		default:
			parts = append(parts, fmt.Sprintf("~broker %d", after.ID))
		}
	}
	for res := range d.ChangedConfigs() {
		parts = append(parts, "~configs of "+res.Name)
	}
	if d.FeaturesChanged() {
		parts = append(parts, "~features")
	}
	if len(parts) == 1 {
		parts = append(parts, "nothing")
	}
	return strings.Join(parts, " ")
}
