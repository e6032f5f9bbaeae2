package telemetry

import (
	"context"
	"errors"
	"net"
	"net/http"
	"runtime"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Metrics are what a node shows of itself.
type Metrics struct {
	registry *prometheus.Registry
	names    []string // of all that were added
}

// New returns metrics of the process and of the build.
func New(version string) *Metrics {
	m := &Metrics{registry: prometheus.NewRegistry()}
	m.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "klamm_build_info", Help: "Always 1; the labels say what runs.",
		ConstLabels: prometheus.Labels{"version": version, "go": runtime.Version()},
	})
	build.Set(1)
	m.registry.MustRegister(build)
	return m
}

// Gauge adds a number that read is asked for, from any goroutine, whenever
// somebody looks. A name can be added once.
func (m *Metrics) Gauge(name, help string, read func() float64) {
	m.names = append(m.names, name)
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, read))
}

// Counter adds a number that only grows while the process lives. Its labels are
// alternating names and values, which tell it from others of its name.
func (m *Metrics) Counter(name, help string, read func() float64, labels ...string) {
	m.names = append(m.names, name)
	of := make(prometheus.Labels, len(labels)/2)
	for i := 0; i+1 < len(labels); i += 2 {
		of[labels[i]] = labels[i+1]
	}
	m.registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help, ConstLabels: of}, read))
}

// Labelled adds a number with one label, whose value may change with it; ok false
// leaves it out.
func (m *Metrics) Labelled(name, help, label string, read func() (of string, value float64, ok bool)) {
	m.names = append(m.names, name)
	m.registry.MustRegister(labelled{desc: prometheus.NewDesc(name, help, []string{label}, nil), read: read})
}

type labelled struct {
	desc *prometheus.Desc
	read func() (string, float64, bool)
}

// Describe implements prometheus.Collector.
func (l labelled) Describe(out chan<- *prometheus.Desc) { out <- l.desc }

// Collect implements prometheus.Collector.
func (l labelled) Collect(out chan<- prometheus.Metric) {
	if of, value, ok := l.read(); ok {
		out <- prometheus.MustNewConstMetric(l.desc, prometheus.GaugeValue, value, of)
	}
}

// Family is a name under which there may be any number of series.
type Family struct {
	Name, Help string
	Counter    bool // it only grows while the process lives; a gauge otherwise
}

// Emit takes one number of a family. Labels are alternating names and values; the
// series of a family need not have the same ones.
type Emit func(f *Family, value float64, labels ...string)

// Collect adds families whose numbers are read together, whenever somebody looks, and
// whose series come and go.
func (m *Metrics) Collect(read func(Emit), families ...*Family) {
	for _, f := range families {
		m.names = append(m.names, f.Name)
	}
	m.registry.MustRegister(collected(read))
}

// Names are those of all metrics that were added here.
func (m *Metrics) Names() []string { return m.names }

type collected func(Emit)

// Describe implements prometheus.Collector. Which series there are is not known
// before they are read.
func (c collected) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (c collected) Collect(out chan<- prometheus.Metric) {
	type shape struct {
		family *Family
		labels int // a family's series of as many labels have the same ones
	}
	known := make(map[shape]*prometheus.Desc)
	c(func(f *Family, value float64, labels ...string) {
		n := len(labels) / 2
		names, values := make([]string, n), make([]string, n)
		for i := range n {
			names[i], values[i] = labels[2*i], text(labels[2*i+1])
		}
		desc := known[shape{f, n}]
		if desc == nil {
			desc = prometheus.NewDesc(f.Name, f.Help, names, nil)
			known[shape{f, n}] = desc
		}
		kind := prometheus.GaugeValue
		if f.Counter {
			kind = prometheus.CounterValue
		}
		out <- prometheus.MustNewConstMetric(desc, kind, value, values...)
	})
}

// text is a label's value as it may be shown: clients choose some of them, such as the
// names of groups.
func text(value string) string {
	if utf8.ValidString(value) {
		return value
	}
	return strconv.QuoteToASCII(value)
}

// Bounds of a scrape: who reads slower than this is cut off.
const (
	readTimeout  = 10 * time.Second
	writeTimeout = 30 * time.Second
)

// Serve answers GET /metrics until ctx ends, and closes ln.
func (m *Metrics) Serve(ctx context.Context, ln net.Listener) error {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{
		MaxRequestsInFlight: 4,
		// Two series of the same labels cost one of them, not the scrape.
		ErrorHandling: promhttp.ContinueOnError,
	}))
	srv := &http.Server{Handler: mux, ReadTimeout: readTimeout, WriteTimeout: writeTimeout}
	closed := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(closed)
		_ = srv.Close() // a scrape is not worth waiting for
	})
	err := srv.Serve(ln)
	if !stop() {
		<-closed
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}
