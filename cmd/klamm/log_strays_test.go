package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klamm/klamm/metadata/feature"
	"github.com/klamm/klamm/metadata/record"
	"github.com/klamm/klamm/protocol"
)

// What was set aside is listed with size and origin, and removed when that is
// ordered, one or all; nothing else ever is.
func TestLogStrays(t *testing.T) {
	dir := t.TempDir()
	file := serverProperties(t, dir)
	if code, _, errs := klamm("storage", "format", "-t", "cluster-1", "-c", file); code != 0 {
		t.Fatal(errs)
	}
	log := record.EncodeBatch([]record.Record{
		&record.Topic{Name: "again", TopicID: protocol.UUID{2}},
		&record.Partition{TopicID: protocol.UUID{2}, Replicas: []protocol.NodeID{1}, ISR: []protocol.NodeID{1}, Leader: 1},
		&record.Topic{Name: "moved", TopicID: protocol.UUID{3}},
		&record.Partition{TopicID: protocol.UUID{3}, Replicas: []protocol.NodeID{2, 3}, ISR: []protocol.NodeID{2, 3}, Leader: 2},
	}, feature.Latest, 0, 1, 1000)
	if err := os.WriteFile(filepath.Join(dir, metadataDir, "00000000000000000000.log"), log, 0o644); err != nil {
		t.Fatal(err)
	}
	set := func(name string, id protocol.UUID, bytes int) string {
		path := filepath.Join(dir, name)
		if err := os.Mkdir(path, 0o755); err != nil {
			t.Fatal(err)
		}
		files := map[string][]byte{"00000000000000000000.log": make([]byte, bytes)}
		if id != protocol.ZeroUUID {
			files["partition.metadata"] = []byte("version: 0\ntopic_id: " + id.String())
		}
		for file, data := range files {
			if err := os.WriteFile(filepath.Join(path, file), data, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		return path
	}
	set("again-0", protocol.UUID{2}, 10)
	set("again-1.00-delete", protocol.UUID{2}, 10)
	again := set("again-0.01-stray", protocol.UUID{9}, 1000)
	set("gone-7.02-stray", protocol.UUID{8}, 2000)
	set("moved-0.03-stray", protocol.UUID{3}, 0)
	set("again-0.04-stray", protocol.UUID{2}, 10)
	set("begun-0.05-stray", protocol.ZeroUUID, 0)

	list := func(want int, args ...string) []stray {
		t.Helper()
		code, out, errs := klamm(append([]string{"log", "strays", "--json"}, args...)...)
		if code != want {
			t.Fatalf("%q: %d %s", args, code, errs)
		}
		var found []stray
		if code == 0 {
			if err := json.Unmarshal([]byte(out), &found); err != nil {
				t.Fatal(err)
			}
		}
		return found
	}
	origins := map[string]string{}
	for _, s := range list(0, dir) {
		name := filepath.Base(s.Path)
		origins[name] = s.Origin
		if name == "again-0.01-stray" && (s.Topic != "again" || s.Partition != 0 || s.TopicID != protocol.UUID{9}.String() || s.Bytes != 1043 || s.Written.IsZero() || s.Removed) {
			t.Errorf("%+v", s)
		}
	}
	for name, want := range map[string]string{
		"again-0.01-stray": "topic deleted; another one has its name", "gone-7.02-stray": "topic deleted",
		"moved-0.03-stray": "replica moved to brokers 2,3", "again-0.04-stray": "a second copy of what this node holds",
		"begun-0.05-stray": "begun, without the id of a topic",
	} {
		if origins[name] != want {
			t.Errorf("%s: %q, want %q", name, origins[name], want)
		}
	}
	if len(origins) != 5 {
		t.Errorf("%d logs: %v", len(origins), origins)
	}
	code, out, _ := klamm("log", "strays", "-c", file)
	if code != 0 || !strings.Contains(out, "5 logs") || !strings.Contains(out, again) {
		t.Errorf("by configuration: %d %s", code, out)
	}
	if found := list(0, "--remove", again); len(found) != 1 || !found[0].Removed {
		t.Errorf("one: %+v", found)
	}
	if _, err := os.Stat(again); err == nil {
		t.Error("it is still there")
	}
	list(1, "--remove", again)
	list(1, "--remove", filepath.Join(dir, "again-0"))
	list(1, filepath.Dir(dir))
	list(1, "--remove", filepath.Join(dir, "nothing"))
	if found := list(0, "--remove", dir); len(found) != 4 {
		t.Errorf("all: %+v", found)
	}
	if found := list(0, dir); len(found) != 0 {
		t.Errorf("then there are %+v", found)
	}
	for _, name := range []string{"again-0", "again-1.00-delete", metadataDir} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if code, _, errs := klamm("log", "strays"); code != 2 || !strings.Contains(errs, "--config") {
		t.Errorf("without a directory: %d %s", code, errs)
	}
}
