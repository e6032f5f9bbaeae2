package controller

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestLateCommit: the deadline is that of the decision. What was decided in time
// and is committed later is answered as what it is.
func TestLateCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, testConfig())
		defer w.stop()
		w.join(1, 'a')
		w.log.Hold()
		inFlight := w.c.CreateTopics(creation(1, "a"), "", time.Now().Add(time.Second))
		time.AfterFunc(5*time.Second, w.log.Release)
		done, err := inFlight.Wait(t.Context())
		if err != nil || done.Response.Topics[0].ErrorCode != 0 {
			t.Errorf("%+v, %v", done, err)
		}
	})
}
