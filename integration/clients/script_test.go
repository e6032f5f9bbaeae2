//go:build integration

package clients

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
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
	language *language
	file     string
}

// language is a directory of testdata, and how what its scripts import is
// installed.
type language struct {
	dir     string
	pins    []string // the files of it that say what to install
	install func(t *testing.T, from, to string)
	// interpreter gives a program, and variables of its environment, that find
	// what was installed at a directory.
	interpreter func(t *testing.T, at string) (program string, env []string)

	mu sync.Mutex
}

var pythonLanguage = &language{
	dir:  "python",
	pins: []string{"requirements.txt"},
	install: func(t *testing.T, from, to string) {
		python := harness.Need(t, "python3", "apt-get install python3-venv")
		command(t, exec.Command(python, "-m", "venv", to), "apt-get install python3-venv")
		command(t, exec.Command(filepath.Join(to, "bin", "pip"), "install", "--quiet", "--disable-pip-version-check",
			"-r", filepath.Join(from, "requirements.txt")), "pip must reach a package index")
	},
	interpreter: func(_ *testing.T, at string) (string, []string) { return filepath.Join(at, "bin", "python"), nil },
}

var javascriptLanguage = &language{
	dir:  "javascript",
	pins: []string{"package.json", "package-lock.json"},
	install: func(t *testing.T, from, to string) {
		npm := harness.Need(t, "npm", "apt-get install nodejs npm")
		if err := os.MkdirAll(to, 0o755); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"package.json", "package-lock.json"} {
			text, err := os.ReadFile(filepath.Join(from, name))
			if err == nil {
				err = os.WriteFile(filepath.Join(to, name), text, 0o644)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		install := exec.Command(npm, "ci", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel", "error")
		install.Dir = to
		command(t, install, "npm must reach a registry")
	},
	interpreter: func(t *testing.T, at string) (string, []string) {
		return harness.Need(t, "node", "apt-get install nodejs npm"), []string{"NODE_PATH=" + filepath.Join(at, "node_modules")}
	},
}

func python(file string) script     { return script{pythonLanguage, file} }
func javascript(file string) script { return script{javascriptLanguage, file} }

// command runs an installer, with a hint of what a failure may mean.
func command(t *testing.T, cmd *exec.Cmd, hint string) {
	t.Helper()
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v (%s)\n%s", strings.Join(cmd.Args, " "), err, hint, clip(string(out)))
	}
}

// ready installs what the language's scripts import, once for each content of
// the files that pin it, and says where. Tests of other processes may do the
// same at once.
func (l *language) ready(t *testing.T) (scripts, installed string) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	scripts, err := filepath.Abs(filepath.Join("testdata", l.dir))
	if err != nil {
		t.Fatal(err)
	}
	hash := sha256.New()
	for _, name := range l.pins {
		text, err := os.ReadFile(filepath.Join(scripts, name))
		if err != nil {
			t.Fatal(err)
		}
		hash.Write(text)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	installed = filepath.Join(cache, "klamm-clients", l.dir+"-"+hex.EncodeToString(hash.Sum(nil)[:6]))
	if err := os.MkdirAll(filepath.Dir(installed), 0o755); err != nil {
		t.Fatal(err)
	}
	lock, err := os.OpenFile(installed+".lock", os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	done := filepath.Join(installed, "done")
	if _, err := os.Stat(done); err == nil {
		return scripts, installed
	} else if !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	// What a broken installation left.
	if err := os.RemoveAll(installed); err != nil {
		t.Fatal(err)
	}
	l.install(t, scripts, installed)
	if err := os.WriteFile(done, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	return scripts, installed
}

// words are a program and its arguments that run a command of the script.
func (s script) words(t *testing.T, args ...string) (string, []string) {
	t.Helper()
	scripts, installed := s.language.ready(t)
	program, env := s.language.interpreter(t, installed)
	return "env", append(append(env, program, filepath.Join(scripts, s.file)), args...)
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
