//go:build integration

package tools

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/klamm/klamm/integration/harness"
)

// reasons are why klamm does not print what Kafka prints, by the names that
// the test files use.
var reasons = map[string]string{
	"transactions": "transactions are not served yet",
	"groups":       "groups of the newer protocols (KIP-848, share, streams) are not served yet",
	"apis":         "only the APIs that are served are advertised",
}

// patience bounds every wait; nothing takes nearly as long unless it is stuck.
const patience = 2 * time.Minute

// java is the JVM that the tests share; TestMain ends it.
var java *runner

func TestMain(m *testing.M) {
	flag.Parse()
	if rewrite := flag.Lookup("rewrite"); rewrite.Value.String() == "true" && !onKafka() {
		fmt.Fprintln(os.Stderr, "what klamm prints is not what to record: set KLAMM_NODE=kafka")
		os.Exit(2)
	}
	code := m.Run()
	if java != nil {
		java.close()
	}
	os.Exit(code)
}

func onKafka() bool { return os.Getenv("KLAMM_NODE") == "kafka" }

// TestTools runs the files of testdata. A directive has command lines and the
// standard input of the last one below it:
//
//	node             settings of the node, first in its file, where it needs some
//	cluster nodes=N  three nodes (N) instead of one; with
//	  controllers=N  …as many more, which are the controllers
//	  dynamic        …with a dynamic quorum, and one controller more that waits for a
//	                 vote: $JOINING is its properties, $DIRECTORY its directory id
//	file name=F      writes $TMP/F
//	run              runs the tools to their ends; with
//	  until=REGEXP   …again until the output matches (what it waits for must come by itself)
//	  sorted         …with the lines in order, if the tool gives them none
//	  shape          …with numbers and widths left out
//	  only=REGEXP    …with those lines of the output that match
//	  every          …asked of every broker in turn, or with $CONTROLLER of every
//	                 controller, and printed once where all say the same
//	  differs=REASON …where klamm differs for that reason
//	start name=N     starts a tool in the background
//	end name=N       ends it as SIGTERM does, unless it has ended, and gives its output
//	stop [node=N]    stops a node in order
//	restart node=N   starts it again
func TestTools(t *testing.T) {
	startJava(t)
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) { runFile(t, path, nil) })
}

// TestMixed runs files on clusters with nodes of both kinds, which print nothing else.
func TestMixed(t *testing.T) {
	if onKafka() {
		t.Skip("what Apache Kafka prints is recorded on Apache Kafka's nodes alone")
	}
	startJava(t)
	six, moves := filepath.Join("testdata", "cluster_of_six.txt"), filepath.Join("testdata", "moves.txt")
	t.Run("klamm controllers", func(t *testing.T) {
		runFile(t, six, []harness.Kind{harness.Kafka, harness.Klamm, harness.Klamm, harness.Klamm, harness.Klamm, harness.Klamm})
	})
	t.Run("Kafka controllers", func(t *testing.T) {
		runFile(t, six, []harness.Kind{harness.Klamm, harness.Kafka, harness.Klamm, harness.Kafka, harness.Kafka, harness.Kafka})
	})
	t.Run("moves under Kafka", func(t *testing.T) {
		runFile(t, moves, []harness.Kind{harness.Klamm, harness.Kafka, harness.Klamm, harness.Kafka})
	})
}

func startJava(t *testing.T) {
	t.Helper()
	harness.Need(t, "javac", "apt-get install default-jdk-headless")
	if java != nil {
		return
	}
	var err error
	if java, err = newRunner(harness.KafkaTools(t)); err != nil {
		t.Fatal(err)
	}
}

// runFile runs a file. A cluster's brokers, and then its controllers, are of these
// kinds, where there are any.
func runFile(t *testing.T, path string, kinds []harness.Kind) {
	s := &session{t: t, tmp: t.TempDir(), background: make(map[string]call), kinds: kinds}
	datadriven.RunTest(t, path, s.directive)
	for _, difference := range s.differences {
		t.Error(difference)
	}
	for name := range s.background {
		if _, err := s.end(name); err != nil {
			t.Error(err)
		}
	}
}

// session is the run of a file.
type session struct {
	t          *testing.T
	tmp        string        // for the files that it writes
	node       *harness.Node // the first broker
	nodes      []*harness.Node
	joining    []string // what stands for the controller that waits, and what it is
	background map[string]call
	kinds      []harness.Kind // of a cluster's nodes
	// differences are told at the end of a file: a failure would end it.
	differences []string
}

type call struct {
	id   int32
	wait <-chan result
}

func (s *session) directive(t *testing.T, d *datadriven.TestData) string {
	t.Helper()
	out, err := s.do(d)
	if err != nil {
		d.Fatalf(t, "%v", err)
	}
	if onKafka() || out == d.Expected && !d.HasArg("differs") {
		return out
	}
	if !d.HasArg("differs") {
		s.differences = append(s.differences, fmt.Sprintf("%s: %s\nklamm:\n%s\nKafka:\n%s", d.Pos, d.Input, out, d.Expected))
	} else if out == d.Expected {
		s.differences = append(s.differences, fmt.Sprintf("%s: %s\nis no different on klamm any more", d.Pos, d.Input))
	}
	return d.Expected
}

func (s *session) do(d *datadriven.TestData) (string, error) {
	if s.node == nil && d.Cmd == "cluster" {
		return "", s.startCluster(d)
	}
	if s.node == nil {
		settings := []string{"offsets.topic.num.partitions=4", "group.initial.rebalance.delay.ms=0"}
		if d.Cmd == "node" {
			settings = append(settings, strings.Split(d.Input, "\n")...)
		}
		s.node = harness.Start(s.t, settings...)
		s.nodes = []*harness.Node{s.node}
	}
	switch d.Cmd {
	case "node":
		return "", nil
	case "file":
		var name string
		d.ScanArgs(s.t, "name", &name)
		return "", os.WriteFile(filepath.Join(s.tmp, name), []byte(s.expand(d.Input)+"\n"), 0o644)
	case "run":
		return s.run(d)
	case "start":
		var name string
		d.ScanArgs(s.t, "name", &name)
		var err error
		s.background[name], err = s.call(d.Input)
		return "", err
	case "end":
		var name string
		d.ScanArgs(s.t, "name", &name)
		res, err := s.end(name)
		return s.show(d, res), err
	case "stop", "restart":
		n := 1
		if d.HasArg("node") {
			d.ScanArgs(s.t, "node", &n)
		}
		if d.Cmd == "stop" {
			s.nodes[n-1].Stop()
		} else {
			s.nodes[n-1].Restart()
		}
		return "", nil
	default:
		return "", fmt.Errorf("no directive %q", d.Cmd)
	}
}

// startCluster starts several nodes.
func (s *session) startCluster(d *datadriven.TestData) error {
	var brokers, controllers int
	d.ScanArgs(s.t, "nodes", &brokers)
	settings := []string{"offsets.topic.num.partitions=4", "group.initial.rebalance.delay.ms=0"}
	if d.Input != "" {
		settings = append(settings, strings.Split(d.Input, "\n")...)
	}
	if !d.HasArg("controllers") {
		s.nodes = harness.StartCluster(s.t, brokers, settings...).Nodes
	} else {
		d.ScanArgs(s.t, "controllers", &controllers)
		var c *harness.Cluster
		if d.HasArg("dynamic") {
			c = harness.StartDynamic(s.t, controllers, 1, brokers, settings...)
			joining := c.Controllers[controllers]
			s.joining = []string{"$JOINING", joining.Config(), "$DIRECTORY", joining.Meta("directory.id")}
		} else {
			if s.kinds == nil {
				s.kinds = make([]harness.Kind, brokers+controllers)
			}
			c = harness.StartSplit(s.t, s.kinds[brokers:], s.kinds[:brokers], settings...)
		}
		s.nodes = append(c.Nodes, c.Controllers...)
	}
	s.node = s.nodes[0]
	return nil
}

// addresses are those of all brokers or of all controllers.
func (s *session) addresses(of func(*harness.Node) string) []string {
	var all []string
	for _, n := range s.nodes {
		if address := of(n); address != "" {
			all = append(all, address)
		}
	}
	return all
}

func broker(n *harness.Node) string     { return n.Address }
func controller(n *harness.Node) string { return n.Controller }

// expand fills in what is of this run.
func (s *session) expand(text string) string { return s.expandFor(text, s.node.Address) }

// expandFor fills it in for a node that is asked.
func (s *session) expandFor(text, address string) string {
	at := s.addresses(controller)[0]
	if slices.Contains(s.addresses(controller), address) {
		at = address
	}
	names := append([]string{"$BROKER", address, "$CONTROLLER", at, "$DATA", s.node.Data(), "$TMP", s.tmp}, s.joining...)
	return strings.NewReplacer(names...).Replace(text)
}

// call starts the tool of one command line.
func (s *session) call(text string) (call, error) { return s.callAt(text, s.node.Address) }

// callAt starts it for a node that is asked.
func (s *session) callAt(text, address string) (call, error) {
	line, input, _ := strings.Cut(text, "\n")
	words, err := split(s.expandFor(line, address))
	if err != nil {
		return call{}, err
	}
	tool, args := words[0], words[1:]
	if tool != "dump-log" && !slices.ContainsFunc(args, func(arg string) bool { return strings.HasPrefix(arg, "--bootstrap-") }) {
		switch bootstrap := []string{"--bootstrap-server", address}; tool {
		case "cluster":
			args = append(args, bootstrap...) // an option of its subcommands
		default:
			args = append(bootstrap, args...)
		}
	}
	var stdin strings.Builder
	for line := range strings.Lines(input) {
		stdin.WriteString(strings.TrimPrefix(strings.TrimSuffix(line, "\n"), "< ") + "\n")
	}
	id, wait, err := java.start(tool, args, stdin.String())
	return call{id: id, wait: wait}, err
}

func (c call) result() (result, error) {
	select {
	case res, ok := <-c.wait:
		if !ok {
			return res, errors.New("the JVM has ended")
		}
		return res, nil
	case <-time.After(patience):
	}
	err := errors.New("the tool does not end")
	if java.interrupt(c.id) == nil {
		select {
		case res := <-c.wait:
			err = fmt.Errorf("%w; so far:\n%s%s", err, res.out, res.errOut)
		case <-time.After(patience):
		}
	}
	return result{}, err
}

func (s *session) end(name string) (result, error) {
	c, ok := s.background[name]
	if !ok {
		return result{}, fmt.Errorf("nothing runs under the name %q", name)
	}
	delete(s.background, name)
	if err := java.interrupt(c.id); err != nil {
		return result{}, err
	}
	return c.result()
}

// run runs the command lines of a directive one after another.
func (s *session) run(d *datadriven.TestData) (string, error) {
	if d.HasArg("differs") {
		var reason string
		d.ScanArgs(s.t, "differs", &reason)
		if reasons[reason] == "" {
			return "", fmt.Errorf("no reason %q", reason)
		}
	}
	var until *regexp.Regexp
	if d.HasArg("until") {
		var err error
		if until, err = pattern(s.t, d, "until"); err != nil {
			return "", err
		}
	}
	commands := strings.Split(strings.ReplaceAll(d.Input, "\n<", "\x00<"), "\n")
	var all strings.Builder
	for _, command := range commands {
		command = strings.ReplaceAll(command, "\x00", "\n")
		out, err := s.ask(d, command, until)
		if err != nil {
			return "", err
		}
		if len(commands) > 1 {
			line, _, _ := strings.Cut(command, "\n")
			fmt.Fprintf(&all, "$ %s\n", line)
		}
		all.WriteString(out)
	}
	return all.String(), nil
}

// ask runs a command line, at every node where the directive says so. What they say
// is printed once, or for each if they differ.
func (s *session) ask(d *datadriven.TestData, command string, until *regexp.Regexp) (string, error) {
	addresses := []string{s.node.Address}
	if d.HasArg("every") {
		addresses = s.addresses(broker)
		if strings.Contains(command, "$CONTROLLER") {
			addresses = s.addresses(controller)
		}
	}
	var first, all string
	same := true
	for i, address := range addresses {
		out, err := s.askAt(d, command, address, until)
		if err != nil {
			return "", err
		}
		if i == 0 {
			first = out
		}
		same = same && out == first
		all += "-- " + s.replace(address) + out
	}
	if same {
		return first, nil
	}
	return all, nil
}

// askAt runs a command line to its end, until its output is what is waited for.
func (s *session) askAt(d *datadriven.TestData, command, address string, until *regexp.Regexp) (string, error) {
	for deadline := time.Now().Add(patience); ; time.Sleep(100 * time.Millisecond) {
		start := time.Now()
		c, err := s.callAt(command, address)
		if err != nil {
			return "", err
		}
		res, err := c.result()
		if err != nil {
			return "", fmt.Errorf("%s: %w", command, err)
		}
		if took := time.Since(start); took > 2*time.Second {
			s.t.Logf("%s took %v", command, took)
		}
		out := s.show(d, res)
		if until == nil || until.MatchString(out) {
			return out, nil
		}
		if time.Now().After(deadline) {
			return "", fmt.Errorf("%s: never printed %s, at last\n%s", command, until, out)
		}
	}
}

func pattern(t *testing.T, d *datadriven.TestData, name string) (*regexp.Regexp, error) {
	var text string
	d.ScanArgs(t, name, &text)
	return regexp.Compile(text)
}

// show prints a result as the arguments of the directive want it.
func (s *session) show(d *datadriven.TestData, res result) string {
	out := s.normal(res, d.HasArg("sorted"))
	if d.HasArg("shape") {
		if out = shape(out); d.HasArg("sorted") {
			out = sortLines(out)
		}
	}
	if d.HasArg("only") {
		only, err := pattern(s.t, d, "only")
		if err != nil {
			return err.Error()
		}
		lines := strings.SplitAfter(out, "\n")
		out = strings.Join(slices.DeleteFunc(lines, func(line string) bool { return !only.MatchString(line) }), "")
	}
	return out
}

// split takes a command line apart as a shell does: at blanks that are not in
// quotes.
func split(line string) ([]string, error) {
	var words []string
	var word strings.Builder
	var quote rune
	inside := false
	for _, c := range line {
		switch {
		case quote != 0 && c == quote:
			quote = 0
		case quote == 0 && (c == '\'' || c == '"'):
			quote, inside = c, true
		case quote == 0 && c == ' ':
			if inside {
				words = append(words, word.String())
			}
			word.Reset()
			inside = false
		default:
			word.WriteRune(c)
			inside = true
		}
	}
	if quote != 0 {
		return nil, fmt.Errorf("no end of %c in %s", quote, line)
	}
	if inside {
		words = append(words, word.String())
	}
	if len(words) == 0 {
		return nil, errors.New("no command")
	}
	return words, nil
}
