//go:build integration

package metadata

import (
	"regexp"
	"slices"
	"strings"

	"github.com/klamm/klamm/integration/harness"
)

var (
	treeUUID   = regexp.MustCompile(`(^|[^A-Za-z0-9_-])([A-Za-z0-9_-]{21}[AQgw])($|[^A-Za-z0-9_-])`)
	treeTopic  = regexp.MustCompile(`(?m)^ +id:\n +(\S+)\n +name:\n +(\S+)$`)
	treeACL    = regexp.MustCompile(`(?m)^( +)\S{22}:\n( +StandardAcl)`)
	treeEpoch  = regexp.MustCompile(`\bepoch=\d+`)
	provenance = regexp.MustCompile(`offset \d+, epoch \d+, time \S+`)
	shell      = regexp.MustCompile(`(?s)\nlocal:\n.*`) // says of which release the shell is
)

func portNames(nodes ...*node) []string {
	var names []string
	for _, n := range nodes {
		names = append(names, "port="+port(n.t, n.Address), "port=<broker port>", "port="+port(n.t, n.Controller), "port=<controller port>")
	}
	return names
}

// tree is what Kafka's metadata shell prints of a log. Now and then it prints
// before it has read anything.
func tree(n *node, log string) string {
	n.t.Helper()
	var out string
	n.wait("tree", func() bool {
		out = run(n.t, harness.KafkaTools(n.t), "metadata-shell", "--snapshot", log, "tree", "/")
		return !strings.Contains(out, "offset -1, ")
	})
	return out
}

// treeText prints what Kafka's metadata shell prints, with names instead of what
// no two nodes have in common, and what has no order but that of ids in that of
// names.
func treeText(text string, nodes ...*node) string {
	z := newNamer(nodes[0])
	for _, m := range treeTopic.FindAllStringSubmatch(text, -1) {
		z.names["id "+m[1]] = "<id of " + m[2] + ">"
	}
	text = treeACL.ReplaceAllString(text, "$1<id>:\n$2")
	text = treeUUID.ReplaceAllStringFunc(text, func(found string) string {
		m := treeUUID.FindStringSubmatch(found)
		return m[1] + z.name("id", m[2]) + m[3]
	})
	text = strings.NewReplacer(portNames(nodes...)...).Replace(text)
	text = treeEpoch.ReplaceAllString(text, "epoch=<epoch>")
	text = provenance.ReplaceAllString(text, "offset <offset>, epoch <epoch>, time <time>")
	text = shell.ReplaceAllString(text, "\n")
	return strings.Join(sortTree(strings.SplitAfter(text, "\n")), "")
}

// sortTree sorts the parts of an indented tree, each with what is below it.
func sortTree(lines []string) []string {
	indent := func(line string) int { return len(line) - len(strings.TrimLeft(line, " ")) }
	var parts [][]string
	for _, line := range lines {
		if n := len(parts); n > 0 && indent(line) > indent(parts[n-1][0]) {
			parts[n-1] = append(parts[n-1], line)
		} else {
			parts = append(parts, []string{line})
		}
	}
	for i, p := range parts {
		parts[i] = append(p[:1], sortTree(p[1:])...)
	}
	slices.SortFunc(parts, slices.Compare)
	return slices.Concat(parts...)
}
