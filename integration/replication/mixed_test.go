//go:build integration

package replication

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/klamm/klamm/integration/harness"
)

// A replica of Apache Kafka's is compared with klamm's, led by either.
func TestVerifyMixed(t *testing.T) {
	c := harness.StartSplit(t, []harness.Kind{harness.Klamm}, []harness.Kind{harness.Klamm, harness.Kafka}, "auto.create.topics.enable=false")
	w := &world{harness.NewWorld(t, c, kgo.MetadataMinAge(100*time.Millisecond))}
	for topic, leader := range map[string]int32{"one": 1, "two": 2} {
		w.CreateOn(topic, []int32{leader, 3 - leader})
		w.AwaitISR(topic, 1, 2)
		if got := w.Leader(topic); got != leader {
			t.Errorf("%s is led by %d, want %d", topic, got, leader)
		}
		var values []string
		for i := range 100 {
			values = append(values, fmt.Sprint("value-", i))
		}
		w.Produce(topic, values...)
		if out, equal := w.verify(topic); !equal || !strings.Contains(out, topic+"-0: offsets 0 to 99 of brokers 1,2 are equal: ") {
			t.Errorf("%s:\n%s", topic, out)
		}
	}
}
