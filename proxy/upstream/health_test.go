package upstream

import (
	"context"
	"errors"
	"fmt"
	"net"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"antirobot/servertest"
)

func TestStartsWithoutAnUpstreamAndFailsTyped(t *testing.T) {
	l := listen(t)
	l.Close()
	g := group(t, nil, "http://"+l.Addr().String())
	_, err := g.Get(t.Context(), false)
	if !errors.Is(err, errDial) || !errors.Is(err, errNoUpstream) || errors.Is(err, ErrBusy) {
		t.Fatal(err)
	}
	// If it is the only one, it is retried at once, however often it failed.
	for range 5 {
		g.Get(t.Context(), false)
	}
	if g.Healthy()[0].Up {
		t.Fatal("still thought to be up")
	}
	l2, err := net.Listen("tcp", l.Addr().String())
	if err != nil {
		t.Skip("the port was taken meanwhile")
	}
	serve(t, l2, echoLines)
	c := get(t, g)
	ask(t, c, "back")
	c.Release()
	if !g.Healthy()[0].Up {
		t.Fatal("not back")
	}
}

func TestNextAddressWithinOneGet(t *testing.T) {
	dead, alive := listen(t), listen(t) // both before one is closed, so that they differ
	dead.Close()
	good := serve(t, alive, echoLines)
	g := group(t, nil, "http://"+dead.Addr().String(), good.url())
	for i := range 20 {
		c, err := g.Get(t.Context(), true)
		if err != nil {
			t.Fatal(i, err)
		}
		ask(t, c, "hello")
		c.Release()
	}
	h := g.Healthy()
	if h[0].Up || h[0].RetryIn <= 0 || !h[1].Up {
		t.Fatalf("%+v", h)
	}
}

func TestAnswersThatFailTakeAnAddressOutAndTheProbeBringsItBack(t *testing.T) {
	a, b := serve(t, listen(t), echoLines), serve(t, listen(t), echoLines)
	g := group(t, func(c *Config) { c.FailTimeout = 300 * time.Millisecond }, a.url(), b.url())
	bad := errors.New("broken answer")
	for g.Healthy()[0].Up {
		c := get(t, g)
		if c.Addr() == a.Addr().String() {
			c.Discard(bad)
		} else {
			c.Release()
		}
	}
	for range 10 {
		c := get(t, g)
		if c.Addr() != b.Addr().String() {
			t.Fatal("the address that is out was chosen")
		}
		c.Release()
	}
	servertest.Eventually(t, "probed and back, with the probe's connection kept",
		func() bool { h := g.Healthy()[0]; return h.Up && h.Idle == 1 })
	if h := g.Healthy()[0]; h.Fails != 2 {
		t.Fatalf("%+v: on trial", h)
	}
	for {
		c := get(t, g)
		if c.Addr() == a.Addr().String() {
			c.Discard(bad)
			break
		}
		c.Release()
	}
	if g.Healthy()[0].Up {
		t.Fatal("one failure on trial is enough")
	}
}

func TestASuccessForgivesAndOldFailuresAreForgotten(t *testing.T) {
	s := serve(t, listen(t), echoLines)
	g := group(t, nil, s.url(), "http://127.0.0.1:1")
	a := g.addrs[0]
	bad := errors.New("x")
	a.failed(bad)
	a.failed(bad)
	a.succeeded()
	a.failed(bad)
	a.failed(bad)
	if !g.Healthy()[0].Up {
		t.Fatal("failures that were not in a row")
	}
	a.firstFail -= int64(time.Minute)
	a.failed(bad)
	if h := g.Healthy()[0]; !h.Up || h.Fails != 1 {
		t.Fatalf("%+v", h)
	}
	off := group(t, func(c *Config) { c.MaxFails = 0 }, s.url())
	for range 10 {
		off.addrs[0].failed(bad)
	}
	if !off.Healthy()[0].Up {
		t.Fatal("switched off")
	}
}

func TestAllDownTriesTheOneLongestDown(t *testing.T) {
	s := serve(t, listen(t), echoLines)
	g := group(t, nil, "http://127.0.0.1:1", s.url(), "http://127.0.0.1:2")
	for _, i := range []int{1, 0, 2} {
		for range 3 {
			g.addrs[i].failed(errors.New("x"))
		}
	}
	c := get(t, g)
	if c.Addr() != s.Addr().String() {
		t.Fatal(c.Addr())
	}
	c.Release()
}

// busyListener returns the address of a listener whose queue is full, so that a dial waits.
func busyListener(t *testing.T) string {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	if err := unix.Listen(fd, 0); err != nil {
		t.Fatal(err)
	}
	name, err := unix.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	addr := fmt.Sprintf("127.0.0.1:%d", name.(*unix.SockaddrInet4).Port)
	for range 16 {
		c, err := net.DialTimeout("tcp", addr, 100*time.Millisecond)
		if err != nil {
			return addr
		}
		t.Cleanup(func() { c.Close() })
	}
	t.Fatal("the queue of the listener does not fill")
	return ""
}

func TestTheClientsEndIsNotTheAddressFault(t *testing.T) {
	g := group(t, nil, "http://"+busyListener(t))
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	_, err := g.Get(ctx, false)
	if !errors.Is(err, context.DeadlineExceeded) || g.Healthy()[0].Fails != 0 {
		t.Fatal(err, g.Healthy())
	}
}
