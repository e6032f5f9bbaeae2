//go:build integration

package nemesis

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

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
	p := harness.StartProcess(t, like.Client, words, func(line string) {
		e := like
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Errorf("%s printed %q: %v", like.Client, line, err)
			return
		}
		if e.Kind == "failed" {
			if !l.w.loses {
				t.Errorf("%s: partition %d: %s", like.Client, e.Partition, e.Note)
			}
			return
		}
		l.add(e)
	})
	among.running.Go(func() {
		<-among.ctx.Done()
		p.End(l.w.Patience)
	})
}
