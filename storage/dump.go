package storage

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/klamm/klamm/protocol/batch"
	"github.com/klamm/klamm/storage/vfs"
)

// DumpOptions say what is printed.
type DumpOptions struct {
	// Records prints every record with its key and value below its batch.
	Records bool
	// Texts print keys and values of topics whose records are not text; what one
	// does not know is printed as of any topic.
	Texts map[string]func(key, value []byte) (keyText, valueText string, ok bool)
	text  func(key, value []byte) (keyText, valueText string, ok bool)
}

// Dump prints the files of logs, ours or Apache Kafka's, in the lines of Kafka's
// own dump tool: a segment, an index, a snapshot of producers, or all of them in
// a replica's directory or in all replicas' of a log directory. Nothing is locked
// and nothing is changed. A batch that is not whole at the end of the last
// segment is reported, since a node may be writing it; other damage is too, and
// is returned after the rest was printed.
func Dump(w io.Writer, path string, opts DumpOptions) error {
	files, err := dumpFiles(path)
	if err != nil {
		return err
	}
	out := bufio.NewWriter(w)
	var errs []error
	for i, file := range files {
		if i > 0 {
			fmt.Fprintln(out)
		}
		fmt.Fprintf(out, "Dumping %s\n", file)
		if err := dumpFile(out, file, opts); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(append(errs, out.Flush())...)
}

// dumpSuffixes are the files that Dump knows, in the order of printing.
var dumpSuffixes = []string{logSuffix, indexSuffix, timeIndexSuffix, txnIndexSuffix, snapshotSuffix}

// dumpFiles returns the files to print.
func dumpFiles(path string) ([]string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return []string{path}, nil
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, err
	}
	var files []string
	for _, suffix := range dumpSuffixes {
		for _, e := range entries {
			if _, ok := parseFileName(e.Name(), suffix); ok && !e.IsDir() {
				files = append(files, filepath.Join(path, e.Name()))
			}
		}
	}
	if len(files) > 0 {
		return files, nil
	}
	for _, e := range entries {
		// The metadata log has a tool of its own, but it is a log too.
		if _, kind := parseDirName(e.Name()); e.IsDir() && kind != dirUnknown {
			inner, err := dumpFiles(filepath.Join(path, e.Name()))
			if err == nil {
				files = append(files, inner...)
			}
		}
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("%s holds no segment of a log, and no directory that does", path)
	}
	return files, nil
}

func dumpFile(out *bufio.Writer, path string, opts DumpOptions) error {
	suffix := filepath.Ext(path)
	base, _ := parseFileName(filepath.Base(path), suffix)
	if suffix == logSuffix {
		return dumpSegment(out, path, base, opts)
	}
	data, err := vfs.ReadFile(vfs.OS(), path)
	if err != nil {
		return err
	}
	switch suffix {
	case indexSuffix:
		err = dumpIndex(data, offsetEntrySize, func(e entry) {
			fmt.Fprintf(out, "offset: %d position: %d\n", base+e.a, e.b)
		})
	case timeIndexSuffix:
		err = dumpIndex(data, timeEntrySize, func(e entry) {
			fmt.Fprintf(out, "timestamp: %d offset: %d\n", e.a, base+e.b)
		})
	case txnIndexSuffix:
		var aborted []abortedTxn
		aborted, err = parseAborted(data)
		for _, t := range aborted {
			fmt.Fprintf(out, "version: 0 producerId: %d firstOffset: %d lastOffset: %d lastStableOffset: %d\n",
				t.producerID, t.firstOffset, t.lastOffset, t.lastStableOffset)
		}
	case snapshotSuffix:
		err = dumpSnapshot(out, data)
	default:
		err = fmt.Errorf("neither of %s", strings.Join(dumpSuffixes, ", "))
	}
	if err != nil {
		fmt.Fprintf(out, "| error: %v\n", err)
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// dumpIndex prints the entries of an index. A Kafka that runs, or was killed, has
// given the file its full size in advance: zeros behind the last entry.
func dumpIndex(data []byte, size int, print func(entry)) error {
	if len(data)%size != 0 {
		return fmt.Errorf("%d bytes are no whole number of %d-byte entries", len(data), size)
	}
	zeros := make([]byte, size)
	for n := len(data) - size; n >= 0 && bytes.Equal(data[n:], zeros); n -= size {
		data = data[:n]
	}
	for ; len(data) > 0; data = data[size:] {
		print(decodeEntry(data[:size]))
	}
	return nil
}

func dumpSnapshot(out *bufio.Writer, data []byte) error {
	producers, err := parseSnapshot(data)
	for _, p := range producers {
		txn := "OptionalLong.empty"
		if p.txnFirstOffset != noTxn {
			txn = fmt.Sprintf("OptionalLong[%d]", p.txnFirstOffset)
		}
		fmt.Fprintf(out, "producerId: %d producerEpoch: %d coordinatorEpoch: %d currentTxnFirstOffset: %s lastTimestamp: %d",
			p.id, p.epoch, p.coordinatorEpoch, txn, p.lastTimestamp)
		if p.count > 0 {
			b := p.batches[p.count-1]
			fmt.Fprintf(out, " firstSequence: %d lastSequence: %d lastOffset: %d offsetDelta: %d timestamp: %d",
				b.firstSequence(), b.lastSequence, b.lastOffset, b.offsetDelta, b.timestamp)
		}
		fmt.Fprintln(out)
	}
	return err
}

func dumpSegment(out *bufio.Writer, path string, base int64, opts DumpOptions) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "Log starting offset: %d\n", base)
	if dir, err := filepath.Abs(filepath.Dir(path)); err == nil {
		tp, _ := parseDirName(filepath.Base(dir))
		opts.text = opts.Texts[tp.Topic]
	}
	buf := scanBuffers.Get().(*[scanSize]byte)
	defer scanBuffers.Put(buf)
	walk := scanner{f: f, dir: filepath.Dir(path), base: base, end: info.Size(), buf: buf[:0]}
	var first error
	for {
		position := walk.position
		b, err := walk.next()
		if err == nil {
			b, err = walk.records(b)
		}
		switch {
		case errors.Is(err, io.EOF):
			return first
		case isDamage(err):
			// What follows cannot be found.
			fmt.Fprintf(out, "| error: %v\n", err)
			if first == nil && !torn(f, position, info.Size()) {
				first = err
			}
			return first
		case err != nil:
			return errors.Join(first, err)
		}
		if err := dumpBatch(out, b, position, opts); err != nil {
			fmt.Fprintf(out, "| error: %v\n", err)
			if first == nil {
				first = fmt.Errorf("%s: byte %d: %w", path, position, err)
			}
		}
	}
}

// torn tells whether what stands at a position may be the beginning of a batch
// that somebody is writing.
func torn(f io.ReaderAt, position, size int64) bool {
	var frame [batch.FrameSize]byte
	if n, _ := f.ReadAt(frame[:], position); n < len(frame) {
		return true
	}
	return position+int64(batch.FrameSize)+int64(int32(binary.BigEndian.Uint32(frame[8:]))) > size
}

// deleteHorizonBit says that a batch's base timestamp is the time from which the
// cleaner may take its tombstones.
const deleteHorizonBit = 1 << 6

func dumpBatch(out *bufio.Writer, b batch.Batch, position int64, opts DumpOptions) error {
	valid := b.CheckCRC() == nil
	timeName, horizon := "CreateTime", "OptionalLong.empty"
	if b.IsAppendTime() {
		timeName = "LogAppendTime"
	}
	if b.Attributes()&deleteHorizonBit != 0 {
		horizon = fmt.Sprintf("OptionalLong[%d]", b.BaseTimestamp())
	}
	fmt.Fprintf(out, "baseOffset: %d lastOffset: %d count: %d baseSequence: %d lastSequence: %d producerId: %d producerEpoch: %d "+
		"partitionLeaderEpoch: %d isTransactional: %t isControl: %t deleteHorizonMs: %s position: %d %s: %d size: %d magic: %d "+
		"compresscodec: %s crc: %d isvalid: %t\n",
		b.BaseOffset(), b.LastOffset(), b.RecordCount(), b.BaseSequence(), b.LastSequence(), b.ProducerID(), b.ProducerEpoch(),
		b.LeaderEpoch(), b.IsTransactional(), b.IsControl(), horizon, position, timeName, b.MaxTimestamp(), b.Size(), b.Magic(),
		codecNames[b.Codec()], b.CRC(), valid)
	if !valid {
		return errors.New("the CRC is not that of the bytes")
	}
	if !opts.Records {
		return nil
	}
	return b.Each(func(r batch.Record) error {
		dumpRecord(out, b, r, timeName, opts)
		return nil
	})
}

var codecNames = map[batch.Codec]string{
	batch.CodecNone: "none", batch.CodecGzip: "gzip", batch.CodecSnappy: "snappy", batch.CodecLZ4: "lz4", batch.CodecZstd: "zstd",
}

func dumpRecord(out *bufio.Writer, b batch.Batch, r batch.Record, timeName string, opts DumpOptions) {
	at, sequence := r.Timestamp, int32(-1)
	if b.IsAppendTime() {
		at = b.MaxTimestamp()
	}
	if first := b.BaseSequence(); first >= 0 {
		sequence = int32((int64(first) + int64(r.OffsetDelta)) & 0x7fffffff)
	}
	var keys []string
	for h := range r.Headers.All() {
		keys = append(keys, h.Key)
	}
	fmt.Fprintf(out, "| offset: %d %s: %d keySize: %d valueSize: %d sequence: %d headerKeys: [%s]",
		b.BaseOffset()+int64(r.OffsetDelta), timeName, at, sizeOf(r.Key), sizeOf(r.Value), sequence, strings.Join(keys, ","))
	if marker, ok := controlMarker(b, r); ok {
		fmt.Fprintf(out, " %s\n", marker)
		return
	}
	if opts.text != nil {
		if key, value, ok := opts.text(r.Key, r.Value); ok {
			fmt.Fprintf(out, " key: %s payload: %s\n", key, value)
			return
		}
	}
	if r.Key != nil {
		fmt.Fprintf(out, " key: %s", printable(r.Key))
	}
	if r.Value != nil {
		fmt.Fprintf(out, " payload: %s", printable(r.Value))
	}
	fmt.Fprintln(out)
}

func sizeOf(field []byte) int {
	if field == nil {
		return -1
	}
	return len(field)
}

// controlMarker describes a record that ends a transaction.
func controlMarker(b batch.Batch, r batch.Record) (string, bool) {
	if !b.IsControl() {
		return "", false
	}
	if m, ok := parseEndMarker(b); ok {
		kind := "COMMIT"
		if m.abort {
			kind = "ABORT"
		}
		return fmt.Sprintf("endTxnMarker: %s coordinatorEpoch: %d", kind, m.coordinatorEpoch), true
	}
	return fmt.Sprintf("control: %x", r.Key), true
}

// printable is a key or value as one line of text: bytes that would break the
// line or are no text are written \xNN, so that nothing reaches the terminal as
// a command.
func printable(field []byte) string {
	quoted := fmt.Sprintf("%+q", field)
	plain := true
	for _, c := range field {
		plain = plain && c >= ' ' && c < 0x7f
	}
	if plain {
		return string(field)
	}
	return strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`)
}
