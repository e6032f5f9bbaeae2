package replay

import "sync"

// bell wakes all who wait for the next of something.
type bell struct {
	mu   sync.Mutex
	next chan struct{} // nil while nobody waits
}

// wait returns a channel that is closed at the next ring.
func (b *bell) wait() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.next == nil {
		b.next = make(chan struct{})
	}
	return b.next
}

func (b *bell) ring() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.next != nil {
		close(b.next)
		b.next = nil
	}
}

// Grown returns a channel that is closed when the log has grown since the call.
func (r *Replayer) Grown() <-chan struct{} { return r.grown.wait() }
