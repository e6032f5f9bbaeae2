//go:build integration

package decisions

import (
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

const timeoutMs = 30_000

// topic is a topic to create with the given replicas of each partition ("1,2,3"),
// and configs "KEY=VALUE".
func topic(name, assignment string, configs ...string) kmsg.CreateTopicsRequestTopic {
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = name, -1, -1
	for i, replicas := range strings.Fields(assignment) {
		a := kmsg.NewCreateTopicsRequestTopicReplicaAssignment()
		a.Partition, a.Replicas = int32(i), ids(replicas)
		t.ReplicaAssignment = append(t.ReplicaAssignment, a)
	}
	for _, config := range configs {
		key, value, _ := strings.Cut(config, "=")
		c := kmsg.NewCreateTopicsRequestTopicConfig()
		c.Name, c.Value = key, &value
		t.Configs = append(t.Configs, c)
	}
	return t
}

// placed is a topic whose replicas the controller places.
func placed(name string, partitions int32, factor int16) kmsg.CreateTopicsRequestTopic {
	t := topic(name, "")
	t.NumPartitions, t.ReplicationFactor = partitions, factor
	return t
}

func create(topics ...kmsg.CreateTopicsRequestTopic) *kmsg.CreateTopicsRequest {
	req := kmsg.NewPtrCreateTopicsRequest()
	req.TimeoutMillis, req.Topics = timeoutMs, topics
	return req
}

func validate(topics ...kmsg.CreateTopicsRequestTopic) *kmsg.CreateTopicsRequest {
	req := create(topics...)
	req.ValidateOnly = true
	return req
}

// ids are "1,2,3"; "-" is an empty list.
func ids(text string) []int32 {
	out := []int32{}
	if text == "-" {
		return out
	}
	for _, id := range strings.Split(text, ",") {
		n, err := strconv.Atoi(id)
		if err != nil {
			panic(err)
		}
		out = append(out, int32(n))
	}
	return out
}

func remove(topics ...string) *kmsg.DeleteTopicsRequest {
	req := kmsg.NewPtrDeleteTopicsRequest()
	req.TimeoutMillis = timeoutMs
	for _, name := range topics {
		t := kmsg.NewDeleteTopicsRequestTopic()
		t.Topic = &name
		req.Topics = append(req.Topics, t)
	}
	return req
}

// grow is "TOPIC COUNT REPLICAS..." a topic.
func grow(topics ...string) *kmsg.CreatePartitionsRequest {
	req := kmsg.NewPtrCreatePartitionsRequest()
	req.TimeoutMillis = timeoutMs
	for _, spec := range topics {
		words := strings.Fields(spec)
		t := kmsg.NewCreatePartitionsRequestTopic()
		t.Topic, t.Count = words[0], ids(words[1])[0]
		for _, replicas := range words[2:] {
			a := kmsg.NewCreatePartitionsRequestTopicAssignment()
			a.Replicas = ids(replicas)
			t.Assignment = append(t.Assignment, a)
		}
		req.Topics = append(req.Topics, t)
	}
	return req
}

// move is "TOPIC PARTITION REPLICAS" a partition; without replicas its move is
// cancelled.
func move(partitions ...string) *kmsg.AlterPartitionAssignmentsRequest {
	req := kmsg.NewPtrAlterPartitionAssignmentsRequest()
	req.TimeoutMillis = timeoutMs
	for _, spec := range partitions {
		words := strings.Fields(spec)
		p := kmsg.NewAlterPartitionAssignmentsRequestTopicPartition()
		p.Partition = ids(words[1])[0]
		if len(words) > 2 {
			p.Replicas = ids(words[2])
		}
		if n := len(req.Topics); n == 0 || req.Topics[n-1].Topic != words[0] {
			t := kmsg.NewAlterPartitionAssignmentsRequestTopic()
			t.Topic = words[0]
			req.Topics = append(req.Topics, t)
		}
		t := &req.Topics[len(req.Topics)-1]
		t.Partitions = append(t.Partitions, p)
	}
	return req
}

// keepSize forbids another number of replicas.
func keepSize(req *kmsg.AlterPartitionAssignmentsRequest) *kmsg.AlterPartitionAssignmentsRequest {
	req.AllowReplicationFactorChange = false
	return req
}

// moves lists what is under way, of "TOPIC PARTITION,..." or of all.
func moves(topics ...string) *kmsg.ListPartitionReassignmentsRequest {
	req := kmsg.NewPtrListPartitionReassignmentsRequest()
	req.TimeoutMillis = timeoutMs
	for _, spec := range topics {
		words := strings.Fields(spec)
		t := kmsg.NewListPartitionReassignmentsRequestTopic()
		t.Topic, t.Partitions = words[0], ids(words[1])
		req.Topics = append(req.Topics, t)
	}
	return req
}

const (
	preferred = 0
	unclean   = 1
)

// elect is "TOPIC PARTITION,..." a topic, or all partitions.
func elect(kind int8, topics ...string) *kmsg.ElectLeadersRequest {
	req := kmsg.NewPtrElectLeadersRequest()
	req.TimeoutMillis, req.ElectionType = timeoutMs, kind
	for _, spec := range topics {
		words := strings.Fields(spec)
		t := kmsg.NewElectLeadersRequestTopic()
		t.Topic, t.Partitions = words[0], ids(words[1])
		req.Topics = append(req.Topics, t)
	}
	return req
}

func describe(topics ...string) *kmsg.DescribeTopicPartitionsRequest {
	req := kmsg.NewPtrDescribeTopicPartitionsRequest()
	req.ResponsePartitionLimit = 100
	for _, name := range topics {
		t := kmsg.NewDescribeTopicPartitionsRequestTopic()
		t.Topic = name
		req.Topics = append(req.Topics, t)
	}
	return req
}

const (
	ofTopic  = kmsg.ConfigResourceTypeTopic
	ofBroker = kmsg.ConfigResourceTypeBroker
	ofLogger = kmsg.ConfigResourceTypeBrokerLogger
)

// change is "KEY=VALUE", "KEY" (deletes it), "KEY+=VALUE" or "KEY-=VALUE" of a
// resource.
func change(kind kmsg.ConfigResourceType, name string, changes ...string) kmsg.IncrementalAlterConfigsRequestResource {
	r := kmsg.NewIncrementalAlterConfigsRequestResource()
	r.ResourceType, r.ResourceName = kind, name
	for _, text := range changes {
		c := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		key, value, set := strings.Cut(text, "=")
		c.Value = &value
		switch {
		case !set:
			c.Op, c.Value = kmsg.IncrementalAlterConfigOpDelete, nil
		case strings.HasSuffix(key, "+"):
			c.Op = kmsg.IncrementalAlterConfigOpAppend
		case strings.HasSuffix(key, "-"):
			c.Op = kmsg.IncrementalAlterConfigOpSubtract
		}
		c.Name = strings.TrimRight(key, "+-")
		r.Configs = append(r.Configs, c)
	}
	return r
}

func alter(resources ...kmsg.IncrementalAlterConfigsRequestResource) *kmsg.IncrementalAlterConfigsRequest {
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	req.Resources = resources
	return req
}

// replace sets all configs of a resource.
func replace(kind kmsg.ConfigResourceType, name string, configs ...string) *kmsg.AlterConfigsRequest {
	req := kmsg.NewPtrAlterConfigsRequest()
	r := kmsg.NewAlterConfigsRequestResource()
	r.ResourceType, r.ResourceName = kind, name
	for _, text := range configs {
		key, value, _ := strings.Cut(text, "=")
		c := kmsg.NewAlterConfigsRequestResourceConfig()
		c.Name, c.Value = key, &value
		r.Configs = append(r.Configs, c)
	}
	req.Resources = append(req.Resources, r)
	return req
}

func configs(kind kmsg.ConfigResourceType, name string, keys ...string) *kmsg.DescribeConfigsRequest {
	req := kmsg.NewPtrDescribeConfigsRequest()
	req.IncludeSynonyms = true
	r := kmsg.NewDescribeConfigsRequestResource()
	r.ResourceType, r.ResourceName, r.ConfigNames = kind, name, keys
	req.Resources = append(req.Resources, r)
	return req
}

const (
	up     = 1
	safe   = 2
	unsafe = 3
)

// features is "NAME=LEVEL" by one kind of change.
func features(kind int8, levels ...string) *kmsg.UpdateFeaturesRequest {
	req := kmsg.NewPtrUpdateFeaturesRequest()
	req.TimeoutMillis = timeoutMs
	for _, text := range levels {
		name, level, _ := strings.Cut(text, "=")
		u := kmsg.NewUpdateFeaturesRequestFeatureUpdate()
		n, err := strconv.Atoi(level)
		if err != nil {
			panic(err)
		}
		u.Feature, u.MaxVersionLevel, u.UpgradeType = name, int16(n), kind
		u.AllowDowngrade = kind != up
		req.FeatureUpdates = append(req.FeatureUpdates, u)
	}
	return req
}

func tried(req *kmsg.UpdateFeaturesRequest) *kmsg.UpdateFeaturesRequest {
	req.ValidateOnly = true
	return req
}

func unregister(id int32) *kmsg.UnregisterBrokerRequest {
	req := kmsg.NewPtrUnregisterBrokerRequest()
	req.BrokerID = id
	return req
}

func quotas(entries ...kmsg.AlterClientQuotasRequestEntry) *kmsg.AlterClientQuotasRequest {
	req := kmsg.NewPtrAlterClientQuotasRequest()
	req.Entries = entries
	return req
}

// scram sets credentials "USER MECHANISM ITERATIONS" and removes "USER MECHANISM".
func scram(users ...string) *kmsg.AlterUserSCRAMCredentialsRequest {
	req := kmsg.NewPtrAlterUserSCRAMCredentialsRequest()
	for _, text := range users {
		words := strings.Fields(text)
		if len(words) == 2 {
			d := kmsg.NewAlterUserSCRAMCredentialsRequestDeletion()
			d.Name, d.Mechanism = words[0], int8(ids(words[1])[0])
			req.Deletions = append(req.Deletions, d)
			continue
		}
		u := kmsg.NewAlterUserSCRAMCredentialsRequestUpsertion()
		u.Name, u.Mechanism, u.Iterations = words[0], int8(ids(words[1])[0]), ids(words[2])[0]
		u.Salt, u.SaltedPassword = []byte("salt of "+words[0]), []byte("salted password of "+words[0])
		req.Upsertions = append(req.Upsertions, u)
	}
	return req
}

func credentials(users ...string) *kmsg.DescribeUserSCRAMCredentialsRequest {
	req := kmsg.NewPtrDescribeUserSCRAMCredentialsRequest()
	for _, name := range users {
		u := kmsg.NewDescribeUserSCRAMCredentialsRequestUser()
		u.Name = name
		req.Users = append(req.Users, u)
	}
	return req
}

func acl(kind kmsg.ACLResourceType, name, principal string, operation kmsg.ACLOperation) kmsg.CreateACLsRequestCreation {
	a := kmsg.NewCreateACLsRequestCreation()
	a.ResourceType, a.ResourceName, a.ResourcePatternType = kind, name, kmsg.ACLResourcePatternTypeLiteral
	a.Principal, a.Host, a.Operation, a.PermissionType = principal, "*", operation, kmsg.ACLPermissionTypeAllow
	return a
}

func permit(acls ...kmsg.CreateACLsRequestCreation) *kmsg.CreateACLsRequest {
	req := kmsg.NewPtrCreateACLsRequest()
	req.Creations = acls
	return req
}

// acls are those of a principal.
func acls(principal string) *kmsg.DescribeACLsRequest {
	req := kmsg.NewPtrDescribeACLsRequest()
	req.ResourceType, req.ResourcePatternType = kmsg.ACLResourceTypeAny, kmsg.ACLResourcePatternTypeAny
	req.Operation, req.PermissionType, req.Principal = kmsg.ACLOperationAny, kmsg.ACLPermissionTypeAny, &principal
	return req
}

func forbid(principals ...string) *kmsg.DeleteACLsRequest {
	req := kmsg.NewPtrDeleteACLsRequest()
	for _, principal := range principals {
		f := kmsg.NewDeleteACLsRequestFilter()
		f.ResourceType, f.ResourcePatternType = kmsg.ACLResourceTypeAny, kmsg.ACLResourcePatternTypeAny
		f.Operation, f.PermissionType, f.Principal = kmsg.ACLOperationAny, kmsg.ACLPermissionTypeAny, &principal
		req.Filters = append(req.Filters, f)
	}
	return req
}
