package config

import "net"

// Telemetry is what the node shows of itself. Its keys are klamm's own.
type Telemetry struct {
	// MetricsListener (klamm.metrics.listener) is the HOST:PORT on which
	// Prometheus finds /metrics; no host is every address. It is served
	// without authentication. Default: none.
	MetricsListener string
}

// telemetry reads keys that Kafka does not have, and so no table either.
func (r *reader) telemetry() Telemetry {
	const key = "klamm.metrics.listener"
	if !r.set(key) {
		return Telemetry{}
	}
	address := trim(r.values[key].Value)
	if _, port, err := net.SplitHostPort(address); address != "" && (err != nil || !isPort(port)) {
		r.fail(key, "valid is HOST:PORT, such as localhost:9404, or nothing for no metrics")
	}
	return Telemetry{MetricsListener: address}
}
