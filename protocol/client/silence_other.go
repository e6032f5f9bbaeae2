//go:build !linux

package client

import (
	"syscall"
	"time"
)

// userTimeout is of Linux.
func userTimeout(time.Duration) func(network, address string, c syscall.RawConn) error { return nil }
