package probe

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

var errRefused = fmt.Errorf("dial: %w", syscall.ECONNREFUSED)

// silent is an address that does not answer, whose name has another one that
// refuses: the dialler reports the first.
func silent(ctx context.Context) error {
	<-ctx.Done()
	return errRefused
}

func TestGone(t *testing.T) {
	refuse := func(context.Context) error { return errRefused }
	accept := func(context.Context) error { return nil }
	reset := func(context.Context) error { return errors.New("reset") }
	for _, c := range []struct {
		name  string
		dials []func(context.Context) error
		gone  bool
		took  time.Duration
	}{
		{"refused twice", []func(context.Context) error{refuse, refuse}, true, 50 * time.Millisecond},
		{"accepted", []func(context.Context) error{accept, accept}, false, afterlife},
		{"closed a little later", []func(context.Context) error{accept, refuse, refuse}, true, afterlife + 50*time.Millisecond},
		{"opened again", []func(context.Context) error{refuse, accept}, false, 50 * time.Millisecond},
		{"closed and opened again", []func(context.Context) error{accept, refuse, accept}, false, afterlife + 50*time.Millisecond},
		{"another error", []func(context.Context) error{reset, reset}, false, afterlife},
		{"silent", []func(context.Context) error{silent, silent}, false, afterlife + 2*timeout},
		{"silent later", []func(context.Context) error{refuse, silent}, false, 50*time.Millisecond + timeout},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start, n := time.Now(), 0
				gone := Gone(t.Context(), func(ctx context.Context, _ string) error {
					n++
					return c.dials[n-1](ctx)
				}, "b:9092", 50*time.Millisecond)
				if gone != c.gone || n != len(c.dials) || time.Since(start) != c.took {
					t.Errorf("gone = %v after %d dials and %v", gone, n, time.Since(start))
				}
			})
		})
	}
}

func TestTCP(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := ln.Addr().String()
	if !Reached(t.Context(), TCP, addr) || Gone(t.Context(), TCP, addr, time.Millisecond) {
		t.Error("a listener is not found")
	}
	if err := ln.Close(); err != nil {
		t.Fatal(err)
	}
	if Reached(t.Context(), TCP, addr) || !Gone(t.Context(), TCP, addr, time.Millisecond) {
		t.Error("a closed listener is not found closed")
	}
}
