package api

import (
	"context"
	"fmt"
	"time"

	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/broker/replica"
	"github.com/klamm/klamm/metadata"
	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/protocol/server"
	"github.com/klamm/klamm/quota"
)

// FetchConfig are the limits of Fetch. Zero values mean Kafka's defaults.
type FetchConfig struct {
	// MaxBytes bounds the records of an answer, whatever the client allows
	// (fetch.max.bytes, default 55 MiB). The first batch comes whole even so.
	MaxBytes int32
	// SessionSlots bounds the sessions (max.incremental.fetch.session.cache.slots,
	// default 1000). A client that gets none sends all its partitions every time.
	SessionSlots int
	// SessionIdle is how long a session is kept from being evicted after its last
	// use (Kafka's MIN_INCREMENTAL_FETCH_SESSION_EVICTION_MS, 2 minutes).
	SessionIdle time.Duration
	// RackAware sends consumers that name their rack to a follower in it
	// (replica.selector.class, KIP-392; default false).
	RackAware bool
	// Throttle holds what replicas fetch that have to catch up, where topics say so
	// (leader.replication.throttled.rate). Default: none.
	Throttle *quota.Rate
}

func (c *FetchConfig) setDefaults() {
	if c.MaxBytes == 0 {
		c.MaxBytes = 55 << 20
	}
	if c.SessionSlots == 0 {
		c.SessionSlots = 1000
	}
	if c.SessionIdle == 0 {
		c.SessionIdle = 2 * time.Minute
	}
}

// caughtUpSource has images, and can wait until they show what the controller had
// committed when it was asked to.
type caughtUpSource interface {
	imageSource
	CatchUp(ctx context.Context) error
}

// followedSource finds partitions, and tells when a follower gets another one.
type followedSource interface {
	partitionSource
	ParkForArrival(w *replica.Waiter, follower protocol.NodeID, deadline time.Time) (until time.Time, leave func() bool)
}

// Fetch answers Fetch requests of consumers and of other replicas.
type Fetch struct {
	cfg        FetchConfig
	images     caughtUpSource
	partitions followedSource
	sessions   *fetchSessions
	log        zerolog.Logger
}

// NewFetch returns the handler over the partitions of this broker.
func NewFetch(cfg FetchConfig, images caughtUpSource, partitions followedSource, log zerolog.Logger) *Fetch {
	cfg.setDefaults()
	return &Fetch{
		cfg: cfg, images: images, partitions: partitions,
		sessions: newFetchSessions(cfg.SessionSlots, cfg.SessionIdle), log: log,
	}
}

// API returns what the server serves by this handler.
func (h *Fetch) API() server.API {
	return server.Serve(kmsg.Fetch, h.Handle)
}

// fetchRun is one fetch on its way: parked or not, it is owned by one goroutine
// at a time, first the connection's reader, then its writer.
type fetchRun struct {
	h        *Fetch
	version  int16
	listener string // whose endpoints the client can use
	received time.Time
	deadline time.Time
	minBytes int
	maxBytes int
	byID     bool
	replica  protocol.NodeID // NoNode for a consumer
	// replicaEpoch is the broker epoch of that replica, −1 where it does not tell.
	replicaEpoch protocol.BrokerEpoch
	follower     bool
	// rack is where a consumer stands, "" where it does not tell; followerToo says
	// that it may be answered by a follower.
	rack        string
	followerToo bool

	readCommitted bool

	items []fetchItem

	session      *fetchSession // of an incremental fetch
	sessionEpoch int32         // that the session has after this request
	wantsSession bool          // a full fetch that would like one
}

// fetchItem is one partition of a fetch, in the order of reading.
type fetchItem struct {
	key       fetchKey
	want      fetchWant
	name      string            // the topic's; "" where its id was never known
	cached    *sessionPartition // in the session of an incremental fetch
	partition *replica.Partition
	fetched   replica.Fetched
	size      int // of the records read
	// sent says that nothing was read here, since elsewhere, a follower, is the one
	// to read from.
	sent      bool
	elsewhere protocol.NodeID
	err       error
	// unknown says that err came before the partition was asked; Kafka writes
	// the list of aborted transactions as empty then, else as null.
	unknown   bool
	unchanged bool // left out of an incremental answer
	quiet     bool // watched from here on
	// group is, at the first of the partitions of one topic that stand together in
	// the answer, their number; 0 at the others.
	group int
}

// highWatermark is the one to answer.
func (it *fetchItem) highWatermark() int64 {
	if it.err != nil {
		return -1
	}
	return it.fetched.HighWatermark
}

// logStartOffset is the one to answer.
func (it *fetchItem) logStartOffset() int64 {
	if it.err != nil {
		return -1
	}
	return it.fetched.LogStartOffset
}

// Handle reads what is there and answers it, or parks the request until there is
// enough or its time is up.
func (h *Fetch) Handle(_ context.Context, req *server.Request) server.Answer {
	body := req.Body.(*kmsg.FetchRequest)
	if body.IsolationLevel != 0 && body.IsolationLevel != 1 {
		return refuseFetch(body, protocol.ErrUnknownServerError)
	}
	run := h.newRun(body, req)
	if err := h.sessions.begin(run, body, req.Received); err != nil {
		return server.Answer{Response: fetchError(body.Version, err, noFetchSession)}
	}
	h.resolve(run)
	if run.read() || body.MaxWaitMillis <= 0 {
		if run.doubtful() {
			return server.Answer{Wait: run.ascertain}
		}
		return run.answer()
	}
	run.deadline = req.Received.Add(time.Duration(body.MaxWaitMillis) * time.Millisecond)
	return server.Answer{Wait: run.wait}
}

func (h *Fetch) newRun(body *kmsg.FetchRequest, req *server.Request) *fetchRun {
	run := &fetchRun{
		h:             h,
		version:       body.Version,
		listener:      req.Conn.Listener,
		received:      req.Received,
		maxBytes:      int(min(body.MaxBytes, h.cfg.MaxBytes)),
		byID:          body.Version >= 13,
		replica:       protocol.NodeID(body.ReplicaID),
		replicaEpoch:  -1,
		readCommitted: body.IsolationLevel == 1,
	}
	if body.Version >= 15 {
		run.replica, run.replicaEpoch = protocol.NodeID(body.ReplicaState.ID), protocol.BrokerEpoch(body.ReplicaState.Epoch)
	}
	run.follower = run.replica >= 0
	if body.Version >= 11 {
		run.rack = body.Rack
	}
	// Consumers of before v11 know nothing of followers, and take what they get for
	// the leader's.
	run.followerToo = !run.follower && (body.Version >= 11 || run.replica != protocol.NoNode)
	run.minBytes = min(int(body.MinBytes), run.maxBytes)
	return run
}

// addWanted lists the partitions that a full fetch names. One that is named
// twice is read once, as it was named last.
func (run *fetchRun) addWanted(body *kmsg.FetchRequest) {
	n := 0
	for i := range body.Topics {
		n += len(body.Topics[i].Partitions)
	}
	run.items = make([]fetchItem, 0, n)
	var seen map[fetchKey]int
	if n > fewPartitions {
		seen = make(map[fetchKey]int, n)
	}
	for i := range body.Topics {
		t := &body.Topics[i]
		for j := range t.Partitions {
			key, want := fetchKeyOf(t, j), fetchWantOf(&t.Partitions[j])
			if at := run.find(key, seen); at >= 0 {
				run.items[at].want = want
				continue
			}
			if seen != nil {
				seen[key] = len(run.items)
			}
			run.items = append(run.items, fetchItem{key: key, want: want, name: key.name})
		}
	}
}

// fewPartitions is up to how many partitions a duplicate is looked for by going
// through them all, which needs no map.
const fewPartitions = 16

func (run *fetchRun) find(key fetchKey, seen map[fetchKey]int) int {
	if seen != nil {
		if at, ok := seen[key]; ok {
			return at
		}
		return -1
	}
	for i := range run.items {
		if run.items[i].key == key {
			return i
		}
	}
	return -1
}

// resolve finds the partitions on this broker.
func (h *Fetch) resolve(run *fetchRun) {
	h.resolveFrom(run, 0)
}

// resolveFrom is resolve for the items from one on.
func (h *Fetch) resolveFrom(run *fetchRun, first int) {
	img := h.images.Image()
	for i := first; i < len(run.items); i++ {
		it := &run.items[i]
		topic, err := resolveFetchTopic(img, it, run.byID)
		if err == nil {
			if _, ok := topic.Partition(it.key.partition); !ok {
				err = protocol.ErrUnknownTopicOrPartition
			}
		}
		if err != nil {
			it.err, it.unknown = err, true
			continue
		}
		p, ok := h.partitions.Partition(topic.ID, it.key.partition)
		if !ok {
			it.err = protocol.ErrNotLeaderForPartition
			continue
		}
		it.partition = p
	}
}

// resolveFetchTopic finds the topic of an item. A topic that was known to the
// session by its id and is gone is told apart from one that was never known.
func resolveFetchTopic(img *metadata.Image, it *fetchItem, byID bool) (*metadata.Topic, error) {
	if !byID {
		if t, ok := img.Topic(it.key.name); ok {
			return t, nil
		}
		return nil, protocol.ErrUnknownTopicOrPartition
	}
	if t, ok := img.TopicByID(it.key.id); ok {
		it.name = t.Name
		return t, nil
	}
	if it.name == "" {
		return nil, protocol.ErrUnknownTopicID
	}
	if _, ok := img.Topic(it.name); ok {
		return nil, protocol.ErrInconsistentTopicID // created anew meanwhile
	}
	return nil, protocol.ErrUnknownTopicOrPartition
}

// read reads all partitions and reports whether the answer should leave at once:
// it has enough bytes, nothing was asked for, or there is news that does not wait
// (an error, a nearer replica, a diverging log, a high watermark that a replica does not know).
func (run *fetchRun) read() bool {
	left, ready, news := run.maxBytes, 0, len(run.items) == 0 && run.session == nil
	for i := range run.items {
		it := &run.items[i]
		if it.partition == nil {
			news = true
			continue
		}
		// Only the first batch of the whole answer may exceed the limits.
		run.readItem(it, left, ready == 0)
		ready += it.size
		left = max(0, left-it.size)
		if it.err != nil || it.sent || it.fetched.Diverges || run.follower && it.fetched.HighWatermark > it.want.highWatermark {
			news = true
		}
	}
	return news || ready >= run.minBytes
}

func (run *fetchRun) readItem(it *fetchItem, left int, minOneBatch bool) {
	if it.elsewhere, it.sent = run.elsewhere(it); it.sent {
		left, minOneBatch = 0, false
	}
	it.fetched, it.err = it.partition.Fetch(run.request(it, left, minOneBatch))
	if protocol.IsBug(it.err) {
		run.h.log.Error().Err(it.err).Str("topic", it.name).Int32("partition", it.key.partition).
			Int64("offset", it.want.offset).Msg("read failed")
	}
	if it.err == nil && run.version < 10 && it.partition.Config().FetchNeedsZstd() {
		// A client this old cannot read zstd (KIP-110).
		run.release(it)
		it.err, it.unknown = protocol.ErrUnsupportedCompressionType, true
	}
	it.size = 0
	if it.fetched.Records != nil {
		it.size = it.fetched.Records.Size()
	}
}

func (run *fetchRun) request(it *fetchItem, left int, minOneBatch bool) replica.FetchRequest {
	return replica.FetchRequest{
		Offset:             it.want.offset,
		MaxBytes:           min(int(it.want.maxBytes), left),
		MinOneBatch:        minOneBatch,
		ReadCommitted:      run.readCommitted,
		Replica:            run.replica,
		ReplicaEpoch:       run.replicaEpoch,
		CurrentLeaderEpoch: it.want.currentLeaderEpoch,
		LastFetchedEpoch:   it.want.lastFetchedEpoch,
		LogStartOffset:     it.want.logStartOffset,
		HighWatermark:      it.want.highWatermark,
		FollowerToo:        run.followerToo,
		Throttle:           run.h.cfg.Throttle,
	}
}

func (run *fetchRun) release(it *fetchItem) {
	if it.fetched.Records != nil {
		it.fetched.Records.Release()
		it.fetched.Records = nil
	}
}

func (run *fetchRun) releaseAll() {
	for i := range run.items {
		run.release(&run.items[i])
	}
}

// wait parks the fetch on its partitions until there is enough, or news, or its
// deadline. It runs on the connection's writer goroutine.
func (run *fetchRun) wait(ctx context.Context) server.Answer {
	w := replica.NewWaiter(len(run.items))
	for {
		// What was read is read again after the wait: a parked fetch holds no
		// segment.
		run.releaseAll()
		run.letQuiet()
		for i := range run.items {
			it := &run.items[i]
			it.partition.ParkForFetch(w, run.request(it, 0, false), it.fetched)
		}
		woken, another := run.parked(ctx, w)
		if run.awake() {
			w = replica.NewWaiter(len(run.items))
		}
		if err := ctx.Err(); err != nil {
			return server.Answer{Close: fmt.Errorf("fetch was parked: %w", err)}
		}
		if run.read() || !woken || another || !time.Now().Before(run.deadline) {
			if run.doubtful() {
				return run.ascertain(ctx)
			}
			return run.answer()
		}
	}
}

// arrivalCost is how much longer a follower's fetch lasts at least, for each of its
// partitions, before another partition ends it: where topics are created one after
// the other it must not do nothing else.
const arrivalCost = 10 * time.Microsecond

// parked sleeps until the waiter is woken or it is time. A follower that gets another
// partition here has to come back for it.
func (run *fetchRun) parked(ctx context.Context, w *replica.Waiter) (woken, another bool) {
	if !run.follower {
		return w.Wait(ctx, run.deadline), false
	}
	if run.watching() {
		run.session.watcher.Wake(w)
		defer run.session.watcher.Wake(nil)
	}
	until, leave := run.h.partitions.ParkForArrival(w, run.replica, run.deadline)
	free, held := run.heldUntil()
	least := run.received.Add(time.Duration(len(run.items)) * arrivalCost)
	if until.Before(least) && !least.After(run.deadline) {
		until = least
	}
	if held = held && free.Before(until); held {
		until = free
	}
	woken = w.Wait(ctx, until) || held && ctx.Err() == nil
	another = leave()
	if another && time.Now().Before(least) {
		another = false // not yet
		if least.Before(run.deadline) {
			run.deadline = least
		}
	}
	return woken, another
}

// heldUntil is when records may go that a throttle keeps back, if it keeps any.
func (run *fetchRun) heldUntil() (free time.Time, held bool) {
	for i := range run.items {
		if run.items[i].fetched.Held {
			return time.Now().Add(run.h.cfg.Throttle.Wait()), true
		}
	}
	return time.Time{}, false
}

// charge counts what the answer brings of throttled replicas.
func (run *fetchRun) charge() {
	for i := range run.items {
		if it := &run.items[i]; it.fetched.Throttled {
			run.h.cfg.Throttle.Add(it.size)
		}
	}
}

// answer completes the session and writes the answer.
func (run *fetchRun) answer() server.Answer {
	session, err := run.h.sessions.finish(run, run.received)
	if err != nil {
		run.releaseAll()
		return server.Answer{Response: fetchError(run.version, err, session)}
	}
	run.charge()
	return server.Answer{Parts: run.encode(session)}
}

// fetchError is the answer to a request that is refused as a whole.
func fetchError(version int16, err error, session int32) *kmsg.FetchResponse {
	resp := kmsg.NewPtrFetchResponse()
	resp.Version = version
	resp.ErrorCode = int16(protocol.CodeOf(err))
	resp.SessionID = session
	return resp
}

// refuseFetch answers the same error for the request and for all its partitions.
func refuseFetch(body *kmsg.FetchRequest, code protocol.Error) server.Answer {
	resp := fetchError(body.Version, code, noFetchSession)
	for i := range body.Topics {
		t := kmsg.NewFetchResponseTopic()
		t.Topic, t.TopicID = body.Topics[i].Topic, body.Topics[i].TopicID
		for j := range body.Topics[i].Partitions {
			p := kmsg.NewFetchResponseTopicPartition()
			p.Partition, p.ErrorCode = body.Topics[i].Partitions[j].Partition, int16(code)
			p.HighWatermark, p.LastStableOffset, p.LogStartOffset = -1, -1, -1
			p.AbortedTransactions = []kmsg.FetchResponseTopicPartitionAbortedTransaction{}
			p.RecordBatches = []byte{}
			t.Partitions = append(t.Partitions, p)
		}
		resp.Topics = append(resp.Topics, t)
	}
	return server.Answer{Response: resp}
}
