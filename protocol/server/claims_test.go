package server

import (
	"context"
	"encoding/binary"
	"reflect"
	"runtime"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/protocol"
)

// fill puts two items into every array and something into every field.
func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[kmsg.Tags]() {
			v.Addr().Interface().(*kmsg.Tags).Set(99, []byte("tag"))
			return
		}
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				fill(v.Field(i))
			}
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range v.Len() {
			fill(v.Index(i))
		}
	case reflect.Array:
		for i := range v.Len() {
			fill(v.Index(i))
		}
	case reflect.Bool:
		v.SetBool(true)
	case reflect.String:
		v.SetString("st")
	case reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(1)
	case reflect.Uint8, reflect.Uint16, reflect.Uint32:
		v.SetUint(1)
	case reflect.Float64:
		v.SetFloat(1)
	}
}

// claims are lengths of all kinds that a frame of some bytes cannot hold.
var claims = [][]byte{
	{0x7f, 0xff, 0xff, 0xff},             // an array or bytes
	{0x00, 0x10, 0x00, 0x00},             // within what a request may have
	{0x7f, 0xff},                         // a string
	{0xff, 0xff, 0xff, 0xff, 0x0f},       // a compact one, or a number of tags
	{0xff, 0xff, 0xff, 0xff, 0x07},       // the same, positive
	{0x80, 0x80, 0x40},                   // a MiB
	binary.AppendUvarint(nil, 1<<63-1),   // more than a length can be
	{0xff, 0xff, 0xff, 0x7f, 0xff, 0xff}, // across a field
}

// Wherever in a request a length is claimed, of an array, a string, bytes, tags or
// an array within one, and whatever it claims, decoding allocates by what is
// there: every API, every version, every position.
func TestClaimedLengthsAllocateNothing(t *testing.T) {
	s, err := New(Config{}, nil, nopLog)
	if err != nil {
		t.Fatal(err)
	}
	c := &Conn{server: s, log: nopLog}
	for _, info := range protocol.APIs() {
		for version := info.Min; version <= info.Max; version++ {
			if testing.Short() && version != info.Min && version != info.Max {
				continue
			}
			req := kmsg.RequestForKey(info.Key)
			fill(reflect.ValueOf(req).Elem())
			req.SetVersion(version)
			body := req.AppendTo(nil)
			for _, claim := range claims {
				most, at := c.mostDecoded(t, info.Key, version, body, claim)
				if limit := uint64(len(body)*decodedPerByte*2 + 4<<10); most > limit {
					t.Errorf("%s v%d: % x at %d of %d allocates %d bytes, more than %d", info.Name, version, claim, at, len(body), most, limit)
				}
			}
		}
	}
}

// mostDecoded writes a claim over the body, at one position after the other, and
// returns the most that decoding allocated.
func (c *Conn) mostDecoded(t *testing.T, key, version int16, body, claim []byte) (most uint64, at int) {
	var before, after runtime.MemStats
	for i := range body {
		bad := append([]byte(nil), body...)
		bad = append(bad[:i], claim...)
		if rest := i + len(claim); rest < len(body) {
			bad = append(bad, body[rest:]...)
		}
		req := &Request{Key: key, Version: version, Conn: c}
		runtime.ReadMemStats(&before)
		held, err := c.decode(context.Background(), req, bad)
		runtime.ReadMemStats(&after)
		if held != 0 {
			t.Fatalf("%d bytes are held, error %v", held, err)
		}
		if n := after.TotalAlloc - before.TotalAlloc; n > most {
			most, at = n, i
		}
	}
	return most, at
}
