//go:build integration

package rolling

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/klamm/klamm/integration/harness"
)

var many = flag.Int("partitions", 200, "partitions of the nodes that TestStopsOfManyPartitions stops")

// Each of three nodes with many partitions is stopped while records are written
// and topics are created all the time, so that the metadata log never rests: the stop
// ends when its leaderships have moved, with the mark of a clean one (B203 of package
// faults). When it is back all brokers name the same leaders and epochs (B207).
func TestStopsOfManyPartitions(t *testing.T) {
	w := start(t)
	w.Create("many", int32(*many))
	w.AwaitISR("many", 1, 2, 3)
	ctx, end := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer end()
	producer := w.NewClient(kgo.RecordPartitioner(kgo.RoundRobinPartitioner()), kgo.ProducerLinger(0), kgo.MetadataMinAge(100*time.Millisecond))
	for i := range 2 * *many {
		producer.Produce(context.Background(), &kgo.Record{Topic: "many", Value: fmt.Append(nil, i)}, nil)
	}
	if err := producer.Flush(w.Within()); err != nil {
		t.Fatal(err)
	}
	running.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			if err := producer.ProduceSync(w.Within(), &kgo.Record{Topic: "many", Value: fmt.Append(nil, "during ", i)}).FirstErr(); err != nil {
				t.Errorf("record %d: %v", i, err)
				return
			}
		}
	})
	running.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			w.Create(fmt.Sprint("created-", i), 1)
			select {
			case <-ctx.Done():
			case <-time.After(100 * time.Millisecond): // the case's rate
			}
		}
	})
	for _, id := range []int32{1, 2, 3} {
		w.AwaitCanStop(id)
		n := w.Node(id)
		began := time.Now()
		n.Stop()
		t.Logf("node %d stopped within %v", id, time.Since(began).Round(time.Millisecond))
		if _, err := os.Stat(n.Data(".kafka_cleanshutdown")); err != nil {
			t.Errorf("node %d left no mark of a clean stop: %v", id, err)
		}
		if log := n.Log(); !strings.Contains(log, "controlled shutdown done") || strings.Contains(log, "controlled shutdown given up") {
			t.Errorf("node %d was not let go by the controller", id)
		}
		w.AwaitISR("many", w.Others(id)...)
		began = time.Now()
		n.Restart()
		t.Logf("node %d serves again within %v", id, time.Since(began).Round(time.Millisecond))
		w.AwaitISR("many", 1, 2, 3)
	}
	end()
	running.Wait()
	w.Await("all brokers to name the same leaders", func() bool {
		all := make(map[string]bool)
		for _, id := range []int32{1, 2, 3} {
			all[fmt.Sprintf("%+v", w.described(id, harness.MetadataRequest("many")).Partitions)] = true
		}
		return len(all) == 1
	})
}
