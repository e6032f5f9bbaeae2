package memlog_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/raftlog"
	"github.com/klamm/klamm/raftlog/memlog"
)

// list is a state machine that lists what is applied.
type list struct{ got []string }

func (l *list) Apply(entries []raftlog.Entry) ([]int64, error) {
	var out []int64
	for _, e := range entries {
		out = append(out, int64(len(l.got)))
		l.got = append(l.got, fmt.Sprintf("%s@%d", e.Data, e.Term))
	}
	return out, nil
}

func (l *list) Snapshot() (raftlog.Snapshot, error)           { return nil, errors.New("none") }
func (l *list) Restore(raftlog.SnapshotMeta, io.Reader) error { return errors.New("none") }
func first(protocol.ControllerEpoch) []byte                   { return []byte("first") }
func (l *list) check(t *testing.T, what string, want ...string) {
	t.Helper()
	if !slices.Equal(l.got, want) {
		t.Errorf("%s: applied %v, want %v", what, l.got, want)
	}
}

// steps runs f over a log that leads and holds, inside a synctest bubble.
func steps(t *testing.T, f func(t *testing.T, l *memlog.Log, m *list, propose func(string) *error)) {
	synctest.Test(t, func(t *testing.T) {
		m := &list{}
		l := memlog.New(memlog.Config{NodeID: 1, StateMachine: m, FirstEntry: first})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- l.Run(ctx) }()
		synctest.Wait()
		cur, _ := l.Leadership()
		if !cur.Leading || cur.Epoch != 1 {
			t.Fatalf("%+v", cur)
		}
		l.Hold()
		f(t, l, m, func(text string) *error {
			pending := errors.New("waits")
			result := &pending
			go func() {
				_, err := l.Propose(ctx, 1, []byte(text))
				*result = err
			}()
			synctest.Wait()
			return result
		})
		l.Release()
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestHoldAndCommit(t *testing.T) {
	steps(t, func(t *testing.T, l *memlog.Log, m *list, propose func(string) *error) {
		a := propose("a")
		b := propose("b")
		if *a == nil || *b == nil || string(l.Pending()) != "a" {
			t.Errorf("a: %v, b: %v, pending %s", *a, *b, l.Pending())
		}
		m.check(t, "held", "first@1")
		l.Commit()
		synctest.Wait()
		if *a != nil || *b == nil || string(l.Pending()) != "b" {
			t.Errorf("a: %v, b: %v, pending %s", *a, *b, l.Pending())
		}
		l.Release()
		synctest.Wait()
		if *b != nil || l.Pending() != nil {
			t.Errorf("b: %v, pending %s", *b, l.Pending())
		}
		m.check(t, "released", "first@1", "a@1", "b@1")
	})
}

func TestUnknownOutcome(t *testing.T) {
	for name, committed := range map[string]bool{"committed after all": true, "lost": false} {
		t.Run(name, func(t *testing.T) {
			steps(t, func(t *testing.T, l *memlog.Log, m *list, propose func(string) *error) {
				a := propose("a")
				l.Lose()
				synctest.Wait()
				if !errors.Is(*a, raftlog.ErrUnknownOutcome) {
					t.Errorf("a: %v", *a)
				}
				b := propose("b") // its turn comes when the fate of a is known
				if string(l.Pending()) != "a" {
					t.Errorf("pending %s", l.Pending())
				}
				want := []string{"first@1"}
				if committed {
					l.Commit()
					want = append(want, "a@1")
				} else {
					l.Forget()
				}
				synctest.Wait()
				m.check(t, name, want...)
				l.Commit()
				synctest.Wait()
				if *b != nil {
					t.Errorf("b: %v", *b)
				}
				m.check(t, name, append(want, "b@1")...)
			})
		})
	}
}

func TestDepose(t *testing.T) {
	steps(t, func(t *testing.T, l *memlog.Log, m *list, propose func(string) *error) {
		a := propose("a")
		_, changed := l.Leadership()
		l.Depose(2)
		<-changed
		synctest.Wait()
		if !errors.Is(*a, raftlog.ErrUnknownOutcome) {
			t.Errorf("a: %v", *a)
		}
		if cur, _ := l.Leadership(); cur.Leading || cur.Leader != 2 || cur.Epoch != 2 {
			t.Errorf("%+v", cur)
		}
		l.Forget()
		l.Append([]byte("theirs"))
		m.check(t, "deposed", "first@1", "theirs@2")
		if b := propose("b"); !errors.Is(*b, protocol.ErrNotController) {
			t.Errorf("b: %v", *b)
		}
		l.Lead()
		if cur, _ := l.Leadership(); !cur.Leading || cur.Epoch != 3 || cur.Offset != 2 {
			t.Errorf("%+v", cur)
		}
		m.check(t, "leading again", "first@1", "theirs@2", "first@3")
	})
}

func TestLeadCommitsWhatIsPending(t *testing.T) {
	steps(t, func(t *testing.T, l *memlog.Log, m *list, propose func(string) *error) {
		propose("a")
		l.Depose(protocol.NoNode)
		l.Lead()
		m.check(t, "leading again", "first@1", "a@1", "first@3")
	})
}
