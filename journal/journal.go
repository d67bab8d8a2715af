// Package journal keeps decisions for days and across restarts: every request that was not simply human, a sample of
// the others, challenges, bans, and operators' actions. It also keeps figures for plots.
//
// Invariants:
//  1. Note never waits and never allocates. Notes that the writer can't take in time are dropped and counted.
//  2. The oldest entries make room, for age and for size on disk.
//  3. No query, cookie, answer or body is ever kept. Addresses are shortened or hashed after a time.
//  4. A crash loses the last second; operators' actions and bans are durable at once.
//  5. Entries are found by ID, subject and time; all else filters a bounded scan, newest first.
package journal

import (
	"encoding/binary"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/rs/zerolog"

	"antirobot/request"
	"antirobot/store/pebblestore"
	"antirobot/verdict"
	"antirobot/verdict/bans"
)

// Teller completes a request that was just noted. *verdict.Recent does.
type Teller interface {
	Noted(n *verdict.Note) (verdict.Story, bool)
}

// Deps is what a Journal works with. Dir, Stories and Metrics are required.
type Deps struct {
	Dir     string
	Stories Teller
	Counts  func() map[string]float64 // counts since the start; nil: no figures
	Now     func() time.Time
	Log     zerolog.Logger
	Metrics *metrics.Set

	open  func() (*pebblestore.Log, error) // nil: Dir, on the system's disk
	queue int                              // waiting requests, about 400 bytes each; 0: 8192
}

// Journal is a gateway's journal. Safe for concurrent use; made by New.
type Journal struct {
	cfg     Config
	log     zerolog.Logger
	now     func() time.Time
	stories Teller
	counts  func() map[string]float64
	db      *pebblestore.Log
	humans  uint32

	each   int
	shards [queueShards]shard
	wake   chan struct{}
	slow   chan written // bans and acts: they come off the path of requests

	open    map[openKey]opened
	figures sync.Mutex
	last    map[string]float64
	stopped [len(stoppedBy)]tops
	buffers buffers

	hash    func(string) string
	hashDay uint16

	entries, shed, lost *metrics.Counter

	stop   chan struct{}
	closed atomic.Bool
	done   sync.WaitGroup
}

const (
	queueShards = 16
	slowQueue   = 1024
	batchEvery  = 100 * time.Millisecond
)

// shard holds one in sixteen of the waiting notes. It grows with need, and has no pointers for the garbage collector.
type shard struct {
	mu    sync.Mutex
	notes []verdict.Note
	spare []verdict.Note // the writer's, exchanged with notes
	_     [8]byte
}

// New opens the journal. Its goroutine runs until Close.
func New(cfg Config, d Deps) (*Journal, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("journal: %w", err)
	}
	if d.Now == nil {
		d.Now = time.Now
	}
	if d.queue == 0 {
		d.queue = 8192
	}
	if d.open == nil {
		d.open = func() (*pebblestore.Log, error) {
			return pebblestore.OpenLog(pebblestore.LogDeps{Dir: d.Dir, Log: d.Log, CacheBytes: 8 << 20})
		}
	}
	db, err := d.open()
	if err != nil {
		return nil, fmt.Errorf("open journal: %w", err)
	}
	j := &Journal{
		cfg: cfg, log: d.Log, now: d.Now, stories: d.Stories, counts: d.Counts, db: db,
		each:   (d.queue + queueShards - 1) / queueShards,
		humans: uint32(min(cfg.Humans*math.MaxUint32, math.MaxUint32)),
		wake:   make(chan struct{}, 1), slow: make(chan written, slowQueue), stop: make(chan struct{}),
		open: map[openKey]opened{}, last: map[string]float64{}, stopped: newStopped(),
		entries: d.Metrics.GetOrCreateCounter("antirobot_journal_entries_total"),
		shed:    d.Metrics.GetOrCreateCounter("antirobot_journal_shed_total"),
		lost:    d.Metrics.GetOrCreateCounter("antirobot_journal_lost_total"),
	}
	d.Metrics.GetOrCreateGauge("antirobot_journal_bytes", func() float64 { return float64(j.bytes()) })
	j.done.Go(j.run)
	return j, nil
}

// Healthy returns nil, or why nothing can be written now.
func (j *Journal) Healthy() error { return j.db.Healthy() }

// Close writes what waits, if the disk takes it, and closes the journal.
func (j *Journal) Close() error {
	if j.closed.Swap(true) {
		return nil
	}
	close(j.stop)
	j.done.Wait()
	return j.db.Close()
}

// Backup writes a consistent copy into dir, which must not exist, while the journal goes on.
func (j *Journal) Backup(dir string) error { return j.db.Checkpoint(dir) }

// Note implements verdict.Journal.
func (j *Journal) Note(n *verdict.Note) {
	s := &j.shards[n.ID[15]%queueShards]
	s.mu.Lock()
	ok := len(s.notes) < j.each
	if ok {
		s.notes = append(s.notes, *n)
	}
	half := len(s.notes) == j.each/2
	s.mu.Unlock()
	switch {
	case !ok:
		j.shed.Inc()
	case half:
		select {
		case j.wake <- struct{}{}:
		default:
		}
	}
}

// Human implements verdict.Journal. The random part of the ID decides.
func (j *Journal) Human(rid request.ID) (share float32, ok bool) {
	return float32(j.cfg.Humans), binary.LittleEndian.Uint32(rid[8:12]) < j.humans
}

type written struct {
	row     row
	details any
	also    []string // further subjects that lead to it
}

// Ban remembers that a ban was made.
func (j *Journal) Ban(b *bans.Ban) {
	at := j.now()
	w := written{row: row{id: request.NewID(at), kind: KindBan, share: 1}, details: b.Story()}
	w.row.texts[colService], w.row.texts[colSubject] = []byte(b.Service), []byte(b.Subject.String())
	w.row.texts[colReason] = []byte(b.Reason)
	j.add(w)
}

// Act is what an operator did.
type Act struct {
	By      string `json:"by"`
	What    string `json:"what"`
	Subject string `json:"subject,omitempty"`
	Service string `json:"service,omitempty"`
	Reason  string `json:"reason,omitempty"`
	TTL     string `json:"ttl,omitempty"`
}

// Act remembers what an operator did.
func (j *Journal) Act(a Act) {
	w := written{row: row{id: request.NewID(j.now()), kind: KindAct, share: 1}, details: a}
	t := &w.row.texts
	t[colService], t[colSubject], t[colBy] = []byte(a.Service), []byte(a.Subject), []byte(a.By)
	t[colMethod], t[colReason] = []byte(a.What), []byte(a.Reason)
	j.add(w)
}

func (j *Journal) add(w written) {
	select {
	case j.slow <- w:
	default:
		j.shed.Inc()
	}
}

func (j *Journal) run() {
	flush, minute, early := time.NewTicker(batchEvery), time.NewTicker(time.Minute), time.NewTicker(earlyEvery)
	defer flush.Stop()
	defer minute.Stop()
	defer early.Stop()
	for {
		select {
		case <-j.wake:
		case <-flush.C:
		case <-early.C:
			j.figure(j.now())
		case <-minute.C:
			early.Stop()
			j.upkeep(j.now())
		case <-j.stop:
			j.flush()
			j.figure(j.now())
			return
		}
		j.flush()
	}
}

// earlyEvery is the interval of figures in the first minute, for an operator who watches the start.
const earlyEvery = 3 * time.Second

func (j *Journal) upkeep(at time.Time) {
	j.abandon(at)
	j.figure(at)
	j.trim(at)
	j.veil(at)
}

// first returns the time of the oldest entry; at if there is none.
func (j *Journal) first(at time.Time) time.Time {
	err := j.db.Scan([]byte{spaceEntry}, []byte{spaceEntry + 1}, false, func(key, _ []byte) bool {
		if len(key) > 16 {
			at = timeOf(request.ID(key[1:17]))
		}
		return false
	})
	if err != nil {
		j.log.Warn().Err(err).Msg("journal: its beginning can't be read")
	}
	return at
}

// write retries until the disk accepts the changes, or the journal closes; notes that come meanwhile are dropped.
func (j *Journal) write(n int, fill func(b *pebblestore.LogBatch)) {
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		err := j.db.Write(fill)
		if err == nil {
			j.entries.Add(n)
			return
		}
		select {
		case <-j.stop:
			j.lost.Add(n)
			if n > 0 {
				j.log.Warn().Err(err).Int("entries", n).Msg("journal: what was left could not be written")
			}
			return
		case <-time.After(pause):
		}
	}
}

// bytes estimates the journal's size on disk.
func (j *Journal) bytes() int64 { return j.db.Bytes([]byte{0}, []byte{0xff}) }
