package api

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kmsg"

	shared "github.com/klamm/klamm/api"
	"github.com/klamm/klamm/metadata/record"
	"github.com/klamm/klamm/protocol"
)

// level is a process's log level.
type level struct{ now zerolog.Level }

func (l *level) Level() zerolog.Level         { return l.now }
func (l *level) SetLevel(level zerolog.Level) { l.now = level }

func configRecord(kind int8, name, key, value string) *record.Config {
	return &record.Config{ResourceType: kind, ResourceName: name, Name: key, Value: &value}
}

func text(s string) *string { return &s }

func adminOf(t *testing.T, records ...record.Record) *Admin {
	return &Admin{
		NodeID: 1, Image: imageFunc(imageOf(t, records...)), Log: zerolog.Nop(), Loggers: shared.Loggers{NodeID: 1, Level: &level{zerolog.InfoLevel}},
		RequestTimeout: time.Second,
	}
}

// result prints a code with its message.
func result(code int16, message *string) string {
	switch {
	case code == 0:
		return "done"
	case message == nil:
		return protocol.Error(code).Error()
	}
	return protocol.Error(code).Error() + ": " + *message
}

func TestIncrementalAlterConfigs(t *testing.T) {
	type resource struct {
		kind kmsg.ConfigResourceType
		name string
		ops  string // key=value, -key, +=key=value, ?key; null:key for a missing value
	}
	const topic, broker, logger = 2, 4, 8
	twice := resource{topic, "a", "k=1"}
	for name, test := range map[string]struct {
		resources []resource
		want      string // what is left for the controller is answered with POLICY_VIOLATION
	}{
		"nothing":          {nil, ""},
		"forwarded":        {[]resource{{topic, "a", "k=1"}, {32, "g", "k=1"}, {16, "m", "-k"}}, "POLICY_VIOLATION POLICY_VIOLATION POLICY_VIOLATION"},
		"resource twice":   {[]resource{twice, {topic, "b", "k=1"}, twice}, "INVALID_REQUEST: Each resource must appear at most once. POLICY_VIOLATION INVALID_REQUEST: Each resource must appear at most once."},
		"unknown kind":     {[]resource{{99, "a", "k=1"}}, "INVALID_REQUEST: Unknown resource type 99"},
		"key twice":        {[]resource{{topic, "a", "k=1 -k"}}, "INVALID_REQUEST: Error due to duplicate config keys"},
		"no value":         {[]resource{{topic, "a", "null:k null:l"}}, "INVALID_REQUEST: Null value not supported for : k, l"},
		"order":            {[]resource{{broker, "1", "log.dirs=x"}, {topic, "a", "k=1"}, {logger, "1", "root=WARN"}}, "INVALID_REQUEST: Cannot update these configs dynamically: [log.dirs] POLICY_VIOLATION done"},
		"broker":           {[]resource{{broker, "1", "log.cleaner.threads=2"}, {broker, "", "log.cleaner.threads=2"}}, "POLICY_VIOLATION POLICY_VIOLATION"},
		"broker, together": {[]resource{{broker, "1", "num.io.threads=40"}}, "POLICY_VIOLATION"}, // the present value is 20
		"broker, deleted":  {[]resource{{broker, "1", "-num.io.threads"}}, "INVALID_REQUEST: Invalid value org.apache.kafka.common.config.ConfigException: Dynamic thread count update validation failed for num.io.threads=8, value should be at least half the current value 20 for configuration Invalid dynamic configuration"},
		"another broker":   {[]resource{{broker, "9", "log.cleaner.threads=1"}}, "INVALID_REQUEST: Unexpected broker id, expected 1, but received 9"},
		"no broker":        {[]resource{{broker, "x", "log.cleaner.threads=1"}}, "INVALID_REQUEST: Node id must be an integer, but it is: x"},
		"broker's lists":   {[]resource{{broker, "1", "+=log.cleanup.policy=compact"}}, "POLICY_VIOLATION"},
		"bad item":         {[]resource{{broker, "1", "+=log.cleanup.policy=x"}}, "INVALID_REQUEST: Invalid value x for configuration log.cleanup.policy: String must be one of: compact, delete"},
		"no list":          {[]resource{{broker, "1", "+=log.cleaner.threads=1"}}, "INVALID_CONFIG: Config value append is not allowed for config key: log.cleaner.threads"},
		"list of nobody":   {[]resource{{broker, "1", "+=no.such.key=1"}}, "INVALID_CONFIG: Unknown config name: no.such.key"},
		"broker's ops":     {[]resource{{broker, "1", "?log.cleaner.threads"}}, "INVALID_REQUEST: Unknown operations type 9"},
		"loggers":          {[]resource{{logger, "1", "root=LOUD"}}, "INVALID_CONFIG: Cannot set the log level of root to LOUD as it is not a supported log level. Valid log levels are DEBUG, ERROR, FATAL, INFO, TRACE, WARN"},
		"logger of none":   {[]resource{{logger, "", "root=INFO"}}, "INVALID_REQUEST: Node id must be an integer, but it is: "},
		"logger elsewhere": {[]resource{{logger, "2", "root=INFO"}}, "INVALID_REQUEST: Unexpected node id. Expected 1, but received 2"},
		"unknown logger":   {[]resource{{logger, "1", "root=WARN kafka=INFO"}}, "INVALID_CONFIG: Logger kafka does not exist!"},
		"logger deleted":   {[]resource{{logger, "1", "-root"}}, "INVALID_REQUEST: Removing the log level of the root logger is not allowed"},
		"logger appended":  {[]resource{{logger, "1", "+=root=INFO"}}, "INVALID_REQUEST: APPEND operation is not allowed for the BROKER_LOGGER resource"},
		"logger's ops":     {[]resource{{logger, "1", "?root"}}, "INVALID_REQUEST: Unknown operation type 9 is not allowed for the BROKER_LOGGER resource"},
	} {
		req := kmsg.NewPtrIncrementalAlterConfigsRequest()
		resp := kmsg.NewPtrIncrementalAlterConfigsResponse()
		for _, r := range test.resources {
			asked := kmsg.NewIncrementalAlterConfigsRequestResource()
			asked.ResourceType, asked.ResourceName = r.kind, r.name
			for _, word := range strings.Fields(r.ops) {
				asked.Configs = append(asked.Configs, operation(word))
			}
			req.Resources = append(req.Resources, asked)
			// The controller answers more than it is asked: only what is open counts.
			answer := kmsg.NewIncrementalAlterConfigsResponseResource()
			answer.ResourceType, answer.ResourceName, answer.ErrorCode = r.kind, r.name, int16(protocol.ErrPolicyViolation)
			resp.Resources = append(resp.Resources, answer)
		}
		a := adminOf(t, configRecord(4, "1", "num.io.threads", "20"))
		a.Forward = &controller{answer: func() kmsg.Response { return resp }}
		var got []string
		for _, r := range ask(t.Context(), a.incrementalAlterConfigs, req).(*kmsg.IncrementalAlterConfigsResponse).Resources {
			got = append(got, result(r.ErrorCode, r.ErrorMessage))
		}
		if all := strings.Join(got, " "); all != test.want {
			t.Errorf("%s: got\n%s\nwant\n%s", name, all, test.want)
		}
		want := zerolog.InfoLevel
		if name == "order" {
			want = zerolog.WarnLevel
		}
		if now := a.Loggers.Level.Level(); now != want {
			t.Errorf("%s: the log level is %v", name, now)
		}
	}
}

// operation reads one operation of a script.
func operation(word string) kmsg.IncrementalAlterConfigsRequestResourceConfig {
	op := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
	switch {
	case strings.HasPrefix(word, "-"):
		op.Op, op.Name = kmsg.IncrementalAlterConfigOpDelete, word[1:]
		return op
	case strings.HasPrefix(word, "null:"):
		op.Name = word[5:]
		return op
	case strings.HasPrefix(word, "+="):
		op.Op, word = kmsg.IncrementalAlterConfigOpAppend, word[2:]
	case strings.HasPrefix(word, "?"):
		op.Op, word = 9, word[1:]
	}
	key, value, _ := strings.Cut(word, "=")
	op.Name, op.Value = key, &value
	return op
}

func TestAlterConfigs(t *testing.T) {
	req := kmsg.NewPtrAlterConfigsRequest()
	resp := kmsg.NewPtrAlterConfigsResponse()
	for _, r := range []kmsg.AlterConfigsRequestResource{
		{ResourceType: 2, ResourceName: "a", Configs: []kmsg.AlterConfigsRequestResourceConfig{{Name: "k", Value: text("1")}}},
		{ResourceType: 2, ResourceName: "b", Configs: []kmsg.AlterConfigsRequestResourceConfig{{Name: "k"}}},
		{ResourceType: 4, ResourceName: "1", Configs: []kmsg.AlterConfigsRequestResourceConfig{{Name: "log.dirs", Value: text("x")}}},
		{ResourceType: 4, ResourceName: "", Configs: []kmsg.AlterConfigsRequestResourceConfig{{Name: "log.cleaner.threads", Value: text("2")}}},
		{ResourceType: 8, ResourceName: "1", Configs: []kmsg.AlterConfigsRequestResourceConfig{{Name: "root", Value: text("INFO")}}},
	} {
		req.Resources = append(req.Resources, r)
		answer := kmsg.NewAlterConfigsResponseResource()
		answer.ResourceType, answer.ResourceName = r.ResourceType, r.ResourceName
		resp.Resources = append(resp.Resources, answer)
	}
	a := adminOf(t)
	a.Forward = &controller{answer: func() kmsg.Response { return resp }}
	var got []string
	for _, r := range ask(t.Context(), a.alterConfigs, req).(*kmsg.AlterConfigsResponse).Resources {
		got = append(got, result(r.ErrorCode, r.ErrorMessage))
	}
	want := "done INVALID_REQUEST: Null value not supported for : k INVALID_REQUEST: Cannot update these configs dynamically: [log.dirs] done INVALID_REQUEST: Unknown resource type 8"
	if all := strings.Join(got, " "); all != want {
		t.Errorf("got\n%s\nwant\n%s", all, want)
	}
}

// Without a controller all that was to be forwarded has the reason, each in the
// place and in the version that the client expects.
func TestForwardedAdministrationFails(t *testing.T) {
	resource := kmsg.IncrementalAlterConfigsRequestResource{ResourceType: 2, ResourceName: "a"}
	entity := kmsg.AlterClientQuotasRequestEntry{Entity: []kmsg.AlterClientQuotasRequestEntryEntity{{Type: "user"}}}
	creation := kmsg.NewCreateACLsRequestCreation()
	creation.ResourceType, creation.Operation, creation.PermissionType = 2, 3, 3
	filter := kmsg.NewDeleteACLsRequestFilter()
	filter.ResourceType, filter.Operation, filter.PermissionType = 1, 1, 1
	for _, test := range []struct {
		req  kmsg.Request
		code func(kmsg.Response) int16
	}{
		{&kmsg.CreatePartitionsRequest{Version: 2, Topics: []kmsg.CreatePartitionsRequestTopic{{Topic: "a"}}}, func(r kmsg.Response) int16 { return r.(*kmsg.CreatePartitionsResponse).Topics[0].ErrorCode }},
		{&kmsg.UnregisterBrokerRequest{}, func(r kmsg.Response) int16 { return r.(*kmsg.UnregisterBrokerResponse).ErrorCode }},
		{&kmsg.UnregisterControllerRequest{}, func(r kmsg.Response) int16 { return r.(*kmsg.UnregisterControllerResponse).ErrorCode }},
		{&kmsg.UpdateFeaturesRequest{Version: 1}, func(r kmsg.Response) int16 { return r.(*kmsg.UpdateFeaturesResponse).ErrorCode }},
		{&kmsg.AlterConfigsRequest{Version: 1, Resources: []kmsg.AlterConfigsRequestResource{{ResourceType: 2}}}, func(r kmsg.Response) int16 { return r.(*kmsg.AlterConfigsResponse).Resources[0].ErrorCode }},
		{&kmsg.IncrementalAlterConfigsRequest{Version: 1, Resources: []kmsg.IncrementalAlterConfigsRequestResource{resource}}, func(r kmsg.Response) int16 { return r.(*kmsg.IncrementalAlterConfigsResponse).Resources[0].ErrorCode }},
		{&kmsg.AlterClientQuotasRequest{Version: 1, Entries: []kmsg.AlterClientQuotasRequestEntry{entity}}, func(r kmsg.Response) int16 { return r.(*kmsg.AlterClientQuotasResponse).Entries[0].ErrorCode }},
		{&kmsg.AlterUserSCRAMCredentialsRequest{Deletions: []kmsg.AlterUserSCRAMCredentialsRequestDeletion{{Name: "u"}}}, func(r kmsg.Response) int16 { return r.(*kmsg.AlterUserSCRAMCredentialsResponse).Results[0].ErrorCode }},
		{&kmsg.CreateACLsRequest{Version: 3, Creations: []kmsg.CreateACLsRequestCreation{creation}}, func(r kmsg.Response) int16 { return r.(*kmsg.CreateACLsResponse).Results[0].ErrorCode }},
		{&kmsg.DeleteACLsRequest{Version: 3, Filters: []kmsg.DeleteACLsRequestFilter{filter}}, func(r kmsg.Response) int16 { return r.(*kmsg.DeleteACLsResponse).Results[0].ErrorCode }},
	} {
		synctest.Test(t, func(t *testing.T) {
			a := adminOf(t)
			a.Forward = &controller{takes: time.Hour}
			for _, served := range a.APIs() {
				if served.Key != test.req.Key() {
					continue
				}
				resp := ask(t.Context(), served.Handle, test.req)
				if code := protocol.Error(test.code(resp)); code != protocol.ErrRequestTimedOut {
					t.Errorf("%s: %v", kmsg.NameForKey(served.Key), code)
				}
				if resp.GetVersion() != test.req.GetVersion() {
					t.Errorf("%s: answer in version %d", kmsg.NameForKey(served.Key), resp.GetVersion())
				}
			}
		})
	}
}

func TestListConfigResources(t *testing.T) {
	a := adminOf(t,
		&record.Topic{Name: "a", TopicID: protocol.UUID{1}}, &record.RegisterBroker{BrokerID: 1},
		configRecord(32, "g", "k", "v"), configRecord(16, "m", "k", "v"), configRecord(4, "", "k", "v"),
	)
	for _, test := range []struct {
		version int16
		kinds   []int8
		want    string
	}{
		{0, nil, "16:m"},
		{1, nil, "2:a 4:1 8:1 16:m 32:g"},
		{1, []int8{32, 2}, "2:a 32:g"},
		{1, []int8{4, 8}, "4:1 8:1"},
		{1, []int8{2, 77}, "UNSUPPORTED_VERSION"},
	} {
		req := kmsg.NewPtrListConfigResourcesRequest()
		req.Version, req.ResourceTypes = test.version, test.kinds
		resp := ask(t.Context(), a.listConfigResources, req).(*kmsg.ListConfigResourcesResponse)
		var got []string
		for _, r := range resp.ConfigResources {
			got = append(got, fmt.Sprintf("%d:%s", r.Type, r.Name))
		}
		if resp.ErrorCode != 0 {
			got = append(got, protocol.Error(resp.ErrorCode).Error())
		}
		if all := strings.Join(got, " "); all != test.want {
			t.Errorf("v%d %v: got %s, want %s", test.version, test.kinds, all, test.want)
		}
	}
}

func TestDescribeClientQuotas(t *testing.T) {
	quota := func(key string, value float64, parts ...record.QuotaEntity) *record.ClientQuota {
		return &record.ClientQuota{Entity: parts, Key: key, Value: value}
	}
	user := func(name *string) record.QuotaEntity { return record.QuotaEntity{Type: "user", Name: name} }
	client := record.QuotaEntity{Type: "client-id", Name: text("c")}
	a := adminOf(t,
		quota("x", 1, user(text("u"))), quota("y", 2, user(text("u"))), quota("x", 3, user(nil)),
		quota("x", 4, user(text("u")), client), quota("x", 5, client), quota("z", 6, record.QuotaEntity{Type: "ip", Name: text("::1")}),
	)
	component := func(kind string, match kmsg.QuotasMatchType, name *string) kmsg.DescribeClientQuotasRequestComponent {
		return kmsg.DescribeClientQuotasRequestComponent{EntityType: kind, MatchType: match, Match: name}
	}
	const exact, byDefault, any = kmsg.QuotasMatchTypeExact, kmsg.QuotasMatchTypeDefault, kmsg.QuotasMatchTypeAny
	type components = []kmsg.DescribeClientQuotasRequestComponent
	for _, test := range []struct {
		components components
		strict     bool
		want       string
	}{
		{nil, false, "client-id=c x=5 | client-id=c user=u x=4 | ip=::1 z=6 | user=null x=3 | user=u x=1 y=2"},
		{components{component("user", exact, text("u"))}, false, "client-id=c user=u x=4 | user=u x=1 y=2"},
		{components{component("user", exact, text("u"))}, true, "user=u x=1 y=2"},
		{components{component("user", byDefault, nil)}, false, "user=null x=3"},
		{components{component("user", any, nil)}, true, "user=null x=3 | user=u x=1 y=2"},
		{components{component("user", any, nil), component("client-id", any, nil)}, false, "client-id=c user=u x=4"},
		{components{component("user", exact, nil)}, false, "INVALID_REQUEST"},
		{components{component("user", byDefault, text("u"))}, false, "INVALID_REQUEST"},
		{components{component("user", any, text("u"))}, false, "INVALID_REQUEST"},
		{components{component("user", 7, nil)}, false, "INVALID_REQUEST"},
		{components{component("", any, nil)}, false, "INVALID_REQUEST"},
		{components{component("nonsense", any, nil)}, false, "UNSUPPORTED_VERSION"},
		{components{component("user", any, nil), component("user", any, nil)}, false, "INVALID_REQUEST"},
		{components{component("ip", any, nil), component("user", any, nil)}, false, "INVALID_REQUEST"},
	} {
		req := kmsg.NewPtrDescribeClientQuotasRequest()
		req.Components, req.Strict = test.components, test.strict
		resp := ask(t.Context(), a.describeClientQuotas, req).(*kmsg.DescribeClientQuotasResponse)
		var got []string
		for _, entry := range resp.Entries {
			var words []string
			for _, p := range entry.Entity {
				name := "null"
				if p.Name != nil {
					name = *p.Name
				}
				words = append(words, p.Type+"="+name)
			}
			for _, v := range entry.Values {
				words = append(words, fmt.Sprintf("%s=%v", v.Key, v.Value))
			}
			got = append(got, strings.Join(words, " "))
		}
		if resp.ErrorCode != 0 {
			got = append(got, protocol.Error(resp.ErrorCode).Error())
		}
		if all := strings.Join(got, " | "); all != test.want {
			t.Errorf("%+v: got %s, want %s", test.components, all, test.want)
		}
	}
}

func TestDescribeUserScramCredentials(t *testing.T) {
	a := adminOf(t,
		&record.UserScramCredential{Name: "u", Mechanism: 1, Iterations: 4096},
		&record.UserScramCredential{Name: "v", Mechanism: 2, Iterations: 5000},
		&record.UserScramCredential{Name: "u", Mechanism: 2, Iterations: 6000},
	)
	for _, test := range []struct {
		users []string
		want  string
	}{
		{nil, "u 1:4096 2:6000 | v 2:5000"},
		{[]string{"v", "none"}, "v 2:5000 | none RESOURCE_NOT_FOUND: Attempt to describe a user credential that does not exist: none"},
		{[]string{"u", "v", "u"}, "u DUPLICATE_RESOURCE: Cannot describe SCRAM credentials for the same user twice in a single request: u | v 2:5000"},
	} {
		req := kmsg.NewPtrDescribeUserSCRAMCredentialsRequest()
		for _, user := range test.users {
			req.Users = append(req.Users, kmsg.DescribeUserSCRAMCredentialsRequestUser{Name: user})
		}
		var got []string
		for _, r := range ask(t.Context(), a.describeUserScramCredentials, req).(*kmsg.DescribeUserSCRAMCredentialsResponse).Results {
			line := r.User
			for _, info := range r.CredentialInfos {
				line += fmt.Sprintf(" %d:%d", info.Mechanism, info.Iterations)
			}
			if r.ErrorCode != 0 {
				line += " " + result(r.ErrorCode, r.ErrorMessage)
			}
			got = append(got, line)
		}
		if all := strings.Join(got, " | "); all != test.want {
			t.Errorf("%v: got %s, want %s", test.users, all, test.want)
		}
	}
}

func TestDescribeTopicPartitions(t *testing.T) {
	records := []record.Record{&record.RegisterBroker{BrokerID: 1, Endpoints: []record.Endpoint{{Name: "PLAINTEXT", Host: "h", Port: 9}}}}
	for i, partitions := range []int32{3, 2} {
		topic := &record.Topic{Name: string(rune('a' + i)), TopicID: protocol.UUID{byte(i + 1)}}
		records = append(records, topic)
		for p := range partitions {
			records = append(records, &record.Partition{TopicID: topic.TopicID, PartitionID: p, Replicas: []protocol.NodeID{1, 2}, ISR: []protocol.NodeID{1}, Leader: 1, ELR: []protocol.NodeID{2}})
		}
	}
	a := adminOf(t, records...)
	for _, test := range []struct {
		topics string
		limit  int32
		cursor string
		want   string
	}{
		{"a b", 2000, "", "a 0 1 2 | b 0 1"},
		{"b a b", 2, "", "a 0 1 | next a 2"},
		{"a b", 2, "a 2", "a 2 | b 0 | next b 1"},
		{"a b", 3, "", "a 0 1 2 | next b 0"},
		{"a b", 5, "", "a 0 1 2 | b 0 1"},
		{"a", 0, "", "a 0 | next a 1"},
		{"a", -5, "", "a 0 | next a 1"},
		{"a", 10, "a 99", "a"},
		{"a", 10, "a 2147483647", "a"},
		{"", 10, "", "a 0 1 2 | b 0 1"},
		{"", 10, "b 1", "b 1"},
		{"", 2, "a 1", "a 1 2 | next b 0"},
		{"a none", 10, "", "a 0 1 2 | none UNKNOWN_TOPIC_OR_PARTITION"},
		{"a/b", 10, "", "a/b INVALID_TOPIC_EXCEPTION"},
		{"a", 10, "a -1", "a INVALID_REQUEST"},
		{"a", 10, "b 0", "a INVALID_REQUEST"},
		{`a ""`, 10, "", `a UNKNOWN_SERVER_ERROR |  UNKNOWN_SERVER_ERROR`},
	} {
		req := kmsg.NewPtrDescribeTopicPartitionsRequest()
		req.ResponsePartitionLimit = test.limit
		for _, name := range strings.Fields(test.topics) {
			req.Topics = append(req.Topics, kmsg.DescribeTopicPartitionsRequestTopic{Topic: strings.Trim(name, `"`)})
		}
		if test.cursor != "" {
			cursor := kmsg.NewDescribeTopicPartitionsRequestCursor()
			if _, err := fmt.Sscan(test.cursor, &cursor.Topic, &cursor.Partition); err != nil {
				t.Fatal(err)
			}
			req.Cursor = &cursor
		}
		resp := ask(t.Context(), a.describeTopicPartitions, req).(*kmsg.DescribeTopicPartitionsResponse)
		var got []string
		for _, topic := range resp.Topics {
			line := *topic.Topic
			for _, p := range topic.Partitions {
				line += fmt.Sprint(" ", p.Partition)
				if p.LeaderID != 1 || len(p.ISR) != 1 || len(p.EligibleLeaderReplicas) != 1 || p.LastKnownELR == nil || len(p.OfflineReplicas) != 1 {
					t.Errorf("%+v", p)
				}
			}
			if topic.ErrorCode != 0 {
				line += " " + protocol.Error(topic.ErrorCode).Error()
			}
			got = append(got, line)
		}
		if resp.NextCursor != nil {
			got = append(got, fmt.Sprintf("next %s %d", resp.NextCursor.Topic, resp.NextCursor.Partition))
		}
		if all := strings.Join(got, " | "); all != test.want {
			t.Errorf("%s limit %d cursor %s: got %s, want %s", test.topics, test.limit, test.cursor, all, test.want)
		}
	}
}

// What only listeners that ask for a proof have is refused on plain ones.
func TestPlainListeners(t *testing.T) {
	for _, req := range []kmsg.Request{
		&kmsg.CreateDelegationTokenRequest{Version: 3}, &kmsg.RenewDelegationTokenRequest{Version: 2}, &kmsg.ExpireDelegationTokenRequest{Version: 2},
		&kmsg.DescribeDelegationTokenRequest{Version: 3}, &kmsg.SASLHandshakeRequest{Version: 1}, &kmsg.SASLAuthenticateRequest{Version: 2},
		&kmsg.PushTelemetryRequest{},
	} {
		for _, served := range adminOf(t).APIs() {
			if served.Key != req.Key() {
				continue
			}
			resp := ask(t.Context(), served.Handle, req)
			code := resp.(interface{ AppendTo([]byte) []byte })
			again := req.ResponseKind()
			again.SetVersion(req.GetVersion())
			if err := again.ReadFrom(code.AppendTo(nil)); err != nil {
				t.Errorf("%s: %v", kmsg.NameForKey(req.Key()), err)
			}
		}
	}
	sub := ask(t.Context(), getTelemetrySubscriptions, &kmsg.GetTelemetrySubscriptionsRequest{}).(*kmsg.GetTelemetrySubscriptionsResponse)
	if sub.ClientInstanceID == protocol.ZeroUUID || len(sub.RequestedMetrics) != 0 {
		t.Errorf("%+v", sub)
	}
	push := &kmsg.PushTelemetryRequest{ClientInstanceID: sub.ClientInstanceID, SubscriptionID: sub.SubscriptionID}
	if r := ask(t.Context(), pushTelemetry, push).(*kmsg.PushTelemetryResponse); r.ErrorCode != 0 {
		t.Errorf("%+v", r)
	}
	push.SubscriptionID++
	if r := ask(t.Context(), pushTelemetry, push).(*kmsg.PushTelemetryResponse); r.ErrorCode != int16(protocol.ErrUnknownSubscriptionID) {
		t.Errorf("%+v", r)
	}
}
