package socket_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"antirobot/proxy/socket"
)

const patience = 60 * time.Second

// tooMuch is more than a connection holds whose other end does not read.
var tooMuch = make([]byte, 8<<20)

// pair returns the two ends of a TCP connection the first of them direct and with a small buffer to send from.
func pair(t *testing.T) (direct net.Conn, other *net.TCPConn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	s, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(); s.Close() })
	tcp, other := s.(*net.TCPConn), c.(*net.TCPConn)
	if err := errors.Join(tcp.SetWriteBuffer(4<<10), other.SetDeadline(time.Now().Add(patience))); err != nil {
		t.Fatal(err)
	}
	direct = socket.Direct(tcp)
	if direct == net.Conn(tcp) {
		t.Fatal("a socket is left as it was")
	}
	return direct, other
}

// TestDirectBothWays: more than the buffers hold passes in both directions at once, in pieces that the socket accepts,
// and ends.
func TestDirectBothWays(t *testing.T) {
	d, other := pair(t)
	sent := bytes.Repeat([]byte("0123456789abcdef"), 1<<18)
	wrote := make(chan error, 2)
	go func() {
		n, err := d.Write(sent)
		if n != len(sent) {
			t.Errorf("%d of %d bytes written", n, len(sent))
		}
		wrote <- err
	}()
	go func() {
		_, err := other.Write(sent)
		wrote <- errors.Join(err, other.CloseWrite())
	}()
	back := make(chan []byte)
	go func() {
		b, err := io.ReadAll(d)
		if err != nil {
			t.Error(err)
		}
		back <- b
	}()
	got := make([]byte, len(sent))
	if _, err := io.ReadFull(other, got); err != nil || !bytes.Equal(got, sent) {
		t.Errorf("%v, or other bytes than were sent", err)
	}
	if !bytes.Equal(<-back, sent) {
		t.Error("other bytes came back")
	}
	if err := errors.Join(<-wrote, <-wrote); err != nil {
		t.Error(err)
	}
	if n, err := d.Read(nil); n != 0 || err != nil {
		t.Errorf("reading nothing: %d, %v", n, err)
	}
}

// TestDirectDeadlines: both deadlines hold, a write says how much it sent until then, and the connection goes on
// afterwards.
func TestDirectDeadlines(t *testing.T) {
	d, other := pair(t)
	soon := func() time.Time { return time.Now().Add(20 * time.Millisecond) }
	if err := d.SetDeadline(soon()); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a read gave %v", err)
	}
	if err := d.SetDeadline(soon()); err != nil {
		t.Fatal(err)
	}
	var ne net.Error
	n, err := d.Write(tooMuch)
	if !errors.Is(err, os.ErrDeadlineExceeded) || !errors.As(err, &ne) || !ne.Timeout() || n == len(tooMuch) {
		t.Errorf("a write of %d bytes gave %v", n, err)
	}
	if err := d.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	if m, err := io.CopyN(io.Discard, other, int64(n)); err != nil {
		t.Errorf("%d of %d bytes came: %v", m, n, err)
	}
	if _, err := d.Write([]byte("on")); err != nil {
		t.Error(err)
	}
	on := make([]byte, 2)
	if _, err := io.ReadFull(other, on); err != nil || string(on) != "on" {
		t.Errorf("%q, %v", on, err)
	}
}

// TestDirectEnds: an end, a reset and a close while it waits are told apart.
func TestDirectEnds(t *testing.T) {
	d, other := pair(t)
	if err := other.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if n, err := d.Read(make([]byte, 8)); n != 0 || err != io.EOF {
		t.Errorf("at the end: %d, %v", n, err)
	}

	d, other = pair(t)
	_ = other.SetLinger(0)
	other.Close()
	if _, err := d.Read(make([]byte, 8)); err == nil || errors.Is(err, io.EOF) {
		t.Errorf("after a reset, a read gave %v", err)
	}
	if _, err := d.Write(tooMuch); err == nil {
		t.Error("a write after a reset succeeded")
	}

	d, _ = pair(t)
	failed := make(chan error)
	go func() { _, err := d.Read(make([]byte, 8)); failed <- err }()
	d.Close()
	if err := <-failed; !errors.Is(err, net.ErrClosed) {
		t.Errorf("closed while it reads: %v", err)
	}
}

// TestDirectWithoutSocket: what is no socket stays what it is.
func TestDirectWithoutSocket(t *testing.T) {
	c, other := net.Pipe()
	defer c.Close()
	defer other.Close()
	if socket.Direct(c) != c {
		t.Error("it was wrapped")
	}
}
