package config

import (
	"math"
	"reflect"
	"testing"
)

// TestResolveDynamic: for every value the broker's own setting beats that of all
// brokers, which beats the file, which beats the default.
func TestResolveDynamic(t *testing.T) {
	const all = math.MaxInt32
	defaults := Dynamic{
		Connections: Connections{
			ConnectionLimits: ConnectionLimits{Max: all, Rate: all}, PerIP: all,
			PerIPOverrides: map[string]int{}, Listeners: map[string]ConnectionLimits{},
		},
		RecoveryThreads: 2, Fetchers: 1, LeaderRate: math.MaxInt64, FollowerRate: math.MaxInt64,
	}
	layers := Layers{}
	check := func(what string, want Dynamic) {
		t.Helper()
		if got := ResolveDynamic(layers, []string{"INSIDE"}); !reflect.DeepEqual(got, want) {
			t.Errorf("%s:\ngot  %+v\nwant %+v", what, got, want)
		}
	}
	check("nothing set", defaults)

	layers.Static = FromMap(map[string]string{"max.connections": "1", "max.connections.per.ip": "2", "num.recovery.threads.per.data.dir": "3", "leader.replication.throttled.rate": "1"})
	want := defaults
	want.Connections.Max, want.Connections.PerIP, want.RecoveryThreads = 1, 2, 3
	check("the file", want)

	layers.BrokerDefault = FromMap(map[string]string{
		"max.connections": "10", "max.connections.per.ip.overrides": "10.0.0.1:7, h:0",
		"listener.name.inside.max.connections": "11", "follower.replication.throttled.rate": "7",
	})
	want.Connections.Max, want.Connections.PerIPOverrides = 10, map[string]int{"10.0.0.1": 7, "h": 0}
	want.Connections.Listeners = map[string]ConnectionLimits{"INSIDE": {Max: 11, Rate: all}}
	want.FollowerRate = 7
	check("all brokers", want)

	layers.Broker = FromMap(map[string]string{
		"max.connections": " 100 ", "max.connection.creation.rate": "5", "listener.name.inside.max.connection.creation.rate": "6",
		"leader.replication.throttled.rate": "8",
	})
	want.Connections.ConnectionLimits = ConnectionLimits{Max: 100, Rate: 5}
	want.Connections.Listeners = map[string]ConnectionLimits{"INSIDE": {Max: 11, Rate: 6}}
	want.LeaderRate = 8
	check("this broker", want)
}
