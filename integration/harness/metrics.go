//go:build integration

package harness

import (
	"bufio"
	"net/http"
	"regexp"
	"strconv"
	"strings"
)

// WithMetrics is the setting of a node that serves metrics, on a port of its choice.
const WithMetrics = "klamm.metrics.listener=localhost:0"

var metricsLine = regexp.MustCompile(`"listener":"([^"]+)",[^\n]*"message":"metrics are served"`)

// Metrics are the numbers that the node serves now, by name and labels as they are
// written; ok is false where it serves none, before its start and after its end.
func (n *Node) Metrics() (series map[string]float64, ok bool) {
	n.t.Helper()
	served := metricsLine.FindAllStringSubmatch(n.Log(), -1)
	if len(served) == 0 {
		return nil, false
	}
	resp, err := http.Get("http://" + served[len(served)-1][1] + "/metrics")
	if err != nil {
		return nil, false
	}
	defer resp.Body.Close()
	series = make(map[string]float64)
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		at := strings.LastIndexByte(lines.Text(), ' ') // a label may hold a blank
		if at < 0 || lines.Text()[0] == '#' {
			continue
		}
		if value, err := strconv.ParseFloat(lines.Text()[at+1:], 64); err == nil {
			series[lines.Text()[:at]] = value
		}
	}
	return series, true
}
