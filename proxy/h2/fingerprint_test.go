package h2

import (
	"bytes"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// opening is what a client sends first.
func opening(t testing.TB, write func(f *http2.Framer, block []byte)) []byte {
	t.Helper()
	var fields, b bytes.Buffer
	e := hpack.NewEncoder(&fields)
	for _, name := range []string{":method", ":authority", ":scheme", ":path", "user-agent"} {
		if err := e.WriteField(hpack.HeaderField{Name: name, Value: "x"}); err != nil {
			t.Fatal(err)
		}
	}
	b.WriteString(http2.ClientPreface)
	write(http2.NewFramer(&b, nil), fields.Bytes())
	return b.Bytes()
}

// printOf is the fingerprint of bytes that arrive in pieces.
func printOf(data []byte, piece int) string {
	g := &guarded{m: &serverMetrics{}, skip: len(http2.ClientPreface)}
	for len(data) > 0 {
		n := min(piece, len(data))
		g.count(data[:n])
		data = data[n:]
	}
	return string(g.print.text)
}

// TestFingerprint: settings, window, priorities and pseudo fields stand in the fingerprint, however the bytes arrive.
func TestFingerprint(t *testing.T) {
	chrome := opening(t, func(f *http2.Framer, block []byte) {
		_ = f.WriteSettings(http2.Setting{ID: 1, Val: 65536}, http2.Setting{ID: 2, Val: 0},
			http2.Setting{ID: 0x1a2a, Val: 7},
			http2.Setting{ID: 4, Val: 6291456}, http2.Setting{ID: 6, Val: 262144})
		_ = f.WriteWindowUpdate(0, 15663105)
		_ = f.WriteHeaders(http2.HeadersFrameParam{
			StreamID: 1, BlockFragment: block, EndHeaders: true, EndStream: true, PadLength: 3,
			Priority: http2.PriorityParam{Exclusive: true, Weight: 255},
		})
		_ = f.WriteSettings(http2.Setting{ID: 3, Val: 5})
	})
	old := opening(t, func(f *http2.Framer, block []byte) {
		_ = f.WriteSettings()
		_ = f.WritePriority(3, http2.PriorityParam{StreamDep: 0, Weight: 200})
		_ = f.WritePriority(5, http2.PriorityParam{StreamDep: 3, Exclusive: true, Weight: 100})
		_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: 15, BlockFragment: block, EndHeaders: true})
	})
	for _, piece := range []int{1, 7, 1000} {
		if got, want := printOf(chrome, piece), "1:65536;2:0;4:6291456;6:262144|15663105|0|m,a,s,p"; got != want {
			t.Errorf("in pieces of %d: %s, want %s", piece, got, want)
		}
		if got, want := printOf(old, piece), "|00|3:0:0:201,5:1:3:101|m,a,s,p"; got != want {
			t.Errorf("in pieces of %d: %s, want %s", piece, got, want)
		}
	}
}

// FuzzFingerprint: whatever a client begins with, the fingerprint stays short and does not depend on the pieces.
func FuzzFingerprint(f *testing.F) {
	f.Add(opening(f, func(f *http2.Framer, block []byte) {
		_ = f.WriteSettings(http2.Setting{ID: 1, Val: 65536})
		_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block, EndHeaders: true, PadLength: 200})
	}))
	f.Fuzz(func(t *testing.T, data []byte) {
		whole := printOf(data, len(data)+1)
		if len(whole) > keptPrint || whole != printOf(data, 3) {
			t.Errorf("%q and %q", whole, printOf(data, 3))
		}
	})
}
