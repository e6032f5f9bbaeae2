package config

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// TestDocsNameWhatHasNoEffect: docs/configs.md names every topic key that nothing
// goes by, and every key that can be set at run time without effect.
func TestDocsNameWhatHasNoEffect(t *testing.T) {
	data, err := os.ReadFile("../docs/configs.md")
	if err != nil {
		t.Fatal(err)
	}
	var names, prefixes []string // between backquotes; a prefix ends in *
	for i, part := range strings.Split(string(data), "`") {
		if prefix, ok := strings.CutSuffix(part, "*"); i%2 == 1 && ok {
			prefixes = append(prefixes, prefix)
		} else if i%2 == 1 {
			names = append(names, part)
		}
	}
	named := func(name string) bool {
		return slices.Contains(names, name) ||
			slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
	}
	effective := map[string]bool{"producer.id.expiration.ms": true}
	for _, name := range dynamicNames {
		effective[name] = true
	}
	for i := range topicKeys {
		key := &topicKeys[i]
		for _, synonym := range key.Synonyms {
			effective[synonym.Name] = !key.NoEffect
		}
		if key.NoEffect && !named(key.Name) {
			t.Errorf("%s has no effect, and docs/configs.md does not say so", key.Name)
		}
	}
	for _, keys := range []map[string]bool{clusterWideKeys, perBrokerKeys} {
		for name := range keys {
			if !effective[name] && !named(name) {
				t.Errorf("%s has no effect at run time, and docs/configs.md does not say so", name)
			}
		}
	}
}
