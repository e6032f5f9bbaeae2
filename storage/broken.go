package storage

// The faults that a build tag can put in, each named after its tag.
const (
	brokenCRC   = "crc"   // broken_crc
	brokenEpoch = "epoch" // broken_epoch
	brokenIndex = "index" // broken_index
)
