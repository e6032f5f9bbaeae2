//go:build broken_office

package memlog

const (
	brokenOffice = true
	brokenCommit = false
)
