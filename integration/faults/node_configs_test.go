//go:build integration

package faults

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/integration/harness"
	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/protocol/batch"
)

func ptr(s string) *string { return &s }

// TestB153RetentionUnderOtherNames: a change of another key overwrote a retention
// that was set in minutes or hours. Milliseconds win over minutes over hours.
func TestB153RetentionUnderOtherNames(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		settings []string
		want     string
		source   kmsg.ConfigSource
	}{
		// Of keys that stand for it Kafka does not tell where they are set.
		{[]string{"log.retention.minutes=10"}, "600000", kmsg.ConfigSourceDefaultConfig},
		{[]string{"log.retention.hours=1", "log.retention.minutes=10"}, "600000", kmsg.ConfigSourceDefaultConfig},
		{[]string{"log.retention.ms=420000", "log.retention.minutes=10"}, "420000", kmsg.ConfigSourceStaticBrokerConfig},
	} {
		t.Run(strings.Join(tc.settings, " "), func(t *testing.T) {
			n := ownNode(t, append(tc.settings, "log.retention.check.interval.ms=50", "log.initial.task.delay.ms=50")...)
			c := dial(t, n.Address)
			topic, other := createTopic(c, "segment.ms", "500"), createTopic(c, "segment.ms", "500", "retention.ms", "1000")
			for _, name := range []string{topic, other} {
				for _, age := range []int64{300_000, 200_000, 100_000} {
					wantCode(t, "produce", produce(c, name, stamped(batch.Options{}, now()-age, "x")).ErrorCode, protocol.None)
				}
			}
			wantConfig(c, topic, "retention.ms", tc.want, tc.source)
			wantCode(t, "log.cleaner.threads", incrementalAlter(c, kmsg.ConfigResourceTypeBroker, "", op{"log.cleaner.threads", set, ptr("2")}), protocol.None)
			wantConfig(c, topic, "retention.ms", tc.want, tc.source)
			eventually(t, "retention has gone over the logs", func() bool { return listOffset(c, other, earliest).Offset == 3 })
			wantOffsets(c, topic, 0, 3)
			restart(n, syscall.SIGTERM)
			c = dial(t, n.Address)
			awaitLed(c, topic)
			wantConfig(c, topic, "retention.ms", tc.want, tc.source)
			wantOffsets(c, topic, 0, 3)
		})
	}
}

// TestB164DynamicConfigsAfterARestart: configs that were changed at run time had
// no effect after a restart until somebody got round to them. The first request
// is subject to them.
func TestB164DynamicConfigsAfterARestart(t *testing.T) {
	t.Parallel()
	n := ownNode(t)
	c := dial(t, n.Address)
	topic := createTopic(c)
	wantCode(t, "message.max.bytes", incrementalAlter(c, kmsg.ConfigResourceTypeBroker, "", op{"message.max.bytes", set, ptr("2000")}), protocol.None)
	large := records(batch.Options{}, strings.Repeat("v", 3000))
	eventually(t, "message.max.bytes is in effect", func() bool {
		return produce(c, topic, large).ErrorCode == int16(protocol.ErrMessageTooLarge)
	})
	end := listOffset(c, topic, latest).Offset
	for i := range restarts() {
		restart(n, []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM}[i%2])
		c = dial(t, n.Address)
		code := produce(c, topic, large).ErrorCode
		for code == int16(protocol.ErrNotLeaderForPartition) {
			code = produce(c, topic, large).ErrorCode
		}
		wantCode(t, "the first produce", code, protocol.ErrMessageTooLarge)
	}
	awaitLed(c, topic)
	wantOffsets(c, topic, 0, end)
}

// TestB165AdvertisedListeners: clients that had found the cluster were sent to an
// address that was not theirs. Each listener tells its own, and one that is no
// address is refused.
func TestB165AdvertisedListeners(t *testing.T) {
	t.Parallel()
	port := harness.FreePort(t)
	n := configure(t)
	text := string(readFile(t, n.Config()))
	text = strings.Replace(text, "listeners=PLAINTEXT", "listeners=OTHER://localhost:"+port+",PLAINTEXT", 1)
	text += "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,OTHER:PLAINTEXT,CONTROLLER:PLAINTEXT\n"
	good := text + "advertised.listeners=PLAINTEXT://one.example:1111,OTHER://two.example:2222\n"
	writeFile(t, n.Config(), []byte(good))
	n.Format()
	for _, wildcard := range []string{"0.0.0.0", "[::]"} {
		if wildcard == "[::]" && onKafka {
			continue // Kafka takes it
		}
		writeFile(t, n.Config(), []byte(text+"advertised.listeners=PLAINTEXT://"+wildcard+":9092,OTHER://two.example:2222\n"))
		if said := n.Refuses(wildcard); !strings.Contains(said, "advertised.listeners") {
			t.Errorf("%s: the log does not name the key:\n%s", wildcard, said)
		}
	}
	writeFile(t, n.Config(), []byte(good))
	n.Launch()
	// The broker reaches itself by what it advertises, so it may never serve
	// topics here; it answers all the same.
	for address, want := range map[string]string{n.Address: "one.example", "localhost:" + port: "two.example"} {
		eventually(t, address+" tells its own address", func() bool {
			brokers := tryMetadata(t, address)
			return len(brokers) == 1 && brokers[0].Host == want
		})
	}
}

// tryMetadata asks for the brokers on a connection of its own, as soon as there
// is one.
func tryMetadata(t *testing.T, address string) []kmsg.MetadataResponseBroker {
	t.Helper()
	var c *conn
	eventually(t, address+" accepts", func() bool {
		var err error
		c, err = tryDial(t, address)
		return err == nil
	})
	return ask[*kmsg.MetadataResponse](c, 12, kmsg.NewPtrMetadataRequest()).Brokers
}

// TestB167MinInSyncPerBroker: brokers that had a min.insync.replicas of their own
// disagreed about partitions. There is one for the cluster.
func TestB167MinInSyncPerBroker(t *testing.T) {
	t.Parallel()
	n := ownNode(t)
	c := dial(t, n.Address)
	wantCode(t, "of a broker", incrementalAlter(c, kmsg.ConfigResourceTypeBroker, "1", op{"min.insync.replicas", set, ptr("2")}), protocol.ErrInvalidConfig)
	wantCode(t, "of the cluster", incrementalAlter(c, kmsg.ConfigResourceTypeBroker, "", op{"min.insync.replicas", set, ptr("2")}), protocol.None)
}

// TestB179Secrets: passwords in requests that change configs were written to the
// log. They are nowhere but in the metadata log itself.
func TestB179Secrets(t *testing.T) {
	t.Parallel()
	const secret = "S3cret-never-shown"
	n := ownNode(t)
	c := dial(t, n.Address)
	wantCode(t, "root logger", incrementalAlter(c, kmsg.ConfigResourceTypeBrokerLogger, "1", op{"root", set, ptr("TRACE")}), protocol.None)
	const key = "listener.name.plaintext.ssl.keystore.password"
	wantCode(t, key, incrementalAlter(c, kmsg.ConfigResourceTypeBroker, "1", op{key, set, ptr(secret)}), protocol.None)
	upsert := kmsg.NewAlterUserSCRAMCredentialsRequestUpsertion()
	upsert.Name, upsert.Mechanism, upsert.Iterations = "alice", 1, 4096
	upsert.Salt, upsert.SaltedPassword = []byte("salt"), []byte(secret)
	scram := kmsg.NewPtrAlterUserSCRAMCredentialsRequest()
	scram.Upsertions = append(scram.Upsertions, upsert)
	wantCode(t, "credential", ask[*kmsg.AlterUserSCRAMCredentialsResponse](c, 0, scram).Results[0].ErrorCode, protocol.None)

	req := kmsg.NewPtrDescribeConfigsRequest()
	resource := kmsg.NewDescribeConfigsRequestResource()
	resource.ResourceType, resource.ResourceName, resource.ConfigNames = kmsg.ConfigResourceTypeBroker, "1", []string{key}
	req.Resources = append(req.Resources, resource)
	eventually(t, "the password is set and not told", func() bool {
		configs := ask[*kmsg.DescribeConfigsResponse](c, 4, req).Resources[0].Configs
		return len(configs) == 1 && configs[0].IsSensitive && configs[0].Value == nil
	})
	restart(n, syscall.SIGTERM)
	if strings.Contains(n.Log(), secret) && !onKafka {
		t.Error("the log has the password") // Kafka's has it at this level
	}
	if onKafka {
		return // its dump shows all
	}
	for _, args := range [][]string{{"metadata", "dump", n.Data()}, {"metadata", "dump", "--json", n.Data()}, {"metadata", "show", n.Data()}} {
		out, err := exec.Command(harness.Binary(t), args...).CombinedOutput()
		if err != nil {
			t.Errorf("%v: %v\n%s", args, err, out)
		}
		if !strings.Contains(string(out), "alice") {
			t.Errorf("%v does not show the user", args)
		}
		if strings.Contains(string(out), secret) {
			t.Errorf("%v shows the password", args)
		}
	}
}

// TestB188ScramAtFormat: a credential given to the format tool was ignored, and
// nobody could log in; one that is none let the format succeed.
func TestB188ScramAtFormat(t *testing.T) {
	t.Parallel()
	n := configure(t)
	for _, bad := range []string{
		"SCRAM-SHA-256=name=admin,password=secret", "SCRAM-SHA-1=[name=admin,password=secret]", "SCRAM-SHA-256=[password=secret]",
		"SCRAM-SHA-256=[name=admin]", "SCRAM-SHA-256=[name=admin,password=secret,iterations=1]",
	} {
		if out, err := n.TryFormat("--add-scram", bad); err == nil {
			t.Errorf("%s was taken:\n%s", bad, out)
		}
		wantUnformatted(t, n)
	}
	if out, err := n.TryFormat("--add-scram", "SCRAM-SHA-256=[name=admin,password=secret]", "--add-scram", "SCRAM-SHA-512=[name=admin,password=secret,iterations=8192]"); err != nil {
		t.Fatalf("format: %v\n%s", err, out)
	}
	c := mustStart(t, n)
	resp := ask[*kmsg.DescribeUserSCRAMCredentialsResponse](c, 0, kmsg.NewPtrDescribeUserSCRAMCredentialsRequest())
	wantCode(t, "DescribeUserScramCredentials", resp.ErrorCode, protocol.None)
	if len(resp.Results) != 1 || resp.Results[0].User != "admin" || len(resp.Results[0].CredentialInfos) != 2 {
		t.Fatalf("credentials are %+v", resp.Results)
	}
	for _, info := range resp.Results[0].CredentialInfos {
		if want := map[int8]int32{1: 4096, 2: 8192}[info.Mechanism]; info.Iterations != want {
			t.Errorf("mechanism %d has %d iterations, want %d", info.Mechanism, info.Iterations, want)
		}
	}
}

func wantUnformatted(t *testing.T, n *harness.Node) {
	t.Helper()
	if _, err := os.Stat(n.Data("meta.properties")); err == nil {
		t.Fatal("the directory is formatted")
	}
}

// TestB189FormatOptions: options for static and dynamic quorums contradicted each
// other, and a wrong mode was the default. What contradicts is refused and leaves
// the directory as it is; what is taken starts.
func TestB189FormatOptions(t *testing.T) {
	t.Parallel()
	const voters = "controller.quorum.voters="
	for _, static := range []bool{true, false} {
		for _, options := range [][]string{
			nil,
			{"standalone"},
			{"initial-controllers"},
			{"no-initial-controllers"},
			{"standalone", "initial-controllers"},
			{"standalone", "no-initial-controllers"},
			{"initial-controllers", "no-initial-controllers"},
		} {
			legal := static == (len(options) == 0) && len(options) < 2
			if len(options) == 1 && options[0] == "no-initial-controllers" {
				legal = true // with static voters too, where it says nothing
			}
			t.Run(strings.Join(append(options, map[bool]string{true: "static", false: "dynamic"}[static]), " "), func(t *testing.T) {
				n := configure(t)
				if !static {
					text := string(readFile(t, n.Config()))
					text = strings.Replace(text, voters+"1@", "controller.quorum.bootstrap.servers=", 1)
					writeFile(t, n.Config(), []byte(text))
				}
				var args []string
				for _, option := range options {
					args = append(args, "--"+option)
					if option == "initial-controllers" {
						args = append(args, "1@"+n.Controller+":MWQ1bW15LWRpcmVjdG9yeQ")
					}
				}
				out, err := n.TryFormat(args...)
				if !legal {
					if err == nil {
						t.Errorf("was taken:\n%s", out)
					}
					wantUnformatted(t, n)
					return
				}
				if err != nil {
					t.Fatalf("was refused: %v\n%s", err, out)
				}
				if !static && len(options) == 1 && options[0] == "no-initial-controllers" {
					return // it waits for others to take it in
				}
				c := mustStart(t, n)
				createTopic(c)
			})
		}
	}
}

// TestB191DumpOfTheOffsetsTopic: the tool that prints the offsets topic failed at
// members without user data, and hid which key a tombstone is for.
func TestB191DumpOfTheOffsetsTopic(t *testing.T) {
	t.Parallel()
	n := ownNode(t, "offsets.topic.num.partitions=1")
	c := dial(t, n.Address)
	topic := createTopic(c)
	m := newMember(t, n, unique(t, "group"))
	m.topic = topic // and no user data
	gather(m)
	settle(m)
	wantCode(t, "commit", m.commit(topic, 1), protocol.None)
	leave := kmsg.NewPtrLeaveGroupRequest()
	leave.Group, leave.MemberID = m.group, m.id
	wantCode(t, "LeaveGroup", ask[*kmsg.LeaveGroupResponse](m.conn, 2, leave).ErrorCode, protocol.None)
	req := kmsg.NewPtrDeleteGroupsRequest()
	req.Groups = []string{m.group}
	wantCode(t, "DeleteGroups", ask[*kmsg.DeleteGroupsResponse](c, 2, req).Groups[0].ErrorCode, protocol.None)
	n.End(syscall.SIGTERM)
	segment := filepath.Join(n.Data("__consumer_offsets-0"), "00000000000000000000.log")
	var cmd *exec.Cmd
	if onKafka {
		cmd = exec.Command(harness.KafkaTools(t), "dump-log", "--offsets-decoder", "--files", segment)
	} else {
		cmd = exec.Command(harness.Binary(t), "log", "dump", "--records", segment)
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	tombstones := 0
	for line := range strings.Lines(string(out)) {
		if strings.Contains(line, "valueSize: -1") && strings.Contains(line, m.group) {
			tombstones++
		}
	}
	if tombstones != 2 { // the offset's and the group's
		t.Errorf("%d tombstones name the group, want 2:\n%s", tombstones, out)
	}
}
