package processor

import (
	"context"
	"math"
	"net/netip"
	"time"

	"antirobot/identity"
	"antirobot/store"
	"antirobot/verdict"
	"antirobot/verdict/counter"
)

// What is remembered of the counters.
const (
	historyPagesDay = iota
	historyPagesFortnight
	historyAddressFortnight
	historyNetworkFortnight
	historyAddressBad
	historyNetworkBad
	historyAddressGood
	historyCount
)

// history is what the store's counters said about a subject when they were last asked.
type history [historyCount]rough

func (h *history) set(i int, n uint64) { h[i] = roughly(float64(n)) }

func (h *history) value(i int) float32 { return h[i].value() }

// rough is a number n in a byte, as 8 × log2(1+n), rounded, plus one; 0 is unknown. That is accurate to 5 % up to two thousand million.
type rough uint8

func roughly(n float64) rough {
	return rough(min(math.Round(8*math.Log2(1+n)), math.MaxUint8-1)) + 1
}

func (r rough) value() float32 {
	if r == 0 {
		return nan
	}
	return float32(math.Round(math.Exp2(float64(r-1)/8) - 1))
}

// historyPrefix is the prefix of the counters that the processor keeps.
const historyPrefix = "gate"

// CounterStore keeps counts by ten minutes and by days: counter.Shingler. Add touches memory only.
type CounterStore interface {
	Add(d store.Delta)
	Read(ctx context.Context, dst []uint64, q []store.Query) error
}

// storeTask is what an event leaves to do with the store: to count, to read the counts, to look for a ban that memory
// lost. It is done in a goroutine of its own, so that a slow store delays no judgement.
type storeTask struct {
	sub, addr            identity.Subject
	at                   time.Time
	service              string
	pages                uint32
	bans, solved, failed uint8
	read, recall         bool
}

const (
	storeTaskQueue = 4096
	storeTaskBatch = 64
	storeTaskTime  = 5 * time.Second // for the store to answer
)

// send queues a store task; when too many are waiting, it waits, too, or else is dropped and counted.
func (p *Processor) send(a storeTask, wait bool) {
	if !p.running.Load() {
		return
	}
	if wait {
		select {
		case p.storeTasks <- a:
		case <-p.stop:
		}
		return
	}
	select {
	case p.storeTasks <- a:
	default:
		p.dropped.Inc()
	}
}

// runStoreTasks runs store tasks until stop, and then those that are still waiting.
func (p *Processor) runStoreTasks() {
	var h historian
	for {
		var first storeTask
		select {
		case first = <-p.storeTasks:
		case <-p.stopErrands:
			for len(p.storeTasks) > 0 {
				p.do(&h, <-p.storeTasks)
			}
			return
		}
		p.do(&h, first)
	}
}

// do runs one store task and those waiting behind it, up to a batch.
func (p *Processor) do(h *historian, first storeTask) {
	h.batch = append(h.batch[:0], first)
	for len(h.batch) < storeTaskBatch && len(p.storeTasks) > 0 {
		h.batch = append(h.batch, <-p.storeTasks)
	}
	ctx, cancel := context.WithTimeout(context.Background(), storeTaskTime)
	defer cancel()
	for i := range h.batch {
		if a := &h.batch[i]; a.recall {
			p.recall(ctx, a)
		}
	}
	if p.counters != nil {
		p.askCounters(ctx, h)
	}
}

// recall looks in the store for the bans of a subject that memory had no room for.
func (p *Processor) recall(ctx context.Context, a *storeTask) {
	n, err := p.keeper.Recall(ctx, a.sub, a.service)
	if err != nil {
		p.askErrors.Inc()
	}
	p.recalled.Add(n)
}

// historian is the working memory for store tasks.
type historian struct {
	batch    []storeTask
	pieces   [3]counter.Piece
	shingles []counter.Shingle
	queries  []store.Query
	counts   []uint64
	asked    []identity.Subject
}

// askCounters adds the counts of a batch of store tasks, and reads what it asks for, all at once.
func (p *Processor) askCounters(ctx context.Context, h *historian) {
	h.queries, h.asked = h.queries[:0], h.asked[:0]
	for i := range h.batch {
		a := &h.batch[i]
		address := netip.AddrFrom16(a.addr.ID).Unmap().String()
		h.pieces = [...]counter.Piece{
			{Type: counter.TypeSession, Text: a.sub.String()}, {Type: counter.TypeAddress, Text: address}, {Type: counter.TypeNetwork, Text: address},
		}
		var err error
		if h.shingles, err = counter.Shingles(h.shingles[:0], h.pieces[:]); err != nil {
			p.askErrors.Inc()
			continue
		}
		p.countStoreTask(a, h.shingles)
		if a.read {
			h.queries = appendHistory(h.queries, h.shingles, a.at)
			h.asked = append(h.asked, a.sub)
		}
	}
	if len(h.queries) == 0 {
		return
	}
	if cap(h.counts) < len(h.queries) {
		h.counts = make([]uint64, storeTaskBatch*historyCount)
	}
	h.counts = h.counts[:len(h.queries)]
	if err := p.counters.Read(ctx, h.counts, h.queries); err != nil {
		p.askErrors.Inc()
		return
	}
	for i, sub := range h.asked {
		sh, hash := p.sessions.lock(sub)
		if s := sh.find(hash, sub); s != nil {
			for k := range historyCount {
				s.history.set(k, h.counts[i*historyCount+k])
			}
		}
		sh.mu.Unlock()
	}
}

// countStoreTask adds the pages of a store task to the counters of its subject, address and network, and the judgements
// on them to those of the address and the network: three counters of pages, two for each judgement.
func (p *Processor) countStoreTask(a *storeTask, of []counter.Shingle) {
	slot := store.TenMinutes.Number(a.at)
	add := func(s counter.Shingle, typ uint16, n uint64) {
		if n > 0 {
			p.counters.Add(store.Delta{Counter: store.Counter{Prefix: historyPrefix, Shingle: s.Hash, Type: typ}, Slot: slot, N: n})
		}
	}
	for _, s := range of {
		add(s, s.Type, uint64(a.pages))
	}
	for _, s := range of[1:] {
		add(s, counter.TypeJudgedBad, uint64(a.bans))
		add(s, counter.TypeSolved, uint64(a.solved))
		add(s, counter.TypeFailed, uint64(a.failed))
	}
}

// appendHistory appends the queries whose answers make up a history, in its order.
func appendHistory(q []store.Query, of []counter.Shingle, at time.Time) []store.Query {
	session, address, network := of[0], of[1], of[2]
	ask := func(s counter.Shingle, typ uint16, unit store.Unit, back uint32) {
		to := unit.Number(at)
		q = append(q, store.Query{
			Counter: store.Counter{Prefix: historyPrefix, Shingle: s.Hash, Type: typ}, Unit: unit, From: to - min(back, to), To: to,
		})
	}
	const day, fortnight = store.SlotsPerDay, store.DaysPerFortnight
	ask(session, session.Type, store.TenMinutes, day)
	ask(session, session.Type, store.Day, fortnight)
	ask(address, address.Type, store.Day, fortnight)
	ask(network, network.Type, store.Day, fortnight)
	ask(address, counter.TypeJudgedBad, store.Day, fortnight)
	ask(network, counter.TypeJudgedBad, store.Day, fortnight)
	ask(address, counter.TypeSolved, store.Day, fortnight)
	return q
}

// forStore returns what a page of the subject leaves for the store, when the subject is evaluated or new; false if
// nothing. The caller holds the lock of the session.
func (s *session) forStore(e *verdict.Event, fresh, due, forgot bool) (a storeTask, any bool) {
	a = storeTask{sub: e.Subjects[0], addr: e.Subjects[e.N-1], at: e.At}
	if due {
		a.pages = s.pages - s.counted
		s.counted = s.pages
		a.read = s.pages >= s.nextRead
		if a.read {
			s.nextRead = uint32(min(4*uint64(s.pages), math.MaxUint32))
		}
	}
	lost := fresh || int64(s.lastBan.until) > e.At.Unix()
	if forgot && lost && s.flags&flagRecalled == 0 && e.Verdict == verdict.Human && !e.Paid {
		s.flags |= flagRecalled
		a.recall = true
	}
	return a, a.pages > 0 || a.read || a.recall
}
