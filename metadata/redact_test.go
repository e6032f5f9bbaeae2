package metadata

import (
	"testing"

	"github.com/klamm/klamm/metadata/record"
)

// What is secret in a record is not in what people see of it (known fault B179).
func TestRedacted(t *testing.T) {
	value := "s3cret"
	for _, tc := range []struct {
		rec  record.Record
		want string
	}{
		{&record.Config{ResourceType: ResourceBroker, ResourceName: "1", Name: "ssl.keystore.password", Value: &value}, redacted},
		{&record.Config{ResourceType: ResourceBroker, Name: "listener.name.x.ssl.keystore.password", Value: &value}, redacted},
		{&record.Config{ResourceType: ResourceBroker, Name: "listener.name.x.plain.sasl.jaas.config", Value: &value}, redacted},
		{&record.Config{ResourceType: ResourceBroker, Name: "some.plugin.key", Value: &value}, redacted},
		{&record.Config{ResourceType: ResourceBroker, Name: "log.cleaner.threads", Value: &value}, value},
		{&record.Config{ResourceType: ResourceTopic, ResourceName: "t", Name: "retention.ms", Value: &value}, value},
	} {
		before := tc.rec.(*record.Config)
		after := Redacted(tc.rec).(*record.Config)
		if *after.Value != tc.want || after.Name != before.Name || *before.Value != value {
			t.Errorf("%s is shown as %s, want %s", before.Name, *after.Value, tc.want)
		}
	}
}
