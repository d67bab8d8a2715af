package h1

import (
	"errors"
	"io"
	"strings"
	"testing"
	"time"
)

// TestStreamedPiecesArriveAtOnce is pitfall 25: an event reaches the client before the next one is sent.
func TestStreamedPiecesArriveAtOnce(t *testing.T) {
	for _, c := range []struct{ name, head, piece, end string }{
		{
			"chunked", "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n",
			"9\r\ndata: x\n\n\r\n", "0\r\n\r\n",
		},
		{"closing", "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n", "data: x\n\n", ""},
		{
			"length", "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 27\r\n\r\n", "data: x\n\n",
			"",
		},
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

// TestShortAnswersTakeOneWrite: head and body that the service sends separately still leave together. On a busy machine
// the second may come too late, but not twenty times.
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

// TestClientLeaves: the service's connection is closed soon, whatever the exchange waits for.
func TestClientLeaves(t *testing.T) {
	for _, c := range []struct {
		name, req, first string
		reset            bool
	}{
		{"while the service works", aGet, "", false},
		{"while the service works, reset", aGet, "", true},
		{"while a stream is silent", aGet, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n", false},
		{"within its body", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nhello", "", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			closed := make(chan bool, 1)
			ready := make(chan bool, 1)
			s := newService(t, func(k *talk) {
				k.head()
				k.say(c.first)
				ready <- true
				_ = k.SetReadDeadline(time.Now().Add(60 * time.Second))
				_, err := io.Copy(io.Discard, k.r)
				if !isTimeout(err) {
					closed <- true
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
			c1.Close()
			select {
			case <-closed:
			case <-time.After(60 * time.Second):
				t.Error("the service's connection stays open")
			}
			if o := <-results; !errors.Is(o.err, ErrClientGone) {
				t.Errorf("Forward returned %v", o.err)
			}
		})
	}
}
