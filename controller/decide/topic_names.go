package decide

import (
	"strings"

	"github.com/klamm/klamm/metadata"
)

// collision returns a topic whose name makes the same metric name as name: in
// those, dots become underscores. The first one by name is returned.
//
// The image knows topics by name only, so the names are searched like a tree: at
// each dot or underscore both are tried, and a branch that no topic's name
// begins with is left at once.
func collision(img *metadata.Image, name string) (string, bool) {
	if !strings.ContainsAny(name, "._") {
		return "", false
	}
	return collisionFrom(img, []byte(name), 0)
}

func collisionFrom(img *metadata.Image, name []byte, from int) (string, bool) {
	at := from
	for at < len(name) && name[at] != '.' && name[at] != '_' {
		at++
	}
	if at == len(name) {
		_, ok := img.Topic(string(name))
		return string(name), ok
	}
	for _, c := range []byte("._") {
		name[at] = c
		if !anyTopicWithPrefix(img, string(name[:at+1])) {
			continue
		}
		if found, ok := collisionFrom(img, name, at+1); ok {
			return found, true
		}
	}
	return "", false
}

func anyTopicWithPrefix(img *metadata.Image, prefix string) bool {
	for t := range img.TopicsFrom(prefix) {
		return strings.HasPrefix(t.Name, prefix)
	}
	return false
}
