package h2

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"golang.org/x/net/http2"

	"antirobot/proxy/h1"
)

// echo answers every message of a WebSocket at /ws; other paths try to pass for one.
func echo(t *testing.T) string {
	return service(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/ws":
			c, err := websocket.Accept(w, r, nil)
			if err != nil {
				return
			}
			defer func() { _ = c.CloseNow() }()
			for {
				kind, b, err := c.Read(r.Context())
				if err != nil || c.Write(r.Context(), kind, append([]byte("echo "), b...)) != nil {
					return
				}
			}
		case "/false":
			w.Header().Set("Connection", "Upgrade")
			w.Header().Set("Upgrade", "websocket")
			w.Header().Set("Sec-WebSocket-Accept", "AAAAAAAAAAAAAAAAAAAAAAAAAAA=")
			w.WriteHeader(101)
		case "/forbidden":
			w.WriteHeader(403)
		default:
			_, _ = io.WriteString(w, r.Method+" "+r.Header.Get("Upgrade"))
		}
	})
}

// connect is the fields of a WebSocket's request, as RFC 8441 has them.
func connect(path string, more ...string) []string {
	return append([]string{
		":method", "CONNECT", ":protocol", "websocket", ":scheme", "http", ":authority", "site.example", ":path", path,
		"sec-websocket-version", "13",
	}, more...)
}

// message is a short text as a client frames it; code 8 closes.
func message(code byte, text string) []byte {
	return append([]byte{0x80 | code, 0x80 | byte(len(text)), 0, 0, 0, 0}, text...)
}

// data reads n bytes of a stream; fewer if it ends.
func (r *raw) data(id uint32, n int) (got string, ended bool) {
	for len(got) < n {
		f, err := r.ReadFrame()
		if err != nil {
			r.t.Fatalf("after %q: %v", got, err)
		}
		switch f := f.(type) {
		case *http2.DataFrame:
			if f.StreamID == id {
				got += string(f.Data())
				_ = r.WriteWindowUpdate(id, uint32(len(f.Data())+1))
				if f.StreamEnded() {
					return got, true
				}
			}
		case *http2.RSTStreamFrame:
			if f.StreamID == id {
				r.t.Fatalf("after %q: reset, %v", got, f.ErrCode)
			}
		}
	}
	return got, false
}

// TestWebSocket: a client is told that it may open WebSockets, and opens two beside an ordinary request. Messages flow
// both ways, and either side's end is the other's.
func TestWebSocket(t *testing.T) {
	f := newFront(t, echo(t), setup{})
	r := dialRaw(t, f)
	for offered := false; !offered; {
		frame, err := r.ReadFrame()
		if err != nil {
			t.Fatalf("no settings that offer WebSockets: %v", err)
		}
		if s, ok := frame.(*http2.SettingsFrame); ok && !s.IsAck() {
			v, _ := s.Value(http2.SettingID(8))
			offered = v == 1
		}
	}
	one := r.open(false, connect("/ws", "sec-websocket-key", "of no use")...)
	if status, code, _ := r.outcome(one); status != "200" {
		t.Fatalf("a WebSocket got %q, %v", status, code)
	}
	two := r.open(false, connect("/ws")...)
	if status, code, _ := r.outcome(two); status != "200" {
		t.Fatalf("another got %q, %v", status, code)
	}
	for _, id := range []uint32{one, two, one} {
		_ = r.WriteData(id, false, message(1, "hi"))
		if got, _ := r.data(id, 9); got != "\x81\x07echo hi" {
			t.Errorf("stream %d brought %q", id, got)
		}
	}
	f.awaitMetric(t, "antirobot_http_open_tunnels", "2")
	if status, _, _ := r.outcome(r.open(true, get...)); status != "200" {
		t.Errorf("a request beside them got %q", status)
	}
	_ = r.WriteData(one, false, message(8, "\x03\xe8"))
	if got, ended := r.data(one, 100); got != "\x88\x02\x03\xe8" || !ended {
		t.Errorf("closed with %q, %v", got, ended)
	}
	_ = r.WriteData(two, true, nil)
	if _, ended := r.data(two, 100); !ended {
		t.Error("a client's end did not end its stream")
	}
	f.awaitMetric(t, "antirobot_http_open_tunnels", "0")
}

// TestNoWebSocket: what is no WebSocket in the end never looks like one to the client.
func TestNoWebSocket(t *testing.T) {
	f := newFront(t, echo(t), setup{handler: func(x *h1.Exchange, forward func()) {
		if string(x.View.Path) == "/own" {
			_ = x.Reply(200, nil, []byte("a page"))
			return
		}
		forward()
	}})
	r := dialRaw(t, f)
	for path, want := range map[string]string{"/page": "502", "/false": "502", "/forbidden": "403", "/own": "400"} {
		if status, code, _ := r.outcome(r.open(false, connect(path)...)); status != want {
			t.Errorf("%s: %q, %v", path, status, code)
		}
	}
	other := connect("/ws")
	other[3] = "connect-udp"
	if status, code, _ := r.outcome(r.open(false, other...)); !strings.HasPrefix(status, "4") && code == 0 {
		t.Errorf("another protocol got %q", status)
	}
	if status, code, _ := r.outcome(r.open(true, append([]string{":protocol", "websocket"},
		get...)...)); !strings.HasPrefix(status, "4") && code == 0 {
		t.Errorf("a protocol for GET got %q", status)
	}
}

// TestSocketIsCut: tunnels over HTTP/2 end with the grace period, and with their client.
func TestSocketIsCut(t *testing.T) {
	f := newFront(t, echo(t), setup{})
	r := dialRaw(t, f)
	if status, _, _ := r.outcome(r.open(false, connect("/ws")...)); status != "200" {
		t.Fatalf("a WebSocket got %q", status)
	}
	_ = r.Close()
	f.awaitMetric(t, "antirobot_http_open_tunnels", "0")
	r = dialRaw(t, f)
	if status, _, _ := r.outcome(r.open(false, connect("/ws")...)); status != "200" {
		t.Fatalf("a WebSocket got %q", status)
	} // the front's own clean-up cuts it
}

// TestQuietAnswer: an answer may pause for longer than a write may take.
func TestQuietAnswer(t *testing.T) {
	f := newFront(t, service(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "one ")
		w.(http.Flusher).Flush()
		time.Sleep(300 * time.Millisecond)
		_, _ = io.WriteString(w, "two")
	}), setup{h1: func(c *h1.Config) { c.WriteTimeout = 100 * time.Millisecond }})
	if _, body := fetch(t, client(t, f), newRequest(t, "GET", "/", nil)); body != "one two" {
		t.Errorf("got %q", body)
	}
}
