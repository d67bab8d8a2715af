package wire

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net/http/httputil"
	"strings"
	"testing"
	"testing/iotest"

	"pgregory.net/rapid"
)

// bufSource is a source without deadlines.
type bufSource struct{ r *bufio.Reader }

func (s bufSource) Fill() error {
	_, err := s.r.Peek(1)
	return err
}

func (s bufSource) Read(p []byte) (int, error) { return s.r.Read(p) }

// decode reads a whole chunked body.
func decode(r io.Reader, spaced bool) (data []byte, d *Chunks, left *bufio.Reader, err error) {
	br := bufio.NewReader(r)
	d = &Chunks{}
	d.Reset(spaced, 4096, 20)
	buf := make([]byte, 1000)
	for {
		n, err := d.Read(br, bufSource{br}, buf)
		data = append(data, buf[:n]...)
		if err != nil {
			return data, d, br, err
		}
	}
}

// FuzzChunked: whatever is accepted decodes as in net/http, and segments don't matter.
func FuzzChunked(f *testing.F) {
	for _, s := range []string{
		"0\r\n\r\n", "5\r\nhello\r\n0\r\n\r\n", "5;a=b\r\nhello\r\n000\r\nX: y\r\n\r\nnext",
		"A\r\n0123456789\r\n0\r\n\r\n",
		"5\nhello\n0\n\n", "5 \r\nhello\r\n0\r\n\r\n", "ffffffffffffffff\r\n", "5\r\nhelloX0\r\n\r\n",
	} {
		f.Add([]byte(s), false)
	}
	f.Fuzz(func(t *testing.T, in []byte, spaced bool) {
		got, d, _, err := decode(bytes.NewReader(in), spaced)
		got2, _, _, err2 := decode(iotest.OneByteReader(bytes.NewReader(in)), spaced)
		if errors.Is(err, io.EOF) != errors.Is(err2, io.EOF) || !bytes.Equal(got, got2) {
			t.Fatalf("whole %q %v, in pieces %q %v", got, err, got2, err2)
		}
		if !errors.Is(err, io.EOF) || !d.Done {
			return
		}
		want, err := io.ReadAll(httputil.NewChunkedReader(bytes.NewReader(in)))
		if err != nil || !bytes.Equal(got, want) {
			t.Fatalf("we read %q, net/http %q %v", got, want, err)
		}
	})
}

// TestChunkedRoundTrip: what we frame is read back by us and by net/http, with the allowed trailers.
func TestChunkedRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pieces := rapid.SliceOf(rapid.SliceOfN(rapid.Byte(), 1, 5000)).Draw(t, "pieces")
		var framed, want []byte
		for _, p := range pieces {
			want = append(want, p...)
			buf := make([]byte, ChunkRoom+len(p)+2)
			copy(buf[ChunkRoom:], p)
			framed = append(framed, FrameChunk(buf, len(p))...)
		}
		framed = AppendLastChunk(framed, Trailers{})
		got, _, _, err := decode(bytes.NewReader(framed), false)
		if !errors.Is(err, io.EOF) || !bytes.Equal(got, want) {
			t.Fatalf("we: %v", err)
		}
		got, err = io.ReadAll(httputil.NewChunkedReader(bytes.NewReader(framed)))
		if err != nil || !bytes.Equal(got, want) {
			t.Fatalf("net/http: %v", err)
		}
	})
}

// TestChunkFloods: a body whose framing costs much more than its data is refused.
func TestChunkFloods(t *testing.T) {
	one := "1;" + strings.Repeat("x", 4000) + "\r\na\r\n"
	if _, _, _, err := decode(strings.NewReader(strings.Repeat(one, 1000)+"0\r\n\r\n"), false); !errors.Is(err,
		ErrChunk) {
		t.Errorf("got %v", err)
	}
}
