package cmd

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"antirobot/replay"
	"antirobot/request"
	"antirobot/traffic"
	"antirobot/verdict"
)

// demoCrowds are who visits the demo's site by itself, at the pace of real time: people of package traffic, many enough
// for some to come within a minute, and a few robots.
func demoCrowds(host string, at time.Time, length time.Duration) []traffic.Config {
	people := traffic.DefaultConfig()
	people.Begin, people.Length, people.WarmUp, people.Host = at, length, 0, host
	robots := people
	people.Kinds, people.Scale = []traffic.Kind{traffic.People, traffic.Mobile}, 40
	robots.Kinds, robots.Scale = []traffic.Kind{traffic.Fast, traffic.Slow, traffic.Headless, traffic.API}, 0.3
	return []traffic.Config{people, robots}
}

// crowd plays made-up traffic through a real gateway: each request when its time comes, one after the other. The
// gateway must trust this machine as a proxy: addresses are made up, too, and stand in X-Forwarded-For.
type crowd struct {
	addr string
	conn net.Conn
	in   *bufio.Reader
	buf  bytes.Buffer
	err  error

	ctx   context.Context //nolint:containedctx // of one call of playTraffic
	sent  *played
	which byte                    // of the crowds
	nets  map[netip.Prefix]uint16 // the networks that were seen, numbered
}

// from returns the address that stands for one of package traffic, whose addresses may be in use: of the ranges for
// benchmarks (RFC 2544, 198.18.0.0/15) and documentation (RFC 3849, 2001:db8::/32). Who was in one network still is.
func (c *crowd) from(a netip.Addr) netip.Addr {
	bits := 24
	if a.Is6() {
		bits = 48
	}
	net, err := a.Prefix(bits)
	if err != nil {
		return a
	}
	n, known := c.nets[net]
	if !known {
		n = uint16(len(c.nets)) //nolint:gosec // a minute's networks
		c.nets[net] = n
	}
	if a.Is4() {
		b := a.As4()
		b[0], b[1], b[2] = 198, 18+c.which, byte(n) //nolint:gosec // wraps
		return netip.AddrFrom4(b)
	}
	b := a.As16()
	copy(b[:], []byte{0x20, 0x01, 0x0d, 0xb8, c.which<<7 | byte(n>>8), byte(n)}) //nolint:gosec // two halves
	return netip.AddrFrom16(b)
}

// played counts the requests of simulated traffic.
type played struct{ requests, stopped atomic.Int64 }

// playTraffic plays made-up traffic through the gateway at addr, and returns once it is over or ctx ends, which is
// an error, too.
func playTraffic(ctx context.Context, addr string, length time.Duration) (*played, error) {
	var sent played
	var run sync.WaitGroup
	crowds := demoCrowds(addr, time.Now(), length)
	errs := make([]error, len(crowds))
	for i, cfg := range crowds {
		run.Go(func() {
			c := &crowd{
				addr: addr, ctx: ctx, sent: &sent, which: byte(i),
				nets: map[netip.Prefix]uint16{},
			} //nolint:gosec // two
			defer c.hangUp()
			errs[i] = traffic.Run(ctx, cfg, c, nil, func(*traffic.Request,
				*replay.Served,
			) error {
				return errors.Join(ctx.Err(), c.err)
			})
		})
	}
	run.Wait()
	return &sent, errors.Join(errs...)
}

// Serve implements traffic.Server.
func (c *crowd) Serve(v *request.View, _ *replay.Response) *replay.Served {
	s := &replay.Served{Decision: &verdict.Decision{}}
	answer := c.ask(v)
	for _, cookie := range answer.Values("Set-Cookie") {
		if strings.HasPrefix(cookie, "i=") {
			s.SetCookie = []byte(cookie)
		}
	}
	if said := answer.Get("X-Antirobot-Verdict"); said != "" {
		c.sent.stopped.Add(1)
		s.Stopped, s.Decision.Verdict = true, verdict.Robot
	}
	return s
}

// Show implements traffic.Server.
func (c *crowd) Show(v *request.View) { c.ask(v) }

// Answer implements traffic.Server; these visitors solve nothing.
func (c *crowd) Answer(*request.View, []byte) replay.OwnAnswer { return replay.OwnAnswer{} }

// ask waits for the request's time, sends it, and returns the header of the answer; nil if there is none.
func (c *crowd) ask(v *request.View) http.Header {
	wait := time.NewTimer(time.Until(v.At))
	defer wait.Stop()
	select {
	case <-c.ctx.Done():
		return nil
	case <-wait.C:
	}
	for try := range 2 { // the gateway may have closed the connection
		answer, err := c.send(v)
		if err == nil {
			c.sent.requests.Add(1)
			return answer
		}
		c.hangUp()
		if try > 0 {
			c.err = fmt.Errorf("made-up traffic: %w", err)
		}
	}
	return nil
}

// patienceOfCrowd is how long one request may take.
const patienceOfCrowd = 30 * time.Second

// send sends a request with its fields as they are, in their order, which net/http would change.
func (c *crowd) send(v *request.View) (http.Header, error) {
	if c.conn == nil {
		conn, err := net.DialTimeout("tcp", c.addr, patienceOfCrowd)
		if err != nil {
			return nil, err
		}
		c.conn, c.in = conn, bufio.NewReader(conn)
	}
	c.buf.Reset()
	fmt.Fprintf(&c.buf, "%s %s HTTP/1.1\r\n", v.Method, v.Target)
	for _, f := range v.Fields {
		fmt.Fprintf(&c.buf, "%s: %s\r\n", f.Name, f.Value)
	}
	fmt.Fprintf(&c.buf, "X-Forwarded-For: %s\r\nX-Forwarded-Proto: https\r\n", c.from(v.Peer))
	if string(v.Method) != http.MethodGet {
		c.buf.WriteString("Content-Length: 0\r\n")
	}
	c.buf.WriteString("\r\n")
	_ = c.conn.SetDeadline(time.Now().Add(patienceOfCrowd))
	if _, err := c.conn.Write(c.buf.Bytes()); err != nil {
		return nil, err
	}
	resp, err := http.ReadResponse(c.in, &http.Request{Method: string(v.Method)})
	if err != nil {
		return nil, err
	}
	_, err = io.Copy(io.Discard, resp.Body)
	if resp.Close {
		c.hangUp()
	}
	return resp.Header, errors.Join(err, resp.Body.Close())
}

// hangUp closes the connection, if there is one.
func (c *crowd) hangUp() {
	if c.conn != nil {
		_ = c.conn.Close()
		c.conn = nil
	}
}
