package server

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/protocol"
)

var (
	errUnsupported = fmt.Errorf("%w: api or version is not served", errUnreadable)
	errDecode      = fmt.Errorf("%w: it cannot be decoded", errUnreadable)
)

// dispatch handles the request in a frame and sees to its answer. An error
// ends the connection once earlier answers have been written.
func (c *Conn) dispatch(ctx context.Context, cancel context.CancelFunc, bytes []byte) error {
	now := time.Now()
	c.lastActive.Store(now.UnixNano())
	h, body, err := protocol.ParseRequestHeader(bytes)
	if err != nil {
		return fmt.Errorf("%w: %w", errDecode, err)
	}
	api := c.server.api(h.Key)
	if api == nil {
		return fmt.Errorf("%w: key %d", errUnsupported, h.Key)
	}
	if !(api.RunsAhead && c.ahead) {
		if err := c.awaitWritten(ctx); err != nil {
			return err
		}
	}
	p := pending{key: h.Key, version: h.Version, correlationID: h.CorrelationID, runsAhead: api.RunsAhead}
	if h.Version < api.Min || h.Version > api.Max {
		if h.Key != protocol.KeyAPIVersions {
			return fmt.Errorf("%w: key %d version %d", errUnsupported, h.Key, h.Version)
		}
		p.version = 0
		p.answer = tooNewAPIVersions(api)
		return c.answer(ctx, cancel, &p)
	}
	req := &Request{
		Key: h.Key, Version: h.Version, CorrelationID: h.CorrelationID, ClientID: c.internClientID(h.ClientID),
		Conn: c, Received: now, FrameSize: len(bytes),
	}
	held, err := c.decode(ctx, req, body)
	if held > 0 {
		defer c.server.cfg.Memory.decode.release(held)
	}
	if err != nil {
		return err
	}
	if c.server.cfg.Authorize != nil {
		if err := c.server.cfg.Authorize(ctx, req); err != nil {
			return err
		}
	}
	p.answer = c.handle(ctx, api, req)
	if err := c.answer(ctx, cancel, &p); err != nil {
		return err
	}
	if c.server.cfg.Throttle != nil {
		if d := c.server.cfg.Throttle(req); d > 0 {
			return pause(ctx, d)
		}
	}
	return nil
}

// newRequest makes the struct of a request; a test has one that panics.
var newRequest = kmsg.RequestForKey

// decode reads the body into req.Body. held is what it took of the budget for
// decoding; the caller gives it back, after an error too.
func (c *Conn) decode(ctx context.Context, req *Request, body []byte) (held int64, err error) {
	defer c.decoderPanicked(req, &err)
	if len(body) > freeStructure {
		n, ok := structureSize(req.Key, req.Version, body)
		if !ok || n > maxStructure {
			return 0, fmt.Errorf("%w: key %d version %d: %d bytes beside records", errDecode, req.Key, req.Version, n)
		}
		if n > freeStructure {
			if held, err = c.server.cfg.Memory.decode.acquire(ctx, int64(n)*decodedPerByte); err != nil {
				return 0, err
			}
		}
	}
	req.Body = newRequest(req.Key)
	req.Body.SetVersion(req.Version)
	if err := req.Body.ReadFrom(body); err != nil {
		return held, fmt.Errorf("%w: key %d version %d: %w", errDecode, req.Key, req.Version, err)
	}
	return held, nil
}

// decoderPanicked is deferred by decode. The bytes are the client's and the
// decoder holds nothing of ours, so the connection alone ends.
func (c *Conn) decoderPanicked(req *Request, err *error) {
	if p := recover(); p != nil {
		c.log.Error().Int16("api_key", req.Key).Int16("api_version", req.Version).Str("panic", fmt.Sprint(p)).
			Bytes("stack", debug.Stack()).Msg("bug: decoding a request panicked")
		*err = fmt.Errorf("%w: key %d version %d: panic: %v", errDecode, req.Key, req.Version, p)
	}
}

// handle calls the handler. It may hold locks and have changed half of
// something: a panic ends the process, and says before what was asked.
func (c *Conn) handle(ctx context.Context, api *API, req *Request) Answer {
	panics := true
	defer c.blame(req.Key, req.Version, &panics)
	a := api.Handle(ctx, req)
	panics = false
	return a
}

// blame is deferred where a panic ends the process.
func (c *Conn) blame(key, version int16, panics *bool) {
	if *panics {
		c.log.WithLevel(zerolog.FatalLevel).Int16("api_key", key).Int16("api_version", version).
			Msg("bug: a request's handler panicked, the process ends")
	}
}

// tooNewAPIVersions answers an ApiVersions request of a version that is not
// served: in version 0, with no range but its own, so that the client can ask
// again (KIP-511).
func tooNewAPIVersions(api *API) Answer {
	resp := kmsg.NewPtrApiVersionsResponse()
	resp.ErrorCode = int16(protocol.ErrUnsupportedVersion)
	k := kmsg.NewApiVersionsResponseApiKey()
	k.ApiKey, k.MinVersion, k.MaxVersion = api.Key, api.Min, api.Max
	resp.ApiKeys = append(resp.ApiKeys, k)
	return Answer{Response: resp}
}

// internClientID returns the client id as a string that does not alias the frame.
func (c *Conn) internClientID(id []byte) string {
	if string(id) != c.clientID {
		c.clientID = string(id)
	}
	return c.clientID
}

// awaitWritten waits until all answers so far have been written. The writer
// disposes of what it cannot write, so this ends.
func (c *Conn) awaitWritten(ctx context.Context) error {
	for c.unanswered.Load() > 0 {
		<-c.written
	}
	c.ahead = true
	return ctx.Err()
}

// answer writes the answer, or leaves it to the writer where it has to wait
// for something or for its turn.
func (c *Conn) answer(ctx context.Context, cancel context.CancelFunc, p *pending) error {
	if p.answer.Wait == nil && c.unanswered.Load() == 0 {
		return c.write(ctx, p)
	}
	if c.queue == nil {
		c.queue = make(chan pending, c.server.cfg.MaxUnanswered)
		c.written = make(chan struct{}, 1)
		c.writerDone = make(chan struct{})
		go c.runWriter(ctx, cancel)
	}
	c.ahead = c.ahead && p.runsAhead
	c.unanswered.Add(1)
	c.queue <- *p
	return nil
}

// pause leaves the connection unread for a while.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
