package replay

import (
	"bytes"
	"errors"
	"io"
	"sync/atomic"
	"time"
)

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
