package storage

import (
	"fmt"
	"io"
	"math"
	"path/filepath"
	"strings"

	"github.com/klamm/klamm/storage/vfs"
)

// finishLeftovers finishes or undoes what was in the making when the last
// process, ours or Kafka's, ended, and returns what is in the directory then:
//
//	*.tmp, *.deleted  are removed
//	N.*.cleaned       output of a cleaning pass that was not complete: removed,
//	                  and with it every .swap from N on
//	N.*.swap          complete output that was about to take the place of the
//	                  segments with these offsets: does so now
func finishLeftovers(fsys vfs.FS, dir string, entries []vfs.Entry) ([]vfs.Entry, error) {
	unfinished := int64(math.MaxInt64)
	var swaps []vfs.Entry
	changed := false
	for _, e := range entries {
		name := e.Name
		remove := strings.HasSuffix(name, tmpSuffix) || strings.HasSuffix(name, deletedSuffix) && !strings.Contains(name, ".checkpoint")
		switch {
		case e.IsDir:
			continue
		case strings.HasSuffix(name, cleanedSuffix):
			if base, ok := leadingOffset(name); ok {
				unfinished = min(unfinished, base)
			}
			remove = true
		case strings.HasSuffix(name, swapSuffix):
			swaps = append(swaps, e)
		}
		if remove {
			changed = true
			if err := removeIfThere(fsys, filepath.Join(dir, name)); err != nil {
				return nil, err
			}
		}
	}
	if len(swaps) > 0 {
		changed = true
		if err := finishSwap(fsys, dir, entries, swaps, unfinished); err != nil {
			return nil, err
		}
	}
	if !changed {
		return entries, nil
	}
	if err := fsys.SyncDir(dir); err != nil {
		return nil, err
	}
	return fsys.ReadDir(dir)
}

// finishSwap puts complete .swap files in the place of the segments whose
// offsets they cover.
func finishSwap(fsys vfs.FS, dir string, entries, swaps []vfs.Entry, unfinished int64) error {
	first, end := int64(math.MaxInt64), int64(math.MinInt64)
	var complete []string
	for _, e := range swaps {
		path := filepath.Join(dir, e.Name)
		base, ok := leadingOffset(e.Name)
		if !ok {
			continue
		}
		if base >= unfinished {
			if err := removeIfThere(fsys, path); err != nil {
				return err
			}
			continue
		}
		complete = append(complete, e.Name)
		if strings.HasSuffix(e.Name, logSuffix+swapSuffix) {
			next, err := nextOffsetOf(fsys, path, base)
			if err != nil {
				return err
			}
			first, end = min(first, base), max(end, next)
		}
	}
	for _, e := range entries {
		base, ok := leadingOffset(e.Name)
		if !ok || base < first || base >= end || strings.HasSuffix(e.Name, swapSuffix) || !isSegmentFile(e.Name) {
			continue
		}
		if err := removeIfThere(fsys, filepath.Join(dir, e.Name)); err != nil {
			return err
		}
	}
	for _, name := range complete {
		path := filepath.Join(dir, name)
		if err := fsys.Rename(path, strings.TrimSuffix(path, swapSuffix)); err != nil {
			return err
		}
	}
	return nil
}

// isSegmentFile tells whether a name is one of those that a swap replaces.
// Producer snapshots stay: they say what was before an offset, compacted or not.
func isSegmentFile(name string) bool {
	for _, suffix := range []string{logSuffix, indexSuffix, timeIndexSuffix, txnIndexSuffix} {
		if _, ok := parseFileName(name, suffix); ok {
			return true
		}
	}
	return false
}

// leadingOffset returns the base offset that a file name starts with.
func leadingOffset(name string) (int64, bool) {
	if len(name) < offsetDigits {
		return 0, false
	}
	return parseFileName(name[:offsetDigits], "")
}

// nextOffsetOf returns the offset behind the last batch of a log file.
func nextOffsetOf(fsys vfs.FS, path string, base int64) (int64, error) {
	f, err := fsys.Open(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return 0, err
	}
	buf := scanBuffers.Get().(*[scanSize]byte)
	defer scanBuffers.Put(buf)
	walk := scanner{f: f, dir: filepath.Dir(path), base: base, suffix: logSuffix + swapSuffix, end: size, buf: buf[:0]}
	for next := base; ; {
		b, err := walk.next()
		if err == io.EOF {
			return next, nil
		}
		if err != nil {
			return 0, fmt.Errorf("finish an interrupted compaction: %w", err)
		}
		next = b.NextOffset()
	}
}
