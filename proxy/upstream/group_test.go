package upstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/VictoriaMetrics/metrics"

	"antirobot/servertest"
)

func TestBalance(t *testing.T) {
	a, b := serve(t, listen(t), echoLines), serve(t, listen(t), echoLines)
	lc := group(t, nil, a.url(), b.url())
	var held []*Conn
	for range 10 {
		held = append(held, get(t, lc))
	}
	for _, h := range lc.Healthy() {
		if h.Active != 5 {
			t.Fatalf("%+v", h)
		}
	}
	for _, c := range held {
		c.Release()
	}
}

func TestUnixSocket(t *testing.T) {
	path := t.TempDir() + "/s.sock"
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	serve(t, l, echoLines)
	g := group(t, nil, "http+unix://"+path)
	for range 2 {
		c := get(t, g)
		ask(t, c, "over a socket file")
		c.Release()
	}
	if c := get(t, g); !c.Reused() || c.Addr() != path {
		t.Fatal(c.Reused(), c.Addr())
	} else {
		c.Release()
	}
}

func TestClose(t *testing.T) {
	s := serve(t, listen(t), echoLines)
	set := metrics.NewSet()
	g, _ := groupWith(t, set, func(c *Config) { c.MaxConns = 2 }, s.url())
	a, b := get(t, g), get(t, g)
	a.Release()
	waited := make(chan error, 1)
	a = get(t, g)
	go func() {
		_, err := g.Get(context.Background(), false)
		waited <- err
	}()
	servertest.Eventually(t, "someone waits", func() bool { return g.queue.waiting.Load() == 1 })
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-waited; !errors.Is(err, errNoUpstream) {
		t.Fatal(err)
	}
	ask(t, b, "a lent connection lives on")
	b.Release()
	a.Discard(nil)
	a.Discard(nil)
	if _, err := g.Get(t.Context(), false); !errors.Is(err, errNoUpstream) {
		t.Fatal(err)
	}
	if g.addrs[0].open.Load() != 0 || g.Close() != nil {
		t.Fatal("connections left")
	}
	var out bytes.Buffer
	set.WritePrometheus(&out)
	for _, l := range strings.Split(out.String(), "\n") {
		if strings.Contains(l, "connections{") && !strings.HasSuffix(l, " 0") {
			t.Error(l)
		}
	}
}

func TestGroupsOfOneNameShareTheirMetrics(t *testing.T) {
	s := serve(t, listen(t), echoLines)
	set := metrics.NewSet()
	old, _ := groupWith(t, set, nil, s.url())
	c := get(t, old)
	fresh, _ := groupWith(t, set, nil, s.url())
	d := get(t, fresh)
	old.publish()
	fresh.publish()
	seen := func() string {
		var out bytes.Buffer
		set.WritePrometheus(&out)
		for _, l := range strings.Split(out.String(), "\n") {
			if strings.Contains(l, `state="active"`) {
				return l[strings.LastIndexByte(l, ' ')+1:]
			}
		}
		return "none"
	}
	if seen() != "2" {
		t.Fatal(seen())
	}
	old.Close()
	c.Release()
	if seen() != "1" {
		t.Fatal(seen())
	}
	d.Release()
}

func TestManyClients(t *testing.T) {
	s := serve(t, listen(t), echoLines)
	g := group(t, nil, s.url())
	var wg sync.WaitGroup
	for i := range 32 {
		wg.Go(func() {
			for j := range 100 {
				c, err := g.Get(t.Context(), j%17 == 0)
				if err != nil {
					t.Error(err)
					return
				}
				fmt.Fprintf(c, "%d %d\n", i, j)
				got, err := c.R.ReadString('\n')
				if err != nil || got != fmt.Sprintf("%d %d\n", i, j) {
					t.Error(got, err)
					c.Discard(err)
					return
				}
				if j%23 == 0 {
					c.Discard(nil)
				} else {
					c.Release()
				}
			}
		})
	}
	wg.Wait()
	h := g.Healthy()[0]
	const wanted, fresh = 32, 32 * 6 // concurrent requests, and connections requested as fresh
	if h.Active != 0 || int64(h.Idle) != g.addrs[0].open.Load() || h.Idle > wanted+fresh {
		t.Fatalf("%+v, open %d", h, g.addrs[0].open.Load())
	}
}

// TestHTTP makes an HTTP exchange with a real server, to show that nothing here interferes with it.
func TestHTTP(t *testing.T) {
	l := listen(t)
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter,
		r *http.Request,
	) {
		io.WriteString(w, r.URL.Path)
	})}
	go srv.Serve(l)
	defer srv.Close()
	g := group(t, nil, "http://"+l.Addr().String())
	for i := range 3 {
		c := get(t, g)
		fmt.Fprintf(c, "GET /%d HTTP/1.1\r\nHost: x\r\n\r\n", i)
		resp, err := http.ReadResponse(c.R, nil)
		if err != nil {
			t.Fatal(err)
		}
		b, _ := io.ReadAll(resp.Body)
		if string(b) != fmt.Sprint("/", i) || c.Reused() != (i > 0) {
			t.Fatal(string(b), c.Reused())
		}
		c.Release()
	}
}
