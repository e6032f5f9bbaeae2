package klamm

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/klamm/klamm/"

// layers are the packages from the bottom up. A package imports from the
// layers below its own, and from its own tree (the first path element) at the
// same height. So packages of one line never import each other: controller
// and broker meet in the metadata log only.
var layers = [][]string{
	{"protocol", "config/properties"},
	{"config", "raftlog", "storage"},
	{"metadata/feature"},
	{"metadata/record"},
	{"metadata"},
	{"metadata/snapshot"},
	{"metadata/replay", "metadata/follower", "metadata/inspect"},
	{"auth", "quota", "telemetry"},
	{"api"},
	{"broker", "controller"},
	{"cmd"},
	{"integration"},
}

// layerOf finds the longest entry that is the package or a parent of it.
func layerOf(pkg string) (layer int, entry string) {
	layer = -1
	for i, names := range layers {
		for _, name := range names {
			if (pkg == name || strings.HasPrefix(pkg, name+"/")) && len(name) > len(entry) {
				layer, entry = i, name
			}
		}
	}
	return layer, entry
}

// why says what is wrong with an import, or "".
func why(from, to string) string {
	fromLayer, _ := layerOf(from)
	toLayer, _ := layerOf(to)
	top := func(pkg string) string { return strings.Split(pkg, "/")[0] }
	switch {
	case fromLayer < 0:
		return "belongs to no layer: add it to the list in this test and to docs/architecture.md"
	case toLayer < 0:
		return "imports " + to + ", which belongs to no layer"
	case toLayer > fromLayer:
		return "imports " + to + ", which lies above it"
	case toLayer == fromLayer && top(from) != top(to):
		return "imports " + to + ", which lies beside it"
	}
	return ""
}

// file is one source file that is no test.
type file struct {
	name, pkg string
	syntax    *ast.File
	positions *token.FileSet
}

func (f file) imports() []string {
	var paths []string
	for _, spec := range f.syntax.Imports {
		p, _ := strconv.Unquote(spec.Path.Value)
		paths = append(paths, p)
	}
	return paths
}

func sources(t *testing.T) []file {
	t.Helper()
	var files []file
	err := filepath.WalkDir(".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && name != "." && (strings.HasPrefix(entry.Name(), ".") || entry.Name() == "testdata" || entry.Name() == "bin"):
			return filepath.SkipDir
		case entry.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		positions := token.NewFileSet()
		syntax, err := parser.ParseFile(positions, name, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		files = append(files, file{name: name, pkg: path.Dir(filepath.ToSlash(name)), syntax: syntax, positions: positions})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		t.Fatal("no sources found")
	}
	return files
}

// TestImportsPointDown checks the import rule of docs/architecture.md, and that
// raftlog alone knows hashicorp/raft.
func TestImportsPointDown(t *testing.T) {
	for _, f := range sources(t) {
		if f.pkg == "." {
			continue
		}
		for _, p := range f.imports() {
			if ours, ok := strings.CutPrefix(p, module); ok {
				if problem := why(f.pkg, ours); problem != "" {
					t.Errorf("%s: %s %s", f.name, f.pkg, problem)
				}
			}
			if strings.HasPrefix(p, "github.com/hashicorp/raft") && f.pkg != "raftlog" {
				t.Errorf("%s: imports %s, which only raftlog may", f.name, p)
			}
		}
	}
}

// TestDecideIsPure checks that a decision can depend on nothing but its
// arguments: no clock, no chance, no lock, no I/O.
func TestDecideIsPure(t *testing.T) {
	forbidden := []string{"context", "sync", "os", "net", "log", "io", "syscall", "math/rand", "crypto/rand", "github.com/rs/zerolog"}
	calls := map[string][]string{
		"time":     {"Now", "Since", "Until", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker", "Sleep"},
		"protocol": {"NewUUID"}, // draws at random: fresh ids come with the arguments
	}
	found := false
	for _, f := range sources(t) {
		if f.pkg != "controller/decide" {
			continue
		}
		found = true
		for _, p := range f.imports() {
			for _, bad := range forbidden {
				if p == bad || strings.HasPrefix(p, bad+"/") {
					t.Errorf("%s: imports %s", f.name, p)
				}
			}
		}
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			selector, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			if pkg, ok := selector.X.(*ast.Ident); ok && slices.Contains(calls[pkg.Name], selector.Sel.Name) {
				t.Errorf("%s: uses %s.%s", f.positions.Position(selector.Pos()), pkg.Name, selector.Sel.Name)
			}
			return true
		})
	}
	if !found {
		t.Error("controller/decide is not there")
	}
}

// TestLayerRule tries the rule itself.
func TestLayerRule(t *testing.T) {
	for _, test := range []struct {
		from, to string
		fine     bool
	}{
		{"cmd/node", "broker", true},
		{"broker/api", "broker/replica", true},
		{"broker/api", "api", true},
		{"controller/api", "protocol/server", true},
		{"metadata", "metadata/record", true},
		{"metadata/snapshot", "raftlog", true},
		{"broker", "controller", false},
		{"controller/decide", "broker/replica", false},
		{"storage", "metadata", false},
		{"raftlog", "storage", false},
		{"config", "storage", false},
		{"storage", "config/properties", true},
		{"config/properties", "protocol", false},
		{"protocol/server", "config", false},
		{"metadata/record", "metadata", false},
		{"api", "broker/api", false},
		{"elsewhere", "protocol", false},
	} {
		if problem := why(test.from, test.to); (problem == "") != test.fine {
			t.Errorf("%s → %s: %q", test.from, test.to, problem)
		}
	}
}
