package h1

import (
	"crypto/rand"
	"crypto/sha1"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"time"

	"antirobot/proxy/h1/wire"
	"antirobot/request"
)

// tunnel relays the 101 and copies both ways until both sides have ended, one fails, or it is idle for idleFor.
func (x *Exchange) tunnel(o *ForwardOptions, idleFor time.Duration) error {
	l := &x.leg
	x.answered = true
	if err := x.passAnswer(o, bare); err != nil {
		l.drop(nil)
		return err
	}
	x.m.tunnels.Inc()
	x.m.openTunnels.Add(1)
	defer x.m.openTunnels.Add(-1)

	up := l.up
	_ = up.SetDeadline(time.Time{})
	client, early := x.client.Tunnel()
	t := &tunnel{client: client, service: up.Conn, idle: idleFor, goOn: x.goOn, done: make(chan struct{})}
	t.touch()
	t.lookBy.Store(clock().Add(lookEvery).UnixNano())
	fromService := up.Unbuffer()
	go func() {
		defer close(t.done)
		t.in.Store(t.copy(t.service, t.client, early))
	}()
	t.out.Store(t.copy(t.client, t.service, fromService))
	<-t.done
	x.body.n += t.in.Load()
	x.tunnelled = t.out.Load()
	l.drop(nil)
	if t.revoked.Load() {
		x.m.revoked.Inc()
		return errRevoked
	}
	return nil
}

type tunnel struct {
	client, service net.Conn
	idle            time.Duration
	goOn            func() bool  // nil: always
	lookBy          atomic.Int64 // next look, unix nanoseconds
	lastAt          atomic.Int64 // last byte, unix nanoseconds
	in, out         atomic.Int64
	half            atomic.Bool // one direction has ended
	severed         atomic.Bool
	revoked         atomic.Bool
	done            chan struct{}
}

// halfClosedIdle bounds the silence after one direction has ended: most such peers have left.
const halfClosedIdle = time.Minute

func (t *tunnel) patience() time.Duration {
	if t.half.Load() {
		return min(t.idle, halfClosedIdle)
	}
	return t.idle
}

func (t *tunnel) touch() { t.lastAt.Store(clock().UnixNano()) }

// copy moves bytes from src to dst, early ones first. The end of src closes one direction, a failure both.
func (t *tunnel) copy(dst, src net.Conn, early []byte) (n int64) {
	if len(early) > 0 {
		_ = dst.SetWriteDeadline(clock().Add(t.idle))
		if _, err := dst.Write(early); err != nil {
			t.sever()
			return 0
		}
		n = int64(len(early))
	}
	buf := make([]byte, 4<<10)
	var readBy, writeBy time.Time
	for {
		now := clock()
		if left, idle := readBy.Sub(now), t.patience(); left > idle || left < idle-idle/8 {
			readBy = now.Add(idle)
			_ = src.SetReadDeadline(readBy)
		}
		if t.severed.Load() { // after the deadline: sever sets the flag first
			return n
		}
		m, err := src.Read(buf)
		if m > 0 {
			now = clock()
			t.lastAt.Store(now.UnixNano())
			if !t.look(now) {
				t.sever()
				return n
			}
			if left := writeBy.Sub(now); left < t.idle-t.idle/8 {
				writeBy = now.Add(t.idle)
				_ = dst.SetWriteDeadline(writeBy)
			}
			if t.severed.Load() {
				return n
			}
			if _, err := dst.Write(buf[:m]); err != nil {
				t.sever()
				return n
			}
			n += int64(m)
			if m == len(buf) && len(buf) < 32<<10 {
				buf = make([]byte, 32<<10) // a file transfer
			}
		}
		switch {
		case err == nil:
		case isTimeout(err) && !t.severed.Load() && t.alive():
			readBy = time.Time{} // the other direction is alive
		case isTimeout(err):
			t.sever()
			return n
		default:
			t.end(dst, err)
			return n
		}
	}
}

// end ends the direction to dst: only this one at a clean end, otherwise both.
func (t *tunnel) end(dst net.Conn, err error) {
	if w, ok := dst.(interface{ CloseWrite() error }); !ok || !errors.Is(err, io.EOF) || w.CloseWrite() != nil {
		t.sever()
		return
	}
	t.half.Store(true)
	_ = dst.SetReadDeadline(clock().Add(t.patience())) // the other direction may have armed for longer
	if t.severed.Load() {
		t.sever() // severed in between
	}
}

func (t *tunnel) alive() bool {
	idle := t.patience()
	return clock().Sub(time.Unix(0, t.lastAt.Load())) < idle-idle/8
}

func (t *tunnel) sever() {
	t.severed.Store(true)
	_ = t.client.SetDeadline(past)
	_ = t.service.SetDeadline(past)
}

// socketKey is the WebSocket key for a client without one, as over HTTP/2, and the proof that a service read it (RFC
// 6455 section 4.2.2).
type socketKey struct {
	key    [24]byte
	accept [28]byte
}

const (
	socketKeyName    = "sec-websocket-key"
	socketAcceptName = "sec-websocket-accept"
	socketGUID       = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
)

func (k *socketKey) make(h *wire.Head) {
	var random [16]byte
	_, _ = rand.Read(random[:]) // never fails
	base64.StdEncoding.Encode(k.key[:], random[:])
	sum := sha1.Sum(append(k.key[:], socketGUID...))
	base64.StdEncoding.Encode(k.accept[:], sum[:])

	h.Upgrade, h.UpgradeNum, h.UpgradeTo = true, 1, []byte("websocket")
	h.Accept = k.accept[:]
	h.Fields = append(h.Fields, request.Field{Name: []byte("upgrade"), Value: h.UpgradeTo},
		request.Field{Name: []byte(socketKeyName), Value: k.key[:]})
	h.Kinds = append(h.Kinds, wire.Upgrade, wire.Plain)
}

// accepts checks the answer to a WebSocket request with the gateway's key.
func accepts(h, answer *wire.Head) error {
	if h.Accept == nil {
		return nil
	}
	if answer.Status != 101 {
		if answer.Status < 300 {
			return fmt.Errorf("%w: %d instead of a WebSocket", wire.ErrBadResponse, answer.Status)
		}
		return nil
	}
	for i := range answer.Fields {
		if f := &answer.Fields[i]; request.EqualFold(f.Name, socketAcceptName) && string(f.Value) == string(h.Accept) {
			return nil
		}
	}
	return fmt.Errorf("%w: a WebSocket without the key's proof", wire.ErrBadResponse)
}
