package api

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/metadata"
	"github.com/klamm/klamm/metadata/record"
	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/protocol/server"
)

// imageOf returns the image of a log that holds the records.
func imageOf(t testing.TB, records ...record.Record) *metadata.Image {
	t.Helper()
	d := metadata.NewDelta(metadata.Empty())
	for _, r := range records {
		if err := d.Replay(r); err != nil {
			t.Fatal(err)
		}
	}
	return d.Apply(int64(len(records))-1, 1, 0)
}

func imageFunc(img *metadata.Image) func() *metadata.Image {
	return func() *metadata.Image { return img }
}

// ask has a handler answer a request that has just come in.
func ask(ctx context.Context, handle server.Handler, body kmsg.Request) kmsg.Response {
	answer := handle(ctx, &server.Request{
		Key: body.Key(), Version: body.GetVersion(), CorrelationID: 7, ClientID: "client", Body: body, Received: time.Now(),
		Conn: &server.Conn{
			Listener: "PLAINTEXT", Principal: server.Anonymous,
			RemoteAddr: &net.TCPAddr{IP: net.IPv4(10, 1, 2, 3), Port: 5},
		},
	})
	for answer.Wait != nil {
		answer = answer.Wait(ctx)
	}
	return answer.Response
}

// The broker serves exactly what it has handlers for, each once.
func TestAdminAPIs(t *testing.T) {
	seen := make(map[int16]bool)
	for _, a := range (&Admin{Log: zerolog.Nop()}).APIs() {
		info, _ := protocol.API(a.Key)
		if seen[a.Key] || a.Handle == nil || a.RunsAhead || a.Min != info.Min || a.Max != info.Max || !info.On.Has(protocol.BrokerListener) {
			t.Errorf("api %d: %+v, Kafka has %+v", a.Key, a, info)
		}
		seen[a.Key] = true
	}
	for _, key := range []int16{3, 10, 19, 20, 22, 37, 55, 64} {
		if !seen[key] {
			t.Errorf("api %d is not served", key)
		}
	}
}
