package server

import (
	"context"
	"math/bits"
	"sync"

	"golang.org/x/sync/semaphore"
)

// defaultMemory is what a server without a Memory of its own may use.
const defaultMemory = 512 << 20

// Memory bounds the bytes of requests that are being read or handled, as
// queued.max.request.bytes does. Whoever finds it used up waits, which stops
// its connection from being read.
//
// There are several budgets, taken in this order by one request, so that
// nobody who holds a later one waits for an earlier one:
//
//	eager    the buffer of a request, or the first MiB of a larger one, at once
//	         when its first 16 KiB have come
//	steps    the same where eager is used up: a buffer of 16 KiB, exchanged for
//	         one four times as large each time that it has been filled
//	large    the rest of a request above 1 MiB, taken for the whole of it once
//	         its first MiB has come: a claimed length alone takes nothing here
//	decode   what decoding is expected to allocate, where that is much
//
// Nobody waits for eager. So clients that send 16 KiB of a MiB and then nothing
// can use it up, and all that it does to others is that their buffers grow as
// their bytes arrive.
//
// Requests up to smallFrame are read inside the connection's own read buffer
// and take no budget: heartbeats get through when producers have used up all.
// A connection of larger ones reads into a buffer that counts as eager, where
// there is some (input.go).
type Memory struct {
	eager, large, decode budget
	steps                [classes]budget // by class; the first is not used
}

// NewMemory shares bytes out over the budgets.
func NewMemory(bytes int64) *Memory {
	m := &Memory{
		eager:  newBudget(bytes / 8),
		large:  newBudget(max(bytes/2, maxPooled)),
		decode: newBudget(max(bytes/4, maxPooled)),
	}
	for c := range m.steps {
		m.steps[c] = newBudget(max(bytes/32, int64(classSize(c))))
	}
	return m
}

// budget is a number of bytes. A request for more than all of it gets all of it.
type budget struct {
	size int64
	sem  *semaphore.Weighted
}

func newBudget(size int64) budget { return budget{size, semaphore.NewWeighted(size)} }

func (b budget) acquire(ctx context.Context, n int64) (int64, error) {
	n = min(n, b.size)
	return n, b.sem.Acquire(ctx, n)
}

// tryAcquire does not wait, and takes all of n or nothing.
func (b budget) tryAcquire(n int64) bool { return n <= b.size && b.sem.TryAcquire(n) }

func (b budget) release(n int64) { b.sem.Release(n) }

// Buffers are pooled in classes of 4 KiB, 16 KiB, … 1 MiB, each with room for
// what a request says around its records: producers fill their batches to a
// power of two, 1 MiB at most by default, and a frame that is a few bytes larger
// should not cost a buffer of four times the size, or one that is not pooled.
// Larger ones are left to the garbage collector: a pool would keep the rare
// giant for ever.
const (
	headroom = 1 << 10
	classes  = 5
	// claimedClass is that of the buffer which a claimed length alone can have.
	claimedClass = 1

	minPooled = 4<<10 + headroom
	maxPooled = 4<<10<<(2*(classes-1)) + headroom
)

var pools [classes]sync.Pool

// class returns the smallest class that holds n bytes.
func class(n int) int {
	if n <= minPooled {
		return 0
	}
	return (bits.Len(uint(n-headroom-1)) - 12 + 1) / 2
}

func classSize(c int) int { return 4<<10<<(2*c) + headroom }

// getBuffer returns a buffer of length n. Above maxPooled it is freshly made.
func getBuffer(n int) *[]byte {
	c := class(n)
	if c >= classes {
		b := make([]byte, n)
		return &b
	}
	if b, ok := pools[c].Get().(*[]byte); ok {
		*b = (*b)[:n]
		return b
	}
	b := make([]byte, n, classSize(c))
	return &b
}

// putBuffer gives a buffer back. It may have grown by append; whatever is not
// at least of the smallest class, or larger than the largest, is dropped.
func putBuffer(b *[]byte) {
	n := cap(*b)
	if n < minPooled || n > maxPooled {
		return
	}
	c := class(n)
	if classSize(c) > n {
		c--
	}
	pools[c].Put(b)
}
