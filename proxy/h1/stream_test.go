package h1

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"antirobot/request"
)

// TestStreamedPiecesArriveAtOnce is pitfall 25 and row 3: an event is with the client before the next one is sent.
func TestStreamedPiecesArriveAtOnce(t *testing.T) {
	for _, c := range []struct{ name, head, piece, end string }{
		{"chunked", "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n", "9\r\ndata: x\n\n\r\n", "0\r\n\r\n"},
		{"closing", "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n", "data: x\n\n", ""},
		{"length", "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 27\r\n\r\n", "data: x\n\n", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			next := make(chan bool)
			s := newService(t, func(k *talk) {
				k.request(true)
				k.say(c.head)
				for <-next {
					k.say(c.piece)
				}
				k.say(c.end)
			})
			g := newGateway(t, s, setup{})
			c1 := dial(t, g)
			c1.say(aGet)
			h := c1.head() // before any piece
			for range 3 {
				next <- true
				if strings.Contains(h, "chunked") {
					if line, _ := c1.r.ReadString('\n'); line != "9\r\n" {
						t.Fatalf("chunk size %q", line)
					}
				}
				b := make([]byte, 9)
				if _, err := io.ReadFull(c1.r, b); err != nil || string(b) != "data: x\n\n" {
					t.Fatalf("got %q %v", b, err)
				}
				if strings.Contains(h, "chunked") {
					_, _ = c1.r.Discard(2)
				}
			}
			next <- false
		})
	}
}

// TestShortAnswersTakeOneWrite: head and body that the service sends apart still leave together. A busy machine may
// miss the moment that they are given, but not twenty times.
func TestShortAnswersTakeOneWrite(t *testing.T) {
	s := newService(t, func(k *talk) {
		for {
			if r, _ := k.request(true); r == nil {
				return
			}
			k.say("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n")
			time.Sleep(time.Millisecond)
			k.say("hello")
		}
	})
	g := newGateway(t, s, setup{})
	c1 := dial(t, g)
	b := make([]byte, 1<<10)
	for range 20 {
		c1.say(aGet)
		n, err := c1.Read(b)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(string(b[:n]), "hello") {
			return
		}
		if _, err := io.ReadFull(c1.Conn, b[:5]); err != nil {
			t.Fatal(err)
		}
	}
	t.Error("the head never waited for the body")
}

// TestEarlyAnswer is row 4: a service that refuses before it has read the body is heard at once, the upload stops, and
// its connection is not used again.
func TestEarlyAnswer(t *testing.T) {
	for _, chunked := range []bool{false, true} {
		t.Run(fmt.Sprintf("chunked %v", chunked), func(t *testing.T) {
			s := newService(t, func(k *talk) {
				k.head()
				k.say("HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\n\r\nbig")
				time.Sleep(100 * time.Millisecond) // does not read, does not close
				_, _ = io.Copy(io.Discard, k.r)
			})
			g := newGateway(t, s, setup{})
			c1 := dial(t, g)
			if chunked {
				c1.say("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")
			} else {
				c1.say("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000000\r\n\r\nhello")
			}
			resp, body := c1.answer("POST")
			if resp.StatusCode != 413 || body != "big" || !resp.Close {
				t.Errorf("got %v %q", resp, body)
			}
			c1.closes()
			c2 := dial(t, g)
			c2.say(aGet)
			c2.answer("GET")
			if n := s.connections(); n != 2 {
				t.Errorf("the connection was used again")
			}
		})
	}
}

// TestEarlyAnswerWhileClientSends: the client only reads when it has sent much; the answer must survive.
func TestEarlyAnswerWhileClientSends(t *testing.T) {
	s := newService(t, func(k *talk) {
		k.head()
		k.say("HTTP/1.1 401 Who\r\nConnection: close\r\nContent-Length: 3\r\n\r\nwho")
	})
	g := newGateway(t, s, setup{cfg: func(c *Config) { c.LingerTimeout = 3 * time.Second }})
	for range 10 {
		c1 := dial(t, g)
		c1.say("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4000000\r\n\r\n")
		_, _ = c1.Write(make([]byte, 4_000_000))
		if resp, body := c1.answer("POST"); resp.StatusCode != 401 || body != "who" {
			t.Fatalf("got %v %q", resp, body)
		}
		c1.Close()
	}
}

// TestAnswerBeforeTheEndOfTheBody: a service that answers at once and then takes the body costs nobody a connection.
func TestAnswerBeforeTheEndOfTheBody(t *testing.T) {
	s := newService(t, func(k *talk) {
		for {
			r, _ := k.request(false)
			if r == nil {
				return
			}
			k.say(okAnswer)
			_, _ = io.Copy(io.Discard, r.Body)
		}
	})
	g := newGateway(t, s, setup{})
	c1 := dial(t, g)
	for range 3 {
		c1.say("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhello")
		resp, body := c1.answer("POST")
		if body != "ok" || resp.Close {
			t.Fatalf("got %v %q", resp, body)
		}
		c1.say("world")
	}
	if n := s.connections(); n != 1 {
		t.Errorf("%d connections to the service", n)
	}
}

// TestDuplex talks both ways within one exchange.
func TestDuplex(t *testing.T) {
	s := newService(t, func(k *talk) {
		r, _ := k.request(false)
		k.say("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
		b := make([]byte, 100)
		for {
			n, err := r.Body.Read(b)
			if n > 0 {
				k.say(fmt.Sprintf("%x\r\n%s\r\n", n, b[:n]))
			}
			if err != nil {
				k.say("0\r\n\r\n")
				break
			}
		}
		if r, _ := k.request(true); r != nil {
			k.say(okAnswer)
		}
	})
	g := newGateway(t, s, setup{})
	c1 := dial(t, g)
	c1.say("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n")
	c1.head()
	for range 3 {
		c1.say("4\r\nping\r\n")
		b := make([]byte, len("4\r\nping\r\n"))
		if _, err := io.ReadFull(c1.r, b); err != nil || string(b) != "4\r\nping\r\n" {
			t.Fatalf("got %q %v", b, err)
		}
	}
	c1.say("0\r\n\r\n")
	b := make([]byte, 5)
	if _, err := io.ReadFull(c1.r, b); err != nil || string(b) != "0\r\n\r\n" {
		t.Fatalf("got %q %v", b, err)
	}
	c1.say(aGet)
	if _, body := c1.answer("GET"); body != "ok" || s.connections() != 1 {
		t.Errorf("then got %q over %d connections", body, s.connections())
	}
}

// TestExpectContinue is row 5: the service decides, and is heard.
func TestExpectContinue(t *testing.T) {
	const req = "POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-Continue\r\nContent-Length: 5\r\n\r\n"
	t.Run("passed on", func(t *testing.T) {
		s := newService(t, func(k *talk) {
			if !strings.Contains(k.head(), "Expect: 100-Continue\r\n") {
				t.Error("Expect did not reach the service")
			}
			k.say("HTTP/1.1 100 Continue\r\n\r\n")
			b := make([]byte, 5)
			_, _ = io.ReadFull(k.r, b)
			k.say("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n" + string(b))
			if r, _ := k.request(true); r != nil {
				k.say(okAnswer)
			}
		})
		g := newGateway(t, s, setup{})
		c1 := dial(t, g)
		c1.say(req)
		if h := c1.head(); h != "HTTP/1.1 100 Continue\r\n\r\n" {
			t.Fatalf("got %q", h)
		}
		c1.say("hello")
		if resp, body := c1.answer("POST"); body != "hello" || resp.Close {
			t.Errorf("got %v %q", resp, body)
		}
		c1.say(aGet)
		if _, body := c1.answer("GET"); body != "ok" {
			t.Errorf("then got %q", body)
		}
	})
	t.Run("refused", func(t *testing.T) {
		s := newService(t, func(k *talk) {
			k.head()
			k.say("HTTP/1.1 417 No\r\nContent-Length: 2\r\n\r\nno")
			k.head()
		})
		g := newGateway(t, s, setup{})
		c1 := dial(t, g)
		c1.say(req)
		if resp, body := c1.answer("POST"); resp.StatusCode != 417 || body != "no" || !resp.Close {
			t.Errorf("got %v %q", resp, body)
		}
		c1.closes()
	})
	t.Run("service is silent", func(t *testing.T) {
		s := answering(t, okAnswer) // net/http's reader: waits for the body
		g := newGateway(t, s, setup{cfg: func(c *Config) { c.ContinueTimeout = 50 * time.Millisecond }})
		c1 := dial(t, g)
		c1.say(req)
		if h := c1.head(); h != "HTTP/1.1 100 Continue\r\n\r\n" {
			t.Fatalf("got %q", h)
		}
		c1.say("hello")
		if _, body := c1.answer("POST"); body != "ok" {
			t.Errorf("got %q", body)
		}
	})
	t.Run("client does not wait", func(t *testing.T) {
		s := answering(t, "HTTP/1.1 100 Continue\r\n\r\n"+okAnswer)
		g := newGateway(t, s, setup{})
		c1 := dial(t, g)
		c1.say(req + "hello")
		resp, body := c1.answer("POST")
		if resp.StatusCode == 100 {
			resp, body = c1.answer("POST")
		}
		if body != "ok" {
			t.Errorf("got %v %q", resp, body)
		}
	})
	t.Run("own answer", func(t *testing.T) {
		g := newGateway(t, nil, setup{handler: func(x *Exchange, _ func()) { _ = x.Reply(403, nil, nil) }})
		c1 := dial(t, g)
		c1.say(req)
		if resp, _ := c1.answer("POST"); resp.StatusCode != 403 || !resp.Close {
			t.Errorf("got %v", resp)
		}
		c1.closes()
	})
}

// TestReadBody: what the handler has read goes on untouched, whole or in part.
func TestReadBody(t *testing.T) {
	for _, c := range []struct {
		name, req string
		limit     int64
		want, err string
		sent      string
	}{
		{"length", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello", 10, "hello", "", "Content-Length: 5\r\n\r\nhello"},
		{"none", aGet, 10, "", "", "Host: a\r\n\r\n"},
		{"chunked", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2\r\nlo\r\n0\r\nX-T: 1\r\n\r\n", 5, "hello", "", "chunked\r\n\r\n5\r\nhello\r\n0\r\nX-T: 1\r\n\r\n"},
		{"too long", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello", 4, "", ErrBodyTooLarge.Error(), "Content-Length: 5\r\n\r\nhello"},
		{"chunked, too long", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n", 4, "", ErrBodyTooLarge.Error(), "hello"},
		{"broken", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhelXX", 4, "", ErrBadBody.Error(), ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := answering(t, okAnswer)
			g := newGateway(t, s, setup{handler: func(x *Exchange, forward func()) {
				b, err := x.ReadBody(c.limit)
				if string(b) != c.want || fmt.Sprint(err) != c.err && (err != nil || c.err != "") {
					t.Errorf("ReadBody gave %q, %v", b, err)
				}
				forward()
			}})
			c1 := dial(t, g)
			c1.say(c.req)
			resp, _ := c1.answer("POST")
			got := strings.ReplaceAll(s.got(), "3\r\nhel\r\n2\r\nlo\r\n", "5\r\nhello\r\n")
			if c.sent == "" && resp.StatusCode != 400 || !strings.Contains(got, c.sent) {
				t.Errorf("got %d, the service saw %q", resp.StatusCode, got)
			}
		})
	}
	t.Run("sends 100", func(t *testing.T) {
		s := answering(t, okAnswer)
		g := newGateway(t, s, setup{handler: func(x *Exchange, forward func()) {
			if b, err := x.ReadBody(10); string(b) != "hello" || err != nil {
				t.Errorf("ReadBody gave %q, %v", b, err)
			}
			forward()
		}})
		c1 := dial(t, g)
		c1.say("POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n")
		if h := c1.head(); h != "HTTP/1.1 100 Continue\r\n\r\n" {
			t.Fatalf("got %q", h)
		}
		c1.say("hello")
		if _, body := c1.answer("POST"); body != "ok" || strings.Contains(s.got(), "Expect") {
			t.Errorf("got %q; the service saw %q", body, s.got())
		}
	})
}

// TestReplay sends a request that the handler made up and nothing of the client's.
func TestReplay(t *testing.T) {
	s := answering(t, okAnswer)
	o := ForwardOptions{Replay: &Request{
		Method: []byte("PUT"), Target: []byte("/saved?x"), Body: []byte("form"),
		Fields: append(append([]request.Field{}, field("Cookie", "a=b"), field("Content-Length", "99")), field("Connection", "close")),
	}, AddAnswer: []request.Field{field("Set-Cookie", "spravka=1")}}
	g := newGateway(t, s, setup{options: o, handler: func(x *Exchange, forward func()) {
		_, _ = x.ReadBody(100)
		forward()
	}})
	c1 := dial(t, g)
	for range 2 {
		c1.say("POST /checkcaptcha HTTP/1.1\r\nHost: a\r\nX-Secret: 1\r\nContent-Length: 3\r\n\r\nrep")
		resp, body := c1.answer("POST")
		if body != "ok" || resp.Header.Get("Set-Cookie") != "spravka=1" {
			t.Errorf("got %v %q", resp, body)
		}
	}
	want := "PUT /saved?x HTTP/1.1\r\nHost: a\r\nCookie: a=b\r\nContent-Length: 4\r\n\r\nform"
	if s.got() != want+want {
		t.Errorf("the service saw %q", s.got())
	}
}

// TestClientLeaves is row 18: the service's connection is closed soon, whatever the exchange waits for.
func TestClientLeaves(t *testing.T) {
	for _, c := range []struct {
		name, req, first string
		reset            bool
		within           time.Duration
	}{
		{"while the service works", aGet, "", false, 3 * time.Second},
		{"while the service works, reset", aGet, "", true, time.Second},
		{"while a stream is silent", aGet, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n", false, 3 * time.Second},
		{"within its body", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nhello", "", false, time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			closed := make(chan time.Time, 1)
			ready := make(chan bool, 1)
			s := newService(t, func(k *talk) {
				k.head()
				k.say(c.first)
				ready <- true
				_ = k.SetReadDeadline(time.Now().Add(5 * time.Second))
				_, err := io.Copy(io.Discard, k.r)
				if !isTimeout(err) {
					closed <- time.Now()
				}
			})
			results := make(chan outcome, 1)
			g := newGateway(t, s, setup{results: results})
			c1 := dial(t, g)
			c1.say(c.req)
			<-ready
			if c.first != "" {
				c1.head()
			}
			if c.reset {
				_ = c1.Conn.(interface{ SetLinger(int) error }).SetLinger(0)
			}
			left := time.Now()
			c1.Close()
			select {
			case at := <-closed:
				if at.Sub(left) > c.within {
					t.Errorf("closed after %v", at.Sub(left))
				}
			case <-time.After(6 * time.Second):
				t.Error("the service's connection stays open")
			}
			if o := <-results; !errors.Is(o.err, ErrClientGone) {
				t.Errorf("Forward returned %v", o.err)
			}
		})
	}
}

// TestManyAtOnce mixes all kinds of requests on many connections; every answer must be the one to its own request.
func TestManyAtOnce(t *testing.T) {
	s := newService(t, func(k *talk) {
		for {
			r, b := k.request(true)
			if r == nil {
				return
			}
			body := r.Method + r.URL.Path + string(b)
			switch len(body) % 4 {
			case 0:
				k.say(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body))
			case 1:
				k.say("HTTP/1.1 103 Early Hints\r\n\r\n")
				k.say(fmt.Sprintf("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n%s\r\n%x\r\n%s\r\n0\r\n\r\n", body[:1], len(body)-1, body[1:]))
			case 2:
				k.say(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", len(body)))
				k.say(body)
			default:
				k.say("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + body)
				return
			}
		}
	})
	g := newGateway(t, s, setup{})
	var wg sync.WaitGroup
	for n := range 16 {
		wg.Go(func() {
			c1 := dial(t, g)
			rnd := rand.New(rand.NewPCG(uint64(n), 1))
			for i := range 60 {
				path := fmt.Sprintf("/%d/%d/%s", n, i, strings.Repeat("p", rnd.IntN(10)))
				body := strings.Repeat(string(rune('a'+i%26)), rnd.IntN(3)*rnd.IntN(30_000))
				method := "POST"
				head := fmt.Sprintf("POST %s HTTP/1.1\r\nHost: a\r\n", path)
				switch rnd.IntN(3) {
				case 0:
					method, body = "GET", ""
					c1.say(fmt.Sprintf("GET %s HTTP/1.1\r\nHost: a\r\n\r\n", path))
				case 1:
					c1.say(head + fmt.Sprintf("Content-Length: %d\r\n\r\n", len(body)) + body)
				default:
					c1.say(head + "Transfer-Encoding: chunked\r\n\r\n")
					if body != "" {
						c1.say(fmt.Sprintf("%x\r\n%s\r\n", len(body), body))
					}
					c1.say("0\r\n\r\n")
				}
				resp, err := http.ReadResponse(c1.r, &http.Request{Method: method})
				for err == nil && resp.StatusCode == 103 {
					resp, err = http.ReadResponse(c1.r, &http.Request{Method: method})
				}
				if err != nil {
					t.Errorf("%s: %v", path, err)
					return
				}
				got, err := io.ReadAll(resp.Body)
				if string(got) != method+path+body || err != nil || resp.Close {
					t.Errorf("%s: got %d bytes, %v, close %v", path, len(got), err, resp.Close)
					return
				}
			}
		})
	}
	wg.Wait()
}

// TestBoundedMemory is pitfall 25 and row 1: bodies of any size cost the same memory. H1_STREAM_MB sets their size.
func TestBoundedMemory(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector's own memory would be measured")
	}
	mb := 64
	if v, err := strconv.Atoi(os.Getenv("H1_STREAM_MB")); err == nil {
		mb = v
	}
	size := int64(mb) << 20
	s := newService(t, func(k *talk) {
		r, _ := k.request(false)
		if r == nil {
			return
		}
		if r.Method == "POST" {
			n, _ := io.Copy(io.Discard, r.Body)
			k.say(fmt.Sprintf("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%d", len(fmt.Sprint(n)), n))
			return
		}
		chunked := r.URL.Path == "/chunked"
		if chunked {
			k.say("HTTP/1.1 200 OK\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n")
		} else {
			k.say(fmt.Sprintf("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n", size))
		}
		b := bytes.Repeat([]byte("x"), 1<<20)
		for range mb {
			if chunked {
				k.say("100000\r\n")
			}
			_, _ = k.Write(b)
			if chunked {
				k.say("\r\n")
			}
		}
		if chunked {
			k.say("0\r\n\r\n")
		}
	})
	g := newGateway(t, s, setup{})
	before := rss(t)
	for _, path := range []string{"/", "/chunked"} {
		c1 := dial(t, g)
		c1.say("GET " + path + " HTTP/1.1\r\nHost: a\r\n\r\n")
		_ = c1.SetReadDeadline(time.Now().Add(5 * time.Minute))
		c1.head()
		if n, err := io.CopyN(io.Discard, c1.r, size); n != size {
			t.Fatalf("downloaded %d of %d: %v", n, size, err)
		}
		c1.Close()
	}
	c2 := dial(t, g)
	_ = c2.SetReadDeadline(time.Now().Add(5 * time.Minute))
	c2.say(fmt.Sprintf("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n", size))
	b := make([]byte, 1<<20)
	for range mb {
		_, _ = c2.Write(b)
	}
	if _, body := c2.answer("POST"); body != fmt.Sprint(size) {
		t.Errorf("uploaded %s of %d", body, size)
	}
	grown := rss(t) - before
	t.Logf("%d MB each way: %d KB more resident", mb, grown>>10)
	if grown > 32<<20 {
		t.Errorf("grew by %d MB", grown>>20)
	}
}

func rss(t *testing.T) int64 {
	runtime.GC()
	b, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Skipf("no /proc: %v", err)
	}
	pages, _ := strconv.ParseInt(strings.Fields(string(b))[1], 10, 64)
	return pages * int64(os.Getpagesize())
}

// TestReadBodyBy: a body that comes too late for the handler still goes on whole, wherever the handler gave up.
func TestReadBodyBy(t *testing.T) {
	for _, c := range []struct{ name, first, rest, sent string }{
		{"length, nothing there", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n", "hello", "Content-Length: 5\r\n\r\nhello"},
		{"length, a part there", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhe", "llo", "Content-Length: 5\r\n\r\nhello"},
		{"chunked, within a chunk", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhe", "l\r\n2\r\nlo\r\n0\r\n\r\n", "he"},
		{"chunked, between chunks", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n", "2\r\nlo\r\n0\r\n\r\n", "hel"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := make(chan string, 1)
			s := newService(t, func(c *talk) {
				for {
					req, body := c.request(true)
					if req == nil {
						return
					}
					got <- string(body)
					_, _ = c.Write([]byte(okAnswer))
				}
			})
			late := make(chan error, 1)
			g := newGateway(t, s, setup{handler: func(x *Exchange, forward func()) {
				_, err := x.ReadBodyBy(100, time.Now().Add(50*time.Millisecond))
				late <- err
				forward()
			}})
			c1 := dial(t, g)
			c1.say(c.first)
			if err := <-late; !errors.Is(err, ErrBodyLate) {
				t.Fatalf("gave %v", err)
			}
			c1.say(c.rest)
			if resp, _ := c1.answer("POST"); resp.StatusCode != 200 {
				t.Errorf("got %d", resp.StatusCode)
			}
			if body := <-got; body != "hello" || !strings.Contains(s.got(), c.sent) {
				t.Errorf("the service got %q in %q", body, s.got())
			}
			// The connection goes on, and a body that is there in time is read.
			c1.say("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nab")
			if err := <-late; err != nil {
				t.Errorf("the next body gave %v", err)
			}
			if resp, _ := c1.answer("POST"); resp.StatusCode != 200 || <-got != "ab" {
				t.Errorf("the next answer is %d", resp.StatusCode)
			}
		})
	}
}
