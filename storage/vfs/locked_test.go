package vfs

import (
	"os"
	"path/filepath"
	"testing"
)

// A look at a lock takes none and makes no file.
func TestLocked(t *testing.T) {
	path := filepath.Join(t.TempDir(), ".lock")
	look := func(want bool) {
		t.Helper()
		if held, err := Locked(path); held != want || err != nil {
			t.Errorf("held: %t, %v, want %t", held, err, want)
		}
	}
	look(false)
	if _, err := os.Stat(path); err == nil {
		t.Error("the look has made the file")
	}
	lock, err := OS().Lock(path)
	if err != nil {
		t.Fatal(err)
	}
	look(true)
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
	look(false)
	again, err := OS().Lock(path)
	if err != nil {
		t.Fatalf("after the looks: %v", err)
	}
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}
}
