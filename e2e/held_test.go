package e2e

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// TestHeldAnswers: who takes the beginning of each page, and lets no answer end, is stopped as others are.
func TestHeldAnswers(t *testing.T) {
	t.Parallel()
	const size = 256 << 10
	shop := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = io.WriteString(w, strings.Repeat("<p>price", size/8))
	}))
	t.Cleanup(shop.Close)
	addr := freePort(t)
	g := startWith(t, "serve", "--config", configFile(t, `
listen: [{address: %q, h2c: true}]
processor: {exempt: []}
defaults: {upstream: {urls: [%q]}}
`, addr, shop.URL))
	const connections, streams = 4, 90
	got := 0
	for n := range connections {
		got += hold(t, addr, n*streams, streams, 16<<10)
	}
	if got == 0 || got > 120 {
		t.Errorf("%d of %d pages were delivered to who holds their answers", got, connections*streams)
	}
	if n := g.metric("antirobot_processor_bans_total"); n == 0 {
		t.Error("nobody was banned")
	}
}

// hold asks for so many pages on a connection of its own, with such a window for each, and returns how many began.
func hold(t *testing.T, addr string, from, many int, window uint32) (got int) {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(patience))
	var block bytes.Buffer
	enc, f := hpack.NewEncoder(&block), http2.NewFramer(conn, conn)
	f.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	_, _ = io.WriteString(conn, http2.ClientPreface)
	_ = f.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: window})
	_ = f.WriteWindowUpdate(0, 1<<30)
	for i := range many {
		block.Reset()
		for _, p := range [][2]string{
			{":method", "GET"},
			{":scheme", "http"},
			{":authority", addr},
			{":path", fmt.Sprintf("/product/%d", from+i)},
			{"user-agent", "Mozilla/5.0 (X11; Linux x86_64; rv:133.0) Gecko/20100101 Firefox/133.0"},
			{"accept", "text/html"},
			{"accept-language", "en"},
		} {
			_ = enc.WriteField(hpack.HeaderField{Name: p[0], Value: p[1]})
		}
		id := uint32(2*i + 1)
		if err := f.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: block.Bytes(), EndHeaders: true, EndStream: true}); err != nil {
			t.Fatal(err)
		}
		for answered := false; !answered; {
			frame, err := f.ReadFrame()
			if err != nil {
				t.Fatalf("page %d: %v", from+i, err)
			}
			switch frame := frame.(type) {
			case *http2.SettingsFrame:
				if !frame.IsAck() {
					_ = f.WriteSettingsAck()
				}
			case *http2.MetaHeadersFrame:
				if answered = frame.StreamID == id; answered && frame.PseudoValue("status") == "200" {
					got++
				}
			case *http2.GoAwayFrame:
				t.Fatalf("page %d: GOAWAY %v", from+i, frame.ErrCode)
			}
		}
	}
	return got
}
