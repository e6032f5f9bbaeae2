package decide

import (
	"fmt"
	"slices"
	"strings"

	"github.com/klamm/klamm/metadata/record"
	"github.com/klamm/klamm/protocol"
)

// Every record about a broker's or a partition's fate says why it is written
// (record.Caused): what happened to whom, then what came of it. The records of an
// administrator's request are named after the request where nothing is to be added.

// What comes of a change, for the record of the partition.
const (
	preferredElection = "preferred election"
	uncleanElection   = "unclean election"
	lastKnownElection = "last known leader elected"
	reassigned        = "reassignment completed"
)

// Why a broker is fenced that does not ask for it.
const (
	SessionExpired = "session expired"
	ProcessGone    = "process gone"
)

// because says why records are written, before what they say themselves.
func because(records []record.Record, cause string) []record.Record {
	for _, rec := range records {
		explain(rec, cause)
	}
	return records
}

func explain(rec record.Record, cause string) {
	switch own := record.CauseOf(rec); own {
	case "", cause:
		record.SetCause(rec, cause)
	default:
		record.SetCause(rec, cause+"; "+own)
	}
}

func ofBroker(id protocol.NodeID, what string) string { return fmt.Sprintf("broker %d: %s", id, what) }

// proposed is why a leader proposes another ISR, and what those had to cut off who
// come into it.
func proposed(leader protocol.NodeID, before, after []protocol.NodeID, loss protocol.Loss) string {
	var parts []string
	if late := without(before, after...); len(late) > 0 {
		parts = append(parts, "lag of "+list(late))
	}
	if back := without(after, before...); len(back) > 0 {
		parts = append(parts, list(back)+" caught up")
	}
	if len(parts) == 0 {
		parts = append(parts, "recovered")
	}
	text := fmt.Sprintf("leader %d: %s", leader, strings.Join(parts, ", "))
	if !loss.IsZero() {
		text += "; lost: " + loss.String()
	}
	return text
}

func list(ids []protocol.NodeID) string {
	var texts []string
	for _, id := range slices.Sorted(slices.Values(ids)) {
		texts = append(texts, fmt.Sprint(id))
	}
	return strings.Join(texts, " and ")
}
