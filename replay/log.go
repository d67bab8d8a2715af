package replay

import (
	"bytes"
	"container/heap"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"antirobot/verdict/words"
)

// Options says how logs are read.
type Options struct {
	Format Format
	Window time.Duration // how far a line may stand behind later ones; 0: DefaultWindow
	Now    time.Time     // a line more than a day later than this is bad; zero: no such check

	Identity Identity // where lines name the visitor
	Signed   Identity // and where they have a name if it is signed in
	Captures []string // the headers of requests that HAProxy captures, in its configuration's order
}

// DefaultWindow is enough for servers that write a line when the answer is complete: few answers take longer.
const DefaultWindow = time.Minute

const (
	maxProblems  = 10      // shown
	maxWaiting   = 200_000 // records held back for sorting
	batchSize    = 256
	maxOpen      = 64 // logs that overlap in time and are open at once
	problemBytes = 120
	aDay         = 24 * time.Hour
)

// Problem is a line that could not be read.
type Problem struct {
	Input string `json:"input"`
	Line  int    `json:"line"`
	What  string `json:"problem"`
	Text  string `json:"text"` // the start of the line
}

// Counts is what became of the lines of a log.
type Counts struct {
	Lines    uint64    `json:"lines"`
	Bad      uint64    `json:"bad"`
	Other    uint64    `json:"other"`              // lines about something other than an HTTP request
	Late     uint64    `json:"late"`               // left out, because they came later than the window allows
	Problems []Problem `json:"problems,omitempty"` // of the first bad lines
	Unread   []Unread  `json:"unread,omitempty"`   // missing parts of the log
}

// Unread is an input that could not be read, or not to its end. It is an error.
type Unread struct {
	Input string `json:"input"`
	Lines int    `json:"lines"` // that were read
	Why   string `json:"why"`
}

func (u *Unread) Error() string {
	if u.Lines == 0 {
		return fmt.Sprintf("%s could not be read: %s", u.Input, u.Why)
	}
	return words.Sprintf(words.English, "%s could be read for %d {line|lines} only: %s", u.Input, u.Lines, u.Why)
}

// Log is one or several logs as a single stream of records in chronological order. Make it with Open.
type Log struct {
	opts    Options
	inputs  []Input
	read    atomic.Int64
	size    int64
	mu      sync.Mutex
	counts  Counts
	streams []*stream
	waiting waiting
	free    []*Record
	order   uint64
	last    time.Time // of the last record returned
	newest  time.Time
	due     moment // records up to this time wait no longer
	cancel  context.CancelFunc
	ctx     context.Context //nolint:containedctx // of the readers, which live as long as the Log
	readers sync.WaitGroup
	errs    []error // of inputs that could not be read to the end
}

// Open prepares to read inputs. Those that overlap in time are merged, the others are read one after another, the
// earliest first, in whatever order they are given. What can't be read is left out, unless nothing else is there. Close
// must be called.
func Open(ctx context.Context, inputs []Input, opts Options) (*Log, error) {
	if opts.Window <= 0 {
		opts.Window = DefaultWindow
	}
	l := &Log{opts: opts, inputs: inputs}
	l.ctx, l.cancel = context.WithCancel(ctx)
	for i := range inputs {
		in := &inputs[i]
		if in.Size == 0 && l.size >= 0 {
			l.size = -1
		} else if l.size >= 0 {
			l.size += in.Size
		}
		s := &stream{log: l, in: in, index: uint16(i)} //nolint:gosec // far fewer inputs
		if in.Again {
			if err := s.peek(); err != nil {
				l.unread(&Unread{in.Name, 0, reason(err)})
				continue
			}
		}
		l.streams = append(l.streams, s)
	}
	if len(l.streams) == 0 && len(l.errs) > 0 {
		l.cancel()
		return nil, errors.Join(l.errs...)
	}
	slices.SortStableFunc(l.streams, func(a, b *stream) int { return a.begins.Compare(b.begins) })
	return l, nil
}

// Close ends the readers and waits for them.
func (l *Log) Close() error {
	l.cancel()
	for _, s := range l.streams {
		s.drop()
	}
	l.readers.Wait()
	return nil
}

// Progress returns how much has been read and how much there is, in bytes as stored; of is -1 if that is unknown.
func (l *Log) Progress() (read, of int64) { return l.read.Load(), l.size }

func (l *Log) counted() Counts {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.counts
	c.Problems, c.Unread = slices.Clone(c.Problems), slices.Clone(c.Unread)
	return c
}

// errAllBad is returned by Next at the end when no line could be read.
var errAllBad = errors.New("no line could be read as a request")

// next returns the next record in chronological order. The record must be returned with Release. The error at the end
// is io.EOF, or what kept an input from being read to its end, or errAllBad.
func (l *Log) next() (*Record, error) {
	for {
		if r := l.ready(); r != nil {
			if r.At.Before(l.last) {
				l.late(r)
				continue
			}
			l.last = r.At
			return r, nil
		}
		r := l.fetch()
		if r == nil {
			if l.waiting.len() > 0 {
				l.due = moment{unix: math.MaxInt64} // nothing more will come: everything held back is ready
				continue
			}
			return nil, l.end()
		}
		l.order++
		if r.At.After(l.newest) {
			l.newest = r.At
			l.due = momentOf(l.newest.Add(-l.opts.Window))
		}
		l.waiting.push(held{at: momentOf(r.At), order: l.order, Record: r})
	}
}

func (l *Log) ready() *Record {
	first := l.waiting.first()
	if first == nil || l.waiting.len() < maxWaiting && l.due.before(first.at) {
		return nil
	}
	return l.waiting.pop()
}

func (l *Log) late(r *Record) {
	l.mu.Lock()
	l.counts.Late++
	l.mu.Unlock()
	l.release(r)
}

func (l *Log) end() error {
	if err := errors.Join(append(l.errs, l.ctx.Err())...); err != nil {
		return err
	}
	if c := l.counted(); c.Lines > 0 && c.Bad+c.Other == c.Lines {
		return errAllBad
	}
	return io.EOF
}

func (l *Log) release(r *Record) {
	if len(l.free) < 4*batchSize {
		l.free = append(l.free, r)
	}
}

// fetch returns the earliest record of all open logs, and opens those that begin before it; nil at the end.
func (l *Log) fetch() *Record {
	var best *stream
	open := 0
	for i := 0; i < len(l.streams); i++ {
		s := l.streams[i]
		if !s.started && best != nil && (open >= maxOpen || s.begins.After(best.head.At)) {
			break // nor do the later ones begin earlier
		}
		r, missing := s.peekHead()
		if missing != nil { // what came before it, and the other logs, are still read
			l.unread(missing)
		}
		if r == nil { // it has ended: there may be thousands, which need not be passed for each record
			l.streams = slices.Delete(l.streams, i, i+1)
			i--
			continue
		}
		open++
		if best == nil || r.At.Before(best.head.At) {
			best = s
		}
	}
	if best == nil {
		return nil
	}
	r := best.head
	best.head = nil
	return r
}

func (l *Log) unread(u *Unread) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.errs = append(l.errs, u)
	l.counts.Unread = append(l.counts.Unread, *u)
}

func (l *Log) problem(in string, line int, err error, text []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if errors.Is(err, errNoRequest) {
		l.counts.Other++
		return
	}
	l.counts.Bad++
	if len(l.counts.Problems) < maxProblems {
		l.counts.Problems = append(l.counts.Problems, Problem{
			Input: in, Line: line, What: err.Error(),
			Text: clip(text, problemBytes),
		})
	}
}

func clip(b []byte, most int) string {
	b = bytes.ToValidUTF8(b, []byte("?"))
	if len(b) <= most {
		return string(b)
	}
	return string(bytes.ToValidUTF8(b[:most], nil)) + "…"
}

func (l *Log) count() {
	l.mu.Lock()
	l.counts.Lines++
	l.mu.Unlock()
}

// stream reads one input in a goroutine of its own and parses its lines there.
type stream struct {
	log     *Log
	in      *Input
	index   uint16
	begins  time.Time // zero: unknown
	started bool
	done    bool
	head    *Record
	batch   []*Record
	at      int
	full    chan []*Record
	stop    chan struct{}
	empty   chan []*Record
	err     *Unread // of the reader, set before full is closed
}

// maxPeek bounds the lines that are examined to find out when a log begins.
const maxPeek = 1000

func (s *stream) peek() error {
	var unused atomic.Int64
	ls, err := openLines(s.in, &unused)
	if err != nil {
		return err
	}
	defer ls.close()
	var r Record
	p := newParser(&s.log.opts)
	for range maxPeek {
		line, err := ls.next()
		if errors.Is(err, errLineTooLong) {
			continue
		}
		if err != nil {
			return nil // reading it will report the error
		}
		if p.parse(&r, line) == nil {
			s.begins = r.At.Add(-s.log.opts.Window) // the first line need not be the earliest
			return nil
		}
	}
	return nil
}

// peekHead returns the next record of the stream without taking it; nil at its end.
func (s *stream) peekHead() (*Record, *Unread) {
	if !s.started {
		s.start()
	}
	for s.head == nil {
		if s.at < len(s.batch) {
			s.head = s.batch[s.at]
			s.at++
			continue
		}
		s.recycle()
		batch, ok := <-s.full
		if !ok {
			s.done = true
			return nil, s.err
		}
		s.batch, s.at = batch, 0
	}
	return s.head, nil
}

func (s *stream) recycle() {
	l := s.log
	if s.batch == nil {
		return
	}
	b := s.batch[:0]
	for len(l.free) > 0 && len(b) < batchSize {
		b = append(b, l.free[len(l.free)-1])
		l.free = l.free[:len(l.free)-1]
	}
	select {
	case s.empty <- b:
	default:
	}
	s.batch = nil
}

func (s *stream) start() {
	s.started = true
	s.full, s.empty, s.stop = make(chan []*Record, 4), make(chan []*Record, 8), make(chan struct{})
	s.log.readers.Go(func() {
		defer close(s.full)
		if lines, err := s.readAll(); err != nil {
			s.err = &Unread{s.in.Name, lines, reason(err)}
		}
	})
}

func (s *stream) drop() {
	if s.started {
		close(s.stop)
		s.started, s.done = false, true
	}
}

// readAll parses the input and sends its records in batches. It returns how many lines there were before an error.
func (s *stream) readAll() (read int, err error) {
	ls, err := openLines(s.in, &s.log.read)
	if err != nil {
		return 0, err
	}
	defer ls.close()
	var out, spare []*Record
	p := newParser(&s.log.opts)
	for {
		line, err := ls.next()
		if errors.Is(err, io.EOF) {
			s.send(out)
			return ls.count, nil
		}
		if err != nil && !errors.Is(err, errLineTooLong) {
			s.send(out)
			return ls.count - 1, err
		}
		s.log.count()
		if err == nil && len(bytes.TrimSpace(line)) == 0 {
			s.log.problem(s.in.Name, ls.count, errNoRequest, nil)
			continue
		}
		if len(spare) == 0 {
			select {
			case spare = <-s.empty:
			default:
			}
		}
		var r *Record
		if n := len(spare); n > 0 {
			r, spare = spare[n-1], spare[:n-1]
		} else {
			r = new(Record)
		}
		if err == nil {
			r.from, r.signs = &s.log.opts.Identity, &s.log.opts.Signed
			err = p.parse(r, line)
		}
		if err == nil && !s.log.opts.Now.IsZero() && r.At.After(s.log.opts.Now.Add(aDay)) {
			err = errFuture
		}
		if err != nil {
			s.log.problem(s.in.Name, ls.count, err, line)
			spare = append(spare, r)
			continue
		}
		r.Line, r.Input = ls.count, s.index
		if out = append(out, r); len(out) == batchSize {
			if !s.send(out) {
				return ls.count, nil
			}
			out = make([]*Record, 0, batchSize)
		}
	}
}

var errFuture = errors.New("has a time in the future")

// send hands over a batch; false if it is no longer wanted.
func (s *stream) send(batch []*Record) bool {
	if len(batch) == 0 {
		return true
	}
	select {
	case s.full <- batch:
		return true
	case <-s.stop:
	case <-s.log.ctx.Done():
	}
	return false
}

// waiting holds records back: the earliest comes first, and of those of one time the one that arrived first. Nearly all
// lines of a log are in order and stand in line; only the others are in a heap. The zero value is empty.
type waiting struct {
	inLine []held // from begin on
	begin  int
	others lateHeap
}

func (w *waiting) len() int { return len(w.inLine) - w.begin + len(w.others) }

func (w *waiting) push(x held) {
	n := len(w.inLine)
	if n > w.begin && x.before(&w.inLine[n-1]) {
		heap.Push(&w.others, x)
		return
	}
	if n == cap(w.inLine) && w.begin > n/2 { // rather than grow, move up
		n = copy(w.inLine, w.inLine[w.begin:])
		clear(w.inLine[n:])
		w.inLine, w.begin = w.inLine[:n], 0
	}
	w.inLine = append(w.inLine, x)
}

// first returns the first; nil if there is none.
func (w *waiting) first() *held {
	switch {
	case w.begin == len(w.inLine) && len(w.others) == 0:
		return nil
	case w.begin == len(w.inLine) || len(w.others) > 0 && w.others[0].before(&w.inLine[w.begin]):
		return &w.others[0]
	}
	return &w.inLine[w.begin]
}

// pop takes out the first; there must be one.
func (w *waiting) pop() *Record {
	x := w.first()
	if len(w.others) > 0 && x == &w.others[0] {
		r := w.others[0].Record
		heap.Pop(&w.others)
		return r
	}
	r := x.Record
	x.Record = nil
	if w.begin++; w.begin == len(w.inLine) {
		w.inLine, w.begin = w.inLine[:0], 0
	}
	return r
}

type moment struct {
	unix int64
	nano int
}

func momentOf(at time.Time) moment { return moment{unix: at.Unix(), nano: at.Nanosecond()} }

func (m moment) before(o moment) bool { return m.unix < o.unix || m.unix == o.unix && m.nano < o.nano }

type held struct {
	at    moment
	order uint64 // of arrival
	*Record
}

func (h *held) before(o *held) bool { return h.at.before(o.at) || h.at == o.at && h.order < o.order }

// lateHeap implements heap.Interface.
type lateHeap []held

func (h lateHeap) Len() int           { return len(h) }
func (h lateHeap) Less(i, k int) bool { return h[i].before(&h[k]) }
func (h lateHeap) Swap(i, k int)      { h[i], h[k] = h[k], h[i] }

// Push implements heap.Interface.
func (h *lateHeap) Push(x any) { *h = append(*h, x.(held)) }

// Pop implements heap.Interface.
func (h *lateHeap) Pop() any {
	n := len(*h) - 1
	x := (*h)[n]
	(*h)[n] = held{}
	*h = (*h)[:n]
	return x
}
