package metadata

import (
	"cmp"
	"iter"
	"slices"
	"strings"

	"github.com/klamm/klamm/metadata/record"
)

// QuotaEntity is what client quotas apply to: its parts sorted by type, each
// type once. NewQuotaEntity makes one.
type QuotaEntity []record.QuotaEntity

// NewQuotaEntity puts parts in order. Of two parts of one type the later counts,
// as in Kafka, which keeps them in a map.
func NewQuotaEntity(parts []record.QuotaEntity) QuotaEntity {
	entity := make(QuotaEntity, 0, len(parts))
	for _, part := range parts {
		at, found := slices.BinarySearchFunc(entity, part.Type, func(p record.QuotaEntity, kind string) int {
			return strings.Compare(p.Type, kind)
		})
		if found {
			entity[at] = part
		} else {
			entity = slices.Insert(entity, at, part)
		}
	}
	return entity
}

// Part returns the name of the part of that type, nil for its default.
func (e QuotaEntity) Part(kind string) (name *string, ok bool) {
	for _, part := range e {
		if part.Type == kind {
			return part.Name, true
		}
	}
	return nil, false
}

func (e QuotaEntity) compare(o QuotaEntity) int {
	return slices.CompareFunc(e, o, func(a, b record.QuotaEntity) int {
		return cmp.Or(strings.Compare(a.Type, b.Type), compareNullable(a.Name, b.Name))
	})
}

// compareNullable orders null before every name.
func compareNullable(a, b *string) int {
	switch {
	case a == nil && b == nil:
		return 0
	case a == nil:
		return -1
	case b == nil:
		return 1
	}
	return strings.Compare(*a, *b)
}

// Quota is one limit of an entity.
type Quota struct {
	Key   string
	Value float64
}

// quotaEntry holds the quotas of one entity, never empty, never modified.
type quotaEntry struct {
	entity QuotaEntity
	values []Quota // sorted by key
}

// Quota returns the value that is set for a key of an entity.
func (img *Image) Quota(entity QuotaEntity, key string) (float64, bool) {
	e, _ := img.quotas.get(quotaEntry{entity: entity})
	i, ok := findQuota(e.values, key)
	if !ok {
		return 0, false
	}
	return e.values[i].Value, true
}

// Quotas yields the entities that have quotas, in order, with their quotas by
// key. Neither is the caller's to modify.
func (img *Image) Quotas() iter.Seq2[QuotaEntity, []Quota] {
	return func(yield func(QuotaEntity, []Quota) bool) {
		img.quotas.tree.Scan(func(e quotaEntry) bool { return yield(e.entity, e.values) })
	}
}

func findQuota(values []Quota, key string) (int, bool) {
	return slices.BinarySearchFunc(values, key, func(q Quota, key string) int {
		return strings.Compare(q.Key, key)
	})
}

// setQuota writes the entity's quotas anew; published ones stay as they are.
func (d *Delta) setQuota(r *record.ClientQuota) {
	entity := NewQuotaEntity(r.Entity)
	old, _ := d.quotas.Get(quotaEntry{entity: entity})
	at, found := findQuota(old.values, r.Key)
	values := make([]Quota, 0, len(old.values)+1)
	values = append(values, old.values[:at]...)
	if !r.Remove {
		values = append(values, Quota{Key: r.Key, Value: r.Value})
	}
	if found {
		at++
	}
	values = append(values, old.values[at:]...)
	if len(values) == 0 {
		d.quotas.Delete(quotaEntry{entity: entity})
		return
	}
	d.quotas.Set(quotaEntry{entity: entity, values: values})
}

func (img *Image) quotaRecords(yield func(record.Record) bool) bool {
	for entity, quotas := range img.Quotas() {
		for _, q := range quotas {
			if !yield(&record.ClientQuota{Entity: entity, Key: q.Key, Value: q.Value}) {
				return false
			}
		}
	}
	return true
}
