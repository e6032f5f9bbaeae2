package decide

import (
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/config"
	"github.com/klamm/klamm/metadata"
	"github.com/klamm/klamm/metadata/record"
	"github.com/klamm/klamm/protocol"
)

// IncrementalAlterConfigs decides changes of single configs. Each resource stands
// for itself: what is wrong with one of its keys leaves all of them as they are.
// The records of the request are atomic.
func IncrementalAlterConfigs(img *metadata.Image, req *kmsg.IncrementalAlterConfigsRequest, env Env) ([]record.Record, *kmsg.IncrementalAlterConfigsResponse) {
	resp := kmsg.NewPtrIncrementalAlterConfigsResponse()
	records := eachResource(len(req.Resources), func(i int) metadata.Resource {
		return metadata.Resource{Type: int8(req.Resources[i].ResourceType), Name: req.Resources[i].ResourceName}
	}, func(i int, res metadata.Resource) ([]record.Record, error) {
		altered, err := incrementalRecords(img, res, req.Resources[i].Configs)
		if err != nil {
			return nil, err
		}
		return altered, validateConfigs(img, res, altered, nil, env)
	}, func(i int, err error) {
		answer := kmsg.NewIncrementalAlterConfigsResponseResource()
		answer.ResourceType, answer.ResourceName = req.Resources[i].ResourceType, req.Resources[i].ResourceName
		answer.ErrorCode, answer.ErrorMessage = int16(protocol.CodeOf(err)), messageOf(err)
		resp.Resources = append(resp.Resources, answer)
	})
	if req.ValidateOnly {
		return nil, resp
	}
	return append(records, clearELR(img, records)...), resp
}

// AlterConfigs decides new sets of configs: what a resource has and the request
// leaves out is deleted.
func AlterConfigs(img *metadata.Image, req *kmsg.AlterConfigsRequest, env Env) ([]record.Record, *kmsg.AlterConfigsResponse) {
	resp := kmsg.NewPtrAlterConfigsResponse()
	records := eachResource(len(req.Resources), func(i int) metadata.Resource {
		return metadata.Resource{Type: int8(req.Resources[i].ResourceType), Name: req.Resources[i].ResourceName}
	}, func(i int, res metadata.Resource) ([]record.Record, error) {
		altered, deleted := fullRecords(img, res, req.Resources[i].Configs)
		return slices.Concat(altered, deleted), validateConfigs(img, res, altered, deleted, env)
	}, func(i int, err error) {
		answer := kmsg.NewAlterConfigsResponseResource()
		answer.ResourceType, answer.ResourceName = req.Resources[i].ResourceType, req.Resources[i].ResourceName
		answer.ErrorCode, answer.ErrorMessage = int16(protocol.CodeOf(err)), messageOf(err)
		resp.Resources = append(resp.Resources, answer)
	})
	if req.ValidateOnly {
		return nil, resp
	}
	return append(records, clearELR(img, records)...), resp
}

// eachResource runs a decision for each resource that a request names, and answers
// once for all places that name it: with a refusal where those are several. Records of
// a refused one are dropped.
func eachResource(
	n int, at func(i int) metadata.Resource,
	decide func(i int, res metadata.Resource) ([]record.Record, error), answer func(i int, err error),
) (records []record.Record) {
	named := make(map[metadata.Resource]int, n)
	for i := range n {
		named[at(i)]++
	}
	for i := range n {
		res := at(i)
		times := named[res]
		if times == 0 {
			continue // answered before
		}
		named[res] = 0
		err := checkResource(res, times)
		if err == nil {
			var altered []record.Record
			if altered, err = decide(i, res); err == nil {
				records = append(records, altered...)
			}
		}
		answer(i, err)
	}
	return records
}

// checkResource refuses what is named more than once, or is of a kind whose configs
// are not kept here.
func checkResource(res metadata.Resource, times int) error {
	switch res.Type {
	case metadata.ResourceTopic, metadata.ResourceBroker, metadata.ResourceClientMetrics, metadata.ResourceGroup:
	case metadata.ResourceBrokerLogger: // lives in the broker, not in the log
		return protocol.Errorf(protocol.ErrInvalidRequest, "Unknown resource type BROKER_LOGGER")
	default:
		return protocol.Errorf(protocol.ErrUnsupportedVersion, "Unknown resource type %d.", res.Type)
	}
	if times > 1 {
		return protocol.Errorf(protocol.ErrInvalidRequest, "Duplicate resource.")
	}
	return nil
}

// incrementalRecords are the records that a resource's operations come to. Of
// two operations on one key the later counts. A value that stays is written for
// brokers only: it makes them read files again that it names.
func incrementalRecords(img *metadata.Image, res metadata.Resource, ops []kmsg.IncrementalAlterConfigsRequestResourceConfig) ([]record.Record, error) {
	var records []record.Record
	for i, op := range ops {
		if slices.ContainsFunc(ops[i+1:], func(o kmsg.IncrementalAlterConfigsRequestResourceConfig) bool { return o.Name == op.Name }) {
			continue
		}
		current, isSet := img.Config(res, op.Name)
		var next *string
		switch op.Op {
		case kmsg.IncrementalAlterConfigOpSet:
			next = op.Value
		case kmsg.IncrementalAlterConfigOpDelete:
		case kmsg.IncrementalAlterConfigOpAppend, kmsg.IncrementalAlterConfigOpSubtract:
			list, err := alterList(res, op, current, isSet)
			if err != nil {
				return nil, err
			}
			next = &list
		default:
			return nil, protocol.ErrUnknownServerError // as Kafka, which does not expect it
		}
		records = appendConfig(records, res, op.Name, current, isSet, next)
	}
	return records, nil
}

func appendConfig(records []record.Record, res metadata.Resource, name, current string, isSet bool, next *string) []record.Record {
	same := next == nil && !isSet || next != nil && isSet && *next == current
	if same && res.Type != metadata.ResourceBroker {
		return records
	}
	return append(records, &record.Config{ResourceType: res.Type, ResourceName: res.Name, Name: name, Value: next})
}

// alterList appends to a list, or takes from it. A list that is not set begins
// as the key's default.
func alterList(res metadata.Resource, op kmsg.IncrementalAlterConfigsRequestResourceConfig, current string, isSet bool) (string, error) {
	var key *config.Key
	var ok bool
	switch res.Type {
	case metadata.ResourceTopic:
		key, ok = config.TopicKey(op.Name)
	case metadata.ResourceBroker:
		key, ok = config.BrokerKey(op.Name)
	}
	if !ok || key.Type != config.List { // lists of groups and subscriptions are only set as a whole
		verb := "APPEND"
		if op.Op == kmsg.IncrementalAlterConfigOpSubtract {
			verb = "SUBTRACT"
		}
		return "", protocol.Errorf(protocol.ErrInvalidConfig, "Can't %s to key %s because its type is not LIST.", verb, op.Name)
	}
	if !isSet {
		current = key.Default
	}
	items := splitItems(current)
	var given string
	if op.Value != nil {
		given = *op.Value
	}
	for _, item := range strings.Split(given, ",") {
		at := slices.Index(items, item)
		switch {
		case op.Op == kmsg.IncrementalAlterConfigOpAppend && at < 0:
			items = append(items, item)
		case op.Op == kmsg.IncrementalAlterConfigOpSubtract && at >= 0:
			items = slices.Delete(items, at, at+1)
		}
	}
	return strings.Join(items, ","), nil
}

func splitItems(list string) []string {
	var items []string
	for _, item := range strings.Split(list, ",") {
		if item != "" {
			items = append(items, item)
		}
	}
	return items
}

// fullRecords are the records that lead to a new set of configs, and those that
// delete what is left out of it.
func fullRecords(img *metadata.Image, res metadata.Resource, configs []kmsg.AlterConfigsRequestResourceConfig) (altered, deleted []record.Record) {
	given := make(map[string]bool, len(configs))
	for _, c := range configs {
		given[c.Name] = true
	}
	for i, c := range configs {
		if slices.ContainsFunc(configs[i+1:], func(o kmsg.AlterConfigsRequestResourceConfig) bool { return o.Name == c.Name }) {
			continue
		}
		current, isSet := img.Config(res, c.Name)
		altered = appendConfig(altered, res, c.Name, current, isSet, c.Value)
	}
	for key := range img.Configs(res) {
		if !given[key] {
			deleted = append(deleted, &record.Config{ResourceType: res.Type, ResourceName: res.Name, Name: key})
		}
	}
	return altered, deleted
}

// validateConfigs checks what a resource would have after the records: names and
// values first, then whether the resource is there.
func validateConfigs(img *metadata.Image, res metadata.Resource, altered, deleted []record.Record, env Env) error {
	all := make(map[string]string)
	for key, value := range img.Configs(res) {
		all[key] = value
	}
	for _, rec := range slices.Concat(altered, deleted) {
		c := rec.(*record.Config)
		if err := checkMinISR(img, res, c); err != nil {
			return err
		}
		if c.Value == nil {
			delete(all, c.Name)
		} else {
			all[c.Name] = *c.Value
		}
	}
	layers := topicLayers(img, env, nil)
	switch res.Type {
	case metadata.ResourceTopic:
		return validateTopicConfigs(img, res.Name, all, layers)
	case metadata.ResourceBroker:
		return validateBrokerName(img, res.Name)
	case metadata.ResourceClientMetrics:
		if res.Name == "" {
			return protocol.Errorf(protocol.ErrInvalidRequest, "Subscription name can't be empty")
		}
		return config.ValidateClientMetrics(all)
	default:
		if res.Name == "" {
			return protocol.Errorf(protocol.ErrInvalidRequest, "Default group resources are not allowed.")
		}
		return config.ValidateGroup(all, layers)
	}
}

// checkMinISR keeps the brokers' min.insync.replicas what elections with eligible
// leaders need: one value for all, which is there (KIP-966).
func checkMinISR(img *metadata.Image, res metadata.Resource, c *record.Config) error {
	if c.Name != minISRKey || res.Type != metadata.ResourceBroker || !elrEnabled(img) {
		return nil
	}
	switch {
	case res.Name != "":
		return protocol.Errorf(protocol.ErrInvalidConfig, "Broker-level min.insync.replicas cannot be altered while ELR is enabled.")
	case c.Value == nil:
		return protocol.Errorf(protocol.ErrInvalidConfig, "Cluster-level min.insync.replicas cannot be removed while ELR is enabled.")
	}
	return nil
}

func validateTopicConfigs(img *metadata.Image, name string, all map[string]string, layers config.Layers) error {
	if name == "" {
		return protocol.Errorf(protocol.ErrInvalidRequest, "Default topic resources are not allowed.")
	}
	if err := protocol.ValidateTopicName(name); err != nil {
		return err
	}
	if err := config.ValidateTopic(all, layers); err != nil {
		return err
	}
	if _, ok := img.Topic(name); !ok {
		return protocol.Errorf(protocol.ErrUnknownTopicOrPartition, "The topic '%s' does not exist.", name)
	}
	return nil
}

// validateBrokerName checks the name only: values were checked by the broker
// that was asked, which knows its file.
func validateBrokerName(img *metadata.Image, name string) error {
	if name == "" {
		return nil
	}
	id, err := strconv.ParseInt(name, 10, 32)
	if err != nil {
		return protocol.Errorf(protocol.ErrInvalidRequest, "Unable to parse broker name as a base 10 number.")
	}
	if id < 0 {
		return protocol.Errorf(protocol.ErrInvalidRequest, "Invalid negative broker ID.")
	}
	_, isBroker := img.Broker(protocol.NodeID(id))
	_, isController := img.Controller(protocol.NodeID(id))
	if !isBroker && !isController {
		return protocol.Errorf(protocol.ErrBrokerIDNotRegistered, "No node with id %d found.", id)
	}
	return nil
}
