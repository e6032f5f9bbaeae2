//go:build !linux

package server

import "net"

// SetBacklog leaves the system's backlog as it is.
func SetBacklog(net.Listener, int) error { return nil }
