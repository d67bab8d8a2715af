package blackbox

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/http2"
)

// streamedCases are about answers.
func streamedCases() []Case {
	var l http2List
	head := func(status int, fields ...string) func(*X) serving {
		return func(x *X) serving {
			return func(c *call, w http.ResponseWriter, r *http.Request) {
				x.web().body(c, r)
				for i := 0; i < len(fields); i += 2 {
					w.Header().Add(fields[i], fields[i+1])
				}
				w.WriteHeader(status)
			}
		}
	}
	l.with("HEAD has a length and no body", head(200, "Content-Length", "1234"), func(x *X, c *streams) {
		a := c.await(c.open(true, c.fields("HEAD", "/a")...))
		if !a.Whole() || a.Status != 200 || a.Body.Len() != 0 || a.Fields.Get("content-length") != "1234" {
			x.Errorf("%d %q, %d bytes", a.Status, a.Fields, a.Body.Len())
		}
		c.mustLive()
	})
	for _, status := range []int{204, 304} {
		l.with(fmt.Sprint(status, " has no body"), head(status, "ETag", `"a"`), func(x *X, c *streams) {
			a := c.get("/a")
			if !a.Whole() || a.Status != status || a.Body.Len() != 0 || status == 304 && a.Fields.Get("etag") != `"a"` || status == 204 && a.Fields.Has("content-length") {
				x.Errorf("%d %q, %d bytes", a.Status, a.Fields, a.Body.Len())
			}
			c.mustLive()
		})
	}
	l.with("names of an answer are small", head(200, "X-Upper-Case", "A", "Set-Cookie", "a=b", "Set-Cookie", "c=d"), func(x *X, c *streams) {
		a := c.get("/a")
		if a.Fields.Get("x-upper-case") != "A" || !slices.Equal(slices.DeleteFunc(a.Fields.All("set-cookie"), func(s string) bool { return s[1] != '=' || s[0] == 'i' }), []string{"a=b", "c=d"}) {
			x.Errorf("%q", a.Fields)
		}
		for _, f := range a.Fields {
			if strings.ToLower(f.Name) != f.Name {
				x.Errorf("a field is called %q", f.Name)
			}
		}
	})
	l.with("an interim answer is not the answer", func(x *X) serving {
		return func(c *call, w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Link", "</a.css>; rel=preload")
			w.WriteHeader(http.StatusEarlyHints)
			x.web().ok(c, w, r)
		}
	}, func(x *X, c *streams) {
		if a := c.get("/a"); !a.Whole() || a.Status != 200 || a.Body.String() != "for GET /a" {
			x.Errorf("%d %q", a.Status, clip(a.Body.String()))
		}
	})
	l.with("trailers of an answer", func(x *X) serving {
		return func(c *call, w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Trailer", "X-Sum")
			x.web().ok(c, w, r)
			w.Header().Set("X-Sum", "5")
		}
	}, func(x *X, c *streams) {
		if a := c.get("/a", "te", "trailers"); !a.Whole() || a.Trailer.Get("x-sum") != "5" || a.Fields.Has("x-sum") {
			x.Errorf("%d, trailers %q", a.Status, a.Trailer)
		}
	})
	l.with("pieces come as the service sends them", func(x *X) serving {
		return func(_ *call, w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "first")
			w.(http.Flusher).Flush()
			x.Wait("seen")
			_, _ = io.WriteString(w, " second")
		}
	}, func(x *X, c *streams) {
		id := c.open(true, c.fields("GET", "/a")...)
		a := c.answers[id]
		c.until(func() bool { return a.Body.String() == "first" })
		x.Signal("seen")
		if c.await(id); a.Body.String() != "first second" {
			x.Errorf("%q", clip(a.Body.String()))
		}
	})
	for name, announced := range map[string]bool{"with a length": true, "without one": false} {
		l.with("a cut answer does not look whole: "+name, func(*X) serving {
			return func(_ *call, w http.ResponseWriter, _ *http.Request) {
				if announced {
					w.Header().Set("Content-Length", "200000")
				}
				_, _ = w.Write(make([]byte, 100_000))
				w.(http.Flusher).Flush()
				panic(http.ErrAbortHandler)
			}
		}, func(x *X, c *streams) {
			if a := c.get("/a"); a.Whole() && a.Status < 500 {
				x.Errorf("%d, %d bytes", a.Status, a.Body.Len())
			}
			c.mustLive()
		})
	}
	l.with("who takes a request back frees the service", func(x *X) serving {
		return func(_ *call, _ http.ResponseWriter, r *http.Request) {
			x.Signal("began")
			<-r.Context().Done()
			x.Signal("left")
		}
	}, func(x *X, c *streams) {
		id := c.open(true, c.fields("GET", "/a")...)
		x.Wait("began")
		_ = c.WriteRSTStream(id, http2.ErrCodeCancel)
		x.Wait("left")
		c.mustLive()
	})
	l.with("who says goodbye still gets the answer", func(x *X) serving {
		return func(c *call, w http.ResponseWriter, r *http.Request) {
			x.Wait("goodbye")
			x.web().ok(c, w, r)
		}
	}, func(x *X, c *streams) {
		id := c.open(true, c.fields("GET", "/a")...)
		_ = c.WriteGoAway(0, http2.ErrCodeNo, nil)
		x.Signal("goodbye")
		if a := c.await(id); a.Body.String() != "for GET /a" {
			x.Errorf("%d %q, gone %v", a.Status, clip(a.Body.String()), c.gone)
		}
	})
	l.with("many at once, none mixed up", func(x *X) serving {
		return func(c *call, w http.ResponseWriter, r *http.Request) {
			time.Sleep(time.Duration(len(r.URL.Path)%5) * time.Millisecond)
			x.web().ok(c, w, r)
		}
	}, func(x *X, c *streams) {
		path := func(i int) string { return fmt.Sprintf("/%d/%s", i, strings.Repeat("a", i)) }
		var ids []uint32
		for i := range 60 {
			ids = append(ids, c.open(true, c.fields("GET", path(i))...))
		}
		for i, id := range ids {
			if a := c.await(id); !a.Whole() || a.Body.String() != "for GET "+path(i) {
				x.Errorf("%s got %d %q", path(i), a.Status, clip(a.Body.String()))
			}
		}
	})
	return l
}

// connectCases are the forms of CONNECT: none of them may open a way to another host.
func connectCases() []Case {
	var l http2List
	refuse := func(name string, fields ...string) {
		l.add("CONNECT: "+name, func(x *X, c *streams) {
			own := slices.Clone(fields)
			for i := range own {
				own[i] = strings.ReplaceAll(own[i], "HOST", x.env.host)
			}
			a := c.await(c.open(false, own...))
			if !a.Reset && !c.gone && !c.away && a.Status < 400 {
				x.Errorf("status %d", a.Status)
			}
			if n := len(x.called()); n != 0 {
				x.Errorf("it reached the service: %s", seen(x.called()))
			}
		})
	}
	refuse("a way to a host", ":method", "CONNECT", ":authority", "HOST:80")
	refuse("with a path", ":method", "CONNECT", ":scheme", "http", ":authority", "HOST:80", ":path", "/")
	refuse("without an authority", ":method", "CONNECT")
	refuse("UDP", ":method", "CONNECT", ":protocol", "connect-udp", ":scheme", "http", ":authority", "HOST", ":path", "/.well-known/masque/udp/192.0.2.6/443/")
	refuse("a protocol of GET", ":method", "GET", ":protocol", "websocket", ":scheme", "http", ":authority", "HOST", ":path", "/ws")
	refuse("a protocol without a path", ":method", "CONNECT", ":protocol", "websocket", ":scheme", "http", ":authority", "HOST")
	socket := func(x *X, c *streams) uint32 {
		return c.open(false, ":method", "CONNECT", ":protocol", "websocket", ":scheme", "http", ":authority", x.env.host, ":path", "/ws", "sec-websocket-version", "13")
	}
	l.with("CONNECT: a WebSocket", func(x *X) serving { return echoSocket }, func(x *X, c *streams) {
		c.until(func() bool { return len(c.says) > 0 })
		if v, ok := setting(c.says, http2.SettingEnableConnectProtocol); !ok || v != 1 {
			x.Fatalf("it is not offered: %v", c.says)
		}
		if x.env.host == hostHTTP2 {
			return // services of HTTP/2 are not asked for one
		}
		id := socket(x, c)
		a := c.answers[id]
		c.until(func() bool { return a.Status > 0 })
		for _, word := range []string{"one", strings.Repeat("two", 10_000)} {
			before := a.Body.Len()
			c.send(id, word, false)
			c.until(func() bool { return a.Body.Len() == before+len(word) })
			if a.Status != 200 || !strings.HasSuffix(a.Body.String(), word) {
				x.Errorf("status %d %q", a.Status, clip(a.Body.String()))
			}
		}
		_ = c.WriteData(id, true, nil)
		c.await(id)
		c.mustLive()
	})
	l.add("CONNECT: a WebSocket that the service refuses", func(x *X, c *streams) {
		id := socket(x, c)
		if a := c.await(id); a.Status/100 == 2 {
			x.Errorf("status %d: a page looks like a WebSocket", a.Status)
		}
		_ = c.WriteRSTStream(id, http2.ErrCodeCancel)
		c.mustLive()
	})
	return l
}

func setting(all []http2.Setting, id http2.SettingID) (uint32, bool) {
	for _, s := range all {
		if s.ID == id {
			return s.Val, true
		}
	}
	return 0, false
}

// echoSocket agrees to become a WebSocket, and says what it hears.
func echoSocket(_ *call, w http.ResponseWriter, r *http.Request) {
	nc, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		http.Error(w, err.Error(), http.StatusNotImplemented)
		return
	}
	defer nc.Close()
	_, _ = fmt.Fprintf(nc, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: %s\r\n\r\n", acceptOf(r.Header.Get("Sec-WebSocket-Key")))
	_, _ = io.Copy(nc, bufio.NewReader(rw))
}
