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

// streamBuffer carries pieces of bodies: data of up to 32 KiB, and the frame of a chunk around it.
type streamBuffer [32<<10 + wire.ChunkRoom + 2]byte

var streamBuffers = sync.Pool{New: func() any { return new(streamBuffer) }}

// settleTime is how long the rest of a body may take once the answer has come and both sides would go on.
const settleTime = 100 * time.Millisecond

// The states of an upload.
const (
	upNone   int32 = iota // nothing to do: no body, or it was sent with the head
	upRuns                // the goroutine reads from the client and writes to the service
	upSent                // the whole body has been written
	upClient              // reading failed: err says why
	upBroken              // writing failed, or the upload was halted: the service's answer, if any, is all there will be
)

// upload sends the rest of a request's body while the answer is already awaited or relayed by the connection's own
// goroutine.
type upload struct {
	x     *Exchange
	up    *upstream.Conn
	idle  time.Duration // for one write to the service
	drop  func(name []byte) bool
	state atomic.Int32
	stop  atomic.Bool
	last  atomic.Bool  // everything has been read: at most one write is left
	at    atomic.Int64 // unix nanoseconds of the last progress
	err   error        // valid in upClient
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

// sent reports whether the service has the whole request.
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

// clientError is why the client's body can't be read; nil while nothing is wrong with it.
func (u *upload) clientError() error {
	if u.state.Load() != upClient {
		return nil
	}
	return u.err
}

// start begins the upload in its own goroutine.
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

// copy moves the body until its end and returns the final state.
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
		case err == io.EOF: //nolint:errorlint // body.read returns it bare
			u.last.Store(true)
			if b.chunked {
				u.wbuf = wire.AppendLastChunk(u.wbuf[:0], wire.Trailers{Fields: b.trailers(), Drop: u.drop})
				if !write(u.wbuf) {
					return upBroken
				}
			}
			return upSent
		case err == errStopped: //nolint:errorlint // body.read returns it bare
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

// settle waits briefly for an upload that is about to end. With patient it may still be reading from the client; otherwise
// only its last write may be left, which must not make an answer look early.
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

// halt ends the upload and waits for its goroutine. The connection to the service can't be used afterwards unless the
// upload was sent.
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
	u.x.client.BodyLeft()
}
