package decide

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/config"
	"github.com/klamm/klamm/metadata"
	"github.com/klamm/klamm/metadata/feature"
	"github.com/klamm/klamm/metadata/record"
	"github.com/klamm/klamm/protocol"
)

// TestDecisions runs the scripts of testdata: a command decides upon the image
// that the commands before it made, and its records and answer are printed.
// Rewrite them with -rewrite and read the diff.
func TestDecisions(t *testing.T) {
	datadriven.Walk(t, "testdata/decisions", func(t *testing.T, path string) {
		c := newCluster()
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			return c.run(t, d)
		})
	})
}

// cluster is the state that a script builds up.
type cluster struct {
	img      *metadata.Image
	env      Env
	ids      byte
	progress map[int32]Progress
	sessions map[int32]bool
	leaving  Leaving // of fences and the like
	out      strings.Builder
}

func newCluster() *cluster {
	c := &cluster{img: metadata.Empty(), progress: map[int32]Progress{}, sessions: map[int32]bool{}}
	static := map[string]string{}
	c.env = Env{
		ClusterID: "lkc", NodeID: 1, Static: config.FromMap(static),
		NumPartitions: 1, ReplicationFactor: 1, DeleteTopics: true,
		NewID: func() protocol.UUID {
			c.ids++
			return protocol.UUID{0: 'T', 15: c.ids}
		},
		Rand: rand.New(rand.NewPCG(1, 1)),
	}
	return c
}

func (c *cluster) run(t *testing.T, d *datadriven.TestData) string {
	c.out.Reset()
	switch d.Cmd {
	case "static":
		static := map[string]string{}
		for _, arg := range d.CmdArgs {
			static[arg.Key] = arg.Vals[0]
		}
		c.env.Static = config.FromMap(static)
	case "env":
		d.MaybeScanArgs(t, "partitions", &c.env.NumPartitions)
		replicas := int(c.env.ReplicationFactor)
		d.MaybeScanArgs(t, "replicas", &replicas)
		c.env.ReplicationFactor = int16(replicas)
		d.MaybeScanArgs(t, "delete", &c.env.DeleteTopics)
		d.MaybeScanArgs(t, "at-a-time", &c.env.MaxPartitions)
	case "bootstrap":
		c.bootstrap(t, d)
	case "start": // a new cluster with so many living brokers
		c.bootstrap(t, d)
		brokers := 0
		d.MaybeScanArgs(t, "brokers", &brokers)
		for id := range brokers {
			c.start(int32(id + 1))
		}
		c.out.Reset()
	case "feature":
		for _, arg := range d.CmdArgs {
			level, _ := strconv.Atoi(arg.Vals[0])
			c.apply([]record.Record{&record.FeatureLevel{Name: arg.Key, Level: int16(level)}})
		}
	case "config":
		c.config(t, d)
	case "register":
		c.register(t, d)
	case "controller":
		c.controller(t, d)
	case "heartbeat":
		c.heartbeat(t, d)
	case "fence":
		var id protocol.NodeID
		d.ScanArgs(t, "id", (*int32)(&id))
		records, more := Fence(c.img, id, SessionExpired, c.env, &c.leaving)
		c.apply(records)
		c.more(more)
	case "unregister":
		var id protocol.NodeID
		d.ScanArgs(t, "id", (*int32)(&id))
		records, more, err := UnregisterBroker(c.img, id, c.env, &c.leaving)
		c.apply(records)
		c.more(more)
		c.err(err)
	case "leaderless":
		records, more := ElectLeaderless(c.img, c.env.maxPartitions(), c.env)
		c.apply(records)
		c.more(more)
	case "producer-ids":
		c.producerIDs(t, d)
	case "create":
		c.create(t, d)
	case "delete":
		c.remove(t, d)
	case "image":
		c.print()
	default:
		c.admin(t, d)
	}
	return c.out.String()
}

func (c *cluster) more(more bool) {
	if more {
		c.out.WriteString("more\n")
	}
}

// bootstrap begins a cluster, of the latest release or of level=N, without the
// transaction around it.
func (c *cluster) bootstrap(t *testing.T, d *datadriven.TestData) {
	var formatted []record.Record
	if d.HasArg("level") {
		level := 0
		d.ScanArgs(t, "level", &level)
		formatted = append(formatted, &record.FeatureLevel{Name: feature.MetadataVersion, Level: int16(level)})
	}
	records := Bootstrap(formatted, c.env)
	if _, ok := records[0].(*record.BeginTransaction); ok {
		records = records[1 : len(records)-1]
	}
	c.apply(records)
}

// apply prints the records as they are read from the log, and replays them.
func (c *cluster) apply(records []record.Record) {
	delta := metadata.NewDelta(c.img)
	for _, rec := range records {
		rec = record.Fit(rec, c.img.Level())
		cause := record.CauseOf(rec)
		record.SetCause(rec, "")
		fmt.Fprint(&c.out, c.format(rec))
		if cause != "" {
			fmt.Fprintf(&c.out, " // %s", cause)
		}
		fmt.Fprintln(&c.out)
		if err := delta.Replay(rec); err != nil {
			fmt.Fprintln(&c.out, "REPLAY FAILED:", err)
			return
		}
		if _, ok := rec.(*record.Topic); ok { // so that its other records show its name
			c.img = delta.Apply(c.img.Offset(), 1, 0)
		}
	}
	c.img = delta.Apply(c.img.Offset()+int64(len(records)), 1, 0)
}

func (c *cluster) err(err error) {
	if err == nil {
		return
	}
	fmt.Fprint(&c.out, "error ", protocol.CodeOf(err))
	if text := messageOf(err); text != nil {
		fmt.Fprint(&c.out, ": ", *text)
	}
	fmt.Fprintln(&c.out)
}

func (c *cluster) config(t *testing.T, d *datadriven.TestData) {
	rec := &record.Config{ResourceType: metadata.ResourceBroker}
	if d.HasArg("topic") {
		rec.ResourceType = metadata.ResourceTopic
		d.ScanArgs(t, "topic", &rec.ResourceName)
	}
	d.MaybeScanArgs(t, "broker", &rec.ResourceName)
	var value string
	d.ScanArgs(t, "key", &rec.Name)
	d.ScanArgs(t, "value", &value)
	rec.Value = &value
	c.apply([]record.Record{rec})
}

func (c *cluster) register(t *testing.T, d *datadriven.TestData) {
	req := kmsg.NewPtrBrokerRegistrationRequest()
	req.Version, req.ClusterID, req.PreviousBrokerEpoch = 4, "lkc", -1
	d.ScanArgs(t, "id", &req.BrokerID)
	d.MaybeScanArgs(t, "cluster", &req.ClusterID)
	version := int(req.Version)
	d.MaybeScanArgs(t, "version", &version)
	req.Version = int16(version)
	d.MaybeScanArgs(t, "previous", &req.PreviousBrokerEpoch)
	incarnation := "a"
	d.MaybeScanArgs(t, "incarnation", &incarnation)
	req.IncarnationID = [16]byte{'I', incarnation[0]}
	if d.HasArg("rack") {
		req.Rack = new(string)
		d.ScanArgs(t, "rack", req.Rack)
	}
	dirs := 1
	d.MaybeScanArgs(t, "dirs", &dirs)
	for i := range dirs {
		req.LogDirs = append(req.LogDirs, [16]byte{'D', byte(req.BrokerID), byte(i), 15: 1})
	}
	if d.HasArg("reserved-dir") {
		req.LogDirs = append(req.LogDirs, [16]byte{15: 7})
	}
	if d.HasArg("same-dir") {
		req.LogDirs = append(req.LogDirs, req.LogDirs[0])
	}
	if d.HasArg("dir-of") {
		var other int
		d.ScanArgs(t, "dir-of", &other)
		req.LogDirs[0][1] = byte(other)
	}
	if d.HasArg("no-session") {
		c.sessions[req.BrokerID] = false
	}
	features := []string{"metadata.version:7:33", feature.ELR + ":0:1", "group.version:0:1", "share.version:0:2", "streams.version:0:1", "transaction.version:0:2"}
	if arg, ok := d.Arg("features"); ok {
		features = arg.Vals
	}
	for _, f := range features {
		parts := strings.Split(f, ":")
		if len(parts) != 3 {
			continue
		}
		low, _ := strconv.Atoi(parts[1])
		high, _ := strconv.Atoi(parts[2])
		req.Features = append(req.Features, kmsg.BrokerRegistrationRequestFeature{
			Name: parts[0], MinSupportedVersion: int16(low), MaxSupportedVersion: int16(high),
		})
	}
	req.Listeners = []kmsg.BrokerRegistrationRequestListener{{Name: "PLAINTEXT", Host: "h", Port: uint16(9000 + req.BrokerID)}}
	c.registration(req)
}

// start registers a broker with one directory and unfences it.
func (c *cluster) start(id int32) {
	req := kmsg.NewPtrBrokerRegistrationRequest()
	req.Version, req.ClusterID, req.BrokerID, req.PreviousBrokerEpoch, req.IncarnationID = 4, "lkc", id, -1, [16]byte{'I', 'a'}
	req.LogDirs = [][16]byte{{'D', byte(id), 15: 1}}
	for name, level := range c.img.Features() {
		req.Features = append(req.Features, kmsg.BrokerRegistrationRequestFeature{Name: name, MaxSupportedVersion: level})
	}
	epoch := c.registration(req)
	c.beat(&kmsg.BrokerHeartbeatRequest{BrokerID: id, BrokerEpoch: int64(epoch), CurrentMetadataOffset: c.img.Offset()})
}

func (c *cluster) registration(req *kmsg.BrokerRegistrationRequest) protocol.BrokerEpoch {
	next := c.img.Offset() + 1
	records, epoch, err := RegisterBroker(c.img, req, c.sessions[req.BrokerID], c.env, &c.leaving)
	c.apply(records)
	c.err(err)
	if err == nil {
		fmt.Fprintf(&c.out, "epoch %d\n", epoch)
		c.sessions[req.BrokerID] = true
		c.progress[req.BrokerID] = Progress{Registered: next + int64(len(records)) - 1, ShutDown: -1}
	}
	return epoch
}

func (c *cluster) controller(t *testing.T, d *datadriven.TestData) {
	req := kmsg.NewPtrControllerRegistrationRequest()
	d.ScanArgs(t, "id", &req.ControllerID)
	req.IncarnationID = [16]byte{'I', 'c'}
	req.Listeners = []kmsg.ControllerRegistrationRequestListener{{Name: "CONTROLLER", Host: "h", Port: 9093}}
	req.Features = []kmsg.ControllerRegistrationRequestFeature{{Name: "metadata.version", MinSupportedVersion: 7, MaxSupportedVersion: 33}}
	records, err := RegisterController(c.img, req)
	c.apply(records)
	c.err(err)
}

func (c *cluster) heartbeat(t *testing.T, d *datadriven.TestData) {
	req := kmsg.NewPtrBrokerHeartbeatRequest()
	req.Version = 2
	d.ScanArgs(t, "id", &req.BrokerID)
	if b, ok := c.img.Broker(protocol.NodeID(req.BrokerID)); ok {
		req.BrokerEpoch = int64(b.Epoch)
	}
	d.MaybeScanArgs(t, "epoch", &req.BrokerEpoch)
	req.CurrentMetadataOffset = c.img.Offset()
	d.MaybeScanArgs(t, "at", &req.CurrentMetadataOffset)
	req.WantFence, req.WantShutdown = d.HasArg("want-fence"), d.HasArg("want-shutdown")
	dirs := func(name string) (dirs [][16]byte) {
		arg, ok := d.Arg(name)
		if !ok {
			return nil
		}
		dirs = [][16]byte{}
		for _, v := range arg.Vals {
			if n, err := strconv.Atoi(v); err == nil {
				dirs = append(dirs, [16]byte{'D', byte(req.BrokerID), byte(n), 15: 1})
			}
		}
		return dirs
	}
	req.CordonedLogDirs, req.OfflineLogDirs = dirs("cordoned"), dirs("offline")
	c.beat(req)
}

func (c *cluster) beat(req *kmsg.BrokerHeartbeatRequest) {
	records, resp, err := Heartbeat(c.img, req, c.progress[req.BrokerID], c.env)
	c.apply(records)
	c.err(err)
	if err != nil {
		return
	}
	if slices.ContainsFunc(records, func(r record.Record) bool {
		change, ok := r.(*record.BrokerRegistrationChange)
		return ok && change.InControlledShutdown == 1
	}) {
		p := c.progress[req.BrokerID]
		p.ShutDown = c.img.Offset()
		c.progress[req.BrokerID] = p
	}
	fmt.Fprintf(&c.out, "caught up %t, fenced %t, should shut down %t\n", resp.IsCaughtUp, resp.IsFenced, resp.ShouldShutdown)
}

func (c *cluster) producerIDs(t *testing.T, d *datadriven.TestData) {
	req := kmsg.NewPtrAllocateProducerIDsRequest()
	d.ScanArgs(t, "id", &req.BrokerID)
	d.ScanArgs(t, "epoch", &req.BrokerEpoch)
	records, resp, err := AllocateProducerIDs(c.img, req)
	c.apply(records)
	c.err(err)
	if err == nil {
		fmt.Fprintf(&c.out, "%d ids from %d\n", resp.ProducerIDLen, resp.ProducerIDStart)
	}
}

// create takes a topic a line: NAME [partitions=N] [replicas=N] [assign=1,2/2,1] [key=value...]
func (c *cluster) create(t *testing.T, d *datadriven.TestData) {
	req := kmsg.NewPtrCreateTopicsRequest()
	req.Version = 7
	req.ValidateOnly = d.HasArg("validate-only")
	for line := range strings.Lines(d.Input) {
		words := strings.Fields(line)
		topic := kmsg.NewCreateTopicsRequestTopic()
		topic.NumPartitions, topic.ReplicationFactor = -1, -1
		topic.Topic = strings.Trim(words[0], `"`)
		for _, word := range words[1:] {
			key, value, set := strings.Cut(word, "=")
			switch key {
			case "partitions":
				n, _ := strconv.Atoi(value)
				topic.NumPartitions = int32(n)
			case "replicas":
				n, _ := strconv.Atoi(value)
				topic.ReplicationFactor = int16(n)
			case "assign":
				for i, part := range strings.Split(value, "/") {
					topic.ReplicaAssignment = append(topic.ReplicaAssignment, assignment(i, part))
				}
			default:
				cfg := kmsg.CreateTopicsRequestTopicConfig{Name: key}
				if set {
					cfg.Value = &value
				}
				topic.Configs = append(topic.Configs, cfg)
			}
		}
		req.Topics = append(req.Topics, topic)
	}
	records, resp := CreateTopics(c.img, req, c.env)
	c.apply(records)
	for _, topic := range resp.Topics {
		fmt.Fprintf(&c.out, "%q: ", topic.Topic)
		if topic.ErrorCode != 0 {
			fmt.Fprintf(&c.out, "%s: %s\n", protocol.Error(topic.ErrorCode), *topic.ErrorMessage)
			continue
		}
		fmt.Fprintf(&c.out, "%d partitions, %d replicas", topic.NumPartitions, topic.ReplicationFactor)
		for _, cfg := range topic.Configs {
			if cfg.Source != int8(config.FromDefault) {
				fmt.Fprintf(&c.out, ", %s=%s (source %d)", cfg.Name, *cfg.Value, cfg.Source)
			}
		}
		fmt.Fprintln(&c.out)
	}
}

// assignment reads "1,2" or, with the partition named, "5:1,2".
func assignment(i int, text string) kmsg.CreateTopicsRequestTopicReplicaAssignment {
	a := kmsg.CreateTopicsRequestTopicReplicaAssignment{Partition: int32(i)}
	if number, rest, ok := strings.Cut(text, ":"); ok {
		n, _ := strconv.Atoi(number)
		a.Partition, text = int32(n), rest
	}
	for _, id := range strings.Split(text, ",") {
		if n, err := strconv.Atoi(id); err == nil {
			a.Replicas = append(a.Replicas, int32(n))
		}
	}
	return a
}

// remove takes a topic a line: a name, id:NAME for the id that NAME has, or
// NAME+id for both.
func (c *cluster) remove(t *testing.T, d *datadriven.TestData) {
	req := kmsg.NewPtrDeleteTopicsRequest()
	req.Version = 6
	version := 6
	d.MaybeScanArgs(t, "version", &version)
	req.Version = int16(version)
	for line := range strings.Lines(d.Input) {
		word := strings.TrimSpace(line)
		if req.Version < 6 {
			req.TopicNames = append(req.TopicNames, word)
			continue
		}
		entry := kmsg.NewDeleteTopicsRequestTopic()
		name, byID := strings.CutPrefix(word, "id:")
		name, both := strings.CutSuffix(name, "+id")
		if byID || both {
			entry.TopicID = protocol.UUID{0: 'X', 15: 9}
			if topic, ok := c.img.Topic(name); ok {
				entry.TopicID = topic.ID
			}
		}
		if !byID && word != "nothing" {
			entry.Topic = &name
		}
		req.Topics = append(req.Topics, entry)
	}
	before := c.img
	records, resp := DeleteTopics(c.img, req, c.env)
	for _, rec := range records {
		fmt.Fprintln(&c.out, c.format(rec))
	}
	delta := metadata.NewDelta(c.img)
	for _, rec := range records {
		if err := delta.Replay(rec); err != nil {
			d.Fatalf(t, "replay: %v", err)
		}
	}
	c.img = delta.Apply(c.img.Offset()+int64(len(records)), 1, 0)
	for _, topic := range resp.Topics {
		name := "null"
		if topic.Topic != nil {
			name = strconv.Quote(*topic.Topic)
		}
		id := "none"
		if topic.TopicID != protocol.ZeroUUID {
			id = "unknown"
			if known, ok := before.TopicByID(topic.TopicID); ok {
				id = "of " + known.Name
			}
		}
		fmt.Fprintf(&c.out, "%s id %s: ", name, id)
		if topic.ErrorCode == 0 {
			fmt.Fprintln(&c.out, "deleted")
			continue
		}
		fmt.Fprintf(&c.out, "%s: %s\n", protocol.Error(topic.ErrorCode), *topic.ErrorMessage)
	}
}

func (c *cluster) print() {
	for b := range c.img.Brokers() {
		fmt.Fprintf(&c.out, "broker %d epoch %d fenced %t shutting down %t\n", b.ID, b.Epoch, b.Fenced, b.InControlledShutdown)
	}
	for t := range c.img.Topics() {
		for p := range t.Partitions() {
			fmt.Fprintf(&c.out, "%s-%d replicas %v leader %d epoch %d/%d isr %v", t.Name, p.ID, p.Replicas, p.Leader, p.LeaderEpoch, p.PartitionEpoch, p.ISR)
			if len(p.ELR)+len(p.LastKnownELR) > 0 {
				fmt.Fprintf(&c.out, " elr %v last known %v", p.ELR, p.LastKnownELR)
			}
			if p.LeaderRecovery != 0 {
				fmt.Fprint(&c.out, " recovering")
			}
			fmt.Fprintln(&c.out)
		}
	}
}

func (c *cluster) topicName(id protocol.UUID) string {
	if t, ok := c.img.TopicByID(id); ok {
		return t.Name
	}
	return "?"
}

// format prints a record in one line, what stays as it is left out.
func (c *cluster) format(rec record.Record) string {
	switch r := rec.(type) {
	case *record.PartitionChange:
		s := fmt.Sprintf("PartitionChange %s-%d", c.topicName(r.TopicID), r.PartitionID)
		if r.Leader != record.LeaderUnchanged {
			s += fmt.Sprintf(" leader %d", r.Leader)
		}
		if r.LeaderRecovery != record.RecoveryUnchanged {
			s += fmt.Sprintf(" recovery %d", r.LeaderRecovery)
		}
		for _, list := range []struct {
			name string
			ids  []protocol.NodeID
		}{{"isr", r.ISR}, {"elr", r.ELR}, {"last known", r.LastKnownELR}, {"replicas", r.Replicas}, {"adding", r.AddingReplicas}, {"removing", r.RemovingReplicas}} {
			if list.ids != nil {
				s += fmt.Sprintf(" %s %v", list.name, list.ids)
			}
		}
		if r.Directories != nil {
			s += fmt.Sprintf(" dirs %v", dirNames(r.Directories))
		}
		return s
	case *record.Partition:
		return fmt.Sprintf("Partition %s-%d replicas %v isr %v leader %d epochs %d/%d dirs %v",
			c.topicName(r.TopicID), r.PartitionID, r.Replicas, r.ISR, r.Leader, r.LeaderEpoch, r.PartitionEpoch, dirNames(r.Directories))
	case *record.RemoveTopic:
		return "RemoveTopic " + c.topicName(r.TopicID)
	case *record.RegisterBroker:
		rack := "none"
		if r.Rack != nil {
			rack = *r.Rack
		}
		return fmt.Sprintf("RegisterBroker %d epoch %d incarnation %c fenced %t rack %s dirs %d features %d listeners %v",
			r.BrokerID, r.BrokerEpoch, r.IncarnationID[1], r.Fenced, rack, len(r.LogDirs), len(r.Features), r.Endpoints)
	case *record.BrokerRegistrationChange:
		s := fmt.Sprintf("BrokerRegistrationChange %d epoch %d", r.BrokerID, r.BrokerEpoch)
		if r.Fenced != 0 {
			s += fmt.Sprintf(" fenced %+d", r.Fenced)
		}
		if r.InControlledShutdown != 0 {
			s += fmt.Sprintf(" shutdown %d", r.InControlledShutdown)
		}
		if r.CordonedLogDirs != nil {
			s += fmt.Sprintf(" cordoned %d", len(r.CordonedLogDirs))
		}
		if len(r.LogDirs) > 0 {
			s += fmt.Sprintf(" dirs %v", dirNames(r.LogDirs))
		}
		return s
	case *record.Config:
		if r.Value == nil {
			return fmt.Sprintf("Config %d:%q %s deleted", r.ResourceType, r.ResourceName, r.Name)
		}
		return fmt.Sprintf("Config %d:%q %s=%q", r.ResourceType, r.ResourceName, r.Name, *r.Value)
	case *record.Topic:
		return fmt.Sprintf("Topic %s id %d", r.Name, r.TopicID[15])
	default:
		return strings.Replace(fmt.Sprintf("%s %+v", record.Name(rec), rec), "Caused:{Cause:} ", "", 1)
	}
}

// dirNames are directories as BROKER.NUMBER.
func dirNames(dirs []protocol.UUID) []string {
	names := make([]string, len(dirs))
	for i, dir := range dirs {
		switch dir {
		case protocol.UnassignedDir:
			names[i] = "unassigned"
		case protocol.MigratingDir:
			names[i] = "migrating"
		case protocol.LostDir:
			names[i] = "lost"
		default:
			names[i] = fmt.Sprintf("%d.%d", dir[1], dir[2])
		}
	}
	return names
}
