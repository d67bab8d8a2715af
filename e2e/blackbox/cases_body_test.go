package blackbox

import (
	"crypto/sha256"
	"fmt"
	"hash"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"sync/atomic"
	"time"
)

const wsFields = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="

func ws(target string, fields ...string) string {
	return get(target, append([]string{wsFields}, fields...)...)
}

const switching = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n"

func noise(n int) []byte {
	b := make([]byte, n)
	r := rand.NewChaCha8([32]byte{1})
	_, _ = r.Read(b)
	return b
}

func sum(b []byte) string { h := sha256.Sum256(b); return fmt.Sprintf("%x", h[:8]) }

func hashSum(h hash.Hash) string { return fmt.Sprintf("%x", h.Sum(nil)[:8]) }

func streamingCases() []Case {
	var out []Case
	add := func(cat, name string, run func(x *X), services ...Script) *Case {
		out = append(out, Case{Cat: cat, Name: name, Run: run, Services: services})
		return &out[len(out)-1]
	}

	// Answers come as they are made.
	pieces := func(name, headFields string, frame func(string) string, end string, fin bool) {
		add("streaming", name, func(x *X) {
			c := x.Dial()
			c.Send(get("/stream"))
			p := c.Head()
			if p.Status != 200 {
				x.Fatalf("status %d", p.Status)
			}
			x.Signal("head")
			for i := range 3 {
				c.ReadUntil(fmt.Sprintf("piece %d", i))
				x.Signal(fmt.Sprint("got ", i))
			}
		}, func(s *Svc) {
			s.Request()
			s.Send("HTTP/1.1 200 OK\r\n" + headFields + "\r\n")
			s.X.Wait("head") // the head must come before any body
			for i := range 3 {
				s.Send(frame(fmt.Sprintf("piece %d", i)))
				s.X.Wait(fmt.Sprint("got ", i)) // each piece must arrive before the next is sent
			}
			s.Send(end)
			if fin {
				s.End()
			}
		})
	}
	chunk := func(s string) string { return fmt.Sprintf("%x\r\n%s\r\n", len(s), s) }
	plain := func(s string) string { return s }
	pieces("chunked answer", "Transfer-Encoding: chunked\r\n", chunk, "0\r\n\r\n", false)
	pieces("server-sent events", "Content-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n", func(s string) string { return chunk("data: " + s + "\n\n") }, "0\r\n\r\n", false)
	pieces("answer with length", "Content-Length: 21\r\n", plain, "", false)
	pieces("answer until close", "Connection: close\r\n", plain, "", true)

	// Uploads go on as they come.
	upload := func(name string, fields string, frame func(string) string, end string) {
		add("streaming", name, func(x *X) {
			c := x.Dial()
			c.Send("POST /up HTTP/1.1\r\nHost: x\r\n" + fields + "\r\n")
			for i := range 3 {
				c.Send(frame(fmt.Sprintf("piece %d", i)))
				x.Wait(fmt.Sprint("got ", i))
			}
			c.Send(end)
			if p := c.Get(); p.Status != 200 {
				x.Errorf("status %d", p.Status)
			}
		}, func(s *Svc) {
			s.Head()
			for i := range 3 {
				readUntil(s, fmt.Sprintf("piece %d", i))
				s.X.Signal(fmt.Sprint("got ", i))
			}
			if end != "" {
				readUntil(s, "0\r\n\r\n")
			}
			s.Send(response("200 OK", "ok"))
		})
	}
	upload("upload with length", "Content-Length: 21\r\n", plain, "")
	upload("chunked upload", "Transfer-Encoding: chunked\r\n", chunk, "0\r\n\r\n")
	add("streaming", "duplex: the echo comes while the upload goes on", func(x *X) {
		c := x.Dial()
		c.Send("POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
		c.Send(chunk("piece 0"))
		if p := c.Head(); p.Status != 200 {
			x.Fatalf("status %d", p.Status)
		}
		for i := range 5 {
			c.ReadUntil(fmt.Sprintf("piece %d", i))
			c.Send(chunk(fmt.Sprintf("piece %d", i+1)))
		}
		c.ReadUntil("piece 5")
		c.Send("0\r\n\r\n")
		c.ReadUntil("0\r\n\r\n")
	}, func(s *Svc) {
		s.Head()
		readUntil(s, "piece 0")
		s.Send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", chunk("piece 0"))
		for i := 1; i <= 5; i++ {
			readUntil(s, fmt.Sprintf("piece %d", i))
			s.Send(chunk(fmt.Sprintf("piece %d", i)))
		}
		readUntil(s, "0\r\n\r\n")
		s.Send("0\r\n\r\n")
	})

	// Large ones.
	const large = 16 << 20
	data := noise(1 << 20)
	whole := func() string {
		h := sha256.New()
		for range large / len(data) {
			h.Write(data)
		}
		return hashSum(h)
	}()
	download := func(name string, chunked bool) {
		add("streaming", name, func(x *X) {
			c := x.Dial()
			c.Send(get("/big"))
			p := c.Get()
			if got := sum([]byte(p.Body)); len(p.Body) != large || got != whole {
				x.Errorf("%d bytes, hash %s, wanted %s", len(p.Body), got, whole)
			}
			c.MustLive()
		}, func(s *Svc) {
			s.Request()
			if chunked {
				s.Send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
			} else {
				s.Send("HTTP/1.1 200 OK\r\nContent-Length: " + itoa(large) + "\r\n\r\n")
			}
			for range large / len(data) {
				if chunked {
					s.Send(chunk(string(data)))
				} else {
					s.Send(string(data))
				}
			}
			if chunked {
				s.Send("0\r\n\r\n")
			}
		}, ok)
	}
	download("download of 16 MiB with length", false)
	download("download of 16 MiB chunked", true)
	bigUpload := func(name string, chunked bool) {
		add("streaming", name, func(x *X) {
			c := x.Dial()
			if chunked {
				c.Send("POST /big HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
			} else {
				c.Send("POST /big HTTP/1.1\r\nHost: x\r\nContent-Length: " + itoa(large) + "\r\n\r\n")
			}
			for range large / len(data) {
				if chunked {
					c.Send(chunk(string(data)))
				} else {
					c.Send(string(data))
				}
			}
			if chunked {
				c.Send("0\r\n\r\n")
			}
			if p := c.Get(); p.Body != whole {
				x.Errorf("got %q, wanted %s", p.Body, whole)
			}
			c.MustLive()
		}, func(s *Svc) {
			s.Head()
			s.Send(response("200 OK", sum([]byte(s.Body()))))
		}, ok)
	}
	bigUpload("upload of 16 MiB with length", false)
	bigUpload("upload of 16 MiB chunked", true)
	pressure := func(name string, toClient bool) {
		var sent atomic.Int64
		flood := func(c net.Conn) {
			for sent.Load() < 64<<20 {
				c.SetWriteDeadline(time.Now().Add(700 * time.Millisecond))
				n, err := c.Write(data)
				sent.Add(int64(n))
				if err != nil {
					return
				}
			}
		}
		add("streaming", name, func(x *X) {
			sent.Store(0)
			c := x.Dial()
			if toClient {
				c.Send(get("/flood"))
				c.Head()
				x.Wait("flooded")
			} else {
				c.Send("POST /flood HTTP/1.1\r\nHost: x\r\nContent-Length: 268435456\r\n\r\n")
				flood(c.Conn)
			}
			if n := sent.Load(); n >= 64<<20 {
				x.Errorf("the proxy swallowed %d MiB that nobody read", n>>20)
			}
		}, func(s *Svc) {
			s.Head()
			if !toClient {
				<-s.X.done
				s.End()
			}
			s.Send("HTTP/1.1 200 OK\r\nContent-Length: 268435456\r\n\r\n")
			flood(s.Conn)
			s.X.Signal("flooded")
			s.End()
		})
		out[len(out)-1].Slow = true
	}
	pressure("a client that does not read holds the service back", true)
	pressure("a service that does not read holds the client back", false)
	add("streaming", "gzip bytes pass as they are", func(x *X) {
		c := x.Dial()
		c.Send(get("/z", "Accept-Encoding: gzip"))
		if p := c.Get(); p.Body != string(data[:5000]) || p.Fields.Get("Content-Encoding") != "gzip" {
			x.Errorf("%d bytes, %q", len(p.Body), p.Fields.Get("Content-Encoding"))
		}
	}, Answer(response("200 OK", string(data[:5000]), "Content-Encoding: gzip")))

	// Early answers.
	early := func(name, status string, closes bool) {
		add("early answers", name, func(x *X) {
			c := x.Dial()
			c.Send("POST /up HTTP/1.1\r\nHost: x\r\nContent-Length: 100000000\r\n\r\n" + string(data[:65536]))
			p := c.Recv("POST")
			if fmt.Sprint(p.Status) != status[:3] || p.Body != "too early" {
				x.Errorf("status %d, body %q", p.Status, clip(p.Body))
			}
			v := x.Dial()
			v.Send(get("/victim"))
			if p := v.Get(); p.Body != "for /victim" {
				x.Errorf("the next client got %q", clip(p.Body))
			}
		}, func(s *Svc) {
			s.Head()
			s.Send(response(status, "too early"))
			if closes {
				s.Gone(2 * time.Second)
				s.End()
			}
			_, _ = io.Copy(io.Discard, s.R)
			s.End()
		}, ok)
	}
	early("413 while the upload goes on", "413 Content Too Large", false)
	early("401 while the upload goes on", "401 Unauthorized", false)
	early("200 while the upload goes on", "200 OK", false)
	early("403 and close while the upload goes on", "403 Forbidden", true)
	add("early answers", "401 to a chunked upload", func(x *X) {
		c := x.Dial()
		c.Send("POST /up HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk("hello"))
		if p := c.Recv("POST"); p.Status != 401 || p.Body != "who are you" {
			x.Errorf("status %d, body %q", p.Status, clip(p.Body))
		}
	}, func(s *Svc) {
		s.Head()
		s.Send(response("401 Unauthorized", "who are you"))
		_, _ = io.Copy(io.Discard, s.R)
		s.End()
	})
	add("early answers", "answer and close while a client still sends", func(x *X) {
		c := x.Dial()
		c.Send("POST /up HTTP/1.1\r\nHost: x\r\nContent-Length: 4000000\r\n\r\n")
		for range 3 {
			c.Send(string(data))
		}
		p := c.Recv("POST")
		if p.Status != 413 || p.Body != "enough" {
			x.Errorf("status %d, body %q", p.Status, clip(p.Body))
		}
	}, func(s *Svc) {
		s.Head()
		s.ReadN(100_000)
		s.Send(response("413 Content Too Large", "enough", "Connection: close"))
		_ = s.Conn.(*net.TCPConn).CloseWrite()
		s.Gone(3 * time.Second)
		s.End()
	})
	add("early answers", "answer and reset while a client still sends", func(x *X) {
		c := x.Dial()
		c.Send("POST /up HTTP/1.1\r\nHost: x\r\nContent-Length: 4000000\r\n\r\n")
		for range 3 {
			c.Send(string(data))
		}
		p := c.TryRecv("POST")
		if p == nil || p.Status != 413 && p.Status != 502 {
			x.Errorf("got %v", p)
		}
	}, func(s *Svc) {
		s.Head()
		s.ReadN(100_000)
		s.Send(response("413 Content Too Large", "enough", "Connection: close"))
		s.End() // with bytes unread: a reset
	})
	add("early answers", "a complete upload after an early answer keeps order", func(x *X) {
		c := x.Dial()
		c.Send("POST /up HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nhello")
		if p := c.Recv("POST"); p.Body != "first" {
			x.Errorf("got %q", clip(p.Body))
		}
		c.Send("world" + get("/second"))
		p := c.TryRecv("GET")
		if p != nil && p.Body != "for /second" {
			x.Errorf("the second request got %d %q", p.Status, clip(p.Body))
		}
		for _, q := range x.Seen() {
			if q.Target != "/up" && q.Target != "/second" {
				x.Errorf("the service saw %s", describe(x.Seen()))
			}
		}
	}, func(s *Svc) {
		s.Head()
		s.Send(response("200 OK", "first"))
		s.Body()
	}, ok)
	return out
}

func readUntil(s *Svc, mark string) {
	var b strings.Builder
	s.SetReadDeadline(time.Now().Add(patience))
	for !strings.Contains(b.String(), mark) {
		c, err := s.R.ReadByte()
		if err != nil {
			s.X.Errorf("service waits for %q, got %q: %v", mark, clip(b.String()), err)
			s.End()
		}
		b.WriteByte(c)
	}
}
