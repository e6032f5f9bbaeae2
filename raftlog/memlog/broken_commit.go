//go:build broken_commit

package memlog

const (
	brokenOffice = false
	brokenCommit = true
)
