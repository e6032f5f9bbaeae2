package vfs

import (
	"maps"
	"math/rand/v2"
	"slices"
)

// Crash returns the file system that a machine finds after a power cut. With
// a nil rng it holds what was synced and nothing else. With an rng some of
// the rest is there too, as a kernel that wrote back in its own time and
// order leaves it: of each directory's unsynced changes a random first part,
// of each file's unsynced writes any subset, each of them possibly torn.
func (m *Mem) Crash(rng *rand.Rand) *Mem {
	m.mu.Lock()
	defer m.mu.Unlock()
	return &Mem{root: m.root.crash(rng), locked: map[string]bool{}, now: m.now}
}

// Kill returns the file system that the next process finds after kill -9:
// everything written is there, and counts as durable from now on; locks are gone.
func (m *Mem) Kill() *Mem {
	m.mu.Lock()
	defer m.mu.Unlock()
	return &Mem{root: m.root.kill(), locked: map[string]bool{}, now: m.now}
}

func (n *node) crash(rng *rand.Rand) *node {
	out := &node{isDir: n.isDir, modified: n.modified}
	if n.isDir {
		names := maps.Clone(n.durable)
		if rng != nil && len(n.dirOps) > 0 {
			for _, op := range n.dirOps[:rng.IntN(len(n.dirOps)+1)] {
				delete(names, op.remove)
				if op.add != "" {
					names[op.add] = op.node
				}
			}
		}
		out.entries = make(map[string]*node, len(names))
		for _, name := range slices.Sorted(maps.Keys(names)) { // the same rng, the same rest
			out.entries[name] = names[name].crash(rng)
		}
		out.durable = maps.Clone(out.entries)
		return out
	}
	out.synced = append([]byte(nil), n.synced...)
	if rng != nil {
		for _, w := range n.unsynced {
			if rng.IntN(2) == 0 {
				continue
			}
			if len(w.data) > 0 && rng.IntN(4) == 0 {
				w.data = w.data[:rng.IntN(len(w.data))+1]
			}
			out.synced = w.applyTo(out.synced)
		}
	}
	out.data = append([]byte(nil), out.synced...)
	return out
}

func (n *node) kill() *node {
	out := &node{isDir: n.isDir, modified: n.modified}
	if n.isDir {
		out.entries = make(map[string]*node, len(n.entries))
		for name, child := range n.entries {
			out.entries[name] = child.kill()
		}
		out.durable = maps.Clone(out.entries)
		return out
	}
	out.data = append([]byte(nil), n.data...)
	out.synced = append([]byte(nil), n.data...)
	return out
}
