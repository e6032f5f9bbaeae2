package klamm

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestDocsNameWhatIsThere: the paths in the documents exist, so that a walk
// through the source does not end in a renamed file.
func TestDocsNameWhatIsThere(t *testing.T) {
	names, err := filepath.Glob("docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	quoted := regexp.MustCompile("`([a-z.]+/[a-zA-Z0-9_./-]+)`")
	linked := regexp.MustCompile(`\]\(([^):#]+)\)`)
	found := 0
	for _, name := range append(names, "README.md", "CONTRIBUTING.md") {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range quoted.FindAllStringSubmatch(string(text), -1) {
			if strings.HasPrefix(match[1], "bin/") {
				continue
			}
			found++
			if _, err := os.Stat(match[1]); err != nil {
				t.Errorf("%s names %s: %v", name, match[1], err)
			}
		}
		for _, match := range linked.FindAllStringSubmatch(string(text), -1) {
			found++
			if _, err := os.Stat(filepath.Join(filepath.Dir(name), match[1])); err != nil {
				t.Errorf("%s links to %s: %v", name, match[1], err)
			}
		}
	}
	if found < 20 {
		t.Errorf("only %d paths found", found)
	}
}
