//go:build integration

package harness

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// Language is one that clients are written in, and how what their scripts import
// is installed.
type Language struct {
	dir     string   // of integration/clients/testdata
	pins    []string // the files of it that say what to install
	install func(t *testing.T, from, to string)
	// interpreter gives a program, and variables of its environment, that find
	// what was installed at a directory.
	interpreter func(t *testing.T, at string) (program string, env []string)

	mu sync.Mutex
}

// Python has confluent-kafka, and so librdkafka, and aiokafka.
var Python = &Language{
	dir:  "python",
	pins: []string{"requirements.txt"},
	install: func(t *testing.T, from, to string) {
		python := Need(t, "python3", "apt-get install python3-venv")
		command(t, exec.Command(python, "-m", "venv", to), "apt-get install python3-venv")
		command(t, exec.Command(filepath.Join(to, "bin", "pip"), "install", "--quiet", "--disable-pip-version-check",
			"-r", filepath.Join(from, "requirements.txt")), "pip must reach a package index")
	},
	interpreter: func(_ *testing.T, at string) (string, []string) { return filepath.Join(at, "bin", "python"), nil },
}

// JavaScript is Node.js with kafkajs.
var JavaScript = &Language{
	dir:  "javascript",
	pins: []string{"package.json", "package-lock.json"},
	install: func(t *testing.T, from, to string) {
		npm := Need(t, "npm", "apt-get install nodejs npm")
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
		return Need(t, "node", "apt-get install nodejs npm"), []string{"NODE_PATH=" + filepath.Join(at, "node_modules")}
	},
}

// command runs an installer, with a hint of what a failure may mean.
func command(t *testing.T, cmd *exec.Cmd, hint string) {
	t.Helper()
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v (%s)\n%s", strings.Join(cmd.Args, " "), err, hint, out)
	}
}

// Ready installs what the language's scripts import, once for each content of
// the files that pin it, and says where those files are and which words run a
// script: variables of the environment, and the program. Tests of other processes
// may do the same at once.
func (l *Language) Ready(t *testing.T) (dir string, words []string) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	dir = filepath.Join(root(t), "integration", "clients", "testdata", l.dir)
	at := l.installed(t, dir)
	program, env := l.interpreter(t, at)
	return dir, append(env, program)
}

func (l *Language) installed(t *testing.T, dir string) string {
	t.Helper()
	hash := sha256.New()
	for _, name := range l.pins {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		hash.Write(text)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	installed := filepath.Join(cache, "klamm-clients", l.dir+"-"+hex.EncodeToString(hash.Sum(nil)[:6]))
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
		return installed
	} else if !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	// What a broken installation left.
	if err := os.RemoveAll(installed); err != nil {
		t.Fatal(err)
	}
	l.install(t, dir, installed)
	if err := os.WriteFile(done, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	return installed
}
