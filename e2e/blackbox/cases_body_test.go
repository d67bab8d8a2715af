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

func interimCases() []Case {
	var out []Case
	add := func(name string, run func(x *X), services ...Script) {
		out = append(out, Case{Cat: "1xx", Name: name, Run: run, Services: services})
	}
	should := func(name string, run func(x *X), services ...Script) {
		add(name, run, services...)
		out[len(out)-1].Should = true
	}
	const expecting = "POST /up HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n"

	add("100 of the service reaches the client", func(x *X) {
		c := x.Dial()
		c.Send(expecting)
		if p := c.Head(); p.Status != 100 {
			x.Fatalf("status %d, wanted 100", p.Status)
		}
		c.Send("hello")
		if p := c.Get(); p.Status != 200 || p.Body != "hello" {
			x.Errorf("%d %q", p.Status, p.Body)
		}
		c.MustLive()
	}, func(s *Svc) {
		s.Head()
		s.Send("HTTP/1.1 100 Continue\r\n\r\n")
		s.Send(response("200 OK", s.Body()))
	}, ok)
	should("the proxy does not say 100 for the service", func(x *X) {
		c := x.Dial()
		c.Send(expecting)
		x.Await("the head", func(r []Req) bool { return len(r) == 1 })
		if p := c.Head(); p.Status != 417 {
			x.Errorf("status %d, wanted the service's 417", p.Status)
		}
	}, func(s *Svc) {
		s.Head()
		s.Send(response("417 Expectation Failed", "no"))
		s.Gone(patience)
		s.End()
	})
	add("refusal instead of 100", func(x *X) {
		c := x.Dial()
		c.Send(expecting)
		p := c.TryRecv("POST")
		if p == nil || p.Status != 401 {
			x.Fatalf("got %v, wanted 401", p)
		}
		v := x.Dial()
		v.Send(get("/victim"))
		if p := v.Get(); p.Body != "for /victim" {
			x.Errorf("the next client got %q", clip(p.Body))
		}
	}, func(s *Svc) {
		s.Head()
		s.Send(response("401 Unauthorized", "no"))
		s.Gone(patience)
		s.End()
	}, ok)
	add("a client that does not wait for 100", func(x *X) {
		c := x.Dial()
		c.Send(expecting + "hello")
		if p := c.Get(); p.Status != 200 || p.Body != "hello" {
			x.Errorf("%d %q", p.Status, p.Body)
		}
		c.MustLive()
	}, func(s *Svc) {
		s.Head()
		s.Send("HTTP/1.1 100 Continue\r\n\r\n")
		s.Send(response("200 OK", s.Body()))
	}, ok)
	add("a service that never says 100", func(x *X) {
		c := x.Dial()
		c.Send(expecting)
		// The client waits a while, as RFC 9110 allows, and then sends.
		if !c.Silent(300 * time.Millisecond) {
			if p := c.Head(); p.Status != 100 {
				x.Errorf("status %d", p.Status)
			}
		}
		c.Send("hello")
		if p := c.Get(); p.Status != 200 || p.Body != "hello" {
			x.Errorf("%d %q", p.Status, p.Body)
		}
	}, func(s *Svc) {
		s.Head()
		s.Send(response("200 OK", s.Body()))
	})
	add("Expect with empty body", func(x *X) {
		c := x.Dial()
		c.Send("POST /up HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nExpect: 100-continue\r\n\r\n")
		if p := c.Get(); p.Status != 200 {
			x.Errorf("%d %q", p.Status, p.Body)
		}
		c.MustLive()
	})
	add("Expect on GET", func(x *X) {
		c := x.Dial()
		c.Send(get("/a", "Expect: 100-continue"))
		if p := c.Get(); p.Status != 200 {
			x.Errorf("%d %q", p.Status, p.Body)
		}
		c.MustLive()
	})
	add("Expect upper case and chunked", func(x *X) {
		c := x.Dial()
		c.Send("POST /up HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nExpect: 100-Continue\r\n\r\n")
		if p := c.Head(); p.Status != 100 {
			x.Fatalf("status %d, wanted 100", p.Status)
		}
		c.Send("5\r\nhello\r\n0\r\n\r\n")
		if p := c.Get(); p.Status != 200 || p.Body != "hello" {
			x.Errorf("%d %q", p.Status, p.Body)
		}
	}, func(s *Svc) {
		s.Head()
		s.Send("HTTP/1.1 100 Continue\r\n\r\n")
		s.Send(response("200 OK", s.Body()))
	})
	add("Expect from HTTP/1.0 brings no 100", func(x *X) {
		c := x.Dial()
		c.Send("POST /up HTTP/1.0\r\nHost: x\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\nhello")
		if p := c.Head(); p.Status != 200 {
			x.Errorf("status %d", p.Status)
		}
	}, func(s *Svc) {
		s.Head()
		s.Send("HTTP/1.1 100 Continue\r\n\r\n")
		s.Send(response("200 OK", s.Body()))
	})
	add("Expect of something else", func(x *X) {
		c := x.Dial()
		c.Send("POST /up HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nExpect: 200-ok\r\n\r\nhello")
		if p := c.Recv("POST"); p.Status != 417 && p.Status != 400 && p.Status != 200 {
			x.Errorf("status %d", p.Status)
		}
	})
	add("unasked 100 is not the answer", func(x *X) {
		c := x.Dial()
		c.Send(get("/a"))
		if p := c.Get(); p.Status != 200 || p.Body != "real" {
			x.Errorf("%d %q", p.Status, p.Body)
		}
		c.MustLive()
	}, Answer("HTTP/1.1 100 Continue\r\n\r\n"+response("200 OK", "real")), ok)
	for _, status := range []string{"103 Early Hints", "102 Processing", "199 Odd"} {
		add(status[:3]+" is not the answer", func(x *X) {
			c := x.Dial()
			c.Send(get("/a"))
			if p := c.Get(); p.Status != 200 || p.Body != "real" || p.Fields.Has("Link") {
				x.Errorf("%d %q %q", p.Status, p.Body, p.Fields)
			}
			c.MustLive()
		}, Answer("HTTP/1.1 "+status+"\r\nLink: </s.css>; rel=preload\r\n\r\n"+response("200 OK", "real")), ok)
	}
	should("103 reaches the client before the answer is made", func(x *X) {
		c := x.Dial()
		c.Send(get("/a"))
		if p := c.Head(); p.Status != 103 || p.Fields.Get("Link") != "</s.css>; rel=preload" {
			x.Fatalf("%d %q", p.Status, p.Fields)
		}
		x.Signal("hinted")
		if p := c.Get(); p.Status != 200 {
			x.Errorf("%d", p.Status)
		}
	}, func(s *Svc) {
		s.Request()
		s.Send("HTTP/1.1 103 Early Hints\r\nLink: </s.css>; rel=preload\r\n\r\n")
		s.X.Wait("hinted")
		s.Send(response("200 OK", "real"))
	})
	add("several 1xx", func(x *X) {
		c := x.Dial()
		c.Send(get("/a"))
		if p := c.Get(); p.Status != 200 || p.Body != "real" {
			x.Errorf("%d %q", p.Status, p.Body)
		}
		c.MustLive()
	}, Answer(strings.Repeat("HTTP/1.1 103 Early Hints\r\nLink: </s.css>\r\n\r\n", 5)+response("200 OK", "real")), ok)
	add("1xx never reaches HTTP/1.0", func(x *X) {
		c := x.Dial()
		c.Send("GET /a HTTP/1.0\r\nHost: x\r\n\r\n")
		if p := c.Head(); p.Status != 200 {
			x.Errorf("status %d", p.Status)
		}
	}, Answer("HTTP/1.1 103 Early Hints\r\nLink: </s.css>\r\n\r\n"+response("200 OK", "real")))
	add("103 for HEAD", func(x *X) {
		c := x.Dial()
		c.Send(newRequest("HEAD", "/a", ""))
		if p := c.Recv("HEAD"); p.Status != 200 || p.Fields.Get("Content-Length") != "4" {
			x.Errorf("%d %q", p.Status, p.Fields)
		}
		c.MustLive()
	}, Answer("HTTP/1.1 103 Early Hints\r\nLink: </s.css>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n"), ok)
	add("103 with a length has no body", func(x *X) {
		c := x.Dial()
		c.Send(get("/a"))
		if p := c.Get(); p.Status != 200 || p.Body != "real" {
			x.Errorf("%d %q", p.Status, p.Body)
		}
		c.MustLive()
	}, Answer("HTTP/1.1 103 Early Hints\r\nContent-Length: 5\r\n\r\n"+response("200 OK", "real")), ok)
	add("hop-by-hop fields of 103", func(x *X) {
		c := x.Dial()
		c.Send(get("/a"))
		p := c.Get()
		for _, i := range p.Interim {
			if i.Fields.Has("Keep-Alive") || i.Fields.Has("Upgrade") || i.Fields.Has("Content-Length") || i.Fields.Has("Transfer-Encoding") {
				x.Errorf("%q", i.Fields)
			}
		}
	}, Answer("HTTP/1.1 103 Early Hints\r\nKeep-Alive: timeout=5\r\nUpgrade: h2c\r\nLink: </s.css>\r\n\r\n"+response("200 OK", "real")))
	return out
}
