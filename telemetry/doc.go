// Package telemetry is a node's metrics for Prometheus, under the names that
// Kafka's JMX metrics have behind the JMX exporter, so that dashboards and
// alerts go on working.
//
//	m := telemetry.New(version)
//	m.Gauge("kafka_server_kafkaserver_brokerstate", "…", func() float64 { … })
//	err := m.Serve(ctx, ln) // GET /metrics, until ctx ends
//
// A gauge is a function that is called when somebody looks: what nobody asks for
// costs nothing, and the components whose numbers these are know nothing of
// Prometheus. Which numbers there are is said in one place, cmd/node.
//
// A name is the JMX bean's in lower case, kafka.server:type=KafkaServer,
// name=BrokerState for the one above. What Kafka has no bean for begins with
// klamm_; go_ and process_ are Prometheus's own.
package telemetry
