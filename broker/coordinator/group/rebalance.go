package group

import (
	"github.com/klamm/klamm/protocol"
)

// maybeRebalance begins a rebalance, or goes on with the one under way.
func (t *turn) maybeRebalance(g *group) {
	if g.state == preparing {
		t.maybeCompleteJoin(g)
		return
	}
	t.prepareRebalance(g)
}

// maybeCompleteJoin ends the wait for joins where nobody is waited for. The
// first rebalance of a group lasts as long as its delay says.
func (t *turn) maybeCompleteJoin(g *group) {
	if g.state == preparing && g.previous != empty && g.allJoined() {
		t.completeJoin(g)
	}
}

// prepareRebalance has everybody join again, for as long as the most patient
// member allows. A group that was empty waits for more members instead.
func (t *turn) prepareRebalance(g *group) {
	if g.state == completing {
		for _, m := range g.members {
			m.assignment = []byte{}
		}
		t.answerSyncs(g, protocol.ErrRebalanceInProgress)
	}
	clear(g.pendingSync)
	t.cancel(syncKey(g.name))
	first := g.state == empty
	g.become(preparing, nowMs(t.now))
	t.log.Info().Str("group", g.name).Int32("generation", g.generation).Int("members", len(g.members)).Msg("group rebalances")
	if first {
		g.newcomers = false
		delay := int32(t.cfg.InitialRebalanceDelay.Milliseconds())
		remaining := max(g.rebalanceTimeoutMs()-delay, 0)
		t.timer(joinKey(g.name), ms(delay), initialDelay{g.name, delay, remaining})
		return
	}
	if g.allJoined() {
		t.completeJoin(g)
		return
	}
	t.timer(joinKey(g.name), ms(g.rebalanceTimeoutMs()), joinExpired{g.name})
}

// initialDelayPassed ends the first rebalance, unless somebody came during the
// delay and there is time left to wait for more.
func (t *turn) initialDelayPassed(e initialDelay) {
	g := t.groups[e.group]
	if g == nil {
		return
	}
	if !g.newcomers || e.remaining == 0 {
		t.completeJoin(g)
		return
	}
	g.newcomers = false
	delay := min(int32(t.cfg.InitialRebalanceDelay.Milliseconds()), e.remaining)
	t.timer(joinKey(g.name), ms(delay), initialDelay{g.name, delay, max(e.remaining-e.delay, 0)})
}

// completeJoin begins the next generation with those who have joined. Static
// members stay until their session ends.
func (t *turn) completeJoin(g *group) {
	t.cancel(joinKey(g.name))
	if g.state != preparing {
		return
	}
	var late []string
	for _, m := range g.members {
		if !m.awaitsJoin() && m.instance == nil {
			late = append(late, m.id)
		}
	}
	for _, id := range late {
		g.remove(id)
		t.cancel(sessionKey(g.name, id))
		t.log.Info().Str("group", g.name).Str("member", id).Msg("member did not rejoin in time: removed")
	}
	if !g.electJoined() && len(g.members) > 0 {
		// Static members alone, and none of them here: wait on.
		t.timer(joinKey(g.name), ms(g.rebalanceTimeoutMs()), joinExpired{g.name})
		return
	}
	g.nextGeneration(nowMs(t.now))
	if g.state == empty {
		t.log.Info().Str("group", g.name).Int32("generation", g.generation).Msg("group is empty")
		t.write(g, nil)
		return
	}
	t.log.Info().Str("group", g.name).Int32("generation", g.generation).Int("members", len(g.members)).
		Str("protocol", g.protocolName()).Str("leader", g.leader).Msg("group has a new generation")
	for _, m := range g.members {
		t.answerJoin(g, m, t.joined(g, m, g.leader == m.id))
		t.session(g, m)
		m.isNew = false
		g.pendingSync[m.id] = struct{}{}
	}
	t.timer(syncKey(g.name), ms(g.rebalanceTimeoutMs()), syncExpired{g.name, g.generation})
}

// syncExpired removes the members that joined and never asked for their
// assignment.
func (t *turn) syncExpired(e syncExpired) {
	g := t.groups[e.group]
	if g == nil || g.generation != e.generation || g.state != completing && g.state != stable || len(g.pendingSync) == 0 {
		return
	}
	var silent []string
	for _, m := range g.members {
		if _, ok := g.pendingSync[m.id]; ok {
			silent = append(silent, m.id)
		}
	}
	for _, id := range silent {
		g.remove(id)
		t.cancel(sessionKey(g.name, id))
		t.log.Info().Str("group", g.name).Str("member", id).Msg("member did not sync in time: removed")
	}
	t.prepareRebalance(g)
}
