package group

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/broker/coordinator"
	"github.com/klamm/klamm/protocol"
)

// script is the engine of the scripts in testdata: it keeps a log and a clock,
// and prints what a machine decides. Calls are numbered; so are records.
type script struct {
	m      *Machine
	cfg    Config
	now    time.Time
	log    []coordinator.Record
	timers map[string]pendingTimer
	token  coordinator.Token
	fail   error // of the next append
	out    strings.Builder
	// answers are those since it was emptied; nil: not kept.
	answers map[coordinator.Token]string
}

type pendingTimer struct {
	at    time.Time
	order int
	event any
}

func newScript() *script {
	s := &script{
		cfg: Config{
			InitialRebalanceDelay: 3 * time.Second, MinSessionTimeout: 6 * time.Second, MaxSessionTimeout: 30 * time.Minute,
			MaxSize: 1000, MaxMetadataBytes: 10, Retention: 24 * time.Hour, RetentionCheck: 10 * time.Minute,
		},
		now: time.UnixMilli(1_000_000),
	}
	s.load()
	return s
}

// load makes a machine of what the log holds.
func (s *script) load() {
	s.m = NewMachine(s.cfg, zerolog.New(zerolog.ConsoleWriter{Out: &s.out, NoColor: true, PartsExclude: []string{"time"}}).Level(zerolog.Disabled))
	s.timers = make(map[string]pendingTimer)
	for _, r := range s.log {
		s.m.Replay(r)
	}
	s.follow(s.m.Loaded(s.now))
}

func (s *script) follow(o coordinator.Outcome) {
	for {
		var err error
		if len(o.Records) > 0 {
			if err = s.fail; err == nil {
				for _, r := range o.Records {
					r.Offset = int64(len(s.log))
					s.log = append(s.log, r)
					fmt.Fprintf(&s.out, "%d: %s\n", r.Offset, text(r))
					if !o.Applied {
						s.m.Replay(r)
					}
				}
			}
			s.fail = nil
		}
		for _, t := range o.Timers {
			delete(s.timers, t.Key)
			if t.Event != nil {
				s.timers[t.Key] = pendingTimer{at: s.now.Add(t.After), order: int(s.token)*1000 + len(s.timers), event: t.Event}
			}
		}
		for _, r := range o.Replies {
			text := answerText(r.Answer)
			switch {
			case err != nil && o.Then == nil:
				text = protocol.CodeOf(err).Error()
			case r.Err != nil:
				text = protocol.CodeOf(r.Err).Error()
			}
			fmt.Fprintf(&s.out, "#%d %s\n", r.To, text)
			if s.answers != nil {
				s.answers[r.To] = text
			}
		}
		if o.Then == nil {
			return
		}
		o = o.Then(err)
	}
}

func (s *script) call(event any) {
	s.token++
	s.follow(s.m.Handle(s.now, s.token, event))
}

// advance lets time pass and fires what is due on the way.
func (s *script) advance(by time.Duration) {
	end := s.now.Add(by)
	for {
		next := ""
		for key, t := range s.timers {
			if t.at.After(end) {
				continue
			}
			if n, ok := s.timers[next]; !ok || t.at.Before(n.at) || t.at.Equal(n.at) && (t.order < n.order || t.order == n.order && key < next) {
				next = key
			}
		}
		if next == "" {
			break
		}
		t := s.timers[next]
		delete(s.timers, next)
		s.now = t.at
		s.follow(s.m.Handle(s.now, coordinator.NoToken, t.event))
	}
	s.now = end
}

func orNull(s *string) string {
	if s == nil {
		return "null"
	}
	return *s
}

// text is a record as a person reads it.
func text(r coordinator.Record) string {
	var b strings.Builder
	switch kind := int16(r.Key[0])<<8 | int16(r.Key[1]); kind {
	case offsetKey, oldOffsetKey:
		var key kmsg.OffsetCommitKey
		if err := key.ReadFrom(r.Key); err != nil {
			return err.Error()
		}
		fmt.Fprintf(&b, "offset %q %s-%d", key.Group, key.Topic, key.Partition)
		if r.Value == nil {
			break
		}
		v := kmsg.NewOffsetCommitValue()
		if err := v.ReadFrom(r.Value); err != nil {
			return err.Error()
		}
		fmt.Fprintf(&b, " v%d %d epoch=%d metadata=%q at=%d", v.Version, v.Offset, v.LeaderEpoch, v.Metadata, v.CommitTimestamp)
		if v.Version == expiringOffsetValue {
			fmt.Fprintf(&b, " expires=%d", v.ExpireTimestamp)
		}
		return b.String()
	case groupKey:
		var key kmsg.GroupMetadataKey
		if err := key.ReadFrom(r.Key); err != nil {
			return err.Error()
		}
		fmt.Fprintf(&b, "group %q", key.Group)
		if r.Value == nil {
			break
		}
		v := kmsg.NewGroupMetadataValue()
		if err := v.ReadFrom(r.Value); err != nil {
			return err.Error()
		}
		fmt.Fprintf(&b, " v%d generation=%d type=%q protocol=%s leader=%s since=%d", v.Version, v.Generation, v.ProtocolType, orNull(v.Protocol), orNull(v.Leader), v.CurrentStateTimestamp)
		for _, m := range v.Members {
			fmt.Fprintf(&b, "\n   %s instance=%s client=%s %s rebalance=%d session=%d subscription=%q assignment=%q",
				m.MemberID, orNull(m.InstanceID), m.ClientID, m.ClientHost, m.RebalanceTimeoutMillis, m.SessionTimeoutMillis, m.Subscription, m.Assignment)
		}
		return b.String()
	default:
		return fmt.Sprintf("key type %d", kind)
	}
	return b.String() + " gone"
}

// answerText is an answer as a person reads it.
func answerText(answer any) string {
	var b strings.Builder
	switch a := answer.(type) {
	case *kmsg.JoinGroupResponse:
		fmt.Fprintf(&b, "join %v member=%s", protocol.Error(a.ErrorCode), a.MemberID)
		if a.ErrorCode == 0 {
			fmt.Fprintf(&b, " generation=%d type=%s protocol=%s leader=%s", a.Generation, orNull(a.ProtocolType), orNull(a.Protocol), a.LeaderID)
		}
		if a.SkipAssignment {
			b.WriteString(" skip")
		}
		for _, m := range a.Members {
			fmt.Fprintf(&b, "\n   %s instance=%s %q", m.MemberID, orNull(m.InstanceID), m.ProtocolMetadata)
		}
	case *kmsg.SyncGroupResponse:
		fmt.Fprintf(&b, "sync %v %q", protocol.Error(a.ErrorCode), a.MemberAssignment)
	case *kmsg.HeartbeatResponse:
		fmt.Fprintf(&b, "heartbeat %v", protocol.Error(a.ErrorCode))
	case *kmsg.LeaveGroupResponse:
		fmt.Fprintf(&b, "leave %v", protocol.Error(a.ErrorCode))
		for _, m := range a.Members {
			fmt.Fprintf(&b, "\n   %s instance=%s %v", m.MemberID, orNull(m.InstanceID), protocol.Error(m.ErrorCode))
		}
	case []Committed:
		for i, c := range a {
			fmt.Fprintf(&b, "%s%s-%d %v", sep(i), c.Topic, c.Partition, c.Err)
		}
	case []FoundOffset:
		for i, f := range a {
			fmt.Fprintf(&b, "%s%s-%d %d epoch=%d metadata=%q", sep(i), f.Topic, f.Partition, f.Offset, f.LeaderEpoch, f.Metadata)
		}
	case *kmsg.DescribeGroupsResponseGroup:
		fmt.Fprintf(&b, "%q %s type=%q protocol=%q", a.Group, a.State, a.ProtocolType, a.Protocol)
		for _, m := range a.Members {
			fmt.Fprintf(&b, "\n   %s instance=%s client=%s %s metadata=%q assignment=%q", m.MemberID, orNull(m.InstanceID), m.ClientID, m.ClientHost, m.ProtocolMetadata, m.MemberAssignment)
		}
	case []kmsg.ListGroupsResponseGroup:
		for i, g := range a {
			fmt.Fprintf(&b, "%s%q type=%q %s %s", sep(i), g.Group, g.ProtocolType, g.GroupState, g.GroupType)
		}
	case nil:
		b.WriteString("done")
	default:
		fmt.Fprintf(&b, "%T", answer)
	}
	return b.String()
}

func sep(i int) string {
	if i == 0 {
		return ""
	}
	return ", "
}

// args reads a command's arguments.
type args struct {
	t *testing.T
	d *datadriven.TestData
}

func (a args) text(key, def string) string {
	for _, arg := range a.d.CmdArgs {
		if arg.Key == key {
			return strings.Join(arg.Vals, ",")
		}
	}
	return def
}

func (a args) has(key string) bool { return a.d.HasArg(key) }

func (a args) opt(key string) *string {
	if !a.has(key) {
		return nil
	}
	s := a.text(key, "")
	return &s
}

func (a args) list(key string) []string {
	if !a.has(key) {
		return nil
	}
	for _, arg := range a.d.CmdArgs {
		if arg.Key == key {
			return arg.Vals
		}
	}
	return nil
}

func (a args) num(key string, def int64) int64 {
	n, err := strconv.ParseInt(a.text(key, strconv.FormatInt(def, 10)), 10, 64)
	if err != nil {
		a.d.Fatalf(a.t, "%s: %v", key, err)
	}
	return n
}

// partition reads TOPIC-PARTITION; the topic's id is its name, or what follows @.
func partition(s string) TopicIDPartition {
	name, id, _ := strings.Cut(s, "@")
	at := strings.LastIndexByte(name, '-')
	n, _ := strconv.Atoi(name[at+1:])
	return TopicIDPartition{Topic: name[:at], ID: topicID(name[:at], id), Partition: int32(n)}
}

func topicID(name, id string) (u protocol.UUID) {
	if id == "none" {
		return u
	}
	copy(u[:], name+id)
	return u
}

// consumerMetadata is what a consumer sends: "topics:a;b" reads as a
// subscription, anything else is itself.
func consumerMetadata(s string) []byte {
	list, ok := strings.CutPrefix(s, "topics:")
	if !ok {
		return []byte(s)
	}
	m := kmsg.NewConsumerMemberMetadata()
	m.Topics = strings.Split(list, ";")
	return m.AppendTo(nil)
}

func (s *script) run(t *testing.T, d *datadriven.TestData) string {
	s.out.Reset()
	a := args{t, d}
	group := a.text("group", "g")
	switch d.Cmd {
	case "config":
		s.cfg.MaxSize = int(a.num("max-size", int64(s.cfg.MaxSize)))
		s.cfg.InitialRebalanceDelay = time.Duration(a.num("delay", s.cfg.InitialRebalanceDelay.Milliseconds())) * time.Millisecond
		s.cfg.Retention = time.Duration(a.num("retention", s.cfg.Retention.Milliseconds())) * time.Millisecond
		s.load()
	case "join":
		s.join(a, group)
	case "sync":
		req := kmsg.NewPtrSyncGroupRequest()
		req.Group, req.MemberID, req.InstanceID = group, a.text("member", ""), a.opt("instance")
		req.Generation, req.ProtocolType, req.Protocol = int32(a.num("gen", 0)), a.opt("type"), a.opt("protocol")
		for _, part := range a.list("assign") {
			p := kmsg.NewSyncGroupRequestGroupAssignment()
			id, bytes, _ := strings.Cut(part, ":")
			p.MemberID, p.MemberAssignment = id, []byte(bytes)
			req.GroupAssignment = append(req.GroupAssignment, p)
		}
		s.call(Sync{Request: req})
	case "heartbeat":
		req := kmsg.NewPtrHeartbeatRequest()
		req.Group, req.MemberID, req.InstanceID, req.Generation = group, a.text("member", ""), a.opt("instance"), int32(a.num("gen", 0))
		s.call(Heartbeat{Request: req})
	case "leave":
		req := kmsg.NewPtrLeaveGroupRequest()
		req.Group = group
		for _, who := range a.list("members") {
			m := kmsg.NewLeaveGroupRequestMember()
			id, instance, ok := strings.Cut(who, ":")
			m.MemberID = id
			if ok {
				m.InstanceID = &instance
			}
			req.Members = append(req.Members, m)
		}
		s.call(Leave{Request: req})
	case "commit":
		e := Commit{
			Group: group, Member: a.text("member", ""), Instance: a.opt("instance"),
			Generation: int32(a.num("gen", -1)), RetentionMs: a.num("retention", -1), FromNine: a.has("v9"),
		}
		for _, line := range strings.Fields(a.text("offsets", "")) {
			for _, o := range strings.Split(line, ",") {
				parts := strings.Split(o, "=")
				n, _ := strconv.ParseInt(parts[1], 10, 64)
				e.Offsets = append(e.Offsets, NewOffset{
					TopicIDPartition: partition(parts[0]), Offset: n, LeaderEpoch: int32(a.num("epoch", -1)), Metadata: a.text("metadata", ""),
				})
			}
		}
		s.call(e)
	case "fetch":
		e := Fetch{Group: group, All: !a.has("of")}
		for _, p := range a.list("of") {
			e.Partitions = append(e.Partitions, partition(p))
		}
		s.call(e)
	case "delete-offsets":
		e := DeleteOffsets{Group: group}
		for _, p := range a.list("of") {
			tp := partition(p)
			e.Partitions = append(e.Partitions, protocol.TopicPartition{Topic: tp.Topic, Partition: tp.Partition})
		}
		s.call(e)
	case "describe":
		s.call(Describe{Group: group})
	case "list":
		s.call(List{States: a.list("states"), Types: a.list("types")})
	case "delete":
		s.call(Delete{Group: group})
	case "topics-deleted":
		topics := map[string]protocol.UUID{}
		for _, name := range a.list("topics") {
			name, id, _ := strings.Cut(name, "@")
			topics[name] = topicID(name, id)
		}
		s.follow(s.m.Handle(s.now, coordinator.NoToken, TopicsDeleted{Topics: topics}))
	case "advance":
		by, err := time.ParseDuration(d.CmdArgs[0].Key)
		if err != nil {
			d.Fatalf(t, "%v", err)
		}
		s.advance(by)
	case "fail":
		s.fail = protocol.ErrCoordinatorNotAvailable
	case "reload":
		s.load()
	case "timers":
		var lines []string
		for key, timer := range s.timers {
			lines = append(lines, fmt.Sprintf("%s in %v\n", key, timer.at.Sub(s.now)))
		}
		slices.Sort(lines)
		s.out.WriteString(strings.Join(lines, ""))
	default:
		d.Fatalf(t, "unknown command %s", d.Cmd)
	}
	return s.out.String()
}

func (s *script) join(a args, group string) {
	req := kmsg.NewPtrJoinGroupRequest()
	req.Version = int16(a.num("v", 9))
	req.Group, req.MemberID, req.InstanceID = group, a.text("member", ""), a.opt("instance")
	req.ProtocolType = a.text("type", "consumer")
	req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = int32(a.num("session", 10000)), int32(a.num("rebalance", 60000))
	protocols := a.list("protocols")
	if !a.has("protocols") {
		protocols = []string{"range:x"}
	}
	for _, p := range protocols {
		if p == "" {
			continue
		}
		name, metadata, _ := strings.Cut(p, ":")
		r := kmsg.NewJoinGroupRequestProtocol()
		r.Name, r.Metadata = name, consumerMetadata(metadata)
		req.Protocols = append(req.Protocols, r)
	}
	s.call(Join{Request: req, ClientID: a.text("client", "c"), ClientHost: "/127.0.0.1", Fresh: strconv.Itoa(int(s.token) + 1)})
}

// TestScripts runs the scripts in testdata; -rewrite writes their answers anew.
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata/scripts", func(t *testing.T, path string) {
		s := newScript()
		datadriven.RunTest(t, path, s.run)
	})
}
