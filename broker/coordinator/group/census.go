package group

import "github.com/klamm/klamm/broker/coordinator"

// Count asks for a Census.
type Count struct{}

// Census is how many groups a coordinator has, and what is in them.
type Census struct {
	States  map[string]int // groups by state
	Offsets int            // of partitions
	Members map[string]int // by group, of those that have some
}

func (t *turn) count(to coordinator.Token) {
	c := Census{States: make(map[string]int), Members: make(map[string]int)}
	for name, g := range t.groups {
		c.States[string(g.state)]++
		if n := len(g.members); n > 0 {
			c.Members[name] = n
		}
		for _, offsets := range g.offsets {
			c.Offsets += len(offsets)
		}
	}
	t.reply(to, c)
}
