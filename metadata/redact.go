package metadata

import (
	"github.com/klamm/klamm/config"
	"github.com/klamm/klamm/metadata/record"
)

// redacted stands for what nobody should see, in Kafka's word.
const redacted = "(redacted)"

// Redacted is a record as people may see it: without passwords in configs. What
// an unknown key of a broker holds nobody knows, so it counts as one. A
// credential's keys stay, which Kafka's tools print too: no password is in them.
func Redacted(rec record.Record) record.Record {
	r, ok := rec.(*record.Config)
	if !ok || r.Value == nil || !isSecret(r) {
		return rec
	}
	value := redacted
	hidden := *r
	hidden.Value = &value
	return &hidden
}

func isSecret(r *record.Config) bool {
	if r.ResourceType != ResourceBroker {
		return false
	}
	key, ok := config.DynamicKey(r.Name)
	return !ok || key.Sensitive()
}
