package h2

import (
	"bytes"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/net/http2"

	"antirobot/proxy/h1"
)

const resetFloods = `antirobot_http2_floods_total{of="resets"}`

// mistakes are requests that have no answer yet when their client makes the gateway end them.
var mistakes = map[string]func(r *raw) uint32{
	"WINDOW_UPDATE of nothing": func(r *raw) uint32 {
		id := r.open(true, get...)
		_ = r.WriteWindowUpdate(id,
			0)
		return id
	},
	"WINDOW_UPDATE of too much": func(r *raw) uint32 {
		id := r.open(true, get...)
		_ = r.WriteWindowUpdate(id,
			1<<31-1)
		return id
	},
	"DATA behind the end": func(r *raw) uint32 {
		id := r.open(true, get...)
		_ = r.WriteData(id, true,
			nil)
		return id
	},
	"HEADERS behind the end": func(r *raw) uint32 {
		id := r.open(true, get...)
		r.next = id
		return r.open(true,
			get...)
	},
	"a PRIORITY of its own": func(r *raw) uint32 {
		id := r.open(true, get...)
		_ = r.WritePriority(id, http2.PriorityParam{StreamDep: id})
		return id
	},
	"more DATA than announced": func(r *raw) uint32 {
		id := r.open(false, append(slices.Clone(get), "content-length", "1")...)
		_ = r.WriteData(id, false, []byte("xy"))
		return id
	},
	"a name in upper case": func(r *raw) uint32 { return r.open(true, append(slices.Clone(get), "X-A", "b")...) },
}

// TestResetsThatAreAskedFor: a client whose mistakes make the gateway end its requests is cut as one that ends them
// itself (CVE-2025-8671), and no more of them reach the service.
func TestResetsThatAreAskedFor(t *testing.T) {
	const most = 50
	var served atomic.Int64
	f := newFront(t, service(t, func(_ http.ResponseWriter, r *http.Request) {
		served.Add(1)
		if _, err := io.Copy(io.Discard, r.Body); err == nil {
			<-r.Context().Done()
		}
	}), setup{h2: func(c *Config) { c.MaxResets = most }})
	for name, mistake := range mistakes {
		t.Run(name, func(t *testing.T) {
			before := f.metric(resetFloods)
			r := dialRaw(t, f)
			for n := range most + 2 {
				status, code, gone := r.outcome(mistake(r))
				if gone && n == most+1 && code == http2.ErrCodeEnhanceYourCalm {
					break
				}
				if gone || n == most+1 || code == http2.ErrCodeNo {
					t.Fatalf("request %d: status %q, %v, gone %v", n, status, code, gone)
				}
			}
			if after := f.metric(resetFloods); after == before {
				t.Errorf("%s stays %s", resetFloods, after)
			}
		})
	}
	if n := served.Load(); n > int64(len(mistakes)*(most+1)) {
		t.Errorf("%d requests reached the service", n)
	}
}

// TestResetsOfTheGateway: what the gateway ends for reasons of its own, and what its client had sent before it knew, is
// no mistake.
func TestResetsOfTheGateway(t *testing.T) {
	f := newFront(t, service(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "begun")
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}), setup{
		h1: func(c *h1.Config) { c.MaxBodyBytes = 10 },
		h2: func(c *Config) { c.MaxResets = 5 },
	})
	r := dialRaw(t, f)
	for range 20 {
		id := r.open(true, get...)
		if status, _, gone := r.outcome(id); status != "200" || gone {
			t.Fatalf("a page got %q, gone %v", status, gone)
		}
		if _, code, gone := r.outcome(id); code != http2.ErrCodeInternal || gone {
			t.Fatalf("a page that was cut ended with %v, gone %v", code, gone)
		}
	}
	for range 5 {
		id := r.open(false, append(slices.Clone(get), "content-length", "100")...)
		if status, _, gone := r.outcome(id); status != "413" || gone {
			t.Fatalf("an upload got %q, gone %v", status, gone)
		}
		if _, code, gone := r.outcome(id); code != http2.ErrCodeNo || gone {
			t.Fatalf("it ended with %v, gone %v", code, gone)
		}
		for range 10 {
			_ = r.WriteData(id, false, []byte("on its way"))
		}
	}
	if status, _, gone := r.outcome(r.open(true, get...)); status != "200" || gone {
		t.Errorf("after them a page got %q, gone %v", status, gone)
	}
	if n := f.metric(resetFloods); n != "0" {
		t.Errorf("%s is %s", resetFloods, n)
	}
}

// TestSentInPieces: resets are found wherever what goes out is cut.
func TestSentInPieces(t *testing.T) {
	var out bytes.Buffer
	w := http2.NewFramer(&out, nil)
	_ = w.WriteSettings()
	_ = w.WriteRSTStream(1, http2.ErrCodeProtocol)
	_ = w.WriteData(3, true, []byte(strings.Repeat("\x03", 300)))
	_ = w.WriteRSTStream(1, http2.ErrCodeStreamClosed) // late
	_ = w.WriteRSTStream(5, http2.ErrCodeNo)
	_ = w.WriteRSTStream(5+2*lateStreams, http2.ErrCodeCancel)
	_ = w.WritePing(true, [8]byte{3, 3})
	_ = w.WriteRSTStream(7, http2.ErrCodeFlowControl)
	want := []http2.ErrCode{http2.ErrCodeProtocol, http2.ErrCodeNo, http2.ErrCodeCancel, http2.ErrCodeFlowControl}
	for size := 1; size <= out.Len(); size++ {
		var s sent
		var got []http2.ErrCode
		for piece := range slices.Chunk(out.Bytes(), size) {
			s.take(piece, func(code http2.ErrCode) { got = append(got, code) })
		}
		if !slices.Equal(got, want) {
			t.Errorf("in pieces of %d bytes: %v", size, got)
		}
	}
}
