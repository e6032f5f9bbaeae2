package config

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/klamm/klamm/config/properties"
)

// minimal is a combined node, the start of most cases below.
const minimal = `process.roles=broker,controller
node.id=1
controller.quorum.voters=1@localhost:9093
listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093
controller.listener.names=CONTROLLER
log.dirs=/data
`

// TestParse runs testdata/node. The command is "parse" for the
// minimal node with the lines below it, or "parse-only" for just the lines; it prints what is wrong, or the fields that differ from those of the
// minimal node.
func TestParse(t *testing.T) {
	base := parseText(t, minimal)
	datadriven.Walk(t, "testdata/node", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			props, err := properties.Parse(strings.NewReader(d.Input))
			if err != nil {
				return err.Error()
			}
			if d.Cmd == "parse" {
				props = addMinimal(t, props)
			}
			c, err := Parse("server.properties", props)
			if err != nil {
				return err.Error()
			}
			return difference(base, c)
		})
	})
}

// addMinimal adds the lines of the minimal node that the case does not have
// itself, as lines from 101 on.
func addMinimal(t *testing.T, props []properties.Property) []properties.Property {
	base, err := properties.Parse(strings.NewReader(minimal))
	if err != nil {
		t.Fatal(err)
	}
	given := len(props)
	for _, p := range base {
		if !slices.ContainsFunc(props[:given], func(own properties.Property) bool { return own.Key == p.Key }) {
			p.Line += 100
			props = append(props, p)
		}
	}
	return props
}

func parseText(t *testing.T, text string) *Config {
	t.Helper()
	props, err := properties.Parse(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	c, err := Parse("server.properties", props)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// difference prints the fields that are not as in base, a line each.
func difference(base, c *Config) string {
	var lines []string
	a, b := reflect.ValueOf(*base), reflect.ValueOf(*c)
	for i := range a.NumField() {
		name := a.Type().Field(i).Name
		switch {
		case name == "Static" || name == "File":
		case a.Field(i).Kind() != reflect.Struct:
			if !reflect.DeepEqual(a.Field(i).Interface(), b.Field(i).Interface()) {
				lines = append(lines, fmt.Sprintf("%s: %v", name, b.Field(i).Interface()))
			}
		default:
			for j := range a.Field(i).NumField() {
				if !reflect.DeepEqual(a.Field(i).Field(j).Interface(), b.Field(i).Field(j).Interface()) {
					lines = append(lines, fmt.Sprintf("%s.%s: %v", name, a.Field(i).Type().Field(j).Name, b.Field(i).Field(j).Interface()))
				}
			}
		}
	}
	if len(lines) == 0 {
		return "as before"
	}
	return strings.Join(lines, "\n")
}

func TestMinimal(t *testing.T) {
	c := parseText(t, minimal)
	if !c.Node.IsBroker || !c.Node.IsController || c.Node.ID != 1 {
		t.Errorf("node %+v", c.Node)
	}
	if got := fmt.Sprint(c.Listeners.Broker, c.Listeners.Controller, c.Listeners.Advertised, c.Listeners.InterBroker); got != "[PLAINTEXT://localhost:9092] [CONTROLLER://localhost:9093] [PLAINTEXT://localhost:9092]PLAINTEXT" {
		t.Errorf("listeners %s", got)
	}
	if got := fmt.Sprint(c.Quorum.Voters, c.Dirs.Log, c.Dirs.Metadata, c.Dirs.All()); got != "[1@localhost:9093] [/data]/data[/data]" {
		t.Errorf("voters and directories %s", got)
	}
	if got := fmt.Sprint(c.Controller.SessionTimeout, c.Broker.HeartbeatInterval, c.Network.MaxRequestBytes, c.Topics); got != "9s 2s 104857600 {1 1 true true}" {
		t.Errorf("defaults %s", got)
	}
	if got := fmt.Sprint(c.Unknown, c.Unused, c.Repeated); got != "[] [] []" {
		t.Errorf("left over %s", got)
	}
	if c.Static["node.id"] != "1" || c.Static["broker.id"] != "1" || len(c.Static) != 7 {
		t.Errorf("static %v", c.Static)
	}
}

func TestLoad(t *testing.T) {
	path := filepath.Join(t.TempDir(), "server.properties")
	if err := os.WriteFile(path, []byte(minimal+"num.partitions=3\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	c, err := Load(path, nil, []string{"num.partitions=4", "log.dirs=/other"})
	if err != nil {
		t.Fatal(err)
	}
	if c.Topics.NumPartitions != 4 || !slices.Equal(c.Dirs.Log, []string{"/other"}) || c.Static["num.partitions"] != "4" || len(c.Repeated) != 0 {
		t.Errorf("%+v %v, repeated %v", c.Topics, c.Dirs, c.Repeated)
	}
	for _, test := range []struct{ path, override, want string }{
		{path, "num.partitions", "--override num.partitions: valid is KEY=VALUE"},
		{path, "=3", "--override =3: valid is KEY=VALUE"},
		{path, "num.partitions=x", "--override num.partitions=x: Invalid value x for configuration num.partitions: Not a number of type INT; valid is a 32-bit number, at least 1"},
		{path + ".no", "a=b", "read the configuration: open " + path + ".no: no such file or directory"},
		{filepath.Dir(path), "a=b", "read the configuration " + filepath.Dir(path) + ": read " + filepath.Dir(path) + ": is a directory"},
	} {
		if _, err := Load(test.path, nil, []string{test.override}); err == nil || err.Error() != test.want {
			t.Errorf("%s %s:\n got %v\nwant %s", test.path, test.override, err, test.want)
		}
	}
}

func TestResolveTopic(t *testing.T) {
	c := parseText(t, minimal+"log.retention.hours=2\nlog.segment.bytes=2000000\n")
	layers := Layers{Static: FromMap(c.Static)}
	layers.Topic = FromMap(map[string]string{"cleanup.policy": "compact", "message.timestamp.type": "LogAppendTime", "flush.messages": " 1 "})
	topic := ResolveTopic(layers)
	if topic.RetentionMs != 2*hourMs || topic.SegmentBytes != 2000000 || !topic.Compact || topic.Delete || !topic.LogAppendTime || topic.FlushMessages != 1 || topic.MaxMessageBytes != 1048588 {
		t.Errorf("%+v", topic)
	}
	// An image may hold what another version wrote.
	layers.Topic = FromMap(map[string]string{"segment.bytes": "5", "internal.segment.bytes": "1000", "retention.ms": "x"})
	if topic := ResolveTopic(layers); topic.SegmentBytes != 1000 || topic.RetentionMs != 604800000 {
		t.Errorf("%+v", topic)
	}
}
