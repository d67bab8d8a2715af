package blackbox

import (
	"bytes"
	"io"
	"net"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// streams is one raw connection to the proxy that speaks HTTP/2.
type streams struct {
	net.Conn
	*http2.Framer
	x       *X
	enc     *hpack.Encoder
	block   bytes.Buffer
	next    uint32
	answers map[uint32]*streamed
	stingy  bool            // gives no window back
	gone    bool            // the connection has ended
	code    http2.ErrCode   // of GOAWAY
	away    bool            // GOAWAY has come
	pongs   int             // answers to PING
	says    []http2.Setting // what the proxy has announced
}

// streamed is an answer as it came over one stream.
type streamed struct {
	Status  int
	Interim []int
	Fields  Fields
	Body    strings.Builder
	Trailer Fields
	Ended   bool // by END_STREAM
	Reset   bool
	Code    http2.ErrCode
}

// Whole reports whether the answer has come to its proper end.
func (a *streamed) Whole() bool { return a.Ended && a.Status >= 200 }

// dialHTTP2 opens a connection and says hello.
func (x *X) dialHTTP2(settings ...http2.Setting) *streams {
	nc, err := net.Dial("tcp", x.env.addr)
	if err != nil {
		x.Fatalf("dial: %v", err)
	}
	c := &streams{Conn: nc, Framer: http2.NewFramer(nc, nc), x: x, next: 1, answers: map[uint32]*streamed{}}
	c.enc = hpack.NewEncoder(&c.block)
	c.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	c.AllowIllegalWrites = true
	x.mu.Lock()
	x.streams = append(x.streams, c)
	x.mu.Unlock()
	_ = nc.SetDeadline(time.Now().Add(patience))
	_, _ = io.WriteString(nc, http2.ClientPreface)
	_ = c.WriteSettings(settings...)
	return c
}

// encode makes a header block of names and values in turn.
func (c *streams) encode(fields ...string) []byte {
	c.block.Reset()
	for i := 0; i < len(fields); i += 2 {
		_ = c.enc.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]})
	}
	return bytes.Clone(c.block.Bytes())
}

// fields are those of a request to the service of this environment, and more.
func (c *streams) fields(method, path string, more ...string) []string {
	fields := append([]string{":method", method, ":scheme", "http", ":authority", c.x.env.host, ":path", path}, more...)
	if c.x.named != "" {
		fields = append(fields, strings.ToLower(fieldCase), c.x.named)
	}
	return fields
}

// begin opens a stream with the next number.
func (c *streams) begin() uint32 {
	id := c.next
	c.next += 2
	c.answers[id] = new(streamed)
	return id
}

// open sends the head of a request, whose fields are names and values in turn.
func (c *streams) open(end bool, fields ...string) uint32 {
	id := c.begin()
	_ = c.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: c.encode(fields...), EndStream: end, EndHeaders: true})
	return id
}

// get sends a GET and returns the answer.
func (c *streams) get(path string, more ...string) *streamed {
	return c.await(c.open(true, c.fields("GET", path, more...)...))
}

// await reads until the stream has ended, one way or another.
func (c *streams) await(id uint32) *streamed {
	a := c.answers[id]
	c.until(func() bool { return a.Ended || a.Reset })
	return a
}

// until reads frames until done, or until the connection has ended.
func (c *streams) until(done func() bool) {
	_ = c.SetReadDeadline(time.Now().Add(c.x.within()))
	for !c.gone && !done() {
		f, err := c.ReadFrame()
		if ne, ok := err.(net.Error); ok && ne.Timeout() {
			c.x.Fatalf("nothing more comes within %v; streams: %s", c.x.within(), c.describe())
		}
		if err != nil {
			c.gone = true
			return
		}
		c.take(f)
	}
}

func (c *streams) describe() string {
	s := ""
	for id, a := range c.answers {
		s += strconv.Itoa(int(id)) + ": " + strconv.Itoa(a.Status) + " " + clip(a.Body.String()) + "; "
	}
	return s
}

// take notes what a frame brings.
func (c *streams) take(f http2.Frame) {
	a := c.answers[f.Header().StreamID]
	switch f := f.(type) {
	case *http2.SettingsFrame:
		if !f.IsAck() {
			c.says = append(c.says, settingsOf(f)...)
			_ = c.WriteSettingsAck()
		}
	case *http2.PingFrame:
		if f.IsAck() {
			c.pongs++
		} else {
			_ = c.WritePing(true, f.Data)
		}
	case *http2.GoAwayFrame:
		c.away, c.code = true, f.ErrCode
	case *http2.RSTStreamFrame:
		if a != nil {
			a.Reset, a.Code = true, f.ErrCode
		}
	case *http2.MetaHeadersFrame:
		c.takeHead(a, f)
	case *http2.DataFrame:
		if a == nil {
			c.x.Errorf("data of a stream that nobody opened")
			return
		}
		a.Body.Write(f.Data())
		a.Ended = f.StreamEnded()
		if n := f.Length; n > 0 && !c.stingy {
			_ = c.WriteWindowUpdate(0, n)
			_ = c.WriteWindowUpdate(f.StreamID, n)
		}
	}
}

func settingsOf(f *http2.SettingsFrame) (all []http2.Setting) {
	_ = f.ForeachSetting(func(s http2.Setting) error {
		all = append(all, s)
		return nil
	})
	return all
}

// takeHead notes a head or trailers, which must be fit for HTTP/2.
func (c *streams) takeHead(a *streamed, f *http2.MetaHeadersFrame) {
	if a == nil {
		c.x.Errorf("a head of a stream that nobody opened")
		return
	}
	var fields Fields
	for _, h := range f.RegularFields() {
		fields = append(fields, Field{h.Name, h.Value})
	}
	for _, name := range []string{"connection", "transfer-encoding", "keep-alive", "upgrade", "proxy-connection"} {
		if fields.Has(name) {
			c.x.Errorf("%s reached the client: %q", name, fields.All(name))
		}
	}
	a.Ended = f.StreamEnded()
	status, _ := strconv.Atoi(f.PseudoValue("status"))
	switch {
	case status == 0:
		a.Trailer = fields
	case status < 200:
		a.Interim = append(a.Interim, status)
	default:
		a.Status, a.Fields = status, fields
	}
}

// mustLive expects the connection to serve another request.
func (c *streams) mustLive() {
	if a := c.get("/still-alive"); !a.Whole() || a.Status != 200 || a.Body.String() != "for GET /still-alive" {
		c.x.Errorf("the next request of the connection: status %d %q, reset %v with %v, GOAWAY %v with %v, gone %v", a.Status,
			clip(a.Body.String()), a.Reset, a.Code, c.away, c.code, c.gone)
	}
}
