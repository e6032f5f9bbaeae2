package record

import "github.com/klamm/klamm/protocol"

// visitor is one pass over a record's fields: writing, reading, or printing. A
// record describes its layout once, in walk, and the three passes can not
// disagree. A pass that writes or prints leaves the fields as they are.
//
// The names are those of Kafka's schemas, for the printing pass.
type visitor interface {
	bool(name string, p *bool)
	int8(name string, p *int8)
	int16(name string, p *int16)
	uint16(name string, p *uint16)
	int32(name string, p *int32)
	int64(name string, p *int64)
	float64(name string, p *float64)
	uuid(name string, p *protocol.UUID)
	string(name string, p *string)
	nullableString(name string, p **string)
	bytes(name string, p *[]byte)
	strings(name string, p *[]string)
	nodes(name string, p *[]protocol.NodeID)
	uuids(name string, p *[]protocol.UUID)
	// array visits a list of structs: it calls resize with the number of
	// elements, which must add one element per call when reading, and each with
	// every index. It is used through list.
	array(name string, n int, grow func(), each func(i int))
	// structure visits a struct inside a struct.
	structure(name string, walk func())
	// tag visits a tagged field (KIP-482). set says that it differs from its
	// default: otherwise it is not written. Reading calls field once the fixed
	// fields are done, and only where the tag is there.
	tag(number uint32, set bool, field func())
	// because visits the cause, right before end; it needs no closure, as every
	// record has one.
	because(p *string)
	// end closes a struct: here the tagged fields lie.
	end()
}

func list[T any](v visitor, name string, p *[]T, walk func(*T)) {
	v.array(name, len(*p), func() { *p = append(*p, *new(T)) }, func(i int) { walk(&(*p)[i]) })
}
