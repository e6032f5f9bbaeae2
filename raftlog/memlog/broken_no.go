//go:build !broken_office && !broken_commit

package memlog

// Faults that build tags build in, to show that integration/sim catches them.
const (
	// brokenOffice: leadership is granted before the first entry is applied.
	brokenOffice = false
	// brokenCommit: an entry is applied before a majority has it.
	brokenCommit = false
)
