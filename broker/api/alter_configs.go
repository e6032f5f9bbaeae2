package api

import (
	"context"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	shared "github.com/klamm/klamm/api"
	"github.com/klamm/klamm/config"
	"github.com/klamm/klamm/metadata"
	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/protocol/server"
)

// Changes of configs are looked at here first, as in Kafka: the levels of loggers
// are this broker's alone, and whether a broker's configs are valid depends on
// its file, which the controller does not know. The rest is forwarded, and the
// answer put together in the request's order.

// incrementalAlterConfigs changes single configs.
func (a *Admin) incrementalAlterConfigs(_ context.Context, req *server.Request) server.Answer {
	body := req.Body.(*kmsg.IncrementalAlterConfigsRequest)
	checks := newChecks(len(body.Resources), func(i int) metadata.Resource {
		return metadata.Resource{Type: int8(body.Resources[i].ResourceType), Name: body.Resources[i].ResourceName}
	})
	for i := range body.Resources {
		ops := body.Resources[i].Configs
		checks.check(i, func() error {
			return checkValues(len(ops), func(i int) (string, bool) {
				return ops[i].Name, ops[i].Value == nil && ops[i].Op != kmsg.IncrementalAlterConfigOpDelete
			})
		}, func(res metadata.Resource) (done bool, err error) {
			switch res.Type {
			case metadata.ResourceBrokerLogger:
				return true, a.Loggers.Alter(res.Name, ops, body.ValidateOnly)
			case metadata.ResourceBroker:
				props, err := a.alteredProps(res, ops)
				if err != nil {
					return true, err
				}
				return false, a.validateBroker(res.Name, props)
			}
			return false, nil
		})
	}
	forwarded := kmsg.NewPtrIncrementalAlterConfigsRequest()
	forwarded.Version, forwarded.ValidateOnly = body.Version, body.ValidateOnly
	for _, i := range checks.open() {
		forwarded.Resources = append(forwarded.Resources, body.Resources[i])
	}
	reassemble := func(resp kmsg.Response, code int16, message *string) kmsg.Response {
		if r, ok := resp.(*kmsg.IncrementalAlterConfigsResponse); ok {
			for _, answer := range r.Resources {
				checks.answered(int8(answer.ResourceType), answer.ResourceName, answer.ErrorCode, answer.ErrorMessage)
			}
		}
		whole := kmsg.NewPtrIncrementalAlterConfigsResponse()
		whole.Version = req.Version
		checks.each(code, message, func(res metadata.Resource, code int16, message *string) {
			answer := kmsg.NewIncrementalAlterConfigsResponseResource()
			answer.ResourceType, answer.ResourceName = kmsg.ConfigResourceType(res.Type), res.Name
			answer.ErrorCode, answer.ErrorMessage = code, message
			whole.Resources = append(whole.Resources, answer)
		})
		return whole
	}
	return a.forwardRest(req, forwarded, len(forwarded.Resources), reassemble)
}

// alterConfigs replaces the configs of resources.
func (a *Admin) alterConfigs(_ context.Context, req *server.Request) server.Answer {
	body := req.Body.(*kmsg.AlterConfigsRequest)
	checks := newChecks(len(body.Resources), func(i int) metadata.Resource {
		return metadata.Resource{Type: int8(body.Resources[i].ResourceType), Name: body.Resources[i].ResourceName}
	})
	for i := range body.Resources {
		configs := body.Resources[i].Configs
		checks.check(i, func() error {
			return checkValues(len(configs), func(i int) (string, bool) { return configs[i].Name, configs[i].Value == nil })
		}, func(res metadata.Resource) (done bool, err error) {
			switch res.Type {
			case metadata.ResourceBrokerLogger: // came with the incremental form
				return true, unknownResourceType(res.Type)
			case metadata.ResourceBroker:
				props := make(map[string]string, len(configs))
				for _, c := range configs {
					props[c.Name] = *c.Value
				}
				return false, a.validateBroker(res.Name, props)
			}
			return false, nil
		})
	}
	forwarded := kmsg.NewPtrAlterConfigsRequest()
	forwarded.Version, forwarded.ValidateOnly = body.Version, body.ValidateOnly
	for _, i := range checks.open() {
		forwarded.Resources = append(forwarded.Resources, body.Resources[i])
	}
	reassemble := func(resp kmsg.Response, code int16, message *string) kmsg.Response {
		if r, ok := resp.(*kmsg.AlterConfigsResponse); ok {
			for _, answer := range r.Resources {
				checks.answered(int8(answer.ResourceType), answer.ResourceName, answer.ErrorCode, answer.ErrorMessage)
			}
		}
		whole := kmsg.NewPtrAlterConfigsResponse()
		whole.Version = req.Version
		checks.each(code, message, func(res metadata.Resource, code int16, message *string) {
			answer := kmsg.NewAlterConfigsResponseResource()
			answer.ResourceType, answer.ResourceName = kmsg.ConfigResourceType(res.Type), res.Name
			answer.ErrorCode, answer.ErrorMessage = code, message
			whole.Resources = append(whole.Resources, answer)
		})
		return whole
	}
	return a.forwardRest(req, forwarded, len(forwarded.Resources), reassemble)
}

// forwardRest forwards what is left of a request, if anything is.
func (a *Admin) forwardRest(req *server.Request, rest kmsg.Request, n int, reassemble func(resp kmsg.Response, code int16, message *string) kmsg.Response) server.Answer {
	if n == 0 {
		return server.Answer{Response: reassemble(nil, 0, nil)}
	}
	part := *req
	part.Body = rest
	answer := a.forward(&part, a.RequestTimeout, nil, func(code int16, message *string) kmsg.Response {
		return reassemble(nil, code, message)
	})
	return server.Answer{Wait: func(ctx context.Context) server.Answer {
		done := answer.Wait(ctx)
		if done.Response != nil { // else the connection ends
			done.Response = reassemble(done.Response, 0, nil)
		}
		return done
	}}
}

// configChecks are the outcomes for a request's resources so far.
type configChecks struct {
	resources []metadata.Resource
	done      []bool // answered, with or without an error
	codes     []int16
	messages  []*string
}

// newChecks refuses resources that are named more than once.
func newChecks(n int, resource func(i int) metadata.Resource) *configChecks {
	c := &configChecks{
		resources: make([]metadata.Resource, n), done: make([]bool, n), codes: make([]int16, n), messages: make([]*string, n),
	}
	count := make(map[metadata.Resource]int, n)
	for i := range n {
		c.resources[i] = resource(i)
		count[c.resources[i]]++
	}
	for i, res := range c.resources {
		if count[res] > 1 {
			c.refuse(i, protocol.Errorf(protocol.ErrInvalidRequest, "Each resource must appear at most once."))
		}
	}
	return c
}

func (c *configChecks) refuse(i int, err error) {
	c.done[i], c.codes[i], c.messages[i] = true, int16(protocol.CodeOf(err)), configMessage(err)
}

// configMessage is the text of an error, also of one of the package config.
func configMessage(err error) *string {
	if m := protocol.MessageOf(err); m != nil || protocol.CodeOf(err) != protocol.ErrInvalidConfig {
		return m
	}
	text := err.Error()
	return &text
}

// check runs the checks of one resource: of names and values, then of its kind.
func (c *configChecks) check(i int, values func() error, kind func(metadata.Resource) (done bool, err error)) {
	if c.done[i] {
		return
	}
	err := values()
	done := err != nil
	if err == nil {
		if shared.IsResourceType(c.resources[i].Type) {
			done, err = kind(c.resources[i])
		} else {
			err = unknownResourceType(c.resources[i].Type)
		}
	}
	switch {
	case err != nil:
		c.refuse(i, err)
	case done:
		c.done[i] = true
	}
}

func unknownResourceType(kind int8) error {
	return protocol.Errorf(protocol.ErrInvalidRequest, "Unknown resource type %d", kind)
}

// open are the resources that have no answer yet.
func (c *configChecks) open() []int {
	var open []int
	for i, done := range c.done {
		if !done {
			open = append(open, i)
		}
	}
	return open
}

// answered takes the controller's answer for a resource.
func (c *configChecks) answered(kind int8, name string, code int16, message *string) {
	i := slices.Index(c.resources, metadata.Resource{Type: kind, Name: name})
	if i >= 0 && !c.done[i] {
		c.done[i], c.codes[i], c.messages[i] = true, code, message
	}
}

// each yields all outcomes in order. What has none has the given one, or is what
// the controller should have answered and did not.
func (c *configChecks) each(code int16, message *string, yield func(res metadata.Resource, code int16, message *string)) {
	if code == 0 {
		code = int16(protocol.ErrUnknownServerError)
	}
	for i, res := range c.resources {
		if !c.done[i] {
			c.done[i], c.codes[i], c.messages[i] = true, code, message
		}
		yield(res, c.codes[i], c.messages[i])
	}
}

// checkValues refuses keys that are named twice, and values that are missing.
func checkValues(n int, at func(i int) (name string, missing bool)) error {
	seen := make(map[string]bool, n)
	var missing []string
	for i := range n {
		name, isMissing := at(i)
		if seen[name] {
			return protocol.Errorf(protocol.ErrInvalidRequest, "Error due to duplicate config keys")
		}
		seen[name] = true
		if isMissing {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		return protocol.Errorf(protocol.ErrInvalidRequest, "Null value not supported for : %s", strings.Join(missing, ", "))
	}
	return nil
}

// validateBroker checks all that a broker, or all brokers, would have set.
func (a *Admin) validateBroker(name string, props map[string]string) error {
	if name != "" {
		if err := shared.CheckNodeID(a.NodeID, name, "Unexpected broker id, expected %d, but received %s"); err != nil {
			return err
		}
	}
	return config.ValidateDynamic(props, name != "", a.brokerLayers())
}

// brokerLayers are where this broker's configs come from.
func (a *Admin) brokerLayers() config.Layers {
	return a.Image().Layers(a.NodeID, a.Static)
}

// alteredProps are the configs of a broker after the operations. A name that is
// not this broker's is left for validateBroker.
func (a *Admin) alteredProps(res metadata.Resource, ops []kmsg.IncrementalAlterConfigsRequestResourceConfig) (map[string]string, error) {
	props := make(map[string]string)
	for key, value := range a.Image().Configs(res) {
		// What could not be set any more does not stand in the way of the rest.
		if _, known := config.BrokerKey(key); !known || config.DynamicMode(key) != config.ReadOnly {
			props[key] = value
		}
	}
	for _, op := range ops {
		switch op.Op {
		case kmsg.IncrementalAlterConfigOpSet:
			props[op.Name] = *op.Value
		case kmsg.IncrementalAlterConfigOpDelete:
			delete(props, op.Name)
		case kmsg.IncrementalAlterConfigOpAppend, kmsg.IncrementalAlterConfigOpSubtract:
			list, err := alteredList(props, op)
			if err != nil {
				return nil, err
			}
			props[op.Name] = list
		default:
			return nil, protocol.Errorf(protocol.ErrInvalidRequest, "Unknown operations type %d", op.Op)
		}
	}
	return props, nil
}

func alteredList(props map[string]string, op kmsg.IncrementalAlterConfigsRequestResourceConfig) (string, error) {
	key, ok := config.DynamicKey(op.Name)
	verb := "append"
	if op.Op == kmsg.IncrementalAlterConfigOpSubtract {
		verb = "subtract"
	}
	switch {
	case !ok:
		return "", protocol.Errorf(protocol.ErrInvalidConfig, "Unknown config name: %s", op.Name)
	case key.Type != config.List:
		return "", protocol.Errorf(protocol.ErrInvalidConfig, "Config value %s is not allowed for config key: %s", verb, op.Name)
	}
	current, ok := props[op.Name]
	if !ok {
		current = key.Default
	}
	var items []string
	if current != "" {
		items = strings.Split(current, ",")
	}
	for _, item := range strings.Split(*op.Value, ",") {
		at := slices.Index(items, item)
		switch {
		case verb == "append" && at < 0:
			items = append(items, item)
		case verb == "subtract" && at >= 0:
			items = slices.Delete(items, at, at+1)
		}
	}
	return strings.Join(items, ","), nil
}
