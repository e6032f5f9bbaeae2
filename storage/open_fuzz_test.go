package storage

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/klamm/klamm/storage/vfs"
)

// logFiles are the files of Kafka's partition, which FuzzOpenLog changes.
func logFiles(t testing.TB) (names []string, contents map[string][]byte) {
	t.Helper()
	contents = make(map[string][]byte)
	entries, err := os.ReadDir(filepath.Join(kafkaClean, "golden-0"))
	check(t, err)
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(kafkaClean, "golden-0", e.Name()))
		check(t, err)
		names, contents[e.Name()] = append(names, e.Name()), data
	}
	return names, contents
}

// FuzzOpenLog changes one file of a partition's directory and opens the log, as
// after a clean stop and as after a kill. It opens, or is refused for a reason;
// what opened can be read, asked, appended to and opened again.
func FuzzOpenLog(f *testing.F) {
	names, contents := logFiles(f)
	for i, name := range names {
		f.Add(uint8(i), false, contents[name])
		f.Add(uint8(i), true, contents[name][:len(contents[name])/2])
	}
	f.Fuzz(func(t *testing.T, which uint8, clean bool, data []byte) {
		mem := vfs.NewMem()
		check(t, mem.Mkdir("/t-0"))
		changed := names[int(which)%len(names)]
		for _, name := range names {
			content := contents[name]
			if name == changed {
				content = data
			}
			check(t, writeFile(mem, "/t-0/"+name, content))
		}
		opts := smallOptions()
		opts.Clean = clean
		if clean {
			opts.RecoveryPoint = 43 // of the checkpoint beside it
		}
		for range 2 {
			l, err := OpenLog(mem, "/t-0", opts)
			if err != nil {
				if errors.Is(err, fs.ErrNotExist) {
					t.Fatalf("%s is missed: %v", changed, err)
				}
				return
			}
			use(t, l)
			check(t, l.Close())
		}
	})
}

// use does with a log what a broker does. Damage is found by then, if at all.
func use(t *testing.T, l *Log) {
	_, readErr := readAll(l, l.LogStartOffset())
	_, _, _ = l.OffsetForTimestamp(0)
	_, _, _ = l.OffsetForTimestamp(testNow.UnixMilli())
	_, _ = l.AppendAsLeader(record(t, "x"), 1000, AppendOptions{})
	if readErr == nil {
		if _, err := readAll(l, l.LogStartOffset()); err != nil {
			t.Fatalf("after an append: %v", err)
		}
	}
}
