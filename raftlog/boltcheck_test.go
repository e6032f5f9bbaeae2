package raftlog

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/raft"
)

// boltImage is a store with branches, leaves, long values and an inline bucket.
func boltImage(t testing.TB) []byte {
	t.Helper()
	dir := t.TempDir()
	db, err := openBolt(dir)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 300 {
		size := 50
		if i%50 == 0 {
			size = 20_000
		}
		if err := db.StoreLog(&raft.Log{Index: uint64(i + 1), Term: 1, Data: make([]byte, size)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.SetUint64([]byte("CurrentTerm"), 1); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	image, err := os.ReadFile(filepath.Join(dir, boltFile))
	if err != nil {
		t.Fatal(err)
	}
	return image
}

// openImage opens damaged bytes as a node's start does, and reads all of it.
func openImage(t testing.TB, image []byte) error {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, boltFile), image, 0o600); err != nil {
		t.Fatal(err)
	}
	db, err := openBolt(dir)
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	for i := range uint64(301) {
		// What an entry says is not Bolt's to check.
		_ = db.GetLog(i, &raft.Log{})
	}
	_, _ = db.GetUint64([]byte("CurrentTerm"))
	return db.StoreLog(&raft.Log{Index: 301, Term: 1})
}

// TestCheckBolt: a damaged page is an error that names the file, and what to do;
// Bolt would end the process.
func TestCheckBolt(t *testing.T) {
	image := boltImage(t)
	if err := openImage(t, image); err != nil {
		t.Fatalf("an image that is whole: %v", err)
	}
	checker := &boltChecker{file: strings.NewReader(string(image)), seen: map[uint64]bool{}}
	if !checker.findMeta() {
		t.Fatal("no meta page")
	}
	if err := checker.tree(checker.root, nil, nil); err != nil {
		t.Fatal(err)
	}
	page := func(id uint64) int { return int(id) * int(checker.pageSize) }
	damaged := map[string]func([]byte) []byte{
		"half of it": func(p []byte) []byte { return p[:len(p)/2] },
		"all zero":   func(p []byte) []byte { clear(p); return p },
	}
	for id := range checker.seen {
		damaged[fmt.Sprintf("page %d is another", id)] = func(p []byte) []byte {
			p[page(id)] ^= 1
			return p
		}
		damaged[fmt.Sprintf("page %d is zero", id)] = func(p []byte) []byte {
			clear(p[page(id) : page(id)+int(checker.pageSize)])
			return p
		}
	}
	found := 0
	for name, damage := range damaged {
		err := openImage(t, damage([]byte(string(image))))
		if err == nil {
			continue // a page that others go on over has only bytes of values
		}
		found++
		if text := err.Error(); !strings.Contains(text, boltFile+" is damaged") || !strings.Contains(text, "restore") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if found < 10 {
		t.Errorf("%d of %d damages found", found, len(damaged))
	}
}

// TestCheckBoltNoise damages bytes everywhere: none of it may reach Bolt in a
// way that it panics about.
func TestCheckBoltNoise(t *testing.T) {
	image := boltImage(t)
	random := rand.New(rand.NewPCG(1, 2))
	for range 150 {
		p := []byte(string(image))
		for range 1 + random.IntN(3) {
			// Headers and elements are at the beginnings of pages.
			at := random.IntN(len(p)/4096) * 4096
			at += random.IntN(4096) >> random.IntN(8)
			p[at] = byte(random.Uint32())
		}
		_ = openImage(t, p)
	}
}
