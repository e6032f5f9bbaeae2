package fetcher

import (
	"slices"
	"testing"
	"testing/synctest"
)

// TestResize: with another number of fetchers each partition is pulled by one of them.
func TestResize(t *testing.T) {
	run(t, 20, func(w *world) {
		all := partitions(w.fetch(t))
		pulled := func(fetchers int) {
			t.Helper()
			synctest.Wait()
			w.pool.mu.Lock()
			defer w.pool.mu.Unlock()
			var got []int32
			for _, f := range w.pool.fetchers {
				for k := range f.entries {
					got = append(got, k.partition)
				}
			}
			slices.Sort(got)
			if len(w.pool.fetchers) != fetchers || !slices.Equal(got, all) {
				t.Fatalf("%d fetchers pull %v, want %d and %v", len(w.pool.fetchers), got, fetchers, all)
			}
		}
		pulled(1)
		w.pool.Resize(3)
		pulled(3)
		two, three := partitions(w.fetch(t)), partitions(w.fetch(t))
		if len(two) == 0 || len(three) == 0 || len(two)+len(three) >= 20 {
			t.Fatalf("the new ones fetch %v and %v", two, three)
		}
		// What was on its way for a partition that has moved is no harm.
		for range 3 {
			w.answers <- answer(9)
		}
		forgotten := 0
		for range 3 {
			forgotten += len(w.fetch(t).ForgottenTopics)
		}
		if forgotten != len(two)+len(three) {
			t.Fatalf("%d are forgotten, want %d", forgotten, len(two)+len(three))
		}
		w.pool.Resize(1)
		pulled(1)
		w.answers <- answer(9)
		for {
			if back := partitions(w.fetch(t)); len(back) == len(two)+len(three) {
				return
			}
		}
	})
}
