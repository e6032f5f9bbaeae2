//go:build broken_crc

package storage

// broken: recovery believes batches without looking at their CRC.
const broken = brokenCRC
