//go:build integration

package clients

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/klamm/klamm/integration/harness"
)

// script is a client of another language: a script in testdata and what runs
// it. Its commands are
//
//	create ADDRESS TOPIC PARTITIONS
//	produce ADDRESS TOPIC CODEC              records on standard input
//	read ADDRESS COUNT TOPIC...              prints records
//	member ADDRESS GROUP TOPIC [KEY=VALUE]   prints records until the end of standard input
type script struct {
	language *harness.Language
	file     string
}

func python(file string) script     { return script{harness.Python, file} }
func javascript(file string) script { return script{harness.JavaScript, file} }

// words are a program and its arguments that run a command of the script.
func (s script) words(t *testing.T, args ...string) (string, []string) {
	t.Helper()
	dir, words := s.language.Ready(t)
	return "env", slices.Concat(words, []string{filepath.Join(dir, s.file)}, args)
}

func (s script) create(t *testing.T, address, topic string, partitions int) {
	t.Helper()
	name, args := s.words(t, "create", address, topic, strconv.Itoa(partitions))
	run(t, nil, name, args...)
}

func (s script) produce(t *testing.T, address, topic, codec string, records []record) {
	t.Helper()
	var in strings.Builder
	encoder := json.NewEncoder(&in)
	for _, r := range records {
		if err := encoder.Encode(r); err != nil {
			t.Fatal(err)
		}
	}
	name, args := s.words(t, "produce", address, topic, codec)
	run(t, strings.NewReader(in.String()), name, args...)
}

func (s script) read(t *testing.T, address string, topics []string, count int) []record {
	t.Helper()
	name, args := s.words(t, append([]string{"read", address, strconv.Itoa(count)}, topics...)...)
	var records []record
	for line := range strings.Lines(run(t, nil, name, args...)) {
		r, ok := fromJSON(line)
		if !ok {
			t.Fatalf("%s printed %q", s.file, clip(line))
		}
		records = append(records, r)
	}
	return records
}

func (s script) join(t *testing.T, m membership) member {
	t.Helper()
	args := []string{"member", m.address, m.group, m.topic}
	for key, value := range map[string]string{"assignor": m.assignor, "instance": m.instance} {
		if value != "" {
			args = append(args, fmt.Sprintf("%s=%s", key, value))
		}
	}
	name, args := s.words(t, args...)
	return start(t, m, fromJSON, byInput, name, args...)
}

func fromJSON(line string) (record, bool) {
	var r record
	err := json.Unmarshal([]byte(line), &r)
	return r, err == nil
}
