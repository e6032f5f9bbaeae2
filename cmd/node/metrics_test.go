package node

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/klamm/klamm/telemetry"
)

// docs/metrics.md names every metric, and no other.
func TestMetricsAreDocumented(t *testing.T) {
	m := telemetry.New("test")
	(&gauges{}).register(m)
	text, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	_, tables, _ := strings.Cut(string(text), "\n## ")
	var documented []string
	for _, found := range regexp.MustCompile("`((?:kafka|klamm)_[a-z_]+)`").FindAllStringSubmatch(tables, -1) {
		documented = append(documented, found[1])
	}
	slices.Sort(documented)
	names := slices.Sorted(slices.Values(m.Names()))
	names = slices.Compact(names) // one for each value of a label
	for _, name := range names {
		if !slices.Contains(documented, name) {
			t.Errorf("%s is not in docs/metrics.md", name)
		}
	}
	for i, name := range documented {
		if !slices.Contains(names, name) {
			t.Errorf("docs/metrics.md has %s, which nobody serves", name)
		}
		if i > 0 && documented[i-1] == name {
			t.Errorf("docs/metrics.md has %s twice", name)
		}
	}
}

// What begins with kafka_ is a bean of Apache Kafka 4.4 as the JMX exporter's usual rules
// name it (testdata/beans.txt, of a broker and controller with a topic and a group); but
// for those that such a node does not have.
func TestMetricsAreKafkas(t *testing.T) {
	text, err := os.ReadFile("testdata/beans.txt")
	if err != nil {
		t.Fatal(err)
	}
	beans := make(map[string]bool)
	for bean := range strings.Lines(string(text)) {
		beans[exported(strings.TrimSpace(bean))] = true
	}
	elsewhere := []string{
		// Of brokers that follow.
		"kafka_server_fetcherlagmetrics_consumerlag",
		// Of Kafka's older brokers.
		"kafka_controller_controllerstats_leaderelectionrateandtimems_count",
		// No beans of name and value: kafka.server:type=raft-metrics and
		// type=broker-metadata-metrics have them as attributes.
		"kafka_server_raft_metrics_current_leader", "kafka_server_raft_metrics_current_epoch",
		"kafka_server_broker_metadata_metrics_last_applied_record_offset",
	}
	m := telemetry.New("test")
	(&gauges{}).register(m)
	for _, name := range m.Names() {
		if strings.HasPrefix(name, "kafka_") && !beans[name] && !slices.Contains(elsewhere, name) {
			t.Errorf("%s is no bean of Kafka's", name)
		}
	}
}

// exported is the name that a bean, as DOMAIN:type=TYPE,name=NAME ATTRIBUTE, has behind the exporter.
func exported(bean string) string {
	name, attribute, _ := strings.Cut(bean, " ")
	domain, keys, _ := strings.Cut(name, ":")
	parts := []string{strings.ReplaceAll(domain, ".", "_")}
	for key := range strings.SplitSeq(keys, ",") {
		if k, v, _ := strings.Cut(key, "="); k == "type" || k == "name" {
			parts = append(parts, v)
		}
	}
	out := strings.Join(parts, "_")
	if short, ok := strings.CutSuffix(out, "PerSec"); ok && attribute == "Count" {
		out = short + "_total"
	}
	return strings.ToLower(out)
}
