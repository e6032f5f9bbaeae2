package record

import (
	"encoding/binary"
	"fmt"

	"github.com/klamm/klamm/metadata/feature"
	"github.com/klamm/klamm/protocol"
)

// frameVersion is the version of the frame itself; 0 was of Kafka 2.8's preview.
const frameVersion = 1

// kind is what is known of a record id.
type kind struct {
	name string // as Kafka's tools print it
	last int16  // highest version
	make func() Record
}

// kinds are the records by their ids; 6, 13 and 16 were never used.
var kinds = map[int16]kind{
	0:  {"REGISTER_BROKER_RECORD", 4, func() Record { return &RegisterBroker{} }},
	1:  {"UNREGISTER_BROKER_RECORD", 0, func() Record { return &UnregisterBroker{} }},
	2:  {"TOPIC_RECORD", 0, func() Record { return &Topic{} }},
	3:  {"PARTITION_RECORD", 2, func() Record { return &Partition{} }},
	4:  {"CONFIG_RECORD", 0, func() Record { return &Config{} }},
	5:  {"PARTITION_CHANGE_RECORD", 2, func() Record { return NewPartitionChange(protocol.ZeroUUID, 0) }},
	7:  {"FENCE_BROKER_RECORD", 0, func() Record { return &FenceBroker{} }},
	8:  {"UNFENCE_BROKER_RECORD", 0, func() Record { return &UnfenceBroker{} }},
	9:  {"REMOVE_TOPIC_RECORD", 0, func() Record { return &RemoveTopic{} }},
	10: {"DELEGATION_TOKEN_RECORD", 0, func() Record { return &DelegationToken{} }},
	11: {"USER_SCRAM_CREDENTIAL_RECORD", 0, func() Record { return &UserScramCredential{} }},
	12: {"FEATURE_LEVEL_RECORD", 0, func() Record { return &FeatureLevel{} }},
	14: {"CLIENT_QUOTA_RECORD", 0, func() Record { return &ClientQuota{} }},
	15: {"PRODUCER_IDS_RECORD", 0, func() Record { return &ProducerIDs{} }},
	17: {"BROKER_REGISTRATION_CHANGE_RECORD", 3, func() Record { return &BrokerRegistrationChange{} }},
	18: {"ACCESS_CONTROL_ENTRY_RECORD", 0, func() Record { return &AccessControlEntry{} }},
	19: {"REMOVE_ACCESS_CONTROL_ENTRY_RECORD", 0, func() Record { return &RemoveAccessControlEntry{} }},
	20: {"NO_OP_RECORD", 0, func() Record { return &NoOp{} }},
	21: {"ZK_MIGRATION_STATE_RECORD", 0, func() Record { return &ZKMigrationState{} }},
	22: {"REMOVE_USER_SCRAM_CREDENTIAL_RECORD", 0, func() Record { return &RemoveUserScramCredential{} }},
	23: {"BEGIN_TRANSACTION_RECORD", 0, func() Record { return &BeginTransaction{} }},
	24: {"END_TRANSACTION_RECORD", 0, func() Record { return &EndTransaction{} }},
	25: {"ABORT_TRANSACTION_RECORD", 0, func() Record { return &AbortTransaction{} }},
	26: {"REMOVE_DELEGATION_TOKEN_RECORD", 0, func() Record { return &RemoveDelegationToken{} }},
	27: {"REGISTER_CONTROLLER_RECORD", 0, func() Record { return &RegisterController{} }},
	28: {"CLEAR_ELR_RECORD", 0, func() Record { return &ClearELR{} }},
	29: {"UNREGISTER_CONTROLLER_RECORD", 0, func() Record { return &UnregisterController{} }},
}

// AppendFrame appends rec as the value of a record of a metadata log whose
// metadata.version has the level:
//
//	unsigned varint  frame version, 1
//	unsigned varint  record id
//	unsigned varint  record version
//	the fields
func AppendFrame(dst []byte, rec Record, level feature.Level) []byte {
	return appendVersion(dst, rec, rec.version(level))
}

func appendVersion(dst []byte, rec Record, version int16) []byte {
	dst = binary.AppendUvarint(dst, frameVersion)
	dst = binary.AppendUvarint(dst, uint64(rec.ID()))
	dst = binary.AppendUvarint(dst, uint64(version))
	w := writer{buf: dst}
	rec.walk(&w, version)
	return w.buf
}

// ReadFrame reads what AppendFrame wrote, here or in Kafka, in any version up
// to the newest known. A record that is unknown or not wholly understood is an
// error: whoever left it out would hold another state than everybody else. The
// record does not alias frame.
func ReadFrame(frame []byte) (Record, error) {
	rec, _, err := readVersioned(frame)
	return rec, err
}

func readVersioned(frame []byte) (Record, int16, error) {
	r := newReader(frame)
	version := r.uvarint("the frame version")
	if r.err == nil && version != frameVersion {
		r.fail("frame version %d is unknown, 1 is known", version)
	}
	id := r.uvarint("the record id")
	recVersion := r.uvarint("the record version")
	if r.err != nil {
		return nil, 0, fmt.Errorf("metadata record: %w", r.err)
	}
	k, ok := kinds[int16(id)]
	if !ok || id != int(int16(id)) {
		return nil, 0, fmt.Errorf("metadata record: record id %d (version %d) is unknown", id, recVersion)
	}
	if recVersion > int(k.last) {
		return nil, 0, fmt.Errorf("metadata record: version %d of record id %d (%s) is unknown, at most %d is known",
			recVersion, id, k.name, k.last)
	}
	rec := k.make()
	rec.walk(r, int16(recVersion))
	if r.err == nil && r.at != len(frame) {
		r.fail("%d bytes are left over", len(frame)-r.at)
	}
	if r.err != nil {
		return nil, 0, fmt.Errorf("metadata record: %s version %d: %w", k.name, recVersion, r.err)
	}
	return rec, int16(recVersion), nil
}

// Version is the version in which a record is written at a level.
func Version(rec Record, level feature.Level) int16 { return rec.version(level) }

// Fit returns rec as its readers get it from a log at a level: without what its
// version there cannot say.
func Fit(rec Record, level feature.Level) Record {
	if rec.version(level) == rec.version(feature.Latest) {
		return rec
	}
	fit, err := ReadFrame(AppendFrame(nil, rec, level))
	if err != nil {
		panic(fmt.Sprintf("record: a written %s cannot be read: %v", Name(rec), err))
	}
	return fit
}

// Name is the record's type as Kafka's tools print it, PARTITION_RECORD for one.
func Name(rec Record) string { return kinds[rec.ID()].name }
