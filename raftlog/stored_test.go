package raftlog

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.etcd.io/bbolt"
)

// TestReadStored reads a store that is whole, one that is damaged, and one that a node
// holds, whose pages may be anything meanwhile.
func TestReadStored(t *testing.T) {
	path := filepath.Join(t.TempDir(), boltFile)
	image := boltImage(t)
	read := func() (int, *Stored, error) {
		entries := 0
		s, err := ReadStored(filepath.Dir(path), SnapshotMeta{}, func(Entry) error { entries++; return nil })
		return entries, s, err
	}
	if err := os.WriteFile(path, image, 0o600); err != nil {
		t.Fatal(err)
	}
	if n, s, err := read(); err != nil || n != 300 || s.LastIndex != 300 || s.Term != 1 {
		t.Fatalf("%d entries, %+v, error %v", n, s, err)
	}
	db, err := bbolt.Open(path, 0o600, boltOptions())
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := os.Truncate(path, int64(len(image)/2)); err != nil { // below the node that holds it
		t.Fatal(err)
	}
	if _, _, err := read(); !errors.Is(err, ErrInUse) {
		t.Errorf("while a node holds it: %v", err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if _, _, err := read(); err == nil || !strings.Contains(err.Error(), boltFile+" is damaged") {
		t.Errorf("a part of it: %v", err)
	}
}
