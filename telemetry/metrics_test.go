package telemetry

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
)

func TestServe(t *testing.T) {
	m := New("v1.2")
	var state atomic.Int64
	m.Gauge("kafka_server_kafkaserver_brokerstate", "State.", func() float64 { return float64(state.Load()) })
	m.Labelled("klamm_digest", "Digest.", "digest", func() (string, float64, bool) { return "a1", 7, state.Load() > 0 })
	for _, way := range []string{"evidence", "timeout"} {
		m.Counter("klamm_found_total", "Found.", func() float64 { return float64(len(way)) }, "by", way)
	}
	bytes := &Family{Name: "kafka_server_brokertopicmetrics_bytesin_total", Help: "Bytes.", Counter: true}
	m.Collect(func(emit Emit) {
		emit(bytes, 12)
		emit(bytes, 5, "topic", "a")
		emit(bytes, 6, "topic", "\xff\xfe") // a client's choice
		emit(bytes, 6, "topic", `"\xff\xfe"`)
		if state.Load() > 0 {
			emit(bytes, 7, "topic", "b")
		}
	}, bytes)
	ln, err := net.Listen("tcp", "localhost:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- m.Serve(ctx, ln) }()
	get := func(path string) (int, string) {
		resp, err := http.Get("http://" + ln.Addr().String() + path)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(body)
	}
	for _, want := range []string{"kafka_server_kafkaserver_brokerstate 0\n", "kafka_server_kafkaserver_brokerstate 3\n"} {
		code, body := get("/metrics")
		for _, text := range []string{want, `version="v1.2"`, "bytesin_total 12\n", "bytesin_total{topic=\"a\"} 5\n", "klamm_found_total{by=\"evidence\"} 8\n", "klamm_found_total{by=\"timeout\"} 7\n", "go_goroutines ", "process_open_fds "} {
			if code != 200 || !strings.Contains(body, text) {
				t.Errorf("%d: no %q", code, text)
			}
		}
		if labelled := strings.Contains(body, "klamm_digest{digest=\"a1\"} 7\n"); labelled != (state.Load() > 0) {
			t.Errorf("in state %d the label is there: %t", state.Load(), labelled)
		}
		if topic := strings.Contains(body, "bytesin_total{topic=\"b\"} 7\n"); topic != (state.Load() > 0) {
			t.Errorf("in state %d topic b is there: %t", state.Load(), topic)
		}
		state.Store(3)
	}
	if code, _ := get("/"); code != 404 {
		t.Errorf("/ answers %d", code)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if conn, err := net.Dial("tcp", ln.Addr().String()); err == nil {
		conn.Close()
		t.Error("the port is still open")
	}
}
