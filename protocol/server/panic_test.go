package server

import (
	"bytes"
	"context"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// panicEnv names the panic that a child of TestPanicEndsTheProcess is to have.
const panicEnv = "KLAMM_TEST_PANIC"

// A handler that panics, at once or later, has left something half done: the
// process ends, and says which request it was.
func TestPanicEndsTheProcess(t *testing.T) {
	if kind := os.Getenv(panicEnv); kind != "" {
		panicIn(t, kind)
		return
	}
	for kind, stack := range map[string]string{
		"handler": "server.panics",
		"wait":    "server.panics",
		"nothing": "says nothing",
	} {
		cmd := exec.Command(os.Args[0], "-test.run=^TestPanicEndsTheProcess$")
		cmd.Env = append(os.Environ(), panicEnv+"="+kind)
		out, err := cmd.CombinedOutput()
		if exit, ok := err.(*exec.ExitError); !ok || exit.ExitCode() != 2 {
			t.Errorf("%s: the process ended with %v", kind, err)
		}
		if !bytes.Contains(out, []byte(stack)) {
			t.Errorf("%s: no word of it on stderr:\n%s", kind, out)
		}
		named := bytes.Contains(out, []byte(`"level":"fatal"`)) && bytes.Contains(out, []byte(`"api_key":3,"api_version":9`))
		if kind != "nothing" && !named {
			t.Errorf("%s: the log does not name the request:\n%s", kind, out)
		}
	}
}

var nopLog = zerolog.Nop()

func panics() Answer { panic("half done") }

func panicIn(t *testing.T, kind string) {
	addr := startLogging(t, zerolog.New(os.Stderr), metadata(func(context.Context, *Request) Answer {
		switch kind {
		case "handler":
			return panics()
		case "wait":
			return Answer{Wait: func(context.Context) Answer { return panics() }}
		}
		return Answer{}
	}))
	p := connect(t, addr)
	p.send(1, metadataRequest())
	p.expectClosed()
}

// startLogging serves the APIs with a log until the test ends.
func startLogging(t *testing.T, log zerolog.Logger, apis ...API) (addr string) {
	s, err := New(Config{}, apis, log)
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error)
	go func() { served <- s.Serve(ctx, ln) }()
	t.Cleanup(func() {
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return ln.Addr().String()
}

// brokenRequest panics when it is decoded.
type brokenRequest struct{ kmsg.MetadataRequest }

func (*brokenRequest) ReadFrom([]byte) error { panic("in the decoder") }

// A panic of the decoder is logged as the bug that it is and ends the client's
// connection only.
func TestDecoderThatPanics(t *testing.T) {
	var logged strings.Builder
	newRequest = func(key int16) kmsg.Request {
		if key == 3 {
			return new(brokenRequest)
		}
		return kmsg.RequestForKey(key)
	}
	t.Cleanup(func() { newRequest = kmsg.RequestForKey })
	t.Run("", func(t *testing.T) {
		addr := startLogging(t, zerolog.New(zerolog.SyncWriter(&logged)), metadata(empty), listGroups(empty))
		other, p := connect(t, addr), connect(t, addr)
		p.send(1, metadataRequest())
		p.expectClosed()
		other.send(9, listGroupsRequest())
		other.expect(9)
	})
	if log := logged.String(); strings.Count(log, `"level":"error"`) != 1 || !strings.Contains(log, "in the decoder") {
		t.Errorf("log: %s", log)
	}
}
