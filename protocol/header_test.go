package protocol

import (
	"bytes"
	"errors"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// The table agrees with kmsg about where tagged fields begin, and kmsg knows
// every version in it.
func TestAPIs(t *testing.T) {
	last := int16(-1)
	for _, info := range APIs() {
		if info.Key <= last {
			t.Errorf("%s is out of order", info.Name)
		}
		last = info.Key
		req := kmsg.RequestForKey(info.Key)
		if req == nil || req.MaxVersion() < info.Max {
			t.Errorf("%s: version %d is unknown to kmsg", info.Name, info.Max)
			continue
		}
		for v := info.Min; v <= info.Max; v++ {
			if req.SetVersion(v); req.IsFlexible() != info.IsFlexible(v) {
				t.Errorf("%s version %d: flexible is %v", info.Name, v, info.IsFlexible(v))
			}
		}
		if got, ok := API(info.Key); !ok || got != info {
			t.Errorf("%s is not found", info.Name)
		}
		if !info.On.Has(BrokerListener) && !info.On.Has(ControllerListener) {
			t.Errorf("%s is served nowhere", info.Name)
		}
	}
	for _, key := range []int16{-1, 4, 7, 95, 999} {
		if _, ok := API(key); ok {
			t.Errorf("key %d is found", key)
		}
	}
}

func TestRequestHeader(t *testing.T) {
	for _, c := range []struct {
		name         string
		key, version int16
		frame        string
		clientID     []byte
		body         string
		err          error
	}{
		{"v1", 3, 4, "\x00\x03\x00\x04\x00\x00\x00\x07\x00\x02idbody", []byte("id"), "body", nil},
		{"v2", 3, 9, "\x00\x03\x00\x09\x00\x00\x00\x07\x00\x02id\x00body", []byte("id"), "body", nil},
		{"null id", 3, 4, "\x00\x03\x00\x04\x00\x00\x00\x07\xff\xffbody", nil, "body", nil},
		{"id -2", 3, 4, "\x00\x03\x00\x04\x00\x00\x00\x07\xff\xfebody", nil, "body", nil},
		{"empty id", 3, 4, "\x00\x03\x00\x04\x00\x00\x00\x07\x00\x00", []byte{}, "", nil},
		{"tags", 3, 9, "\x00\x03\x00\x09\x00\x00\x00\x07\xff\xff\x02\x05\x01a\x03\x00body", nil, "body", nil},
		{"ApiVersions is flexible too", 18, 99, "\x00\x12\x00\x63\x00\x00\x00\x07\xff\xff\x00body", nil, "body", nil},
		{"negative version", 18, -1, "\x00\x12\xff\xff\x00\x00\x00\x07\xff\xffbody", nil, "body", nil},
		{"short", 3, 4, "\x00\x03\x00\x04\x00\x00\x00\x07\xff", nil, "", ErrHeader},
		{"long id", 3, 4, "\x00\x03\x00\x04\x00\x00\x00\x07\x00\x03id", nil, "", ErrHeader},
		{"no tags", 3, 9, "\x00\x03\x00\x09\x00\x00\x00\x07\xff\xff", nil, "", ErrHeader},
		{"long tag", 3, 9, "\x00\x03\x00\x09\x00\x00\x00\x07\xff\xff\x01\x05\x02a", nil, "", ErrHeader},
		{"many tags", 3, 9, "\x00\x03\x00\x09\x00\x00\x00\x07\xff\xff\xff\xff\xff\xff\x0f", nil, "", ErrHeader},
		{"unknown key", 999, 0, "\x03\xe7\x00\x00\x00\x00\x00\x07\xff\xff", nil, "", ErrUnknownAPI},
	} {
		t.Run(c.name, func(t *testing.T) {
			h, body, err := ParseRequestHeader([]byte(c.frame))
			if !errors.Is(err, c.err) {
				t.Fatalf("error %v", err)
			}
			if err != nil {
				return
			}
			if h.Key != c.key || h.Version != c.version || h.CorrelationID != 7 || (h.ClientID == nil) != (c.clientID == nil) ||
				!bytes.Equal(h.ClientID, c.clientID) || string(body) != c.body {
				t.Fatalf("%+v, body %q", h, body)
			}
		})
	}
}

// Headers are kmsg's, byte for byte, in every version of every API.
func TestHeadersOfEveryVersion(t *testing.T) {
	formatter := kmsg.NewRequestFormatter(kmsg.FormatterClientID("id"))
	for _, info := range APIs() {
		for v := info.Min; v <= info.Max; v++ {
			req := kmsg.RequestForKey(info.Key)
			req.SetVersion(v)
			want := formatter.AppendRequest(nil, req, 5)[4:]
			got := req.AppendTo(AppendRequestHeader(nil, info.Key, v, 5, "id"))
			if !bytes.Equal(got, want) {
				t.Errorf("%s version %d: % x, want % x", info.Name, v, got, want)
			}
			h, body, err := ParseRequestHeader(got)
			if err != nil || h.Key != info.Key || h.Version != v || !bytes.Equal(body, req.AppendTo(nil)) {
				t.Errorf("%s version %d: %+v, %v", info.Name, v, h, err)
			}
			head := AppendResponseHeader(nil, info.Key, v, 5)
			id, body, err := ParseResponseHeader(append(head, "body"...), info.Key, v)
			if err != nil || id != 5 || string(body) != "body" {
				t.Errorf("%s version %d: response %d, %q, %v", info.Name, v, id, body, err)
			}
			if tagged := len(head) == 5; tagged != (info.IsFlexible(v) && info.Key != KeyAPIVersions) {
				t.Errorf("%s version %d: response header % x", info.Name, v, head)
			}
		}
	}
}

func FuzzRequestHeader(f *testing.F) {
	f.Add([]byte("\x00\x03\x00\x09\x00\x00\x00\x07\x00\x02id\x01\x05\x01abody"))
	f.Fuzz(func(t *testing.T, p []byte) {
		h, body, err := ParseRequestHeader(p)
		if err == nil && len(body)+len(h.ClientID)+10 > len(p) {
			t.Fatalf("%+v with %d bytes of %d", h, len(body), len(p))
		}
	})
}

func FuzzResponseHeader(f *testing.F) {
	f.Add([]byte("\x00\x00\x00\x07\x01\x05\x01abody"))
	f.Fuzz(func(t *testing.T, p []byte) {
		if _, body, err := ParseResponseHeader(p, 3, 9); err == nil && len(body)+5 > len(p) {
			t.Fatalf("%d bytes of %d", len(body), len(p))
		}
	})
}
