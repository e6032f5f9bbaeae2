package inspect

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/klamm/klamm/metadata"
	"github.com/klamm/klamm/metadata/record"
	"github.com/klamm/klamm/protocol"
)

// Object is something that has a history: a topic, a partition, a broker, the
// configs of a resource, ACLs, a user. ParseObject makes one.
type Object struct {
	kind      string
	name      string                  // as the user wrote it; of a broker its id
	tp        protocol.TopicPartition // of a topic without the partition
	broker    protocol.NodeID
	resource  metadata.Resource
	directory string // in Tree, of what it consists of
}

// Kinds are the kinds of objects, for messages.
const Kinds = "topic, partition, broker, config, acl or user"

// ParseObject reads the name of an object of a kind. A partition is TOPIC/N or
// TOPIC-N; a config is that of a resource as Tree names it, such as topics/orders
// or brokers/1, or brokers for the default; ACLs are one by its id, or all.
func ParseObject(kind, name string) (Object, error) {
	o := Object{kind: kind, name: name}
	if name == "" && slices.Contains([]string{"topic", "partition", "broker", "config", "user"}, kind) {
		return o, fmt.Errorf("which %s?", kind)
	}
	switch kind {
	case "topic":
		o.tp.Topic, o.directory = name, "/topics/"+escape(name)
	case "partition":
		at := strings.LastIndexAny(name, "/-")
		id, err := strconv.ParseInt(name[at+1:], 10, 32)
		if at < 1 || err != nil || id < 0 {
			return o, fmt.Errorf("%q is no partition such as orders/0", name)
		}
		o.tp = protocol.TopicPartition{Topic: name[:at], Partition: int32(id)}
		o.name, o.directory = o.tp.String(), fmt.Sprintf("/topics/%s/partitions/%d", escape(o.tp.Topic), id)
	case "broker":
		id, err := strconv.ParseInt(name, 10, 32)
		if err != nil || id < 0 {
			return o, fmt.Errorf("%q is no broker's id", name)
		}
		o.broker, o.directory = protocol.NodeID(id), "/brokers/"+name
	case "config":
		types, of, _ := strings.Cut(strings.Trim(name, "/"), "/")
		for _, t := range []int8{
			metadata.ResourceTopic, metadata.ResourceBroker, metadata.ResourceBrokerLogger,
			metadata.ResourceClientMetrics, metadata.ResourceGroup,
		} {
			if resourceTypes(t) == types || resourceTypes(t) == types+"s" {
				o.resource = metadata.Resource{Type: t, Name: strings.Replace(of, "<default>", "", 1)}
			}
		}
		if o.resource.Type == 0 || of == "" && o.resource.Type != metadata.ResourceBroker {
			return o, fmt.Errorf("%q is no resource such as topics/orders, brokers/1, brokers or groups/billing", name)
		}
		o.directory = "/configs/" + resourceTypes(o.resource.Type) + "/" + escape(orDefault(o.resource.Name))
	case "acl", "user":
	default:
		return o, fmt.Errorf("%q is no %s", kind, Kinds)
	}
	return o, nil
}

func (o Object) String() string { return strings.TrimSpace(o.kind + " " + o.name) }

func escape(name string) string { return strings.ReplaceAll(name, "/", "%2F") }

// touchedBy tells whether a record says something about the object; names are
// those of the topics there are and were.
func (o Object) touchedBy(rec record.Record, names map[protocol.UUID]string) bool {
	switch r := rec.(type) {
	case *record.Topic:
		return o.kind == "topic" && r.Name == o.tp.Topic
	case *record.RemoveTopic:
		name := names[r.TopicID]
		return o.tp.Topic == name && name != "" || o.resource == metadata.Resource{Type: metadata.ResourceTopic, Name: name}
	case *record.Partition:
		return o.holds(names[r.TopicID], r.PartitionID)
	case *record.PartitionChange:
		return o.holds(names[r.TopicID], r.PartitionID)
	case *record.ClearELR:
		return o.tp.Topic != "" && (r.TopicName == "" || r.TopicName == o.tp.Topic)
	case *record.Config:
		of := metadata.Resource{Type: r.ResourceType, Name: r.ResourceName}
		return o.kind == "config" && o.resource == of || o.kind == "topic" && of == o.topicConfig()
	case *record.RegisterBroker:
		return o.kind == "broker" && r.BrokerID == o.broker
	case *record.UnregisterBroker:
		return o.kind == "broker" && r.BrokerID == o.broker
	case *record.BrokerRegistrationChange:
		return o.kind == "broker" && r.BrokerID == o.broker
	case *record.FenceBroker:
		return o.kind == "broker" && r.BrokerID == o.broker
	case *record.UnfenceBroker:
		return o.kind == "broker" && r.BrokerID == o.broker
	case *record.AccessControlEntry:
		return o.kind == "acl" && (o.name == "" || o.name == r.ACLID.String()) || o.isPrincipal(r.Principal)
	case *record.RemoveAccessControlEntry:
		return o.kind == "acl" && (o.name == "" || o.name == r.ACLID.String()) || o.kind == "user"
	case *record.UserScramCredential:
		return o.kind == "user" && r.Name == o.name
	case *record.RemoveUserScramCredential:
		return o.kind == "user" && r.Name == o.name
	case *record.ClientQuota:
		return o.hasQuota(metadata.NewQuotaEntity(r.Entity))
	}
	return false
}

func (o Object) holds(topic string, partition int32) bool {
	return o.kind == "topic" && o.tp.Topic == topic ||
		o.kind == "partition" && o.tp == protocol.TopicPartition{Topic: topic, Partition: partition}
}

func (o Object) topicConfig() metadata.Resource {
	return metadata.Resource{Type: metadata.ResourceTopic, Name: o.tp.Topic}
}

func (o Object) isPrincipal(principal string) bool {
	return o.kind == "user" && principal == "User:"+strings.TrimPrefix(o.name, "User:")
}

func (o Object) hasQuota(entity metadata.QuotaEntity) bool {
	user, ok := entity.Part("user")
	return o.kind == "user" && ok && user != nil && *user == o.name
}

// tree is the object as an image has it, as far as a record can have changed it;
// the whole of it for a nil record.
func (o Object) tree(img *metadata.Image, rec record.Record) *Node {
	root := &Node{}
	switch o.kind {
	case "topic":
		o.placeTopic(root, img, rec)
	case "partition":
		if t, ok := img.Topic(o.tp.Topic); ok {
			if p, ok := t.Partition(o.tp.Partition); ok {
				root.place(p.Record(t.ID), map[string]string{t.ID.String(): t.Name})
			}
		}
	case "broker":
		if b, ok := img.Broker(o.broker); ok {
			root.place(b.Record(), nil)
		}
	case "config":
		placeConfigs(root, img, o.resource)
	default:
		o.placeSecurity(root, img, rec)
	}
	return root
}

func (o Object) placeTopic(root *Node, img *metadata.Image, rec record.Record) {
	t, ok := img.Topic(o.tp.Topic)
	if !ok {
		return
	}
	names := map[string]string{t.ID.String(): t.Name}
	place := func(p *metadata.Partition, ok bool) {
		if ok {
			root.place(p.Record(t.ID), names)
		}
	}
	switch r := rec.(type) {
	case *record.Partition:
		place(t.Partition(r.PartitionID))
	case *record.PartitionChange:
		place(t.Partition(r.PartitionID))
	case *record.Config:
		placeConfigs(root, img, o.topicConfig())
	case nil, *record.ClearELR:
		for p := range t.Partitions() {
			place(p, true)
		}
		if rec == nil {
			root.place(&record.Topic{Name: t.Name, TopicID: t.ID}, names)
			placeConfigs(root, img, o.topicConfig())
		}
	default:
		root.place(&record.Topic{Name: t.Name, TopicID: t.ID}, names)
	}
}

func placeConfigs(root *Node, img *metadata.Image, res metadata.Resource) {
	for key, value := range img.Configs(res) {
		root.place(&record.Config{ResourceType: res.Type, ResourceName: res.Name, Name: key, Value: &value}, nil)
	}
}

// placeSecurity takes all ACLs, credentials and quotas of the object: they are few.
func (o Object) placeSecurity(root *Node, img *metadata.Image, rec record.Record) {
	acl := func(a *record.AccessControlEntry) {
		if o.touchedBy(a, nil) {
			root.place(a, nil)
		}
	}
	switch r := rec.(type) {
	case *record.AccessControlEntry:
		if a, ok := img.ACL(r.ACLID); ok {
			acl(a)
		}
		return
	case *record.RemoveAccessControlEntry:
		if a, ok := img.ACL(r.ACLID); ok {
			acl(a)
		}
		return
	case nil:
		for a := range img.ACLs() {
			acl(a)
		}
	}
	if o.kind != "user" {
		return
	}
	for c := range img.ScramCredentials() {
		if c.Name == o.name {
			root.place(c, nil)
		}
	}
	for entity, quotas := range img.Quotas() {
		if o.hasQuota(entity) {
			for _, q := range quotas {
				root.place(&record.ClientQuota{Entity: entity, Key: q.Key, Value: q.Value}, nil)
			}
		}
	}
}

// relative is a path within the object.
func (o Object) relative(path string) string {
	if rest, ok := strings.CutPrefix(path, o.directory+"/"); ok {
		return rest
	}
	return strings.TrimPrefix(path, "/")
}

// changes are what differs of the object between two images, by paths within it.
func (o Object) changes(before, after *metadata.Image, rec record.Record) []Change {
	changes := diff(o.tree(before, rec), o.tree(after, rec))
	for i := range changes {
		changes[i].Path = o.relative(changes[i].Path)
	}
	slices.SortStableFunc(changes, func(a, b Change) int {
		ofA, nameA := splitPath(a.Path)
		ofB, nameB := splitPath(b.Path)
		return cmp.Or(comparePaths(ofA, ofB), cmp.Compare(rank(nameA), rank(nameB)))
	})
	return changes
}

func splitPath(path string) (dir, name string) {
	at := strings.LastIndexByte(path, '/') + 1
	return path[:at], path[at:]
}

// rank puts first what people look for first.
func rank(name string) int {
	first := []string{"leader", "isr", "fenced", "inControlledShutdown"}
	if at := slices.Index(first, name); at >= 0 {
		return at
	}
	return len(first)
}
