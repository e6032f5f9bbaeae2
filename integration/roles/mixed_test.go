//go:build integration

package roles

import (
	"testing"

	"github.com/klamm/klamm/integration/harness"
)

// A broker of Apache Kafka's under klamm's controllers, beside one of klamm's:
// they lead and follow each other, one controller after the other is active, the
// broker dies and is stopped.
func TestKafkaBrokerUnderKlammControllers(t *testing.T) {
	controllers := []harness.Kind{harness.Klamm, harness.Klamm, harness.Klamm}
	w := start(t, controllers, []harness.Kind{harness.Klamm, harness.Kafka})
	w.create("both", []int32{2, 1}, []int32{1, 2})
	w.create("kafka", []int32{2})
	w.produce("both", 2, 100)
	w.produce("kafka", 1, 100)
	w.consume("both", "g", 200)
	w.consume("kafka", "g2", 100)

	w.Await("two observers", func() bool { _, ends := w.observers(); return len(ends) == 2 })
	active, _ := w.observers()
	w.Controllers[active-101].Kill()
	w.create("after", []int32{2, 1})
	w.produce("after", 1, 100)
	w.Controllers[active-101].Restart()

	w.Node(2).Kill()
	w.awaitISR("both", []int32{1}, []int32{1})
	w.produce("both", 2, 100)
	w.Node(2).Restart()
	w.awaitISR("both", []int32{1, 2}, []int32{1, 2})
	w.produce("kafka", 1, 100)

	w.Node(2).Stop()
	w.awaitISR("both", []int32{1}, []int32{1})
	w.consume("both", "g3", 400)
}

// A broker of klamm's under a controller of Apache Kafka's.
func TestKlammBrokerUnderAKafkaController(t *testing.T) {
	w := start(t, []harness.Kind{harness.Kafka}, []harness.Kind{harness.Klamm, harness.Klamm})
	w.create("t", []int32{1, 2}, []int32{2, 1})
	w.produce("t", 2, 100)
	w.consume("t", "g", 200)
	w.Await("two observers", func() bool { _, ends := w.observers(); return len(ends) == 2 })

	w.Node(2).Kill()
	w.awaitISR("t", []int32{1}, []int32{1})
	w.produce("t", 2, 100)
	w.Node(2).Restart()
	w.awaitISR("t", []int32{1, 2}, []int32{1, 2})

	w.Node(1).Stop()
	w.awaitISR("t", []int32{2}, []int32{2})
	w.Node(1).Restart()
	w.awaitISR("t", []int32{1, 2}, []int32{1, 2})
	w.consume("t", "g2", 400)
}
