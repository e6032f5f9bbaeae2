package server

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"runtime"
	"syscall"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// cpu is the processor time of the process so far, in nanoseconds: client and
// server both.
func cpu() int64 {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return u.Utime.Nano() + u.Stime.Nano()
}

// BenchmarkEcho is a small request and its answer, of one connection and of
// several at once. cpu-ns/op has the client in it, which does less than half.
func BenchmarkEcho(b *testing.B) {
	_, addr := start(b, Config{}, apiVersions(func(_ context.Context, req *Request) Answer {
		resp := kmsg.NewPtrApiVersionsResponse()
		resp.ApiKeys = make([]kmsg.ApiVersionsResponseApiKey, 5)
		return Answer{Response: resp}
	}))
	req := kmsg.NewPtrApiVersionsRequest()
	req.Version = 3
	req.ClientSoftwareName, req.ClientSoftwareVersion = "bench", "1"
	frame := encode(1, req)
	exchange := func(nc net.Conn, buf []byte) error {
		if _, err := nc.Write(frame); err != nil {
			return err
		}
		if _, err := io.ReadFull(nc, buf[:4]); err != nil {
			return err
		}
		_, err := io.ReadFull(nc, buf[:binary.BigEndian.Uint32(buf)])
		return err
	}
	b.Run("one", func(b *testing.B) {
		nc, buf := connect(b, addr).Conn, make([]byte, 4096)
		b.ReportAllocs()
		before := cpu()
		for b.Loop() {
			if err := exchange(nc, buf); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(cpu()-before)/float64(b.N), "cpu-ns/op")
	})
	b.Run("many", func(b *testing.B) {
		b.SetParallelism(16)
		b.ReportAllocs()
		before := cpu()
		b.RunParallel(func(pb *testing.PB) {
			nc, err := net.Dial("tcp", addr)
			if err != nil {
				b.Error(err)
				return
			}
			defer nc.Close()
			buf := make([]byte, 4096)
			for pb.Next() {
				if err := exchange(nc, buf); err != nil {
					b.Error(err)
					return
				}
			}
		})
		b.ReportMetric(float64(cpu()-before)/float64(b.N), "cpu-ns/op")
	})
}

// BenchmarkReceive is requests of a producer's size, five in flight, which are
// read and answered and nothing else.
func BenchmarkReceive(b *testing.B) {
	for _, size := range []int{16 << 10, 1 << 20} {
		b.Run(fmt.Sprintf("%dKiB", size>>10), func(b *testing.B) {
			_, addr := start(b, Config{}, API{Key: 0, Min: 3, Max: 9, RunsAhead: true, Handle: func(context.Context, *Request) Answer {
				return Answer{Response: kmsg.NewPtrProduceResponse()}
			}})
			req := kmsg.NewPtrProduceRequest()
			req.Version, req.Acks = 9, 1
			topic := kmsg.NewProduceRequestTopic()
			topic.Partitions = []kmsg.ProduceRequestTopicPartition{{Records: make([]byte, size)}}
			req.Topics = append(req.Topics, topic)
			frame, p := encode(1, req), connect(b, addr)
			b.SetBytes(int64(len(frame)))
			b.ReportAllocs()
			slots := make(chan struct{}, 5) // requests in flight
			go func() {
				for {
					slots <- struct{}{}
					if _, err := p.Write(frame); err != nil {
						return
					}
				}
			}()
			before, buf := cpu(), make([]byte, 100)
			for b.Loop() {
				if _, err := io.ReadFull(p.Conn, buf[:4]); err != nil {
					b.Fatal(err)
				}
				if _, err := io.ReadFull(p.Conn, buf[:binary.BigEndian.Uint32(buf)]); err != nil {
					b.Fatal(err)
				}
				<-slots
			}
			b.ReportMetric(float64(cpu()-before)/float64(b.N), "cpu-ns/op")
			_ = p.Close()
		})
	}
}

// BenchmarkIdle is what an idle connection holds, both ends of it.
func BenchmarkIdle(b *testing.B) {
	s, addr := start(b, Config{}, metadata(empty))
	for b.Loop() {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		const n = 500
		conns := make([]net.Conn, n)
		for i := range conns {
			nc, err := net.Dial("tcp", addr)
			if err != nil {
				b.Fatal(err)
			}
			conns[i] = nc
		}
		for s.Connections() < n {
			runtime.Gosched()
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(after.HeapInuse+after.StackInuse-before.HeapInuse-before.StackInuse)/n, "B/conn")
		for _, nc := range conns {
			_ = nc.Close()
		}
		for s.Connections() > 0 {
			runtime.Gosched()
		}
	}
}

// BenchmarkSend is a large answer from a file: sendfile, and through memory.
func BenchmarkSend(b *testing.B) {
	file, _ := segment(b, 1<<20)
	for name, hide := range map[string]bool{"sendfile": false, "memory": true} {
		b.Run(name, func(b *testing.B) {
			_, addr := start(b, Config{}, metadata(func(context.Context, *Request) Answer {
				return Answer{Parts: []Part{{Bytes: []byte("head")}, {Region: &region{file: file, size: 1 << 20, hide: hide}}}}
			}))
			p, frame, buf := connect(b, addr), encode(1, metadataRequest()), make([]byte, 2<<20)
			b.SetBytes(1 << 20)
			b.ReportAllocs()
			before := cpu()
			for b.Loop() {
				if _, err := p.Write(frame); err != nil {
					b.Fatal(err)
				}
				if _, err := io.ReadFull(p.Conn, buf[:4+5+4+1<<20]); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(cpu()-before)/float64(b.N), "cpu-ns/op")
		})
	}
}
