package decide

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/metadata/record"
	"github.com/klamm/klamm/protocol"
)

// admin runs the commands of administrators.
func (c *cluster) admin(t *testing.T, d *datadriven.TestData) {
	switch d.Cmd {
	case "grow":
		c.grow(d)
	case "alter":
		c.alter(d)
	case "replace":
		c.replace(d)
	case "update":
		c.update(t, d)
	case "quota":
		c.quota(d)
	case "scram":
		c.scram(d)
	case "authorizer":
		c.env.Authorizer = true
	case "create-acls":
		c.createACLs(d)
	case "delete-acls":
		c.deleteACLs(d)
	case "unregister-controller":
		var id protocol.NodeID
		d.ScanArgs(t, "id", (*int32)(&id))
		records, err := UnregisterController(c.img, id, c.env)
		c.apply(records)
		c.err(err)
	default:
		c.replicas(t, d)
	}
}

// answer prints one line of an answer.
func (c *cluster) answer(what string, code int16, message *string) {
	fmt.Fprintf(&c.out, "%s: ", what)
	switch {
	case code == 0:
		fmt.Fprintln(&c.out, "done")
	case message == nil:
		fmt.Fprintln(&c.out, protocol.Error(code))
	default:
		fmt.Fprintf(&c.out, "%s: %s\n", protocol.Error(code), *message)
	}
}

// grow takes a topic a line: NAME COUNT [1,2/2,1]; "none" stands for a list
// without any assignment.
func (c *cluster) grow(d *datadriven.TestData) {
	req := kmsg.NewPtrCreatePartitionsRequest()
	req.Version, req.ValidateOnly = 3, d.HasArg("validate-only")
	for line := range strings.Lines(d.Input) {
		words := strings.Fields(line)
		topic := kmsg.NewCreatePartitionsRequestTopic()
		topic.Topic = strings.Trim(words[0], `"`)
		n, _ := strconv.Atoi(words[1])
		topic.Count = int32(n)
		if len(words) > 2 {
			topic.Assignment = []kmsg.CreatePartitionsRequestTopicAssignment{}
			if words[2] != "none" {
				for i, part := range strings.Split(words[2], "/") {
					topic.Assignment = append(topic.Assignment, kmsg.CreatePartitionsRequestTopicAssignment{
						Replicas: assignment(i, part).Replicas,
					})
				}
			}
		}
		req.Topics = append(req.Topics, topic)
	}
	records, resp := CreatePartitions(c.img, req, c.env)
	c.apply(records)
	for _, topic := range resp.Topics {
		c.answer(strconv.Quote(topic.Topic), topic.ErrorCode, topic.ErrorMessage)
	}
}

var resourceTypes = map[string]int8{"topic": 2, "broker": 4, "logger": 8, "metrics": 16, "group": 32}

// resource reads topic:a, or a number in place of a type that has a name.
func resource(word string) (int8, string) {
	kind, name, _ := strings.Cut(word, ":")
	if t, ok := resourceTypes[kind]; ok {
		return t, name
	}
	n, _ := strconv.Atoi(kind)
	return int8(n), name
}

// alter takes a resource a line, TYPE:NAME [+=key=value] [-=key=value] [-key]
// [key=value] [?key]: append, subtract, delete, set, and an operation that does
// not exist.
func (c *cluster) alter(d *datadriven.TestData) {
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	req.ValidateOnly = d.HasArg("validate-only")
	for line := range strings.Lines(d.Input) {
		words := strings.Fields(line)
		r := kmsg.NewIncrementalAlterConfigsRequestResource()
		kind, name := resource(words[0])
		r.ResourceType, r.ResourceName = kmsg.ConfigResourceType(kind), name
		for _, word := range words[1:] {
			op := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
			for prefix, kind := range map[string]kmsg.IncrementalAlterConfigOp{"+=": kmsg.IncrementalAlterConfigOpAppend, "-=": kmsg.IncrementalAlterConfigOpSubtract, "?": 9} {
				if rest, ok := strings.CutPrefix(word, prefix); ok {
					op.Op, word = kind, rest
				}
			}
			if rest, ok := strings.CutPrefix(word, "-"); ok && op.Op == kmsg.IncrementalAlterConfigOpSet {
				op.Op, word = kmsg.IncrementalAlterConfigOpDelete, rest
			}
			key, value, set := strings.Cut(word, "=")
			if op.Name = key; set {
				op.Value = &value
			}
			r.Configs = append(r.Configs, op)
		}
		req.Resources = append(req.Resources, r)
	}
	records, resp := IncrementalAlterConfigs(c.img, req, c.env)
	c.apply(records)
	for _, r := range resp.Resources {
		c.answer(fmt.Sprintf("%d:%q", r.ResourceType, r.ResourceName), r.ErrorCode, r.ErrorMessage)
	}
}

// replace takes a resource a line: TYPE:NAME [key=value...]
func (c *cluster) replace(d *datadriven.TestData) {
	req := kmsg.NewPtrAlterConfigsRequest()
	req.ValidateOnly = d.HasArg("validate-only")
	for line := range strings.Lines(d.Input) {
		words := strings.Fields(line)
		r := kmsg.NewAlterConfigsRequestResource()
		kind, name := resource(words[0])
		r.ResourceType, r.ResourceName = kmsg.ConfigResourceType(kind), name
		for _, word := range words[1:] {
			key, value, _ := strings.Cut(word, "=")
			r.Configs = append(r.Configs, kmsg.AlterConfigsRequestResourceConfig{Name: key, Value: &value})
		}
		req.Resources = append(req.Resources, r)
	}
	records, resp := AlterConfigs(c.img, req, c.env)
	c.apply(records)
	for _, r := range resp.Resources {
		c.answer(fmt.Sprintf("%d:%q", r.ResourceType, r.ResourceName), r.ErrorCode, r.ErrorMessage)
	}
}

// update takes a feature a line: NAME LEVEL [upgrade type, 1 where left out].
func (c *cluster) update(t *testing.T, d *datadriven.TestData) {
	req := kmsg.NewPtrUpdateFeaturesRequest()
	version := 2
	d.MaybeScanArgs(t, "version", &version)
	req.Version, req.ValidateOnly = int16(version), d.HasArg("validate-only")
	for line := range strings.Lines(d.Input) {
		words := strings.Fields(line)
		level, _ := strconv.Atoi(words[1])
		u := kmsg.NewUpdateFeaturesRequestFeatureUpdate()
		u.Feature, u.MaxVersionLevel, u.UpgradeType = words[0], int16(level), 1
		if len(words) > 2 {
			kind, _ := strconv.Atoi(words[2])
			u.UpgradeType, u.AllowDowngrade = int8(kind), kind > 1
		}
		req.FeatureUpdates = append(req.FeatureUpdates, u)
	}
	records, resp := UpdateFeatures(c.img, req, c.env)
	c.apply(records)
	c.answer(fmt.Sprintf("%d results", len(resp.Results)), resp.ErrorCode, resp.ErrorMessage)
}

// quota takes an entity a line: type=name[,type=name] [key=value...] [-key...];
// a type without a name means its default.
func (c *cluster) quota(d *datadriven.TestData) {
	req := kmsg.NewPtrAlterClientQuotasRequest()
	req.ValidateOnly = d.HasArg("validate-only")
	for line := range strings.Lines(d.Input) {
		words := strings.Fields(line)
		entry := kmsg.NewAlterClientQuotasRequestEntry()
		for _, part := range strings.Split(words[0], ",") {
			kind, name, named := strings.Cut(part, "=")
			if kind == "nothing" {
				continue
			}
			p := kmsg.AlterClientQuotasRequestEntryEntity{Type: kind}
			if named {
				p.Name = &name
			}
			entry.Entity = append(entry.Entity, p)
		}
		for _, word := range words[1:] {
			key, value, set := strings.Cut(word, "=")
			op := kmsg.AlterClientQuotasRequestEntryOp{Key: strings.TrimPrefix(key, "-"), Remove: !set}
			op.Value, _ = strconv.ParseFloat(value, 64)
			entry.Ops = append(entry.Ops, op)
		}
		req.Entries = append(req.Entries, entry)
	}
	records, resp := AlterClientQuotas(c.img, req)
	for i := range records {
		q := *records[i].(*record.ClientQuota)
		fmt.Fprintf(&c.out, "ClientQuota %s %s=%v remove %t\n", entityText(q.Entity), q.Key, q.Value, q.Remove)
	}
	c.replay(records)
	for _, entry := range resp.Entries {
		var parts []record.QuotaEntity
		for _, p := range entry.Entity {
			parts = append(parts, record.QuotaEntity{Type: p.Type, Name: p.Name})
		}
		c.answer(entityText(parts), entry.ErrorCode, entry.ErrorMessage)
	}
}

// replay takes records in without printing them.
func (c *cluster) replay(records []record.Record) {
	printed := c.out.String()
	c.apply(records)
	c.out.Reset()
	c.out.WriteString(printed)
}

// scram takes a change a line: set USER MECHANISM ITERATIONS PASSWORD, or delete
// USER MECHANISM; deletions come first in a request. Salted passwords are given
// as they are.
func (c *cluster) scram(d *datadriven.TestData) {
	req := kmsg.NewPtrAlterUserSCRAMCredentialsRequest()
	for line := range strings.Lines(d.Input) {
		words := strings.Fields(line)
		user := strings.Trim(words[1], `"`)
		mechanism, _ := strconv.Atoi(words[2])
		if words[0] == "delete" {
			req.Deletions = append(req.Deletions, kmsg.AlterUserSCRAMCredentialsRequestDeletion{Name: user, Mechanism: int8(mechanism)})
			continue
		}
		iterations, _ := strconv.Atoi(words[3])
		req.Upsertions = append(req.Upsertions, kmsg.AlterUserSCRAMCredentialsRequestUpsertion{
			Name: user, Mechanism: int8(mechanism), Iterations: int32(iterations), Salt: []byte("salt"), SaltedPassword: []byte(strings.Join(words[4:], " ")),
		})
	}
	records, resp := AlterUserScramCredentials(c.img, req)
	for _, rec := range records {
		if r, ok := rec.(*record.UserScramCredential); ok {
			fmt.Fprintf(&c.out, "UserScramCredential %s %d iterations %d salt %s stored %x server %x\n", r.Name, r.Mechanism, r.Iterations, r.Salt, r.StoredKey, r.ServerKey)
		} else {
			fmt.Fprintln(&c.out, c.format(rec))
		}
	}
	c.replay(records)
	for _, r := range resp.Results {
		c.answer(strconv.Quote(r.User), r.ErrorCode, r.ErrorMessage)
	}
}

// createACLs takes an ACL a line: TYPE NAME PATTERN PRINCIPAL OPERATION, with
// Kafka's numbers.
func (c *cluster) createACLs(d *datadriven.TestData) {
	req := kmsg.NewPtrCreateACLsRequest()
	for line := range strings.Lines(d.Input) {
		w := strings.Fields(line)
		number := func(i int) int8 { n, _ := strconv.Atoi(w[i]); return int8(n) }
		req.Creations = append(req.Creations, kmsg.CreateACLsRequestCreation{
			ResourceType: kmsg.ACLResourceType(number(0)), ResourceName: strings.Trim(w[1], `"`), ResourcePatternType: kmsg.ACLResourcePatternType(number(2)),
			Principal: w[3], Host: "*", Operation: kmsg.ACLOperation(number(4)), PermissionType: kmsg.ACLPermissionTypeAllow,
		})
	}
	records, resp := CreateACLs(c.img, req, c.env)
	c.apply(records)
	for i, r := range resp.Results {
		c.answer(fmt.Sprint(i), r.ErrorCode, r.ErrorMessage)
	}
}

// deleteACLs takes a filter a line: the name of a resource of any type.
func (c *cluster) deleteACLs(d *datadriven.TestData) {
	req := kmsg.NewPtrDeleteACLsRequest()
	for line := range strings.Lines(d.Input) {
		name := strings.TrimSpace(line)
		req.Filters = append(req.Filters, kmsg.DeleteACLsRequestFilter{
			ResourceType: 1, ResourceName: &name, ResourcePatternType: kmsg.ACLResourcePatternTypeMatch, Operation: 1, PermissionType: 1,
		})
	}
	records, resp := DeleteACLs(c.img, req, c.env)
	c.apply(records)
	for i, r := range resp.Results {
		c.answer(fmt.Sprint(i), r.ErrorCode, r.ErrorMessage)
		for _, m := range r.MatchingACLs {
			fmt.Fprintf(&c.out, "  %s %s %s %s %s\n", m.ResourceType, m.ResourceName, m.ResourcePatternType, m.Principal, m.Operation)
		}
	}
}
