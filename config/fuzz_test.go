package config

import (
	"strings"
	"testing"

	"github.com/klamm/klamm/config/properties"
)

// FuzzParse starts from any server.properties: it is refused in words, or it is a
// configuration that makes sense.
func FuzzParse(f *testing.F) {
	f.Add(minimal)
	f.Add(minimal + "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:SSL\nadvertised.listeners=PLAINTEXT://[::1]:9\n")
	f.Add(minimal + "max.connections.per.ip=0\nmax.connections.per.ip.overrides=127.0.0.1:5,a.b:7\nlistener.name.plaintext.max.connections=3\n")
	f.Add(minimal + "log.retention.hours=-1\nlog.retention.ms=9223372036854775807\nqueued.max.request.bytes=1\nlog.dirs=,\n")
	f.Add("node.id=-1\nbroker.id=2147483648\nprocess.roles=,broker\ncontroller.quorum.voters=1@[::]:0,x@:\n")
	f.Fuzz(func(t *testing.T, text string) {
		props, err := properties.Parse(strings.NewReader(text))
		if err != nil {
			return
		}
		c, err := Parse("server.properties", props)
		if err != nil {
			if err.Error() == "" {
				t.Error("refused without a word")
			}
			return
		}
		if len(c.Dirs.All()) == 0 || !c.Node.IsBroker && !c.Node.IsController || c.Network.MaxRequestBytes <= 0 {
			t.Errorf("accepted: %+v", c)
		}
		layers := Layers{Static: FromMap(c.Static)}
		ResolveTopic(layers)
		ResolveDynamic(layers, []string{"PLAINTEXT"})
	})
}
