package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/klamm/klamm/config"
	"github.com/klamm/klamm/metadata/record"
	"github.com/klamm/klamm/metadata/snapshot"
	"github.com/klamm/klamm/storage"
	"github.com/klamm/klamm/storage/vfs"
)

// format formats a fresh directory and gives what the 0-0 checkpoint holds, a
// record a line.
func format(t *testing.T, file, dir string, args ...string) string {
	t.Helper()
	if code, out, errs := klamm(append([]string{"storage", "format", "-t", "cluster-1", "-c", file}, args...)...); code != 0 {
		t.Fatalf("format %s: %d %s%s", args, code, out, errs)
	}
	h, recs, ok, err := snapshot.ReadBootstrap(vfs.OS(), filepath.Join(dir, metadataDir))
	if err != nil || !ok {
		t.Fatalf("format %s: checkpoint %v %v", args, ok, err)
	}
	var text strings.Builder
	if h.KRaft.Version > 0 {
		text.Write(record.AppendControlJSON(nil, h.KRaft.Voters))
		text.WriteByte('\n')
	}
	for _, rec := range recs {
		text.Write(record.AppendJSON(nil, rec, 0))
		text.WriteByte('\n')
	}
	return strings.NewReplacer(`{"type":"FEATURE_LEVEL_RECORD","version":0,"data":{"name":"`, "", `","featureLevel":`, " ", "}}", "").Replace(text.String())
}

// What Kafka 4.4's tool writes for the same options.
func TestFormatRecords(t *testing.T) {
	for args, want := range map[string]string{
		"":           "metadata.version 33\neligible.leader.replicas.version 1\ngroup.version 1\nshare.version 2\nstreams.version 1\ntransaction.version 2\n",
		"-r 4.3-IV0": "metadata.version 30\neligible.leader.replicas.version 1\ngroup.version 1\nshare.version 1\nstreams.version 1\ntransaction.version 2\n",
		"--release-version 4.3.1 --feature share.version=2 -f group.version=0": "metadata.version 30\neligible.leader.replicas.version 1\nshare.version 2\nstreams.version 1\ntransaction.version 2\n",
		"-f metadata.version=21 -f group.version=0 -f group.version=1":         "metadata.version 21\ngroup.version 1\n",
		"-r 3.3":             "metadata.version 7\n",
		"-f kraft.version=0": "metadata.version 33\neligible.leader.replicas.version 1\ngroup.version 1\nshare.version 2\nstreams.version 1\ntransaction.version 2\n",
		`-r 3.5 -S SCRAM-SHA-512=[name=alice,iterations=8192,salt="N3E=",saltedpassword="YCE="]`: "metadata.version 11\n" +
			`{"type":"USER_SCRAM_CREDENTIAL_RECORD","version":0,"data":{"name":"alice","mechanism":2,"salt":"N3E=","storedKey":"cXajSfkesuEdmelXMIE1FvL2RXPfwlrmGKyq6ai/1my6GnQBkALTiDfj8bysiAAVsysjd15xpW2sEiappLOxvQ==","serverKey":"TGF8Dt3uWsZYXy+/UBt86VtHDWvwHxtUnCY8GKG1QG6muF9I08fZ3MQ0cupwRZ2uY6KK9INaZHi4OxHCDwYMBw==","iterations":8192` + "\n",
	} {
		dir := t.TempDir()
		if got := format(t, serverProperties(t, dir), dir, strings.Fields(args)...); got != want {
			t.Errorf("format %s:\n%swant\n%s", args, got, want)
		}
	}
}

// B188: a credential that cannot be written makes the format fail, and nothing is
// written.
func TestFormatRefuses(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	file := serverProperties(t, dir)
	for args, want := range map[string]string{
		"-r 9.9-IV9":                                   "Unknown metadata.version '9.9-IV9'. Supported metadata.version are: 3.3-IV3, 3.4-IV0,",
		"-r 4.5-IV0":                                   "4.4-IV2",
		"-f foo.version=1":                             "Unsupported feature: foo.version. Supported features are: eligible.leader.replicas.version, group.version,",
		"-f group.version=9":                           "No feature:group.version with feature level 9",
		"-f group.version=-1":                          "No feature:group.version with feature level -1",
		"-f group.version":                             "Can't parse feature=level string group.version: equals sign not found.",
		"-f group.version=x":                           "unable to parse x as a short",
		"-f metadata.version=4":                        "No MetadataVersion with feature level 4. Valid feature levels are from 7 to 33.",
		"-f metadata.version=30 -r 4.4":                "Use --release-version instead of --feature metadata.version=X to avoid ambiguity.",
		"-f kraft.version=1":                           "Cannot set kraft.version to 1 unless controller.quorum.voters is empty",
		"-f eligible.leader.replicas.version=1 -r 3.9": "depends on metadata.version level 23",
		"-s": "please remove controller.quorum.voters",
		"-I 1@localhost:1:JEXY6aqzQY-32P5TStzaFg": "please remove controller.quorum.voters",
		"-s -N": "exclude each other",
		"-S SCRAM-SHA-256=[name=a,password=b] -r 3.5-IV1": "SCRAM is only supported in metadata.version 3.5-IV2 or later",
		"-S SCRAM-SHA-256":                                      "Failed to find equals sign in SCRAM argument 'SCRAM-SHA-256'",
		"-S SCRAM-SHA-1=[name=a,password=b]":                    "The add-scram mechanism SCRAM-SHA-1 is not supported.",
		"-S SCRAM-SHA-256=[password=b]":                         "You must supply 'name' to add-scram",
		"-S SCRAM-SHA-256=[name=,password=b]":                   "You must supply 'name' to add-scram",
		"-S SCRAM-SHA-256=[name=a]":                             "You must supply one of 'password' or 'saltedpassword' to add-scram",
		"-S SCRAM-SHA-256=[name=a,password=]":                   "You must supply one of 'password' or 'saltedpassword' to add-scram",
		"-S SCRAM-SHA-256=[name=a,password=b,iterations=1]":     "The 'iterations' value must be >= 4096",
		"-S SCRAM-SHA-256=[name=a,password=b,iterations=99999]": "The 'iterations' value must be <= 16384",
		"-S SCRAM-SHA-256=[name=a,password=b,iterations=x]":     "Failed to parse iterations count: x",
		"-S SCRAM-SHA-256=[name=a,password=b,foo=1]":            "Unknown SCRAM configurations: foo",
		"-S SCRAM-SHA-256=name=a,password=b":                    "Expected configuration string to start with [",
		"-S SCRAM-SHA-256=[name=a,password=b":                   "Expected configuration string to end with ]",
		"-S SCRAM-SHA-256=[name=a,saltedpassword=YCE=]":         "You must supply 'salt' with 'saltedpassword' to add-scram",
		"-S SCRAM-SHA-256=[name=a,password=b,salt=###]":         "Failed to decode given salt: ###",
		`-S SCRAM-SHA-256=[name=a,password="b,c"]`:              "a value cannot hold a comma",
	} {
		code, _, errs := klamm(append([]string{"storage", "format", "-t", "cluster-1", "-c", file}, strings.Fields(args)...)...)
		if code != 2 || !strings.Contains(errs, want) {
			t.Errorf("format %s: %d %swant %s", args, code, errs, want)
		}
		if _, err := os.Stat(dir); err == nil {
			t.Fatalf("format %s wrote something", args)
		}
	}
}

// B189: a controller whose voters are in the metadata says so when it is
// formatted, and what contradicts the configuration is refused.
func TestFormatDynamicQuorum(t *testing.T) {
	dynamic := func(dir string, extra ...string) string {
		return serverProperties(t, dir, append([]string{"controller.quorum.voters=", "controller.quorum.bootstrap.servers=localhost:9093"}, extra...)...)
	}
	dir := filepath.Join(t.TempDir(), "data")
	for args, want := range map[string]string{
		"":                      "you must specify one of the following: --standalone, --initial-controllers, or --no-initial-controllers",
		"-N -s":                 "exclude each other",
		"-s -f kraft.version=0": "Cannot set kraft.version to 0",
		"-s -I 1@localhost:9093:JEXY6aqzQY-32P5TStzaFg": "exclude each other",
		"-I foo":                  "valid is ID@HOST:PORT:DIRECTORY",
		"-I 1@localhost:9093:foo": `"foo" is no directory id`,
		"-I localhost:9093:JEXY6aqzQY-32P5TStzaFg":                     "is not ID@HOST:PORT",
		"-I 1@a:1:JEXY6aqzQY-32P5TStzaFg,1@b:1:MvDxzVmcRsaTz33bUuRU6A": "node 1 is there twice",
		"-I 1@a:1:JEXY6aqzQY-32P5TStzaFg,2@b:1:JEXY6aqzQY-32P5TStzaFg": "JEXY6aqzQY-32P5TStzaFg is there twice",
		"-I 1@a:1:JEXY6aqzQY-32P5TStzaFg,":                             "valid is ID@HOST:PORT:DIRECTORY",
	} {
		code, _, errs := klamm(append([]string{"storage", "format", "-t", "cluster-1", "-c", dynamic(dir)}, strings.Fields(args)...)...)
		if code != 2 || !strings.Contains(errs, want) {
			t.Errorf("format %s: %d %swant %s", args, code, errs, want)
		}
		if _, err := os.Stat(dir); err == nil {
			t.Fatalf("format %s wrote something", args)
		}
	}

	got := format(t, dynamic(dir), dir, "--standalone", "-r", "3.8-IV0")
	meta, err := storage.ReadMetaProperties(vfs.OS(), dir)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"version":0,"voters":[{"voterId":1,"voterDirectoryId":"` + meta.DirectoryID.String() +
		`","endpoints":[{"name":"CONTROLLER","host":"localhost","port":9093}],"kRaftVersionFeature":{"minSupportedVersion":0,"maxSupportedVersion":1`
	if !strings.HasPrefix(got, want) || !strings.HasSuffix(got, "\nmetadata.version 20\n") {
		t.Errorf("%swant\n%s", got, want)
	}

	dir = filepath.Join(t.TempDir(), "named")
	got = format(t, dynamic(dir, "listeners=PLAINTEXT://localhost:9092,CONTROLLER://:9093"), dir, "-I", "1@host.name:9093:JEXY6aqzQY-32P5TStzaFg")
	if meta, err = storage.ReadMetaProperties(vfs.OS(), dir); err != nil || meta.DirectoryID.String() != "JEXY6aqzQY-32P5TStzaFg" {
		t.Errorf("%+v %v", meta, err)
	}
	if !strings.Contains(got, `"voterDirectoryId":"JEXY6aqzQY-32P5TStzaFg","endpoints":[{"name":"CONTROLLER","host":"host.name","port":9093}]`) {
		t.Error(got)
	}
}

// Several controllers of a dynamic quorum begin with the same voters, each in its
// own directory; who is none of them, or names none, is to be added later.
func TestFormatSeveralControllers(t *testing.T) {
	const voters = "2@b:2:MvDxzVmcRsaTz33bUuRU6A,1@a:1:JEXY6aqzQY-32P5TStzaFg"
	for _, tt := range []struct {
		node  string
		args  []string
		kind  string
		id    string // of the directory
		named []string
	}{
		{"1", []string{"-I", voters}, "dynamic metadata voter directory", "JEXY6aqzQY-32P5TStzaFg", []string{"JEXY6aqzQY-32P5TStzaFg", "MvDxzVmcRsaTz33bUuRU6A"}},
		{"2", []string{"-I", voters}, "dynamic metadata voter directory", "MvDxzVmcRsaTz33bUuRU6A", []string{"JEXY6aqzQY-32P5TStzaFg", "MvDxzVmcRsaTz33bUuRU6A"}},
		{"3", []string{"-I", voters}, "dynamic metadata directory", "", []string{"JEXY6aqzQY-32P5TStzaFg", "MvDxzVmcRsaTz33bUuRU6A"}},
		{"3", []string{"-N"}, "metadata directory", "", nil},
	} {
		dir := filepath.Join(t.TempDir(), "data")
		file := serverProperties(t, dir, "node.id="+tt.node, "controller.quorum.voters=", "controller.quorum.bootstrap.servers=a:1,b:2")
		code, out, errs := klamm(append([]string{"storage", "format", "-t", "c", "-c", file}, tt.args...)...)
		if code != 0 || !strings.HasPrefix(out, "Formatting "+tt.kind+" "+dir) {
			t.Errorf("node %s %s: %d %s%s", tt.node, tt.args, code, out, errs)
		}
		meta, err := storage.ReadMetaProperties(vfs.OS(), dir)
		if err != nil || tt.id != "" && meta.DirectoryID.String() != tt.id {
			t.Errorf("node %s: directory %s, %v", tt.node, meta.DirectoryID, err)
		}
		h, _, ok, err := snapshot.ReadBootstrap(vfs.OS(), filepath.Join(dir, metadataDir))
		if err != nil || !ok || h.KRaft.Version != 1 {
			t.Fatalf("node %s: %+v, %v", tt.node, h, err)
		}
		var named []string
		if h.KRaft.Voters != nil {
			for _, v := range h.KRaft.Voters.Voters {
				named = append(named, v.DirectoryID.String())
			}
		}
		if !slices.Equal(named, tt.named) {
			t.Errorf("node %s %s: voters %v", tt.node, tt.args, named)
		}
	}
}

func TestFormatManyDirectories(t *testing.T) {
	one, two := filepath.Join(t.TempDir(), "one"), filepath.Join(t.TempDir(), "two")
	file := serverProperties(t, one+","+two)
	if code, _, errs := klamm("storage", "format", "-t", "c", "-c", file, "-r", "3.6"); code != 2 || !strings.Contains(errs, "Need 3.7-IV2 or higher") {
		t.Errorf("several directories before their time: %d %s", code, errs)
	}
	if _, out, _ := klamm("storage", "format", "-t", "c", "-c", file, "-r", "3.7"); out != "Formatting metadata directory "+one+" with metadata.version 3.7-IV4.\nFormatting data directory "+two+" with metadata.version 3.7-IV4.\n" {
		t.Error(out)
	}
	if _, out, _ := klamm("storage", "format", "-t", "c", "-c", file, "-g"); out != "All of the log directories are already formatted.\n" {
		t.Error(out)
	}
	if _, out, _ := klamm("storage", "info", "-c", file); !strings.Contains(out, two+": node 1, cluster c, directory ") || !strings.Contains(out, "\nmetadata.version=19 (3.7-IV4)\n") {
		t.Error(out)
	}
	// One that was copied, and one of another node.
	meta, err := os.ReadFile(filepath.Join(one, "meta.properties"))
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		string(meta): "have the same directory.id",
		strings.Replace(string(meta), "node.id=1", "node.id=7", 1):       two + " belongs to node 7",
		strings.Replace(string(meta), "cluster.id=c", "cluster.id=d", 1): "belong to different clusters",
	} {
		if err := os.WriteFile(filepath.Join(two, "meta.properties"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if code, out, _ := klamm("storage", "info", "-c", file); code != 1 || !strings.Contains(out, want) {
			t.Errorf("info: %d %s", code, out)
		}
	}
}

// The refusal to start prints a command, and the command works.
func TestPrintedCommandFormats(t *testing.T) {
	base := filepath.Join(t.TempDir(), "it's here")
	for name, file := range map[string]string{
		"static":  serverProperties(t, filepath.Join(base, "a")),
		"dynamic": serverProperties(t, filepath.Join(base, "b"), "controller.quorum.voters=", "controller.quorum.bootstrap.servers=localhost:9093"),
	} {
		for range 2 { // the second time for a directory that was added
			_, _, errs := klamm("server", file, "--override", "log.dirs="+filepath.Join(base, name))
			start := strings.Index(errs, "klamm storage format")
			if start < 0 {
				t.Fatalf("%s: no command in %s", name, errs)
			}
			line, _, _ := strings.Cut(errs[start:], "\n")
			if code, _, errs := klamm(shellWords(line)[1:]...); code != 0 {
				t.Errorf("%s: %s: %d %s", name, line, code, errs)
			}
			name += "," + filepath.Join(base, name+"2")
		}
	}
}

// shellWords splits a command line of words and '…' with '\” for a quote.
func shellWords(line string) []string {
	var words []string
	word, quoted := "", false
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case c == '\'':
			quoted = !quoted
		case quoted:
			word += string(c)
		case c == '\\':
			i++
			word += string(line[i])
		case c == ' ':
			words = append(words, word)
			word = ""
		default:
			word += string(c)
		}
	}
	return append(words, word)
}

func TestVersionMapping(t *testing.T) {
	if _, out, _ := klamm("storage", "version-mapping", "-r", "4.2-IV0"); !strings.HasPrefix(out, "metadata.version=28 (4.2-IV0)\n") || !strings.Contains(out, "share.version=1\nstreams.version=0\n") {
		t.Error(out)
	}
	if code, _, _ := klamm("storage", "version-mapping", "-r", "9.9"); code != 2 {
		t.Error(code)
	}
	for arg, want := range map[string]string{
		"eligible.leader.replicas.version=1": "eligible.leader.replicas.version=1 requires:\n    metadata.version=23 (4.0-IV1)\n",
		"group.version=1":                    "group.version=1 has no dependencies.\n",
		"metadata.version=17":                "metadata.version=17 (3.7-IV2) has no dependencies.\n",
	} {
		if code, out, errs := klamm("storage", "feature-dependencies", "-f", arg); code != 0 || out != want {
			t.Errorf("%s: %d %s%s", arg, code, out, errs)
		}
	}
	for _, arg := range []string{"foo.version=1", "group.version=7", "group.version=x", "group.version"} {
		if code, _, _ := klamm("storage", "feature-dependencies", "-f", arg); code != 2 {
			t.Errorf("%s: %d", arg, code)
		}
	}
}

// B165: a listener that others reach tells them an address that they do not.
func TestLoopbackWarning(t *testing.T) {
	for listeners, warned := range map[string]bool{
		"listeners=PLAINTEXT://:9092,CONTROLLER://localhost:9093 advertised.listeners=PLAINTEXT://localhost:9092":          true,
		"listeners=PLAINTEXT://0.0.0.0:9092,CONTROLLER://localhost:9093 advertised.listeners=PLAINTEXT://127.0.0.1:9092":   true,
		"listeners=PLAINTEXT://[::]:9092,CONTROLLER://localhost:9093 advertised.listeners=PLAINTEXT://[::1]:9092":          true,
		"listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093":                                                 false,
		"listeners=PLAINTEXT://127.0.0.1:9092,CONTROLLER://localhost:9093 advertised.listeners=PLAINTEXT://localhost:9092": false,
		"listeners=PLAINTEXT://:9092,CONTROLLER://localhost:9093 advertised.listeners=PLAINTEXT://broker.example:9092":     false,
	} {
		cfg, err := config.Load(serverProperties(t, t.TempDir(), strings.Fields(listeners)...), nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		var log strings.Builder
		announce(cfg, zerolog.New(&log))
		if strings.Contains(log.String(), "loopback") != warned {
			t.Errorf("%s:\n%s", listeners, log.String())
		}
	}
}
