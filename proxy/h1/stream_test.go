package h1

import (
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
