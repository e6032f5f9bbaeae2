//go:build integration

package metadata

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/integration/harness"
)

// operation is one thing that is done to a node, and is over when it returns.
type operation struct {
	name string
	do   func(n *node)
}

// settings of every node that the operations are done to.
var operationSettings = []string{
	"authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
	"super.users=User:ANONYMOUS",
	"num.partitions=2",
}

// operations is every request that a single node turns into records. They are
// done one after the other, each when the one before is answered. A request must
// not be one that a client splits into some for different brokers.
var operations = []operation{
	{"create a topic", func(n *node) {
		createTopics(n, topic("plain", 3))
	}},
	{"create topics with assignments, configs and defaults", func(n *node) {
		assigned := topic("assigned", -1)
		assigned.ReplicationFactor = -1
		for partition := range int32(2) {
			a := kmsg.NewCreateTopicsRequestTopicReplicaAssignment()
			a.Partition, a.Replicas = partition, []int32{1}
			assigned.ReplicaAssignment = append(assigned.ReplicaAssignment, a)
		}
		defaults := topic("defaults", -1)
		defaults.ReplicationFactor = -1
		createTopics(n, assigned, defaults,
			topic("configured", 1, "segment.bytes", "1048576", "cleanup.policy", "compact,delete", "retention.ms", "3600000"),
			topic("minimum", 2, "retention.bytes", "1000000", "min.insync.replicas", "1", "max.message.bytes", "2000000"))
	}},
	{"create a topic only to see whether it could be", func(n *node) {
		req := kmsg.NewPtrCreateTopicsRequest()
		req.Topics, req.ValidateOnly = append(req.Topics, topic("imagined", 1)), true
		ask[*kmsg.CreateTopicsResponse](n, req)
	}},
	{"grow topics", func(n *node) {
		plain := kmsg.NewCreatePartitionsRequestTopic()
		plain.Topic, plain.Count = "plain", 5
		assigned := kmsg.NewCreatePartitionsRequestTopic()
		assigned.Topic, assigned.Count = "assigned", 3
		a := kmsg.NewCreatePartitionsRequestTopicAssignment()
		a.Replicas = []int32{1}
		assigned.Assignment = append(assigned.Assignment, a)
		req := kmsg.NewPtrCreatePartitionsRequest()
		req.Topics, req.TimeoutMillis = append(req.Topics, plain, assigned), 30_000
		ask[*kmsg.CreatePartitionsResponse](n, req)
	}},
	{"alter configs of everything that has some", func(n *node) {
		alter(n,
			configs(topicConfig, "plain", "set retention.ms 7200000", "append cleanup.policy compact"),
			configs(topicConfig, "configured", "subtract cleanup.policy delete", "delete retention.ms", "set segment.ms 60000"),
			configs(brokerConfig, "", "set log.cleaner.threads 2", "set message.max.bytes 2000000"),
			configs(clientMetricsConfig, "subscription", "set interval.ms 60000", "set metrics org.apache.kafka.", "set match client_id=a.*"),
			configs(groupConfig, "group", "set consumer.session.timeout.ms 50000"),
		)
		alter(n, configs(brokerConfig, "1", "set log.cleaner.threads 2", "set background.threads 12"))
	}},
	{"alter configs that require records of their own", func(n *node) {
		alter(n, configs(topicConfig, "plain", "set min.insync.replicas 1", "set segment.ms 60000"))
		alter(n, configs(brokerConfig, "", "set min.insync.replicas 1"))
		alter(n, configs(brokerConfig, "", "set min.insync.replicas 2"))
		alter(n, configs(topicConfig, "plain", "delete min.insync.replicas"))
		alter(n, configs(brokerConfig, "", "set min.insync.replicas 1"), configs(topicConfig, "minimum", "set min.insync.replicas 2"))
	}},
	{"alter configs to what they are", func(n *node) {
		alter(n, configs(topicConfig, "plain", "set retention.ms 7200000"))
		alter(n, configs(brokerConfig, "1", "set background.threads 12"))
		alter(n, configs(clientMetricsConfig, "subscription", "set interval.ms 60000"))
	}},
	{"replace all configs", func(n *node) {
		replace(n, replacement(topicConfig, "configured", "retention.ms", "1000", "segment.ms", "70000"),
			replacement(groupConfig, "group", "consumer.heartbeat.interval.ms", "6000"))
		replace(n, replacement(brokerConfig, "1", "background.threads", "14"))
	}},
	{"delete configs", func(n *node) {
		alter(n, configs(brokerConfig, "1", "delete background.threads"))
		alter(n, configs(groupConfig, "group", "delete consumer.heartbeat.interval.ms"),
			configs(clientMetricsConfig, "subscription", "delete match"))
	}},
	{"set quotas", func(n *node) {
		quotas(n,
			harness.Quota("user=ann", "producer_byte_rate=1000", "request_percentage=12.5"),
			harness.Quota("user=ann client-id=one", "consumer_byte_rate=2000"),
			harness.Quota("client-id=one", "consumer_byte_rate=3000"),
			harness.Quota("user", "producer_byte_rate=4000"),
			harness.Quota("client-id", "producer_byte_rate=5000"),
			harness.Quota("user client-id", "controller_mutation_rate=5"),
			harness.Quota("ip=127.0.0.1", "connection_creation_rate=100"),
			harness.Quota("ip", "connection_creation_rate=200"))
	}},
	{"change and remove quotas", func(n *node) {
		quotas(n,
			harness.Quota("user=ann", "producer_byte_rate=1500", "request_percentage"),
			harness.Quota("client-id=one", "consumer_byte_rate"),
			harness.Quota("ip", "connection_creation_rate=200"))
	}},
	{"set credentials", func(n *node) {
		scram(n, []string{"ann/1", "bob/1"}, nil)
		scram(n, []string{"ann/2", "cid/2"}, nil)
	}},
	{"change and remove credentials", func(n *node) {
		scram(n, []string{"ann/1", "dan/2"}, []string{"bob/1", "cid/2"})
	}},
	{"create ACLs", func(n *node) {
		createACLs(n,
			acl(kmsg.ACLResourceTypeTopic, "orders", kmsg.ACLResourcePatternTypeLiteral, "User:ann", "*", kmsg.ACLOperationRead, kmsg.ACLPermissionTypeAllow),
			acl(kmsg.ACLResourceTypeTopic, "ord", kmsg.ACLResourcePatternTypePrefixed, "User:bob", "127.0.0.1", kmsg.ACLOperationWrite, kmsg.ACLPermissionTypeDeny),
			acl(kmsg.ACLResourceTypeGroup, "*", kmsg.ACLResourcePatternTypeLiteral, "User:*", "*", kmsg.ACLOperationAll, kmsg.ACLPermissionTypeAllow),
			acl(kmsg.ACLResourceTypeCluster, "kafka-cluster", kmsg.ACLResourcePatternTypeLiteral, "User:ann", "*", kmsg.ACLOperationIdempotentWrite, kmsg.ACLPermissionTypeAllow),
			acl(kmsg.ACLResourceTypeTransactionalId, "tx", kmsg.ACLResourcePatternTypeLiteral, "User:ann", "*", kmsg.ACLOperationDescribe, kmsg.ACLPermissionTypeAllow))
	}},
	{"create ACLs that are there", func(n *node) {
		createACLs(n,
			acl(kmsg.ACLResourceTypeTopic, "orders", kmsg.ACLResourcePatternTypeLiteral, "User:ann", "*", kmsg.ACLOperationRead, kmsg.ACLPermissionTypeAllow),
			acl(kmsg.ACLResourceTypeTopic, "orders", kmsg.ACLResourcePatternTypeLiteral, "User:ann", "*", kmsg.ACLOperationDescribe, kmsg.ACLPermissionTypeAllow))
	}},
	{"delete ACLs", func(n *node) {
		req := kmsg.NewPtrDeleteACLsRequest()
		filter := kmsg.NewDeleteACLsRequestFilter()
		filter.ResourceType, filter.ResourcePatternType = kmsg.ACLResourceTypeGroup, kmsg.ACLResourcePatternTypeAny
		filter.Operation, filter.PermissionType = kmsg.ACLOperationAny, kmsg.ACLPermissionTypeAny
		req.Filters = append(req.Filters, filter)
		filter.ResourceType, filter.Principal = kmsg.ACLResourceTypeTopic, kmsg.StringPtr("User:bob")
		req.Filters = append(req.Filters, filter)
		ask[*kmsg.DeleteACLsResponse](n, req)
	}},
	{"hand out producer ids", func(n *node) {
		for range 3 {
			req := kmsg.NewPtrInitProducerIDRequest()
			req.ProducerID, req.ProducerEpoch = -1, -1
			ask[*kmsg.InitProducerIDResponse](n, req)
		}
	}},
	{"produce, with a producer id", func(n *node) {
		produce(n, "plain", 0, "a", "b", "c")
	}},
	{"delete records", func(n *node) {
		partition := kmsg.NewDeleteRecordsRequestTopicPartition()
		partition.Partition, partition.Offset = 0, 2
		topic := kmsg.NewDeleteRecordsRequestTopic()
		topic.Topic, topic.Partitions = "plain", append(topic.Partitions, partition)
		req := kmsg.NewPtrDeleteRecordsRequest()
		req.Topics, req.TimeoutMillis = append(req.Topics, topic), 30_000
		ask[*kmsg.DeleteRecordsResponse](n, req)
	}},
	{"create a topic by asking for it", func(n *node) {
		req := harness.MetadataRequest("asked")
		req.AllowAutoTopicCreation = true
		n.until("topic asked", req, func(resp kmsg.Response) bool {
			return len(resp.(*kmsg.MetadataResponse).Topics[0].Partitions) > 0
		})
	}},
	{"use a group", func(n *node) {
		req := kmsg.NewPtrFindCoordinatorRequest()
		req.CoordinatorKeys = []string{"group"}
		n.until("a coordinator", req, func(resp kmsg.Response) bool {
			return resp.(*kmsg.FindCoordinatorResponse).Coordinators[0].ErrorCode == 0
		})
		commit(n, "group", "plain", 0, 2)
	}},
	{"delete topics", func(n *node) {
		deleteTopics(n, "", n.topicID("defaults"))
		deleteTopics(n, "configured", [16]byte{})
	}},
	{"create a topic of a name that was deleted", func(n *node) {
		createTopics(n, topic("configured", 1))
	}},
	{"change levels of features", func(n *node) {
		features(n, "group.version=0", "share.version=1")
		features(n, "group.version=1")
		features(n, "transaction.version=1", "share.version=0", "streams.version=0")
		features(n, "transaction.version=2")
	}},
	{"set levels of features that they have", func(n *node) {
		features(n, "group.version=1", fmt.Sprint("metadata.version=", n.level("metadata.version")))
	}},
	{"switch eligible leader replicas off and on", func(n *node) {
		features(n, "eligible.leader.replicas.version=0")
		alter(n, configs(brokerConfig, "", "delete min.insync.replicas"))
		alter(n, configs(brokerConfig, "1", "set min.insync.replicas 1"))
		features(n, "eligible.leader.replicas.version=1")
	}},
}

const (
	topicConfig         = kmsg.ConfigResourceTypeTopic
	brokerConfig        = kmsg.ConfigResourceTypeBroker
	clientMetricsConfig = kmsg.ConfigResourceTypeClientMetrics
	groupConfig         = kmsg.ConfigResourceTypeGroupConfig
)

// topic is a topic to create; settings are KEY, VALUE, ...
func topic(name string, partitions int32, settings ...string) kmsg.CreateTopicsRequestTopic {
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, partitions, 1
	for i := 0; i < len(settings); i += 2 {
		setting := kmsg.NewCreateTopicsRequestTopicConfig()
		setting.Name, setting.Value = settings[i], &settings[i+1]
		topic.Configs = append(topic.Configs, setting)
	}
	return topic
}

func createTopics(n *node, topics ...kmsg.CreateTopicsRequestTopic) {
	n.t.Helper()
	req := kmsg.NewPtrCreateTopicsRequest()
	req.Topics, req.TimeoutMillis = topics, 30_000
	ask[*kmsg.CreateTopicsResponse](n, req)
}

func deleteTopics(n *node, name string, id [16]byte) {
	n.t.Helper()
	topic := kmsg.NewDeleteTopicsRequestTopic()
	topic.TopicID = id
	if name != "" {
		topic.Topic = &name
	}
	req := kmsg.NewPtrDeleteTopicsRequest()
	req.Topics, req.TimeoutMillis = append(req.Topics, topic), 30_000
	ask[*kmsg.DeleteTopicsResponse](n, req)
}

// configs are changes of a resource: "set KEY VALUE", "delete KEY", ...
func configs(kind kmsg.ConfigResourceType, name string, changes ...string) kmsg.IncrementalAlterConfigsRequestResource {
	resource := kmsg.NewIncrementalAlterConfigsRequestResource()
	resource.ResourceType, resource.ResourceName = kind, name
	for _, change := range changes {
		words := strings.Fields(change)
		config := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		config.Name = words[1]
		config.Op = map[string]kmsg.IncrementalAlterConfigOp{
			"set": kmsg.IncrementalAlterConfigOpSet, "delete": kmsg.IncrementalAlterConfigOpDelete,
			"append": kmsg.IncrementalAlterConfigOpAppend, "subtract": kmsg.IncrementalAlterConfigOpSubtract,
		}[words[0]]
		if len(words) > 2 {
			config.Value = &words[2]
		}
		resource.Configs = append(resource.Configs, config)
	}
	return resource
}

func alter(n *node, resources ...kmsg.IncrementalAlterConfigsRequestResource) {
	n.t.Helper()
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	req.Resources = resources
	ask[*kmsg.IncrementalAlterConfigsResponse](n, req)
}

// replacement is all that a resource has from now on: KEY, VALUE, ...
func replacement(kind kmsg.ConfigResourceType, name string, settings ...string) kmsg.AlterConfigsRequestResource {
	resource := kmsg.NewAlterConfigsRequestResource()
	resource.ResourceType, resource.ResourceName = kind, name
	for i := 0; i < len(settings); i += 2 {
		config := kmsg.NewAlterConfigsRequestResourceConfig()
		config.Name, config.Value = settings[i], &settings[i+1]
		resource.Configs = append(resource.Configs, config)
	}
	return resource
}

func replace(n *node, resources ...kmsg.AlterConfigsRequestResource) {
	n.t.Helper()
	req := kmsg.NewPtrAlterConfigsRequest()
	req.Resources = resources
	ask[*kmsg.AlterConfigsResponse](n, req)
}

func quotas(n *node, entries ...kmsg.AlterClientQuotasRequestEntry) {
	n.t.Helper()
	req := kmsg.NewPtrAlterClientQuotasRequest()
	req.Entries = entries
	ask[*kmsg.AlterClientQuotasResponse](n, req)
}

// scram sets and deletes credentials, each "USER/MECHANISM".
func scram(n *node, set, remove []string) {
	n.t.Helper()
	req := kmsg.NewPtrAlterUserSCRAMCredentialsRequest()
	for _, s := range set {
		u := kmsg.NewAlterUserSCRAMCredentialsRequestUpsertion()
		u.Name, u.Mechanism, u.Iterations = s[:len(s)-2], int8(s[len(s)-1]-'0'), 4096
		u.Salt, u.SaltedPassword = []byte("salt of "+s), []byte("salted password of "+s)
		req.Upsertions = append(req.Upsertions, u)
	}
	for _, s := range remove {
		d := kmsg.NewAlterUserSCRAMCredentialsRequestDeletion()
		d.Name, d.Mechanism = s[:len(s)-2], int8(s[len(s)-1]-'0')
		req.Deletions = append(req.Deletions, d)
	}
	ask[*kmsg.AlterUserSCRAMCredentialsResponse](n, req)
}

func acl(kind kmsg.ACLResourceType, name string, pattern kmsg.ACLResourcePatternType, principal, host string, operation kmsg.ACLOperation, permission kmsg.ACLPermissionType) kmsg.CreateACLsRequestCreation {
	a := kmsg.NewCreateACLsRequestCreation()
	a.ResourceType, a.ResourceName, a.ResourcePatternType = kind, name, pattern
	a.Principal, a.Host, a.Operation, a.PermissionType = principal, host, operation, permission
	return a
}

func createACLs(n *node, acls ...kmsg.CreateACLsRequestCreation) {
	n.t.Helper()
	req := kmsg.NewPtrCreateACLsRequest()
	req.Creations = acls
	ask[*kmsg.CreateACLsResponse](n, req)
}

// features sets levels, "NAME=LEVEL", up or down.
func features(n *node, levels ...string) {
	n.t.Helper()
	req := kmsg.NewPtrUpdateFeaturesRequest()
	req.TimeoutMillis = 30_000
	for _, level := range levels {
		name, digits, _ := strings.Cut(level, "=")
		update := kmsg.NewUpdateFeaturesRequestFeatureUpdate()
		update.Feature, update.MaxVersionLevel = name, int16(float(digits))
		update.UpgradeType = 1
		if update.MaxVersionLevel < n.level(name) {
			update.UpgradeType = 2 // a downgrade that loses nothing
		}
		req.FeatureUpdates = append(req.FeatureUpdates, update)
	}
	ask[*kmsg.UpdateFeaturesResponse](n, req)
}

// level is a feature's finalized level.
func (n *node) level(feature string) int16 {
	n.t.Helper()
	for _, f := range ask[*kmsg.ApiVersionsResponse](n, kmsg.NewPtrApiVersionsRequest()).FinalizedFeatures {
		if f.Name == feature {
			return f.MaxVersionLevel
		}
	}
	return 0
}

// produce writes records to a partition, each in a batch of its own, by one
// idempotent producer.
func produce(n *node, topic string, partition int32, values ...string) {
	n.t.Helper()
	produceWith(n, kgo.NoCompression(), topic, partition, values...)
}

func produceWith(n *node, codec kgo.CompressionCodec, topic string, partition int32, values ...string) {
	n.t.Helper()
	c, err := kgo.NewClient(kgo.SeedBrokers(n.Address), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchCompression(codec))
	if err != nil {
		n.t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for _, value := range values {
		r := &kgo.Record{Topic: topic, Partition: partition, Key: []byte("key"), Value: []byte(value)}
		if err := c.ProduceSync(ctx, r).FirstErr(); err != nil {
			n.t.Fatal(err)
		}
	}
}

// commit commits an offset of a group that has no members.
func commit(n *node, group, topic string, partition int32, offset int64) {
	n.t.Helper()
	p := kmsg.NewOffsetCommitRequestTopicPartition()
	p.Partition, p.Offset, p.Metadata = partition, offset, kmsg.StringPtr("note")
	t := kmsg.NewOffsetCommitRequestTopic()
	t.Topic, t.TopicID, t.Partitions = topic, n.topicID(topic), append(t.Partitions, p)
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group, req.Topics = group, append(req.Topics, t)
	n.until("commit", req, func(resp kmsg.Response) bool {
		return resp.(*kmsg.OffsetCommitResponse).Topics[0].Partitions[0].ErrorCode == 0
	})
}

func (n *node) topicID(topic string) [16]byte {
	n.t.Helper()
	return ask[*kmsg.MetadataResponse](n, harness.MetadataRequest(topic)).Topics[0].TopicID
}

// until asks until the answer is the one that is waited for.
func (n *node) until(what string, req kmsg.Request, so func(kmsg.Response) bool) {
	n.t.Helper()
	n.wait(what, func() bool {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		resp, err := n.client.Request(ctx, req)
		if err != nil {
			n.t.Fatal(err)
		}
		return so(resp)
	})
}

// codes are all error codes in an answer.
func codes(resp any) []int16 {
	var found []int16
	var walk func(v reflect.Value)
	walk = func(v reflect.Value) {
		switch v.Kind() {
		case reflect.Pointer:
			if !v.IsNil() {
				walk(v.Elem())
			}
		case reflect.Slice:
			for i := range v.Len() {
				walk(v.Index(i))
			}
		case reflect.Struct:
			for i := range v.NumField() {
				if v.Type().Field(i).Name == "ErrorCode" {
					found = append(found, int16(v.Field(i).Int()))
				} else {
					walk(v.Field(i))
				}
			}
		}
	}
	walk(reflect.ValueOf(resp))
	return found
}

// consume reads count records from an offset on, as key, value and offset.
func consume(n *node, topic string, offset int64, count int) []string {
	n.t.Helper()
	c, err := kgo.NewClient(kgo.SeedBrokers(n.Address), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().At(offset)}}))
	if err != nil {
		n.t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var out []string
	for len(out) < count {
		fetches := c.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			n.t.Fatalf("%s: %d of %d records: %v", topic, len(out), count, err)
		}
		for _, r := range fetches.Records() {
			out = append(out, fmt.Sprint(string(r.Key), "=", string(r.Value), " at ", r.Offset))
		}
	}
	return out
}

func text(s *string) string {
	if s == nil {
		return "<default>"
	}
	return *s
}

func sorted(parts []string) string {
	slices.Sort(parts)
	return strings.Join(parts, ",")
}
