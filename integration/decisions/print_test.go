//go:build integration

package decisions

import (
	"cmp"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/metadata/record"
	"github.com/klamm/klamm/protocol"
)

// printed is an answer, a line for what is not a list, indented below it the
// elements of lists. Fields that say nothing are left out, but codes.
func (w *world) printed(req kmsg.Request, resp kmsg.Response) string {
	sortAnswer(req, resp)
	var out strings.Builder
	w.printStruct(&out, "  ", "", reflect.ValueOf(resp).Elem())
	return out.String()
}

// sortAnswer puts what Kafka answers in the order of a hash table into one of names.
func sortAnswer(req kmsg.Request, resp kmsg.Response) {
	switch r := resp.(type) {
	case *kmsg.DescribeQuorumResponse:
		slices.SortFunc(r.Nodes, func(a, b kmsg.DescribeQuorumResponseNode) int { return cmp.Compare(a.NodeID, b.NodeID) })
		for _, t := range r.Topics {
			for i := range t.Partitions {
				p := &t.Partitions[i]
				if p.LeaderEpoch > 0 {
					p.LeaderEpoch = 1 // of the moment
				}
				slices.SortFunc(p.CurrentVoters, func(a, b kmsg.DescribeQuorumResponseTopicPartitionReplicaState) int {
					return cmp.Compare(a.ReplicaID, b.ReplicaID)
				})
			}
		}
	case *kmsg.DescribeClusterResponse:
		slices.SortFunc(r.Brokers, func(a, b kmsg.DescribeClusterResponseBroker) int { return cmp.Compare(a.NodeID, b.NodeID) })
	case *kmsg.CreatePartitionsResponse:
		slices.SortFunc(r.Topics, func(a, b kmsg.CreatePartitionsResponseTopic) int { return cmp.Compare(a.Topic, b.Topic) })
	case *kmsg.DeleteTopicsResponse:
		slices.SortFunc(r.Topics, func(a, b kmsg.DeleteTopicsResponseTopic) int { return cmp.Compare(*a.Topic, *b.Topic) })
	case *kmsg.ElectLeadersResponse:
		if req.(*kmsg.ElectLeadersRequest).Topics != nil {
			return
		}
		for _, t := range r.Topics {
			slices.SortFunc(t.Partitions, func(a, b kmsg.ElectLeadersResponseTopicPartition) int { return cmp.Compare(a.Partition, b.Partition) })
		}
		slices.SortFunc(r.Topics, func(a, b kmsg.ElectLeadersResponseTopic) int { return cmp.Compare(a.Topic, b.Topic) })
	case *kmsg.ListPartitionReassignmentsResponse:
		slices.SortFunc(r.Topics, func(a, b kmsg.ListPartitionReassignmentsResponseTopic) int { return cmp.Compare(a.Topic, b.Topic) })
	case *kmsg.DescribeConfigsResponse:
		for i := range r.Resources {
			slices.SortFunc(r.Resources[i].Configs, func(a, b kmsg.DescribeConfigsResponseResourceConfig) int { return cmp.Compare(a.Name, b.Name) })
		}
	case *kmsg.DeleteACLsResponse:
		for i := range r.Results {
			slices.SortFunc(r.Results[i].MatchingACLs, func(a, b kmsg.DeleteACLsResponseResultMatchingACL) int {
				return cmp.Or(cmp.Compare(a.ResourceType, b.ResourceType), cmp.Compare(a.ResourceName, b.ResourceName))
			})
		}
	case *kmsg.AlterUserSCRAMCredentialsResponse:
		slices.SortFunc(r.Results, func(a, b kmsg.AlterUserSCRAMCredentialsResponseResult) int { return cmp.Compare(a.User, b.User) })
	case *kmsg.AlterClientQuotasResponse:
		slices.SortStableFunc(r.Entries, func(a, b kmsg.AlterClientQuotasResponseEntry) int { return cmp.Compare(entity(a), entity(b)) })
	}
}

func entity(of kmsg.AlterClientQuotasResponseEntry) string {
	var text string
	for _, part := range of.Entity {
		text += part.Type
		if part.Name != nil {
			text += "=" + *part.Name
		}
	}
	return text
}

// passing are fields of answers that are of the moment; −1 says that there is none.
var passing = []string{
	"BrokerEpoch", "HighWatermark", "LogEndOffset", "CurrentLeaderEpoch", "ControllerID", "LastFetchTimestamp", "LastCaughtUpTimestamp", "FinalizedFeaturesEpoch",
}

// defaultConfig is the source of a config that nobody has set.
const defaultConfig = 5

func (w *world) printStruct(out *strings.Builder, indent, name string, v reflect.Value) {
	var fields []string
	var lists []int
	for i := range v.NumField() {
		f, field := v.Field(i), v.Type().Field(i)
		switch {
		case field.Name == "Version" || strings.HasPrefix(field.Name, "Throttle") || field.Name == "UnknownTags":
		case f.Kind() == reflect.Slice && f.Type().Elem().Kind() == reflect.Struct:
			if f.Len() > 0 {
				lists = append(lists, i)
			}
		default:
			if text := w.value(field.Name, f); text != "" {
				fields = append(fields, w.renamed(field.Name+"="+text))
			}
		}
	}
	fmt.Fprintf(out, "%s%s%s\n", indent, name, strings.Join(fields, " "))
	for _, i := range lists {
		for j := range v.Field(i).Len() {
			if v.Field(i).Index(j).Type() == reflect.TypeFor[kmsg.CreateTopicsResponseTopicConfig]() && v.Field(i).Index(j).FieldByName("Source").Int() == defaultConfig {
				continue // there are many, and all the same
			}
			w.printStruct(out, indent+"  ", v.Type().Field(i).Name+": ", v.Field(i).Index(j))
		}
	}
}

// value is a field of an answer; "" says nothing.
func (w *world) value(name string, f reflect.Value) string {
	if f.Kind() == reflect.Pointer {
		if f.IsNil() {
			return ""
		}
		f = f.Elem()
	}
	switch v := f.Interface().(type) {
	case [16]byte:
		if v == [16]byte{} {
			return ""
		}
		id := protocol.UUID(v).String()
		if named, ok := w.names[id]; ok {
			return named
		}
		return "<some>" // of what was not created
	case string:
		return strconv.Quote(w.renamed(v))
	}
	switch {
	case name == "ErrorCode":
		code := protocol.Error(f.Int())
		text, _, _ := strings.Cut(code.Error(), ":")
		return text
	case slices.Contains(passing, name):
		if f.Int() < 0 {
			return fmt.Sprint(f.Int())
		}
		return "<some>"
	case f.IsZero():
		return ""
	}
	return w.renamed(fmt.Sprint(f.Interface()))
}

// name notes the ids that a record brings up.
func (w *world) name(e record.Entry) {
	switch r := e.Record.(type) {
	case *record.Topic:
		w.topic[r.TopicID] = r.Name
		w.names[r.TopicID.String()] = "<" + r.Name + ">"
	case *record.RegisterBroker:
		for i, dir := range r.LogDirs {
			w.names[dir.String()] = fmt.Sprintf("<dir %d of %d>", i+1, r.BrokerID)
			if w.anyDir {
				w.names[dir.String()] = fmt.Sprintf("<a dir of %d>", r.BrokerID)
			}
		}
	}
}

// renamed replaces what differs from one cluster to the next.
func (w *world) renamed(text string) string {
	for of, name := range w.names {
		text = strings.ReplaceAll(text, of, name)
	}
	return text
}

var passingFields = regexp.MustCompile(`"(brokerEpoch|incarnationId|id|features)":(\[[^\]]*\]|"[^"]*"|\d+)`)

// recordText is records as Kafka's dump tool prints them, without their causes.
func (w *world) recordText(entries []record.Entry) string {
	var out strings.Builder
	last := ""
	for _, e := range w.ordered(entries) {
		record.SetCause(e.Record, "")
		line := string(record.AppendJSON(nil, e.Record, e.Version))
		line = w.renamed(passingFields.ReplaceAllString(line, `"$1":<some>`))
		if _, twice := e.Record.(*record.PartitionChange); twice && line == last {
			continue
		}
		last = line
		fmt.Fprintf(&out, "  %s\n", line)
	}
	return out.String()
}

// ordered leaves out what says nothing here: that no directory is cordoned, which a
// broker may say in a heartbeat of its own or in that which asks to be unfenced, and
// that a broker is fenced which is so already, as Kafka writes for each heartbeat of
// one that goes. It puts changes of partitions in the order of the partitions, and
// configs, quotas and features in that of their names; those of one remain in theirs. A change
// that Kafka writes twice in a row is shown once.
func (w *world) ordered(entries []record.Entry) []record.Entry {
	var out []record.Entry
	for _, e := range entries {
		switch r := e.Record.(type) {
		case *record.RegisterBroker:
			w.fenced[r.BrokerID] = r.Fenced
		case *record.BrokerRegistrationChange:
			if r.CordonedLogDirs != nil && r.Fenced == 0 || r.Fenced == 1 && w.fenced[r.BrokerID] {
				continue
			}
			if r.Fenced != 0 {
				w.fenced[r.BrokerID] = r.Fenced == 1
			}
		}
		out = append(out, e)
	}
	for from := 0; from < len(out); {
		to := from + 1
		for to < len(out) && reflect.TypeOf(out[to].Record) == reflect.TypeOf(out[from].Record) {
			to++
		}
		switch out[from].Record.(type) {
		case *record.PartitionChange, *record.Config, *record.FeatureLevel, *record.ClientQuota:
			slices.SortStableFunc(out[from:to], w.compare)
		}
		from = to
	}
	return out
}

func (w *world) compare(a, b record.Entry) int {
	if p, ok := a.Record.(*record.PartitionChange); ok {
		q := b.Record.(*record.PartitionChange)
		return cmp.Or(cmp.Compare(w.topic[p.TopicID], w.topic[q.TopicID]), cmp.Compare(p.PartitionID, q.PartitionID))
	}
	if p, ok := a.Record.(*record.FeatureLevel); ok {
		return cmp.Compare(p.Name, b.Record.(*record.FeatureLevel).Name)
	}
	if p, ok := a.Record.(*record.ClientQuota); ok {
		q := b.Record.(*record.ClientQuota)
		return cmp.Or(cmp.Compare(named(p), named(q)), cmp.Compare(p.Key, q.Key))
	}
	p, q := a.Record.(*record.Config), b.Record.(*record.Config)
	return cmp.Or(cmp.Compare(p.ResourceType, q.ResourceType), cmp.Compare(p.ResourceName, q.ResourceName), cmp.Compare(p.Name, q.Name))
}

func named(q *record.ClientQuota) (name string) {
	for _, part := range q.Entity {
		name += part.Type
		if part.Name != nil {
			name += "=" + *part.Name
		}
	}
	return name
}
