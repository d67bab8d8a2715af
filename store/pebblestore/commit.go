package pebblestore

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"antirobot/store"

	"github.com/cockroachdb/pebble/v2"
)

const (
	groupMax = 512
	// hastyFor is how long the log may keep hasty writes from the disk.
	hastyFor = time.Second
)

type verb uint8

const (
	doPut verb = iota
	doSwap
	doDelete
	doSpend
	doTake
	doIncr
	doAppend
	doExpire
)

// request is one write. It owns its bytes: the caller may return earlier.
type request struct {
	verb   verb
	key    []byte // with its space letter; the topic for doAppend
	old    []byte
	val    []byte
	keys   [][]byte
	before int64 // for doExpire: entries that expired later stay
	expiry int64
	n      int64
	limit  int64
	hasty  bool        // does not wait for the disk
	done   chan result // of capacity one
}

type result struct {
	n   int64
	ok  bool
	err error
}

// group is the requests of one commit. results[i] answers reqs[i] after the sync.
type group struct {
	eng     *engine
	batch   *pebble.Batch
	reqs    []*request
	results []result
	topics  []string
	written bool
	patient bool // a request waits for the disk
	hurried bool // the others are answered
	slow    *time.Timer
	settled atomic.Bool
}

type committer struct {
	*living
	now   func() time.Time
	limit limits
	feeds feeds
	swept atomic.Int64

	queue    chan *request
	settling chan *group
	due      *time.Timer    // when the disk must take hasty writes; used by commit
	owing    bool           // there are such writes; used by commit
	inflight sync.WaitGroup // groups that wait for their sync
	drained  chan struct{}  // closed when no more requests will be answered
}

func newCommitter(l *living, now func() time.Time, limit limits) *committer {
	s := &committer{
		living: l, now: now, limit: limit, feeds: feeds{more: make(map[string]chan struct{})},
		queue: make(chan *request, 1024), settling: make(chan *group, 1), due: time.NewTimer(0),
		drained: make(chan struct{}),
	}
	s.due.Stop()
	return s
}

// do hands r to the committer and waits for the answer, ctx, or a refusal.
func (s *committer) do(ctx context.Context, r *request) (result, error) {
	res, err := s.submit(ctx, r)
	if err == nil {
		err = res.err
	}
	if err != nil {
		return result{}, err
	}
	return res, nil
}

func (s *committer) submit(ctx context.Context, r *request) (result, error) {
	sick, err := s.health.state()
	if err != nil {
		return result{}, err
	}
	r.done = make(chan result, 1)
	select {
	case s.queue <- r:
	case <-ctx.Done():
		return result{}, ctx.Err()
	case <-sick:
		return result{}, s.refused()
	case <-s.closing:
		return result{}, store.ErrClosed
	}
	select {
	case res := <-r.done:
		return res, nil
	case <-ctx.Done():
		select { // a caller that wakes up late finds both
		case res := <-r.done:
			return res, nil
		default:
			return result{}, ctx.Err()
		}
	case <-sick:
		return result{}, s.refused()
	case <-s.drained:
		select {
		case res := <-r.done:
			return res, nil
		default:
			return result{}, store.ErrClosed
		}
	}
}

var errRecovered = errors.New("store: writes were refused for a moment")

func (s *committer) refused() error {
	if _, err := s.health.state(); err != nil {
		return err
	}
	return errRecovered
}

// commit is the goroutine that decides and writes. Only it replaces s.eng.
func (s *committer) commit() {
	defer func() {
		close(s.settling)
		s.inflight.Wait()
		s.refuseQueued(store.ErrClosed)
		close(s.drained)
	}()
	topics := make(map[string]*topicEnds)
	for {
		eng := s.eng
		select {
		case r := <-s.queue:
			g := s.gather(eng, r)
			s.decide(g, topics)
			s.put(g)
		case <-s.due.C:
			s.flush(eng)
		case <-eng.failed:
		case <-s.closing:
			return
		}
		if err := eng.died(); err != nil {
			eng.fs.stopWaiting()
			s.inflight.Wait()
			if !s.revive(eng, err, func() { s.refuseQueued(fmt.Errorf("store: the engine failed: %w", err)) }) {
				return
			}
			s.feeds.wakeAll()
			topics = make(map[string]*topicEnds) // decisions made for the dead engine are void
		}
	}
}

func (s *committer) gather(eng *engine, r *request) *group {
	g := &group{eng: eng, reqs: []*request{r}, patient: !r.hasty}
	for len(g.reqs) < groupMax {
		select {
		case r := <-s.queue:
			g.reqs = append(g.reqs, r)
			g.patient = g.patient || !r.hasty
		default:
			return g
		}
	}
	return g
}

// decide answers each request in turn; later ones see the writes of earlier ones.
func (s *committer) decide(g *group, topics map[string]*topicEnds) {
	g.batch = g.eng.db.NewIndexedBatch()
	g.results = make([]result, len(g.reqs))
	at := s.now().UnixMilli()
	for i, r := range g.reqs {
		g.results[i] = s.decideOne(g, r, at, topics)
	}
}

func (s *committer) decideOne(g *group, r *request, at int64, topics map[string]*topicEnds) (res result) {
	defer func() {
		if p := recover(); p != nil {
			res.err = fmt.Errorf("engine: %v", p)
		}
	}()
	switch r.verb {
	case doAppend:
		res.err = s.decideAppend(g, r, topics)
		return res
	case doExpire:
		res.n, res.err = decideExpire(g, r.keys, min(at, r.before))
		return res
	case doPut:
		res.err = set(g.batch, r.key, r.expiry, r.val)
		return res
	case doDelete:
		res.err = g.batch.Delete(r.key, nil)
		return res
	}
	live, old, expiry, err := load(g.batch, r.key, at)
	if err != nil {
		res.err = err
		return res
	}
	switch r.verb {
	case doSwap:
		if res.ok = live == (r.old != nil) && string(old) == string(r.old); res.ok {
			res.err = set(g.batch, r.key, r.expiry, r.val)
		}
	case doSpend:
		if res.ok = !live; res.ok {
			res.err = set(g.batch, r.key, r.expiry, nil)
		}
	default:
		res.n, res.err = decideCount(g.batch, r, live, old, expiry)
	}
	return res
}

// decideCount answers Take and Incr; live, old and expiry are stored.
func decideCount(b *pebble.Batch, r *request, live bool, old []byte, expiry int64) (int64, error) {
	var count int64
	if live {
		if len(old) != 8 {
			return 0, fmt.Errorf("%w: a counter of %d bytes", errDamaged, len(old))
		}
		count = int64(binary.BigEndian.Uint64(old))
	} else {
		expiry = r.expiry
	}
	var next, answer int64
	if r.verb == doTake {
		answer = store.Grant(count, r.n, r.limit)
		next = count + answer
	} else {
		next = store.SaturatingAdd(count, r.n)
		answer = next
	}
	if next == count {
		return answer, nil
	}
	return answer, set(b, r.key, expiry, binary.BigEndian.AppendUint64(nil, uint64(next)))
}

// decideExpire removes those of the keys that are still expired.
func decideExpire(g *group, keys [][]byte, at int64) (removed int64, err error) {
	for _, key := range keys {
		live, _, expiry, err := load(g.batch, key, at)
		if err != nil {
			return removed, err
		}
		if live || expiry == 0 {
			continue
		}
		if err := g.batch.Delete(key, nil); err != nil {
			return removed, err
		}
		removed++
	}
	return removed, nil
}

func (s *committer) put(g *group) {
	g.slow = time.AfterFunc(s.limit.writeTimeout, func() {
		s.health.set(ailSlow, fmt.Errorf("store: a commit takes longer than %v", s.limit.writeTimeout))
		if g.settled.Load() {
			s.health.set(ailSlow, nil)
		}
	})
	if !g.batch.Empty() {
		if err := g.apply(); err != nil {
			g.eng.fail(err)
			s.answer(g, err)
			return
		}
		g.written = true
	}
	switch { // the sync of a patient group takes all earlier writes
	case !g.written:
	case g.patient:
		s.owing = false
		s.due.Stop()
	case !s.owing:
		s.owing = true
		s.due.Reset(hastyFor)
	}
	if !g.patient {
		s.answer(g, nil)
		return
	}
	g.hurried = true
	for i, r := range g.reqs {
		if r.hasty {
			r.done <- g.results[i]
		}
	}
	s.inflight.Add(1)
	s.settling <- g
}

func (g *group) apply() (err error) {
	defer func() {
		if p := recover(); p != nil { // Pebble panics when its log is gone
			err = fmt.Errorf("engine: %v", p)
		}
	}()
	if g.patient {
		err = g.eng.db.ApplyNoSyncWait(g.batch, pebble.Sync)
	} else {
		err = g.eng.db.Apply(g.batch, pebble.NoSync)
	}
	if err != nil {
		return fmt.Errorf("write store: %w", err)
	}
	return g.eng.died() // a failed commit ends in Fatalf and returns nil
}

// settle answers the groups in order, after their sync. A group without writes waits for those it may have read.
func (s *committer) settle() {
	for g := range s.settling {
		var err error
		if g.written {
			if err = g.batch.SyncWait(); err != nil {
				err = fmt.Errorf("sync store: %w", err)
				g.eng.fail(err)
			}
		} else {
			err = g.eng.died()
		}
		s.answer(g, err)
		s.inflight.Done()
	}
}

// answer replies to the callers of g. After an error Pebble may still hold the batch: it is left to the garbage
// collector.
func (s *committer) answer(g *group, err error) {
	g.settled.Store(true)
	if !g.slow.Stop() {
		s.health.set(ailSlow, nil)
	}
	if err == nil {
		_ = g.batch.Close() // of a committed batch: this returns it to its pool
		for _, t := range g.topics {
			s.feeds.wake(t)
		}
	}
	for i, r := range g.reqs {
		res := g.results[i]
		switch {
		case r.hasty && g.hurried:
			continue
		case err != nil:
			res = result{err: err}
		}
		r.done <- res
	}
}

func (s *committer) refuseQueued(err error) {
	for {
		select {
		case r := <-s.queue:
			r.done <- result{err: err}
		default:
			return
		}
	}
}

// flush syncs hasty writes, by a group without requests.
func (s *committer) flush(eng *engine) {
	g := &group{eng: eng, batch: eng.db.NewBatch(), patient: true}
	if err := g.batch.LogData(nil, nil); err != nil {
		eng.fail(err)
		return
	}
	s.put(g)
}
