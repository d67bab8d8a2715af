package h1

import (
	"io"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"antirobot/proxy/h1/wire"
	"antirobot/proxy/upstream"
)

type streamBuffer [32<<10 + wire.ChunkRoom + 2]byte

var streamBuffers = sync.Pool{New: func() any { return new(streamBuffer) }}

// settleTime is the time for the rest of a body after the answer.
const settleTime = 100 * time.Millisecond

const (
	upNone int32 = iota // no body, or sent with the head
	upRuns              // reads from the client and writes to the service
	upSent
	upClient // reading failed: see err
	upBroken // writing failed, or halted
)

// upload sends the rest of a request's body while the answer is awaited or relayed.
type upload struct {
	x     *Exchange
	up    *upstream.Conn
	idle  time.Duration // of one write
	drop  func(name []byte) bool
	state atomic.Int32
	stop  atomic.Bool
	last  atomic.Bool  // at most one write is left
	at    atomic.Int64 // last progress, unix nanoseconds
	err   error        // of upClient
	done  chan struct{}
	wbuf  []byte
}

func (u *upload) reset() {
	u.state.Store(upNone)
	u.stop.Store(false)
	u.last.Store(false)
	u.at.Store(0)
	u.err, u.up, u.drop = nil, nil, nil
}

func (u *upload) running() bool { return u.state.Load() == upRuns }

func (u *upload) sent() bool {
	s := u.state.Load()
	return s == upNone || s == upSent
}

func (u *upload) lastAt() time.Time {
	if n := u.at.Load(); n != 0 {
		return time.Unix(0, n)
	}
	return time.Time{}
}

func (u *upload) clientError() error {
	if u.state.Load() != upClient {
		return nil
	}
	return u.err
}

func (u *upload) start(up *upstream.Conn, idle time.Duration, drop func([]byte) bool) {
	u.up, u.idle, u.drop = up, idle, drop
	u.at.Store(clock().UnixNano())
	u.state.Store(upRuns)
	go u.run()
}

func (u *upload) run() {
	end := upBroken
	defer func() {
		if r := recover(); r != nil {
			u.x.m.panics.Inc()
			u.x.log.Error().Interface("panic", r).Bytes("stack", debug.Stack()).Msg("upload panicked")
		}
		u.state.Store(end)
		if end == upClient {
			u.up.Wake() // which waits for the answer
		}
		u.done <- struct{}{}
	}()
	end = u.copy()
}

func (u *upload) copy() int32 {
	b := &u.x.body
	buf := streamBuffers.Get().(*streamBuffer)
	defer streamBuffers.Put(buf)
	var writeBy time.Time
	write := func(p []byte) bool {
		now := clock()
		if left := writeBy.Sub(now); left < u.idle-u.idle/8 {
			writeBy = now.Add(u.idle)
			_ = u.up.SetWriteDeadline(writeBy)
		}
		if u.stop.Load() { // after the deadline: halt sets the flag first
			return false
		}
		_, err := u.up.Write(p)
		u.at.Store(now.UnixNano())
		return err == nil
	}
	for {
		n, err := b.read(buf[wire.ChunkRoom : len(buf)-2])
		switch {
		case err == io.EOF: //nolint:errorlint // bare
			u.last.Store(true)
			if b.chunked {
				u.wbuf = wire.AppendLastChunk(u.wbuf[:0], wire.Trailers{Fields: b.trailers(), Drop: u.drop})
				if !write(u.wbuf) {
					return upBroken
				}
			}
			return upSent
		case err == errStopped: //nolint:errorlint // bare
			return upBroken
		case err != nil:
			u.err = err
			return upClient
		}
		if n == 0 {
			continue // an empty chunk would end the body
		}
		piece := buf[wire.ChunkRoom : wire.ChunkRoom+n]
		if b.chunked {
			piece = wire.FrameChunk(buf[:], n)
		} else if b.done {
			u.last.Store(true)
		}
		if !write(piece) {
			return upBroken
		}
	}
}

// settle waits briefly for an upload that is about to end: with patient for the client too, otherwise for its last
// write, which must not make an answer look early.
func (u *upload) settle(patient bool) {
	if !u.running() || !patient && !u.last.Load() {
		return
	}
	t := time.NewTimer(settleTime)
	defer t.Stop()
	select {
	case <-u.done:
		u.done <- struct{}{}
	case <-t.C:
	}
}

// halt ends the upload and its goroutine. Only a sent upload leaves the connection usable.
func (u *upload) halt() {
	if u.up == nil {
		return
	}
	if u.running() {
		u.stop.Store(true)
		_ = u.up.SetWriteDeadline(past)
		u.x.client.StopBody()
	}
	<-u.done
	u.up = nil
	u.x.c.bodyLeft()
}
