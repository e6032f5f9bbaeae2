package config

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The names are those that Kafka's container image makes of variables.
func TestFromEnvironment(t *testing.T) {
	for _, tc := range []struct{ env, want string }{
		{"KAFKA_NODE_ID=1", "node.id=1"},
		{"KAFKA_LOG_RETENTION_MS=5 PATH=/bin HOME=/", "log.retention.ms=5"},
		{"KAFKA_LISTENER_NAME_A__B_X___Y=v", "listener.name.a_b.x-y=v"},
		{"KAFKA_HEAP_OPTS=-Xmx1g KAFKA_OPTS=x KAFKA_=x", ""},
		{"KAFKA_A____B=v", "a-.b=v"},
		{"KAFKA_A_____B=v", "a-_b=v"},
		{"KAFKA_LOG_DIRS=/a=b", "log.dirs=/a=b"},
		{"CLUSTER_ID=x KAFKA_CLUSTER_ID=x KAFKA_LOG4J_LOGGERS=a=b KAFKA_JMX_PORT=1 KAFKA_VERSION=4 XKAFKA_NODE_ID=1", ""},
		{"KAFKA_LISTENERS=PLAINTEXT://:9092", "listeners=PLAINTEXT://:9092"},
		{
			"KAFKA_ADVERTISED_LISTENERS=PLAINTEXT://a.example:9092,X://b:1",
			"advertised.listeners=PLAINTEXT://a.example:9092,X://b:1 listeners=PLAINTEXT://0.0.0.0:9092,X://0.0.0.0:1",
		},
		{
			"KAFKA_ADVERTISED_LISTENERS=A://a:1 KAFKA_LISTENERS=A://:1",
			"advertised.listeners=A://a:1 listeners=A://:1",
		},
	} {
		var got []string
		for _, p := range FromEnvironment(strings.Fields(tc.env)) {
			got = append(got, p.Key+"="+p.Value)
			if want, _, _ := strings.Cut(tc.env, "="); len(strings.Fields(tc.env)) == 1 && p.Key != "listeners" && envName(p.Key) != want {
				t.Errorf("%s comes from %s, and is said to come from %s", p.Key, want, envName(p.Key))
			}
		}
		if strings.Join(got, " ") != tc.want {
			t.Errorf("%s: %v, want %s", tc.env, got, tc.want)
		}
	}
}

// The environment counts more than the file, an override more than both, and it
// can stand alone.
func TestLoadEnvironment(t *testing.T) {
	env := []string{
		"KAFKA_PROCESS_ROLES=broker,controller", "KAFKA_NODE_ID=7", "KAFKA_CONTROLLER_QUORUM_VOTERS=7@localhost:9093",
		"KAFKA_LISTENERS=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093", "KAFKA_CONTROLLER_LISTENER_NAMES=CONTROLLER",
		"KAFKA_LOG_DIRS=/data", "KAFKA_NUM_PARTITIONS=3",
	}
	cfg, err := Load("", env, []string{"num.partitions=4"})
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(cfg.Node.ID, cfg.Dirs.Log, cfg.Topics.NumPartitions); got != "7 [/data] 4" {
		t.Errorf("%s", got)
	}
	file := filepath.Join(t.TempDir(), "server.properties")
	if err := os.WriteFile(file, []byte("node.id=1\nnum.partitions=2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if cfg, err = Load(file, env, nil); err != nil || cfg.Topics.NumPartitions != 3 || cfg.Node.ID != 7 || len(cfg.Repeated) > 0 {
		t.Errorf("%+v, %v", cfg, err)
	}
	_, err = Load(file, append(env, "KAFKA_NUM_PARTITIONS=many"), nil)
	if err == nil || !strings.Contains(err.Error(), "KAFKA_NUM_PARTITIONS=many: ") {
		t.Errorf("a wrong variable: %v", err)
	}
}
