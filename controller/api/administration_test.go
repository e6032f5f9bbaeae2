package api

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/metadata"
	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/protocol/server"
)

// forwarded has a request answered inside of an envelope.
func forwarded[R kmsg.Response](n *node, req kmsg.Request) R {
	n.t.Helper()
	env := do[*kmsg.EnvelopeResponse](n, envelope(req))
	if env.ErrorCode != 0 {
		n.t.Fatalf("%s: %v", kmsg.NameForKey(req.Key()), protocol.Error(env.ErrorCode))
	}
	resp, ok := req.ResponseKind().(R)
	if !ok {
		n.t.Fatalf("%s is answered by %T", kmsg.NameForKey(req.Key()), req.ResponseKind())
	}
	resp.SetVersion(req.GetVersion())
	body := env.ResponseData[4:] // behind the correlation id
	if resp.IsFlexible() {
		body = body[1:] // and no tags
	}
	if err := resp.ReadFrom(body); err != nil {
		n.t.Fatalf("%s v%d: %v", kmsg.NameForKey(req.Key()), req.GetVersion(), err)
	}
	return resp
}

// What administrators change, as brokers forward it, is in the image when it is
// answered, and those who serve clients have acted on it.
func TestForwardedChanges(t *testing.T) {
	n := newNode(t)
	n.join()
	do[*kmsg.CreateTopicsResponse](n, creation(7, "a"))
	text := func(s string) *string { return &s }
	topic := metadata.Resource{Type: metadata.ResourceTopic, Name: "a"}
	acted := func(what string) {
		t.Helper()
		if last, want := n.applied[len(n.applied)-1], n.machine.Image().Offset(); last != want {
			t.Errorf("%s: answered when %d was acted on, want %d", what, last, want)
		}
	}

	grow := &kmsg.CreatePartitionsRequest{Version: 3, TimeoutMillis: 5000, Topics: []kmsg.CreatePartitionsRequestTopic{{Topic: "a", Count: 3}}}
	if r := forwarded[*kmsg.CreatePartitionsResponse](n, grow); r.Topics[0].ErrorCode != 0 {
		t.Errorf("%+v", r)
	}
	acted("CreatePartitions")
	if grown, _ := n.machine.Image().Topic("a"); grown.NumPartitions() != 3 {
		t.Errorf("%d partitions", grown.NumPartitions())
	}

	alter := &kmsg.IncrementalAlterConfigsRequest{Version: 1, Resources: []kmsg.IncrementalAlterConfigsRequestResource{
		{ResourceType: 2, ResourceName: "a", Configs: []kmsg.IncrementalAlterConfigsRequestResourceConfig{{Name: "retention.ms", Value: text("5")}}},
	}}
	if r := forwarded[*kmsg.IncrementalAlterConfigsResponse](n, alter); r.Resources[0].ErrorCode != 0 {
		t.Errorf("%+v", r)
	}
	acted("IncrementalAlterConfigs")
	if value, _ := n.machine.Image().Config(topic, "retention.ms"); value != "5" {
		t.Errorf("retention.ms=%s", value)
	}
	replace := &kmsg.AlterConfigsRequest{Version: 2, Resources: []kmsg.AlterConfigsRequestResource{{ResourceType: 2, ResourceName: "a"}}}
	if r := forwarded[*kmsg.AlterConfigsResponse](n, replace); r.Resources[0].ErrorCode != 0 {
		t.Errorf("%+v", r)
	}
	if value, ok := n.machine.Image().Config(topic, "retention.ms"); ok {
		t.Errorf("retention.ms=%s is still there", value)
	}

	quota := &kmsg.AlterClientQuotasRequest{Version: 1, Entries: []kmsg.AlterClientQuotasRequestEntry{{
		Entity: []kmsg.AlterClientQuotasRequestEntryEntity{{Type: "user", Name: text("u")}},
		Ops:    []kmsg.AlterClientQuotasRequestEntryOp{{Key: "producer_byte_rate", Value: 7}},
	}}}
	if r := forwarded[*kmsg.AlterClientQuotasResponse](n, quota); r.Entries[0].ErrorCode != 0 {
		t.Errorf("%+v", r)
	}
	for entity, quotas := range n.machine.Image().Quotas() {
		if *entity[0].Name != "u" || quotas[0].Value != 7 {
			t.Errorf("%v %v", entity, quotas)
		}
	}

	update := &kmsg.UpdateFeaturesRequest{Version: 2, TimeoutMillis: 5000, FeatureUpdates: []kmsg.UpdateFeaturesRequestFeatureUpdate{{Feature: "none", MaxVersionLevel: 1, UpgradeType: 1}}}
	if r := forwarded[*kmsg.UpdateFeaturesResponse](n, update); r.ErrorCode != int16(protocol.ErrInvalidUpdateVersion) {
		t.Errorf("%+v", r)
	}
	creation := kmsg.NewCreateACLsRequestCreation()
	create := &kmsg.CreateACLsRequest{Version: 3, Creations: []kmsg.CreateACLsRequestCreation{creation}}
	if r := forwarded[*kmsg.CreateACLsResponse](n, create); r.Results[0].ErrorCode != int16(protocol.ErrSecurityDisabled) {
		t.Errorf("%+v", r)
	}
	remove := &kmsg.DeleteACLsRequest{Version: 3, Filters: []kmsg.DeleteACLsRequestFilter{kmsg.NewDeleteACLsRequestFilter()}}
	if r := forwarded[*kmsg.DeleteACLsResponse](n, remove); r.Results[0].ErrorCode != int16(protocol.ErrSecurityDisabled) {
		t.Errorf("%+v", r)
	}
	if r := forwarded[*kmsg.UnregisterControllerResponse](n, &kmsg.UnregisterControllerRequest{ControllerID: 9}); r.ErrorCode != int16(protocol.ErrControllerIDNotRegistered) {
		t.Errorf("%+v", r)
	}
}

// A credential's bytes come in the frame, which is used again as soon as the
// handler has returned.
func TestCredentialsLeaveTheFrame(t *testing.T) {
	n := newNode(t)
	n.join()
	salt := []byte("salt")
	req := &kmsg.AlterUserSCRAMCredentialsRequest{Upsertions: []kmsg.AlterUserSCRAMCredentialsRequestUpsertion{
		{Name: "u", Mechanism: 1, Iterations: 4096, Salt: salt, SaltedPassword: []byte("password")},
	}}
	answer := n.apis[req.Key()].Handle(t.Context(), &server.Request{
		Key: req.Key(), Body: req, Received: time.Now(), Conn: &server.Conn{Principal: server.Anonymous},
	})
	copy(salt, "XXXX") // for the race detector too: the decision may be under way
	if r := answer.Wait(t.Context()).Response.(*kmsg.AlterUserSCRAMCredentialsResponse); r.Results[0].ErrorCode != 0 {
		t.Fatalf("%+v", r)
	}
	if c, ok := n.machine.Image().ScramCredential("u", 1); !ok || string(c.Salt) != "salt" {
		t.Errorf("%+v", c)
	}
	if r := forwarded[*kmsg.AlterUserSCRAMCredentialsResponse](n, req); r.Results[0].User != "u" || r.Results[0].ErrorCode != 0 {
		t.Errorf("%+v", r)
	}
}

// Without office every entry says so, in its own place.
func TestNoChangeWithoutOffice(t *testing.T) {
	n := newNode(t)
	n.join()
	n.log.Depose(2)
	want := int16(protocol.ErrNotController)
	if r := do[*kmsg.CreateTopicsResponse](n, creation(7, "a")); r.Topics[0].ErrorCode != want { // sees the office end
		t.Fatalf("%+v", r)
	}
	if r := do[*kmsg.CreatePartitionsResponse](n, &kmsg.CreatePartitionsRequest{TimeoutMillis: 5000, Topics: []kmsg.CreatePartitionsRequestTopic{{Topic: "a"}}}); r.Topics[0].ErrorCode != want {
		t.Errorf("%+v", r)
	}
	if r := do[*kmsg.AlterConfigsResponse](n, &kmsg.AlterConfigsRequest{Resources: []kmsg.AlterConfigsRequestResource{{ResourceType: 2, ResourceName: "a"}}}); r.Resources[0].ErrorCode != want {
		t.Errorf("%+v", r)
	}
	if r := do[*kmsg.IncrementalAlterConfigsResponse](n, &kmsg.IncrementalAlterConfigsRequest{Resources: []kmsg.IncrementalAlterConfigsRequestResource{{ResourceType: 2, ResourceName: "a"}}}); r.Resources[0].ErrorCode != want {
		t.Errorf("%+v", r)
	}
	if r := do[*kmsg.UpdateFeaturesResponse](n, &kmsg.UpdateFeaturesRequest{TimeoutMillis: 5000}); r.ErrorCode != want {
		t.Errorf("%+v", r)
	}
	if r := do[*kmsg.AlterClientQuotasResponse](n, &kmsg.AlterClientQuotasRequest{Entries: []kmsg.AlterClientQuotasRequestEntry{{}}}); r.Entries[0].ErrorCode != want {
		t.Errorf("%+v", r)
	}
	if r := do[*kmsg.AlterUserSCRAMCredentialsResponse](n, &kmsg.AlterUserSCRAMCredentialsRequest{Deletions: []kmsg.AlterUserSCRAMCredentialsRequestDeletion{{Name: "u"}}}); r.Results[0].ErrorCode != want {
		t.Errorf("%+v", r)
	}
	if r := do[*kmsg.CreateACLsResponse](n, &kmsg.CreateACLsRequest{Creations: []kmsg.CreateACLsRequestCreation{{}}}); r.Results[0].ErrorCode != want {
		t.Errorf("%+v", r)
	}
	if r := do[*kmsg.DeleteACLsResponse](n, &kmsg.DeleteACLsRequest{Filters: []kmsg.DeleteACLsRequestFilter{{}}}); r.Results[0].ErrorCode != want {
		t.Errorf("%+v", r)
	}
	if r := do[*kmsg.UnregisterControllerResponse](n, &kmsg.UnregisterControllerRequest{ControllerID: 9}); r.ErrorCode != want {
		t.Errorf("%+v", r)
	}
}

// The loggers of a controller are set by whoever asks it, leader or not, and
// answered behind the rest.
func TestControllerLoggers(t *testing.T) {
	n := newNode(t)
	n.join()
	do[*kmsg.CreateTopicsResponse](n, creation(7, "a"))
	alter := func(kind kmsg.ConfigResourceType, name, key string, value *string) kmsg.IncrementalAlterConfigsRequestResource {
		r := kmsg.NewIncrementalAlterConfigsRequestResource()
		r.ResourceType, r.ResourceName = kind, name
		r.Configs = []kmsg.IncrementalAlterConfigsRequestResourceConfig{{Name: key, Value: value}}
		return r
	}
	const topic, logger = kmsg.ConfigResourceTypeTopic, kmsg.ConfigResourceTypeBrokerLogger
	warn, loud, day := "WARN", "LOUD", "86400000"
	ask := func(resources ...kmsg.IncrementalAlterConfigsRequestResource) string {
		var got strings.Builder
		req := &kmsg.IncrementalAlterConfigsRequest{Version: 1, Resources: resources}
		for _, r := range do[*kmsg.IncrementalAlterConfigsResponse](n, req).Resources {
			fmt.Fprintf(&got, "%s %s: %v", r.ResourceType, r.ResourceName, protocol.Error(r.ErrorCode))
			if r.ErrorMessage != nil {
				got.WriteString(", " + *r.ErrorMessage)
			}
			got.WriteByte('\n')
		}
		return got.String()
	}
	got := ask(alter(logger, "1", "root", &warn), alter(topic, "a", "retention.ms", &day), alter(logger, "2", "root", &warn))
	const want = `TOPIC a: NONE
BROKER_LOGGER 1: NONE
BROKER_LOGGER 2: INVALID_REQUEST, Unexpected node id. Expected 1, but received 2
`
	if got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	if now := n.level.Level(); now != zerolog.WarnLevel {
		t.Errorf("the log level is %v", now)
	}
	n.log.Depose(2)
	for value, want := range map[*string]string{
		&warn: "BROKER_LOGGER 1: NONE\n",
		&loud: "BROKER_LOGGER 1: INVALID_CONFIG, Cannot set the log level of root to LOUD as it is not a supported log level. Valid log levels are DEBUG, ERROR, FATAL, INFO, TRACE, WARN\n",
		nil:   "BROKER_LOGGER 1: UNKNOWN_SERVER_ERROR, The server experienced an unexpected error when processing the request.\n",
	} {
		if got := ask(alter(logger, "1", "root", value)); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// Where no topics are named, there is nothing that a timeout could stop.
func TestNothingToMove(t *testing.T) {
	n := newNode(t)
	n.join()
	for _, ms := range []int32{-1, 0, 5000} {
		move := &kmsg.AlterPartitionAssignmentsRequest{Version: 1, TimeoutMillis: ms}
		if r := do[*kmsg.AlterPartitionAssignmentsResponse](n, move); r.ErrorCode != 0 || r.ErrorMessage == nil || *r.ErrorMessage != "" || !r.AllowReplicationFactorChange {
			t.Errorf("%d ms: %+v", ms, r)
		}
		elect := &kmsg.ElectLeadersRequest{Version: 2, TimeoutMillis: ms, Topics: []kmsg.ElectLeadersRequestTopic{}}
		if r := do[*kmsg.ElectLeadersResponse](n, elect); r.ErrorCode != 0 || len(r.Topics) > 0 {
			t.Errorf("%d ms: %+v", ms, r)
		}
		elect.Topics = nil // all of them
		want := protocol.Error(0)
		if ms <= 0 {
			want = protocol.ErrRequestTimedOut
		}
		if r := do[*kmsg.ElectLeadersResponse](n, elect); protocol.Error(r.ErrorCode) != want {
			t.Errorf("%d ms, all: %+v", ms, r)
		}
	}
}
