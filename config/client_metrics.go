package config

import (
	"regexp"
	"slices"
	"strings"

	"github.com/klamm/klamm/protocol"
)

// clientMetricsKeys are the keys of a subscription of client metrics (KIP-714).
var clientMetricsKeys = []Key{
	{Name: "interval.ms", Type: Int, Default: "300000", Doc: "Interval in milliseconds at which clients push metrics."},
	{Name: "match", Type: List, Valid: itemList{orEmpty: true}, Doc: "Clients that the subscription is for, as NAME=PATTERN,... Empty: all."},
	{Name: "metrics", Type: List, Valid: itemList{orEmpty: true}, Doc: "Prefixes of the names of metrics that are wanted; * means all."},
}

var clientMetricsListed, clientMetricsIndex = listKeys(clientMetricsKeys)

// ClientMetricsKeys are the keys of a subscription, sorted by name. The slice is
// shared: nobody changes it.
func ClientMetricsKeys() []*Key { return clientMetricsListed }

// matchNames are what a client may be matched by.
var matchNames = []string{
	"client_instance_id", "client_id", "client_software_name", "client_software_version", "client_source_address", "client_source_port",
}

// ValidateClientMetrics checks the configs that a subscription has, or would
// have. What is wrong with a key or an interval is INVALID_REQUEST for Kafka, a
// value or pattern that does not parse INVALID_CONFIG.
func ValidateClientMetrics(overrides map[string]string) error {
	for _, name := range sortedNames(overrides) {
		if clientMetricsIndex[name] == nil {
			return protocol.Errorf(protocol.ErrInvalidRequest, "Unknown client metrics configuration: %s", name)
		}
	}
	values := make(map[string]Value, len(clientMetricsKeys))
	for name, value := range overrides {
		v, err := clientMetricsIndex[name].Parse(value)
		if err != nil {
			return err
		}
		values[name] = v
	}
	if v, ok := values["interval.ms"]; ok && (v.Int < 100 || v.Int > hourMs) {
		return protocol.Errorf(protocol.ErrInvalidRequest, "Invalid value %d for interval.ms, interval must be between 100 and 3600000 (1 hour)", v.Int)
	}
	for _, pattern := range values["match"].List {
		if !validPattern(pattern) {
			return errorf("Illegal client matching pattern: %s", pattern)
		}
	}
	return nil
}

// validPattern tells whether a pattern is NAME=EXPRESSION. Kafka takes Java's
// expressions; ours are Go's, without lookaround and back references.
func validPattern(pattern string) bool {
	parts := strings.Split(pattern, "=")
	if len(parts) != 2 || parts[1] == "" || !slices.Contains(matchNames, strings.TrimSpace(parts[0])) {
		return false
	}
	_, err := regexp.Compile(strings.TrimSpace(parts[1]))
	return err == nil
}
