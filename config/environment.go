package config

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/klamm/klamm/config/properties"
)

// Environment is the File of a configuration without one.
const Environment = "the environment"

const envPrefix = "KAFKA_"

// envLine marks a property that came from the environment.
const envLine = -1

// notKeys are variables that the start scripts of Kafka and of its container
// image read, and that are no keys of server.properties.
var notKeys = []string{
	"KAFKA_VERSION", "KAFKA_HEAP_OPTS", "KAFKA_LOG4J_OPTS", "KAFKA_OPTS", "KAFKA_JMX_OPTS", "KAFKA_JMX_HOSTNAME",
	"KAFKA_JMX_PORT", "KAFKA_JVM_PERFORMANCE_OPTS", "KAFKA_GC_LOG_OPTS", "KAFKA_LOG4J_ROOT_LOGLEVEL",
	"KAFKA_LOG4J_LOGGERS", "KAFKA_TOOLS_LOG4J_LOGLEVEL", "KAFKA_HOME", "KAFKA_CLUSTER_ID",
}

// envSeparators are what stands for what in a variable's name: the image turns
// "_" into ".", then "..." into "-" and ".." into "_".
var (
	envSeparators = strings.NewReplacer("___", "-", "__", "_", "_", ".")
	keySeparators = strings.NewReplacer("-", "___", "_", "__", ".", "_")
)

// FromEnvironment returns the keys that KAFKA_* variables set, as Kafka's
// container image maps them: KAFKA_LISTENERS is listeners, and
// KAFKA_LOG_RETENTION_MS log.retention.ms. As there, listeners follow from
// advertised.listeners where only those are set, with every host 0.0.0.0. env is
// a list of NAME=VALUE.
func FromEnvironment(env []string) []properties.Property {
	values := map[string]string{}
	for _, pair := range env {
		name, value, _ := strings.Cut(pair, "=")
		if rest, ok := strings.CutPrefix(name, envPrefix); ok && rest != "" && !slices.Contains(notKeys, name) {
			values[envSeparators.Replace(strings.ToLower(rest))] = value
		}
	}
	if advertised := values["advertised.listeners"]; advertised != "" && values["listeners"] == "" {
		values["listeners"] = anyHost.ReplaceAllString(advertised, "://0.0.0.0:")
	}
	var props []properties.Property
	for _, key := range slices.Sorted(maps.Keys(values)) {
		props = append(props, properties.Property{Key: key, Value: values[key], Line: envLine})
	}
	return props
}

var anyHost = regexp.MustCompile(`://[^:]*:`)

// envName is the variable that sets a key.
func envName(key string) string { return envPrefix + strings.ToUpper(keySeparators.Replace(key)) }
