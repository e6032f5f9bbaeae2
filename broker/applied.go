package broker

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/klamm/klamm/metadata"
)

// Replicas is what acts on the metadata: it leads, follows, stops and deletes.
type Replicas interface {
	// Apply does what a delta asks for and returns when clients can see it: a
	// partition that is to be led here can be produced to. It is called in order.
	Apply(delta *metadata.Delta, img *metadata.Image)
}

// Applied is the metadata as far as this broker has acted on it. A broker
// answers its clients from this image, so that no client hears of a leader that
// does not lead yet.
type Applied struct {
	replicas Replicas // nil: nothing to be done
	notify   func()   // called after every image, may be nil
	image    atomic.Pointer[metadata.Image]

	mu       sync.Mutex
	changed  chan struct{} // closed at the next image
	expected map[*Expectation]struct{}
}

func newApplied(replicas Replicas, notify func()) *Applied {
	a := &Applied{replicas: replicas, notify: notify, changed: make(chan struct{}), expected: make(map[*Expectation]struct{})}
	a.image.Store(metadata.Empty())
	return a
}

// Publish has the replicas act on the next image. It is called by the
// metadata's goroutine only.
func (a *Applied) Publish(delta *metadata.Delta, img *metadata.Image) {
	if a.replicas != nil {
		a.replicas.Apply(delta, img)
	}
	a.image.Store(img)
	a.mu.Lock()
	changed := a.changed
	a.changed = make(chan struct{})
	for e := range a.expected {
		e.observe(img)
	}
	a.mu.Unlock()
	close(changed)
	if a.notify != nil {
		a.notify()
	}
}

// Image returns the image that the replicas have acted on.
func (a *Applied) Image() *metadata.Image { return a.image.Load() }

// next returns the image and a channel that is closed when there is another.
func (a *Applied) next() (*metadata.Image, <-chan struct{}) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.image.Load(), a.changed
}

// Wait returns the first image from now on that fulfils the condition, or ctx's
// error.
func (a *Applied) Wait(ctx context.Context, holds func(*metadata.Image) bool) (*metadata.Image, error) {
	for {
		img, changed := a.next()
		if holds(img) {
			return img, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// WaitApplied waits until the replicas have acted on the record at offset.
func (a *Applied) WaitApplied(ctx context.Context, offset int64) error {
	_, err := a.Wait(ctx, func(img *metadata.Image) bool { return img.Offset() >= offset })
	return err
}

// Expectation waits for topics to appear, or to be gone, in the applied image.
// It looks at every image from its making on: a topic that is created by one
// image and deleted by the next has appeared.
type Expectation struct {
	applied *Applied
	appear  bool

	// The rest is guarded by applied.mu.
	pending map[string]struct{}
	changed chan struct{} // closed when a name leaves pending
}

// ExpectTopics begins to look for the named topics: for their presence where
// appear is set, else for their absence. Begin before asking the controller;
// Close when done.
func (a *Applied) ExpectTopics(appear bool, names []string) *Expectation {
	e := &Expectation{applied: a, appear: appear, pending: make(map[string]struct{}, len(names)), changed: make(chan struct{})}
	for _, name := range names {
		e.pending[name] = struct{}{}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.expected[e] = struct{}{}
	e.observe(a.image.Load())
	return e
}

// Close ends the looking.
func (e *Expectation) Close() {
	e.applied.mu.Lock()
	defer e.applied.mu.Unlock()
	delete(e.applied.expected, e)
}

// observe strikes out the names that are as expected. Called under applied.mu.
func (e *Expectation) observe(img *metadata.Image) {
	struck := false
	for name := range e.pending {
		if _, ok := img.Topic(name); ok == e.appear {
			delete(e.pending, name)
			struck = true
		}
	}
	if struck {
		close(e.changed)
		e.changed = make(chan struct{})
	}
}

// Wait returns when all of names have been seen as expected, or with ctx's error.
func (e *Expectation) Wait(ctx context.Context, names []string) error {
	for {
		e.applied.mu.Lock()
		waiting := false
		for _, name := range names {
			if _, ok := e.pending[name]; ok {
				waiting = true
				break
			}
		}
		changed := e.changed
		e.applied.mu.Unlock()
		if !waiting {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
