package demo

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Crowd counts the requests of simulated visitors.
type Crowd struct{ Requests, Stopped atomic.Int64 }

// guest is a simulated visitor. The gateway must trust this machine as a proxy: the addresses of guests are of the range
// for benchmarks (RFC 2544) and stand in X-Forwarded-For.
type guest struct {
	crowd   *Crowd
	gateway string // host:port
	address string
	fields  string // of every request, in the order of the client
	pace    time.Duration
	visit   func(g *guest, ctx context.Context, n int) error // the n-th

	cookie string
	loaded map[string]bool
	conn   net.Conn
	in     *bufio.Reader
}

// Fields of the clients.
const (
	personFields = "sec-ch-ua: \"Chromium\";v=\"140\", \"Not=A?Brand\";v=\"24\", \"Google Chrome\";v=\"140\"\r\n" +
		"sec-ch-ua-mobile: ?0\r\nsec-ch-ua-platform: \"Windows\"\r\nUpgrade-Insecure-Requests: 1\r\nUser-Agent: Mozilla/5.0 " +
		"(Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36\r\n"
	headlessFields = "User-Agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) " +
		"HeadlessChrome/140.0.0.0 Safari/537.36\r\nAccept: text/html\r\nAccept-Encoding: gzip\r\n"
	libraryFields = "User-Agent: python-requests/2.32.3\r\nAccept-Encoding: gzip, deflate\r\nAccept: */*\r\n"
	callerFields  = "User-Agent: curl/8.10.1\r\nAccept: */*\r\n"
)

// Visit lets simulated people and robots visit the site behind the gateway at an address for a time, or until ctx ends.
func Visit(ctx context.Context, gateway string, length time.Duration) (*Crowd, error) {
	ctx, cancel := context.WithTimeout(ctx, length)
	defer cancel()
	c := &Crowd{}
	var all []*guest
	add := func(network, n int, fields string, pace time.Duration, visit func(*guest, context.Context, int) error) {
		for i := range n {
			all = append(all, &guest{
				crowd: c, gateway: gateway, address: fmt.Sprintf("198.18.%d.%d", network, 1+i*7), fields: fields, pace: pace,
				visit: visit, loaded: map[string]bool{},
			})
		}
	}
	add(1, 12, personFields, 4*time.Second, (*guest).read)
	add(2, 2, headlessFields, time.Second, (*guest).scrape)
	add(3, 1, libraryFields, 100*time.Millisecond, (*guest).scrape)
	add(4, 1, callerFields, 300*time.Millisecond, (*guest).call)
	errs := make([]error, len(all))
	var run sync.WaitGroup
	for i, g := range all {
		run.Go(func() { errs[i] = g.run(ctx) })
	}
	run.Wait()
	return c, errors.Join(errs...)
}

// run visits until ctx ends.
func (g *guest) run(ctx context.Context) error {
	defer g.hangUp()
	for n := 0; ; n++ {
		if err := g.visit(g, ctx, n); err != nil && ctx.Err() == nil {
			return fmt.Errorf("simulated visitor: %w", err)
		}
		wait := g.pace/2 + rand.N(g.pace) //nolint:gosec // a pace, not a secret
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
	}
}

// read opens a page as a browser does, with the subresources that it has not loaded yet.
func (g *guest) read(ctx context.Context, n int) error {
	page := "/"
	switch n % 4 {
	case 1:
		page = "/articles/" + articleNames[rand.IntN(len(articleNames))] //nolint:gosec // any will do
	case 2:
		page = "/gallery"
	case 3:
		page = "/list"
	}
	fetch := func(site, mode, dest, accept string) string {
		return "Accept: " + accept + "\r\nSec-Fetch-Site: " + site + "\r\nSec-Fetch-Mode: " + mode + "\r\nSec-Fetch-Dest: " + dest +
			"\r\nAccept-Encoding: gzip, deflate, br\r\nAccept-Language: en-GB,en;q=0.9\r\n"
	}
	from := "none"
	if n > 0 {
		from = "same-origin"
	}
	stopped, err := g.send(ctx, page, fetch(from, "navigate", "document", "text/html,application/xhtml+xml,*/*;q=0.8"))
	if err != nil || stopped {
		return err
	}
	parts := map[string]string{"/static/site.css": "style", "/static/icon.svg": "image"}
	switch page {
	case "/gallery":
		for _, name := range pictureNames {
			parts["/pictures/"+name+".png"] = "image"
		}
	case "/list":
		parts["/static/list.js"] = "script"
	}
	referer := "Referer: http://" + g.gateway + page + "\r\n"
	for part, dest := range parts {
		if g.loaded[part] {
			continue
		}
		g.loaded[part] = true
		if _, err := g.send(ctx, part, fetch("same-origin", "no-cors", dest, "*/*")+referer); err != nil {
			return err
		}
	}
	return nil
}

// scrape opens pages of the shop one after the other, without their subresources.
func (g *guest) scrape(ctx context.Context, n int) error {
	_, err := g.send(ctx, fmt.Sprintf("/shop/%d/item-%d", n%8+1, n+1), "")
	return err
}

func (g *guest) call(ctx context.Context, n int) error {
	_, err := g.send(ctx, fmt.Sprintf("/api/list?page=%d", n%listPages+1), "")
	return err
}

// send sends a GET request, with its fields in their order, which net/http would change.
func (g *guest) send(ctx context.Context, target, fields string) (stopped bool, err error) {
	for range 2 { // the gateway may have closed the connection
		if stopped, err = g.try(ctx, target, fields); err == nil || ctx.Err() != nil {
			return stopped, err
		}
		g.hangUp()
	}
	return stopped, err
}

func (g *guest) try(ctx context.Context, target, fields string) (stopped bool, err error) {
	if g.conn == nil {
		var d net.Dialer
		if g.conn, err = d.DialContext(ctx, "tcp", g.gateway); err != nil {
			return false, err
		}
		g.in = bufio.NewReader(g.conn)
	}
	_ = g.conn.SetDeadline(time.Now().Add(30 * time.Second))
	_, err = fmt.Fprintf(g.conn, "GET %s HTTP/1.1\r\nHost: %s\r\n%s%s%sX-Forwarded-For: %s\r\n\r\n",
		target, g.gateway, g.fields, fields, g.cookie, g.address)
	if err != nil {
		return false, err
	}
	resp, err := http.ReadResponse(g.in, &http.Request{Method: http.MethodGet})
	if err != nil {
		return false, err
	}
	defer func() { _ = resp.Body.Close() }()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return false, err
	}
	if resp.Close {
		g.hangUp()
	}
	for _, cookie := range resp.Header.Values("Set-Cookie") {
		if pair, _, _ := strings.Cut(cookie, ";"); strings.HasPrefix(pair, "i=") && g.fields == personFields {
			g.cookie = "Cookie: " + pair + "\r\n"
		}
	}
	g.crowd.Requests.Add(1)
	if stopped = resp.Header.Get("X-Antirobot-Verdict") != ""; stopped {
		g.crowd.Stopped.Add(1)
	}
	return stopped, nil
}

// hangUp closes the connection, if there is one.
func (g *guest) hangUp() {
	if g.conn != nil {
		_ = g.conn.Close()
		g.conn = nil
	}
}
