package record

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/klamm/klamm/metadata/feature"
)

// Whatever the bytes are: no panic, and what was read is written so that it
// reads the same.
func FuzzReadFrame(f *testing.F) {
	for _, g := range goldens(f) {
		if g.id >= 0 {
			f.Add(g.frame())
		}
	}
	f.Fuzz(func(t *testing.T, frame []byte) {
		rec, version, err := readVersioned(frame)
		if err != nil {
			return
		}
		if text := AppendJSON(nil, rec, version); !json.Valid(text) {
			t.Errorf("no JSON: %s", text)
		}
		first := AppendFrame(nil, rec, feature.Latest)
		again, err := ReadFrame(first)
		if err != nil {
			t.Fatalf("%x was read as %+v and written as %x: %v", frame, rec, first, err)
		}
		if second := AppendFrame(nil, again, feature.Latest); !bytes.Equal(first, second) {
			t.Errorf("written as %x, then as %x", first, second)
		}
	})
}

func FuzzReadControl(f *testing.F) {
	for _, g := range goldens(f) {
		if g.id < 0 {
			f.Add([]byte{0, 0, 0, byte(-g.id)}, g.fields)
		}
	}
	f.Fuzz(func(t *testing.T, key, value []byte) {
		c, err := ReadControl(key, value)
		if err != nil {
			return
		}
		if text := AppendControlJSON(nil, c); !json.Valid(text) {
			t.Errorf("no JSON: %s", text)
		}
		k, v := AppendControl(nil, nil, c)
		if _, err := ReadControl(k, v); err != nil {
			t.Errorf("%x, %x was written as %x, %x: %v", key, value, k, v, err)
		}
	})
}
