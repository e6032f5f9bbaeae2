package coordinator

import "unicode/utf16"

// PartitionOf is the partition that a key's state is in: the positive part of
// Java's hash of the text, so that every broker of a mixed cluster says the same.
func PartitionOf(key string, partitions int) int32 {
	var hash int32
	for _, r := range key {
		if r >= 0x10000 {
			high, low := utf16.EncodeRune(r)
			hash = 31*hash + high
			r = low
		}
		hash = 31*hash + r
	}
	if hash == -1<<31 {
		hash = 0 // Utils.abs: it has no positive
	}
	return max(hash, -hash) % int32(partitions)
}
