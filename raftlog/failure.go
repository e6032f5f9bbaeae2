package raftlog

import "sync"

// failure is the error that ends the engine: the first one reported.
type failure struct {
	once sync.Once
	err  error
	dead chan struct{} // closed once err is set
}

func newFailure() *failure { return &failure{dead: make(chan struct{})} }

func (f *failure) set(err error) {
	f.once.Do(func() {
		f.err = err
		close(f.dead)
	})
}

// get returns nil as long as all is well.
func (f *failure) get() error {
	select {
	case <-f.dead:
		return f.err
	default:
		return nil
	}
}
