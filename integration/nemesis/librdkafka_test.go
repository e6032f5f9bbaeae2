//go:build integration

package nemesis

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/klamm/klamm/integration/harness"
	"github.com/klamm/klamm/integration/nemesis/history"
)

// librdkafkaProducer is producer on librdkafka, with settings.
func (l *load) librdkafkaProducer(name string, repeats bool, settings ...string) {
	l.w.T.Helper()
	l.script(&l.producers, history.Event{Client: name, Repeats: repeats}, append([]string{
		"produce", strings.Join(l.w.Bootstrap(), ","), topic, name, fmt.Sprint(partitions), fmt.Sprint(*rate), fmt.Sprint(l.w.seed),
	}, settings...)...)
}

// librdkafkaConsumer reads all, by itself (assign) or as one of a group (subscribe).
func (l *load) librdkafkaConsumer(name, how string) {
	l.w.T.Helper()
	group, _, grouped := strings.Cut(name, "/")
	like := history.Event{Client: name}
	if grouped {
		like.Group = group
	}
	l.script(&l.consumers, like, "consume", strings.Join(l.w.Bootstrap(), ","), topic, fmt.Sprint(partitions), group, how)
}

// script runs a command of librdkafka.py, which prints events until its standard
// input ends. They have of like what they do not say.
func (l *load) script(among *clients, like history.Event, args ...string) {
	t := l.w.T
	t.Helper()
	_, words := harness.Python.Ready(t)
	words = slices.Concat([]string{"env", "PYTHONUNBUFFERED=1"}, words, []string{filepath.Join("testdata", "librdkafka.py")}, args)
	cmd := exec.Command(words[0], words[1:]...)
	errors, err := os.Create(filepath.Join(t.TempDir(), "stderr"))
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = errors
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	read := make(chan struct{})
	go func() {
		defer close(read)
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			e := like
			if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
				t.Errorf("%s printed %q: %v", like.Client, lines.Text(), err)
				continue
			}
			if e.Kind == "failed" {
				if !l.w.loses {
					t.Errorf("%s: partition %d: %s", like.Client, e.Partition, e.Note)
				}
				continue
			}
			l.add(e)
		}
	}()
	among.running.Go(func() {
		<-among.ctx.Done()
		in.Close()
		kill := time.AfterFunc(2*time.Minute, func() { _ = cmd.Process.Kill() })
		<-read
		err := cmd.Wait()
		if !kill.Stop() {
			t.Errorf("%s did not end", like.Client)
		}
		if err != nil {
			text, _ := os.ReadFile(errors.Name())
			t.Errorf("%s: %v\n%s", like.Client, err, text)
		}
		errors.Close()
	})
}
