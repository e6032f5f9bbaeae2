package storage

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klamm/klamm/protocol/batch"
	"github.com/klamm/klamm/storage/vfs"
)

const dumpDir = "testdata/kafka/clean/golden-0"

// TestDumpIsKafkas compares with what Kafka's own tool printed of Kafka's files
// (kafka-dump-log --print-data-log), to the byte.
func TestDumpIsKafkas(t *testing.T) {
	printed, err := os.ReadFile("testdata/dump/kafka-golden-0.txt")
	check(t, err)
	for section := range strings.SplitSeq(string(printed), "Dumping golden-0/") {
		name, want, _ := strings.Cut(section, "\n")
		if name == "" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			check(t, Dump(&out, filepath.Join(dumpDir, name), DumpOptions{Records: true}))
			_, got, _ := strings.Cut(out.String(), "\n")
			if strings.TrimSpace(got) != strings.TrimSpace(want) {
				t.Errorf("printed\n%s\nKafka prints\n%s", got, want)
			}
		})
	}
}

// A directory gives all its files, a log directory all replicas'; a killed
// Kafka's too, whose indexes end in zeros.
func TestDumpDirectory(t *testing.T) {
	for _, dir := range []string{dumpDir, filepath.Dir(dumpDir), "testdata/kafka/killed"} {
		var out strings.Builder
		check(t, Dump(&out, dir, DumpOptions{}))
		for _, want := range []string{"00000000000000000018.log\n", "18.index\n", "18.timeindex\n", "18.txnindex\n", "18.snapshot\n"} {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%s: %s is not there", dir, want)
			}
		}
		if strings.Contains(out.String(), "offset: 18 position: 0\n") || strings.Contains(out.String(), "payload") {
			t.Errorf("%s: prints what it should not:\n%s", dir, out.String())
		}
	}
	if err := Dump(&strings.Builder{}, t.TempDir(), DumpOptions{}); err == nil {
		t.Error("an empty directory is no log, and nobody minds")
	}
}

// Every codec is read; bytes that are no text do not reach the terminal; what is
// damaged is named, and what follows is printed if it can be found.
func TestDumpRecords(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "t-0")
	l := openTest(t, vfs.OS(), path, smallOptions())
	for _, codec := range []batch.Codec{batch.CodecNone, batch.CodecGzip, batch.CodecSnappy, batch.CodecLZ4, batch.CodecZstd} {
		appendTest(t, l, produced{records: 2, value: "plain \x1b[31m", codec: codec}.build(t), 0)
	}
	check(t, l.Close())
	file := filepath.Join(path, "00000000000000000000.log")
	dump := func() (string, error) {
		var out strings.Builder
		err := Dump(&out, file, DumpOptions{Records: true})
		return out.String(), err
	}
	out, err := dump()
	check(t, err)
	if n := strings.Count(out, `payload: plain \x1b[31m`); n != 5 {
		t.Errorf("%d payloads of 5:\n%s", n, out)
	}
	for _, codec := range []string{"none", "gzip", "snappy", "lz4", "zstd"} {
		if !strings.Contains(out, "compresscodec: "+codec+" ") {
			t.Errorf("no batch of codec %s:\n%s", codec, out)
		}
	}

	data, err := os.ReadFile(file)
	check(t, err)
	check(t, os.WriteFile(file, data[:len(data)-3], 0o600))
	if out, err = dump(); err != nil || !strings.Contains(out, "| error") || strings.Count(out, "baseOffset") != 4 {
		t.Errorf("a batch in the making: %v\n%s", err, out)
	}
	flipped := []byte(string(data))
	flipped[70] ^= 1 // in the first batch's records
	check(t, os.WriteFile(file, flipped, 0o600))
	if out, err = dump(); err == nil || !strings.Contains(err.Error(), "byte 0") || strings.Count(out, "isvalid: true") != 4 {
		t.Errorf("a damaged batch: %v\n%s", err, out)
	}
	flipped[16] = 1 // the magic of the first batch
	check(t, os.WriteFile(file, flipped, 0o600))
	if _, err = dump(); err == nil || !strings.Contains(err.Error(), "magic is 1") {
		t.Errorf("a batch of another format: %v", err)
	}
}

// FuzzDump gives each kind of file any bytes.
func FuzzDump(f *testing.F) {
	for i, suffix := range dumpSuffixes {
		if data, err := os.ReadFile(filepath.Join(dumpDir, fileName(18, suffix))); err == nil {
			f.Add(i, data)
		}
	}
	f.Fuzz(func(t *testing.T, kind int, data []byte) {
		suffix := dumpSuffixes[uint(kind)%uint(len(dumpSuffixes))]
		if suffix == logSuffix {
			for rest := data; len(rest) > batch.HeaderSize; {
				b, next, err := batch.Next(rest)
				if err != nil {
					break
				}
				b.SetCRC() // checksums would let nothing through
				rest = next
			}
		}
		path := filepath.Join(t.TempDir(), fileName(0, suffix))
		check(t, os.WriteFile(path, data, 0o600))
		_ = Dump(&strings.Builder{}, path, DumpOptions{Records: true})
	})
}
