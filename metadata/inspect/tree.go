package inspect

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/klamm/klamm/metadata"
	"github.com/klamm/klamm/metadata/feature"
	"github.com/klamm/klamm/metadata/record"
)

// Node is a part of a cluster's state: a value, or named parts of its own.
type Node struct {
	Name  string
	Value string  // JSON, where there are no children
	Nodes []*Node // in the order of the state
	index map[string]*Node
}

// child returns the part of that name, which it makes.
func (n *Node) child(name string) *Node {
	if c, ok := n.index[name]; ok {
		return c
	}
	c := &Node{Name: name}
	if n.index == nil {
		n.index = map[string]*Node{}
	}
	n.index[name] = c
	n.Nodes = append(n.Nodes, c)
	return c
}

// Find returns the part at a path of names between slashes.
func (n *Node) Find(path string) (*Node, bool) {
	for name := range strings.SplitSeq(strings.Trim(path, "/"), "/") {
		if name == "" {
			continue
		}
		c, ok := n.index[name]
		if !ok {
			return nil, false
		}
		n = c
	}
	return n, true
}

// values are all values by their path.
func (n *Node) values() map[string]string {
	values := map[string]string{}
	n.leaves("", func(path, value string) { values[path] = value })
	return values
}

func (n *Node) leaves(path string, each func(path, value string)) {
	if len(n.Nodes) == 0 && path != "" {
		each(path, n.Value)
	}
	for _, c := range n.Nodes {
		c.leaves(path+"/"+c.Name, each)
	}
}

// Tree returns an image as a tree:
//
//	image/{offset,epoch,timestamp,digest}
//	features/NAME
//	brokers/ID, controllers/ID
//	topics/NAME/{topicId,partitions/ID}
//	configs/{topics,brokers,...}/NAME/KEY
//	quotas/TYPE=NAME,.../KEY
//	producerIds/nextProducerId
//	acls/ID, scram/MECHANISM/USER, tokens/ID
//
// What is below these is the records' data in Kafka's names, without what is
// secret. A slash in a name is written %2F.
func Tree(img *metadata.Image) *Node {
	root := &Node{}
	head := root.child("image")
	for _, f := range []struct {
		name  string
		value any
	}{{"offset", img.Offset()}, {"epoch", img.Epoch()}, {"timestamp", img.TimestampMs()}, {"digest", img.Digest()}} {
		text, _ := json.Marshal(f.value) // numbers and a text always marshal
		head.child(f.name).Value = string(text)
	}
	topics := map[string]string{} // by id
	for rec := range img.Records() {
		if t, ok := rec.(*record.Topic); ok {
			topics[t.TopicID.String()] = t.Name
		}
		root.place(rec, topics)
	}
	return root
}

// place puts what a record says where it belongs.
func (n *Node) place(rec record.Record, topics map[string]string) {
	at := func(names ...string) *Node {
		node := n
		for _, name := range names {
			node = node.child(strings.ReplaceAll(name, "/", "%2F"))
		}
		return node
	}
	switch r := metadata.Redacted(rec).(type) {
	case *record.FeatureLevel:
		at("features", r.Name).Value = strconv.Itoa(int(r.Level))
	case *record.RegisterBroker:
		at("brokers", strconv.Itoa(int(r.BrokerID))).fill(rec, "brokerId")
	case *record.RegisterController:
		at("controllers", strconv.Itoa(int(r.ControllerID))).fill(rec, "controllerId")
	case *record.Topic:
		at("topics", r.Name).fill(rec, "name")
	case *record.Partition:
		at("topics", topics[r.TopicID.String()], "partitions", strconv.Itoa(int(r.PartitionID))).fill(rec, "partitionId", "topicId")
	case *record.Config:
		value, _ := json.Marshal(r.Value)
		at("configs", resourceTypes(r.ResourceType), orDefault(r.ResourceName), r.Name).Value = string(value)
	case *record.ClientQuota:
		value, _ := json.Marshal(r.Value)
		at("quotas", quotaEntity(r.Entity), r.Key).Value = string(value)
	case *record.ProducerIDs:
		at("producerIds").fill(rec, "brokerId", "brokerEpoch")
	case *record.AccessControlEntry:
		at("acls", r.ACLID.String()).fill(rec, "id")
	case *record.UserScramCredential:
		at("scram", scramMechanism(r.Mechanism), r.Name).fill(rec, "name", "mechanism", "salt", "storedKey", "serverKey")
	case *record.DelegationToken:
		at("tokens", r.TokenID).fill(rec, "tokenId")
	default:
		panic("inspect: an image holds a " + record.Name(rec))
	}
}

func orDefault(name string) string {
	if name == "" {
		return "<default>"
	}
	return name
}

func resourceTypes(kind int8) string {
	switch kind {
	case metadata.ResourceTopic:
		return "topics"
	case metadata.ResourceBroker:
		return "brokers"
	case metadata.ResourceBrokerLogger:
		return "brokerLoggers"
	case metadata.ResourceClientMetrics:
		return "clientMetrics"
	case metadata.ResourceGroup:
		return "groups"
	}
	return fmt.Sprintf("type%d", kind)
}

func scramMechanism(m int8) string {
	switch m {
	case 1:
		return "SCRAM-SHA-256"
	case 2:
		return "SCRAM-SHA-512"
	}
	return fmt.Sprintf("mechanism%d", m)
}

func quotaEntity(entity []record.QuotaEntity) string {
	var parts []string
	for _, e := range metadata.NewQuotaEntity(entity) {
		name := "<default>"
		if e.Name != nil {
			name = *e.Name
		}
		parts = append(parts, e.Type+"="+name)
	}
	return strings.Join(parts, ",")
}

// fill takes over a record's data, but for the fields that the path says or
// nobody should see.
func (n *Node) fill(rec record.Record, without ...string) {
	var text struct{ Data json.RawMessage }
	if err := json.Unmarshal(record.AppendJSON(nil, rec, record.Version(rec, feature.Latest)), &text); err != nil {
		panic(fmt.Sprintf("inspect: a record's JSON is none: %v", err))
	}
	n.fillObject(text.Data)
	for _, name := range without {
		n.remove(name)
	}
}

func (n *Node) remove(name string) {
	for i, c := range n.Nodes {
		if c.Name == name {
			n.Nodes = append(n.Nodes[:i], n.Nodes[i+1:]...)
			delete(n.index, name)
			return
		}
	}
}

// fillObject takes over the fields of an object in their order. Objects within
// become parts, and so do lists of objects with names, whose order says nothing;
// everything else is a value.
func (n *Node) fillObject(object json.RawMessage) {
	if n.fillNamed(object) {
		return
	}
	d := json.NewDecoder(bytes.NewReader(object))
	if token, err := d.Token(); err != nil || token != json.Delim('{') {
		n.Value = string(object)
		return
	}
	for d.More() {
		name, err := d.Token()
		var value json.RawMessage
		if err == nil {
			err = d.Decode(&value)
		}
		if err != nil {
			panic(fmt.Sprintf("inspect: a record's JSON is none: %v", err))
		}
		n.child(name.(string)).fillObject(value)
	}
}

// fillNamed takes over a list of objects that have names.
func (n *Node) fillNamed(list json.RawMessage) bool {
	var items []json.RawMessage
	if json.Unmarshal(list, &items) != nil || len(items) == 0 {
		return false
	}
	names := make([]struct{ Name string }, len(items))
	for i, item := range items {
		if json.Unmarshal(item, &names[i]) != nil || names[i].Name == "" {
			return false
		}
	}
	for i, item := range items {
		c := n.child(strings.ReplaceAll(names[i].Name, "/", "%2F"))
		c.fillObject(item)
		c.remove("name")
	}
	slices.SortFunc(n.Nodes, func(a, b *Node) int { return strings.Compare(a.Name, b.Name) })
	return true
}
