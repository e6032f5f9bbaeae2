package decide

import (
	"math"
	"regexp"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/metadata"
	"github.com/klamm/klamm/metadata/record"
	"github.com/klamm/klamm/protocol"
)

// Types of the parts of a quota's entity.
const (
	quotaUser     = "user"
	quotaClientID = "client-id"
	quotaIP       = "ip"
)

// quotaKey says what a quota's value may be.
type quotaKey struct {
	kind string  // for the text of an error
	max  float64 // of a whole number; 0: fractions too, without bound
}

var (
	userQuotaKeys = map[string]quotaKey{
		"producer_byte_rate":       {"LONG", math.MaxInt64},
		"consumer_byte_rate":       {"LONG", math.MaxInt64},
		"request_percentage":       {},
		"controller_mutation_rate": {},
	}
	ipQuotaKeys = map[string]quotaKey{"connection_creation_rate": {"INT", math.MaxInt32}}
)

// AlterClientQuotas decides changes of quotas. Each entity stands for itself; one
// that is named twice is changed as it is named first, and answered with an error.
func AlterClientQuotas(img *metadata.Image, req *kmsg.AlterClientQuotasRequest) ([]record.Record, *kmsg.AlterClientQuotasResponse) {
	resp := kmsg.NewPtrAlterClientQuotasResponse()
	var records []record.Record
	answers := make(map[string]int) // by the entity's text, into resp.Entries
	for _, entry := range req.Entries {
		parts := make([]record.QuotaEntity, len(entry.Entity))
		for i, part := range entry.Entity {
			parts[i] = record.QuotaEntity{Type: part.Type, Name: part.Name}
		}
		entity := metadata.NewQuotaEntity(parts)
		altered, err := alterQuotas(img, entity, entry.Ops)
		text := entityText(entity)
		at, again := answers[text]
		if again || repeatsKey(entry.Ops) {
			altered, err = nil, protocol.Errorf(protocol.ErrInvalidRequest, "Ignoring duplicate entity %s", text)
		}
		records = append(records, altered...)
		answer := kmsg.NewAlterClientQuotasResponseEntry()
		answer.ErrorCode, answer.ErrorMessage = int16(protocol.CodeOf(err)), protocol.MessageOf(err)
		for _, part := range entity {
			answer.Entity = append(answer.Entity, kmsg.AlterClientQuotasResponseEntryEntity{Type: part.Type, Name: part.Name})
		}
		if again {
			resp.Entries[at] = answer
			continue
		}
		answers[text] = len(resp.Entries)
		resp.Entries = append(resp.Entries, answer)
	}
	if req.ValidateOnly {
		records = nil
	}
	return records, resp
}

func repeatsKey(ops []kmsg.AlterClientQuotasRequestEntryOp) bool {
	seen := make(map[string]bool, len(ops))
	for _, op := range ops {
		if seen[op.Key] {
			return true
		}
		seen[op.Key] = true
	}
	return false
}

// entityText names an entity as Kafka's answers do.
func entityText(entity metadata.QuotaEntity) string {
	parts := make([]string, len(entity))
	for i, part := range entity {
		name := "null"
		if part.Name != nil {
			name = *part.Name
		}
		parts[i] = part.Type + "=" + name
	}
	return "ClientQuotaEntity(entries={" + strings.Join(parts, ", ") + "})"
}

func alterQuotas(img *metadata.Image, entity metadata.QuotaEntity, ops []kmsg.AlterClientQuotasRequestEntryOp) ([]record.Record, error) {
	keys, err := quotaKeysOf(entity)
	if err != nil {
		return nil, err
	}
	var records []record.Record
	for _, op := range ops {
		current, isSet := img.Quota(entity, op.Key)
		if op.Remove {
			if isSet {
				records = append(records, &record.ClientQuota{Entity: entity, Key: op.Key, Remove: true})
			}
			continue
		}
		if err := checkQuota(keys, op.Key, op.Value); err != nil {
			return nil, err
		}
		if !isSet || current != op.Value {
			records = append(records, &record.ClientQuota{Entity: entity, Key: op.Key, Value: op.Value})
		}
	}
	return records, nil
}

// quotaKeysOf checks an entity and returns what can be limited for it.
func quotaKeysOf(entity metadata.QuotaEntity) (map[string]quotaKey, error) {
	if len(entity) == 0 {
		return nil, protocol.Errorf(protocol.ErrInvalidRequest, "Invalid empty client quota entity")
	}
	for _, part := range entity {
		switch part.Type {
		case quotaUser, quotaClientID, quotaIP:
		default:
			return nil, protocol.Errorf(protocol.ErrInvalidRequest, "Unhandled client quota entity type: %s", part.Type)
		}
		if part.Name != nil && *part.Name == "" {
			return nil, protocol.Errorf(protocol.ErrInvalidRequest, "Empty %s not supported", part.Type)
		}
	}
	ip, ok := entity.Part(quotaIP)
	switch {
	case !ok:
		return userQuotaKeys, nil
	case len(entity) > 1: // the blank is missing in Kafka's text too
		return nil, protocol.Errorf(protocol.ErrInvalidRequest, "Invalid quota entity combination, IP entity shouldnot be combined with User or ClientId")
	case ip != nil && (!hostPattern.MatchString(*ip) || numberPattern.MatchString(*ip) && !addressPattern.MatchString(*ip)):
		return nil, protocol.Errorf(protocol.ErrInvalidRequest, "%s is not a valid IP or resolvable host.", *ip)
	}
	return ipQuotaKeys, nil
}

// hostPattern is what can be an address or the name of a host. Kafka looks the
// name up, which a decision cannot do.
var hostPattern = regexp.MustCompile(`^([0-9A-Za-z_.-]+|[0-9A-Fa-f:.]+(%[0-9A-Za-z_.-]+)?)$`)

// What is numbers and dots alone is an address or nothing.
var (
	numberPattern  = regexp.MustCompile(`^[0-9.]+$`)
	addressPattern = regexp.MustCompile(`^((25[0-5]|2[0-4][0-9]|1?[0-9]?[0-9])(\.|$)){1,4}$`)
)

func checkQuota(keys map[string]quotaKey, key string, value float64) error {
	known, ok := keys[key]
	switch {
	case !ok:
		return protocol.Errorf(protocol.ErrInvalidRequest, "Invalid configuration key %s", key)
	case value <= 0:
		return protocol.Errorf(protocol.ErrInvalidRequest, "Quota %s must be greater than 0", key)
	case known.max == 0:
		return nil
	case value > known.max:
		article := "a"
		if known.kind == "INT" {
			article = "an"
		}
		return protocol.Errorf(protocol.ErrInvalidRequest, "Proposed value for %s is too large for %s %s.", key, article, known.kind)
	case math.Abs(math.Mod(value, 1)) > 1e-6:
		return protocol.Errorf(protocol.ErrInvalidRequest, "%s cannot be a fractional value.", key)
	}
	return nil
}
