package inspect

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/klamm/klamm/metadata"
)

// Show prints an image, or the part of it at a path, as an indented tree or as
// one JSON object.
func Show(w io.Writer, img *metadata.Image, path string, opts Options) error {
	node, ok := Tree(img).Find(path)
	if !ok {
		return fmt.Errorf("there is no %s at offset %d", path, img.Offset())
	}
	out := bufio.NewWriter(w)
	if opts.JSON {
		writeJSON(out, node, "")
		fmt.Fprintln(out)
	} else {
		writeTree(out, node, "")
	}
	return out.Flush()
}

func writeTree(out *bufio.Writer, n *Node, indent string) {
	if len(n.Nodes) == 0 {
		fmt.Fprintf(out, "%s%s\n", indent, plain(n.Value))
		return
	}
	for _, c := range n.Nodes {
		if len(c.Nodes) == 0 {
			fmt.Fprintf(out, "%s%s: %s\n", indent, c.Name, plain(c.Value))
			continue
		}
		fmt.Fprintf(out, "%s%s\n", indent, c.Name)
		writeTree(out, c, indent+"  ")
	}
}

// plain prints a text without quotes where that loses nothing.
func plain(value string) string {
	var text string
	if json.Unmarshal([]byte(value), &text) == nil && text != "" && strings.Trim(value, `"`) == text {
		return text
	}
	return value
}

func writeJSON(out *bufio.Writer, n *Node, indent string) {
	if len(n.Nodes) == 0 {
		out.WriteString(cmp.Or(n.Value, "{}"))
		return
	}
	out.WriteString("{")
	for i, c := range n.Nodes {
		if i > 0 {
			out.WriteString(",")
		}
		fmt.Fprintf(out, "\n%s  %s: ", indent, quote(c.Name))
		writeJSON(out, c, indent+"  ")
	}
	fmt.Fprintf(out, "\n%s}", indent)
}

// Change is a value that two images do not share; one is empty where it is not
// there at all.
type Change struct {
	Path     string
	From, To string
}

// Diff returns what differs between two images, by path. Where they stand, and
// the epochs of brokers, count like everything else that records say.
func Diff(from, to *metadata.Image) []Change {
	before, after := Tree(from), Tree(to)
	before.remove("image")
	after.remove("image")
	return diff(before, after)
}

func diff(from, to *Node) []Change {
	before, after := from.values(), to.values()
	var changes []Change
	for path, value := range before {
		if now, ok := after[path]; !ok || now != value {
			changes = append(changes, Change{path, value, now})
		}
	}
	for path, value := range after {
		if _, ok := before[path]; !ok {
			changes = append(changes, Change{Path: path, To: value})
		}
	}
	slices.SortFunc(changes, func(a, b Change) int { return comparePaths(a.Path, b.Path) })
	return changes
}

// comparePaths orders by name, numbers by value.
func comparePaths(a, b string) int {
	return slices.CompareFunc(strings.Split(a, "/"), strings.Split(b, "/"), func(a, b string) int {
		if isNumber(a) && isNumber(b) {
			return cmp.Or(cmp.Compare(len(a), len(b)), strings.Compare(a, b))
		}
		return strings.Compare(a, b)
	})
}

func isNumber(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

// ShowDiff prints what differs, a line per value: "-" was, "+" is.
func ShowDiff(w io.Writer, from, to *metadata.Image) error {
	out := bufio.NewWriter(w)
	fmt.Fprintf(out, "--- offset %d epoch %d\n+++ offset %d epoch %d\n", from.Offset(), from.Epoch(), to.Offset(), to.Epoch())
	for _, c := range Diff(from, to) {
		if c.From != "" {
			fmt.Fprintf(out, "-%s: %s\n", c.Path, plain(c.From))
		}
		if c.To != "" {
			fmt.Fprintf(out, "+%s: %s\n", c.Path, plain(c.To))
		}
	}
	return out.Flush()
}
