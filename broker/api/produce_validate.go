package api

import (
	"errors"
	"fmt"
	"time"

	"github.com/klamm/klamm/broker/replica"
	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/protocol/batch"
)

// cutBatch takes the one batch that a partition's records may be. No records at
// all are INVALID_RECORD; to null ones Kafka never answers anything.
func cutBatch(records []byte, version int16) (batch.Batch, error) {
	b, err := batch.Single(records)
	if err != nil {
		return nil, err
	}
	if b.Codec() == batch.CodecZstd && version < 7 {
		return nil, protocol.ErrUnsupportedCompressionType // KIP-110
	}
	return b, nil
}

// validate checks the batch of an entry as its topic's configuration says and
// brings it into the form to append: in place, but where the topic wants another
// codec.
func (run *produceRun) validate(e *produceEntry, now time.Time) error {
	config := e.partition.Config()
	opts := batch.ValidateOptions{
		Partition:            e.partition.TopicPartition(),
		MaxMessageBytes:      config.MaxMessageBytes,
		MaxDecompressedBytes: config.MaxDecompressedBytes,
		AppendTime:           config.AppendTime,
		TimestampBeforeMs:    config.TimestampBeforeMs,
		TimestampAfterMs:     config.TimestampAfterMs,
		NowMs:                now.UnixMilli(),
		Compacted:            config.Compacted,
		Packed:               config.Recompress && config.Codec != batch.CodecNone,
	}
	result, err := batch.Validate(e.batch, &opts)
	if err != nil {
		var refused *batch.RecordErrors
		if errors.As(err, &refused) {
			e.refused = refused.Records
		}
		return err
	}
	e.batch, e.logAppendTime = result.Batch, result.AppendTimeMs
	if config.Recompress && e.batch.Codec() != config.Codec {
		return e.recompress(config, result.RecordBytes)
	}
	return nil
}

// maxRecompressBytes bounds what a batch may unpack to that has to be packed
// anew: unlike for validation it is in memory as a whole then, and a few KiB of a
// bad client can unpack to gigabytes.
const maxRecompressBytes = 256 << 20

func (e *produceEntry) recompress(config *replica.TopicConfig, recordBytes int64) error {
	most := int64(maxRecompressBytes)
	if config.Codec == batch.CodecNone {
		most = int64(config.MaxMessageBytes) // it would not fit
	}
	if recordBytes > most {
		return fmt.Errorf("records have %d bytes unpacked, more than %d: %w", recordBytes, most, protocol.ErrMessageTooLarge)
	}
	b, err := batch.Recompress(e.batch, config.Codec, config.Level, recordBytes)
	if err != nil {
		return err
	}
	if len(b) > config.MaxMessageBytes {
		return fmt.Errorf("batch has %d bytes in the topic's codec, more than %d: %w", len(b), config.MaxMessageBytes, protocol.ErrMessageTooLarge)
	}
	e.batch = b
	return nil
}
