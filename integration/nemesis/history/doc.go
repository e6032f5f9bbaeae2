// Package history takes down what clients of a cluster do and see while it
// suffers, and finds what may not be: records lost, there twice, out of order, seen
// by one and not by another, not seen at all. It is Jepsen's Kafka workload, for
// topics without transactions, compaction and retention.
//
// Values are unique: no two sends have the same. After the last fault a reader
// reads each partition whole (Final); that reading is what counts as the log. What
// is there twice is a fault, unless its producer says that it tries again by itself
// without being idempotent.
//
// Start reading at check.go; testdata has a history for each anomaly.
package history
