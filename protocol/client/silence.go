package client

import (
	"net"
	"time"
)

// probes is how often a silent host is asked for a sign of life before it is given up.
const probes = 3

// dialer opens connections that end when the peer's host has been silent for so long.
// What was sent and is not acknowledged is bounded by the user timeout, a connection
// on which nothing is under way by probes. The peer's process may take its time: its
// host answers both.
func dialer(silence time.Duration) *net.Dialer {
	if silence <= 0 {
		return new(net.Dialer)
	}
	between := max(silence/(probes+1), time.Second) // the system counts in seconds
	return &net.Dialer{
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: between, Interval: between, Count: probes},
		Control:         userTimeout(silence),
	}
}
