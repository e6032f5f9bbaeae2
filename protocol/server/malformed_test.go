package server

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/protocol"
)

// allAPIs serves every API of the listener's kind with empty answers.
func allAPIs(kind protocol.ListenerKind) []API {
	var apis []API
	for _, info := range protocol.APIs() {
		if info.On.Has(kind) {
			apis = append(apis, API{Key: info.Key, Min: info.Min, Max: info.Max, Handle: empty})
		}
	}
	return apis
}

// The oracle's scenarios malformed and api-versions, as Kafka 4.4 answered them.
func TestMalformed(t *testing.T) {
	_, addr := start(t, Config{}, allAPIs(protocol.BrokerListener)...)
	const (
		closed   = false
		answered = true
	)
	for _, c := range []struct {
		name  string
		frame bool // with its size in front
		hex   string
		want  bool
	}{
		{"size 0", false, "00000000", closed},
		{"size -1", false, "ffffffff", closed},
		{"size -2^31", false, "80000000", closed},
		{"size above the limit", false, "06400001 0012 0000 00000001 ffff", closed},
		{"size 2^31-1", false, "7fffffff", closed},
		{"no header", false, "00000001 00", closed},
		{"no correlation id", false, "00000004 00120000", closed},
		{"no client id", false, "00000008 00120000 00000001", closed},
		{"client id too long", true, "0003 0001 00000001 7fff 00000000", closed},
		{"client id -2", true, "0003 0001 00000001 fffe 00000000", answered},
		{"client id null", true, "0003 0001 00000001 ffff 00000000", answered},
		{"array too long", true, "0003 0004 00000001 ffff 7fffffff 00", closed},
		{"array rather long", true, "0003 0004 00000001 ffff 00ffffff 00", closed},
		{"array -2", true, "0003 0004 00000001 ffff fffffffe 00", answered},
		{"compact array too long", true, "0003 0009 00000001 ffff 00 ffffffff0f 00000000", answered},
		{"nested array too long", true, "0001 0004 00000001 ffff ffffffff 00000000 00000001 00000001 00 7fffffff", closed},
		{"null string", true, "000a 0000 00000001 ffff ffff", closed},
		{"string too long", true, "000a 0000 00000001 ffff 7fff 61", closed},
		{"string -5", true, "000a 0000 00000001 ffff fffb 61", closed},
		{"compact null string", true, "000a 0003 00000001 ffff 00 00 00 00", closed},
		{"compact string too long", true, "000a 0003 00000001 ffff 00 ffffffff0f 00 00", closed},
		{"no UTF-8", true, "000a 0000 00000001 ffff 0002 c328", answered},
		{"tags out of order", true, "0003 0009 00000001 ffff 00 01 00 00 00 02 05 01 aa 03 01 bb", answered},
		{"a tag twice", true, "0003 0009 00000001 ffff 00 01 00 00 00 02 05 01 aa 05 01 bb", answered},
		{"tag too long", true, "0003 0009 00000001 ffff 00 01 00 00 00 01 05 7f aa", closed},
		{"header tag too long", true, "0003 0009 00000001 ffff 01 05 7f aa", closed},
		{"bytes behind the body", true, "0003 0004 00000001 ffff 00000000 00 00112233", answered},
		{"flexible header on another version", true, "0003 0004 00000001 ffff 00 00000000 00", answered},
		{"GET", false, "47455420 2f204854 54502f31 2e310d0a", closed},
		{"TLS", false, "16030100f8010000f40303", closed},
		{"noise", false, "0000000c deadbeef deadbeef deadbeef", closed},
		{"noise with a header", true, "0000 0009 00000001 ff ff ff ff ff ff ff ff ff ff ff ff", closed},
		{"unknown key", true, "03e7 0001 00000001 ffff 00000000", closed},
		{"key -1", true, "ffff 0001 00000001 ffff 00000000", closed},
		{"key 95", true, "005f 0001 00000001 ffff 00000000", closed},
		{"removed key", true, "0004 0002 00000001 ffff 00000000", closed},
		{"controller's key", true, "0034 0000 00000001 ffff 00 00 00 00 00 00 00", closed},
		{"removed version", true, "0000 0002 00000001 ffff 0001 00000000 00000000", closed},
		{"too new version", true, "0003 000e 00000001 ffff 00 00 00 00 00", closed},
		{"too new ApiVersions", true, "0012 0063 00000001 ffff 00 00", answered},
		{"ApiVersions -1", true, "0012 ffff 00000001 ffff", answered},
		{"ApiVersions cut", true, "0012 0003 00000001 ffff 00 0261 02", closed},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := connect(t, addr)
			p.sendHex(c.frame, c.hex)
			if c.want == closed {
				p.expectClosed()
				return
			}
			p.expect(1)
			p.send(2, metadataRequest()) // and the connection goes on
			p.expect(2)
		})
	}
}

func TestTooNewAPIVersions(t *testing.T) {
	_, addr := start(t, Config{}, apiVersions(empty))
	p := connect(t, addr)
	p.sendHex(true, "0012 0063 00000001 ffff 00 00")
	resp := kmsg.NewPtrApiVersionsResponse()
	if err := resp.ReadFrom(p.expect(1)); err != nil {
		t.Fatal(err)
	}
	if resp.ErrorCode != 35 || len(resp.ApiKeys) != 1 || resp.ApiKeys[0].ApiKey != 18 || resp.ApiKeys[0].MaxVersion != 5 {
		t.Fatalf("%+v", resp)
	}
}

// Nothing of what a frame claims may end the process or hang the connection.
func FuzzFrames(f *testing.F) {
	for _, req := range []kmsg.Request{metadataRequest(), produceRequest(), listGroupsRequest()} {
		f.Add(encode(1, req))
		f.Add(append(encode(1, req), encode(2, req)...))
	}
	for key := range int16(95) {
		if req := kmsg.RequestForKey(key); req != nil {
			req.SetVersion(req.MaxVersion())
			f.Add(encode(1, req))
		}
	}
	_, addr := start(f, Config{}, allAPIs(protocol.BrokerListener)...)
	f.Fuzz(func(t *testing.T, p []byte) {
		peer := connect(t, addr)
		_, _ = peer.Write(p)
		if tcp, ok := peer.Conn.(interface{ CloseWrite() error }); ok {
			_ = tcp.CloseWrite()
		}
		var got bytes.Buffer
		_, _ = got.ReadFrom(peer.r)
		for rest := got.Bytes(); len(rest) > 0; {
			if len(rest) < 4 || len(rest)-4 < int(binary.BigEndian.Uint32(rest)) {
				t.Fatalf("half an answer: % x", rest)
			}
			rest = rest[4+binary.BigEndian.Uint32(rest):]
		}
	})
}

// The walk that measures structure agrees with the decoder on what can be read.
func FuzzStructureSize(f *testing.F) {
	for _, version := range []int16{3, 9, 13} {
		req := kmsg.NewPtrProduceRequest()
		req.Version = version
		req.TransactionID = kmsg.StringPtr("tx")
		req.Topics = []kmsg.ProduceRequestTopic{{Topic: "t", Partitions: []kmsg.ProduceRequestTopicPartition{{Records: []byte("records")}, {}}}}
		f.Add(version, req.AppendTo(nil))
	}
	f.Fuzz(func(t *testing.T, version int16, body []byte) {
		if version < 3 || version > 13 {
			return
		}
		n, ok := structureSize(0, version, body)
		req := kmsg.NewPtrProduceRequest()
		req.Version = version
		if req.ReadFrom(body) != nil {
			return
		}
		records := 0
		for _, topic := range req.Topics {
			for _, p := range topic.Partitions {
				records += len(p.Records)
			}
		}
		if !ok || n != len(body)-records {
			t.Fatalf("structure of %d, %v; body %d, records %d", n, ok, len(body), records)
		}
	})
}
