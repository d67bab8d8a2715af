package insert

import (
	"bytes"
	"errors"
	"io"
	"sync"

	"github.com/klauspost/compress/gzip"
	brotli "github.com/molecule-man/go-brrr"

	"antirobot/request"
)

// coding is how a page is compressed.
type coding uint8

const (
	identity coding = iota
	gzipped
	brotlied
)

// parseCoding reads a Content-Encoding.
func parseCoding(v []byte) (c coding, known bool) {
	switch v = bytes.TrimSpace(v); {
	case len(v) == 0, request.EqualFold(v, "identity"):
		return identity, true
	case request.EqualFold(v, "gzip"), request.EqualFold(v, "x-gzip"):
		return gzipped, true
	case request.EqualFold(v, "br"):
		return brotlied, true
	}
	return identity, false
}

// Accepts returns what a service is asked for in place of a client's Accept-Encoding, so that its pages can be opened, or nil
// if that can stay.
func Accepts(acceptEncoding []byte) []byte {
	kept, all := []byte(nil), true
	for part := range bytes.SplitSeq(acceptEncoding, []byte{','}) {
		part = bytes.TrimSpace(part)
		name, _, _ := bytes.Cut(part, []byte{';'})
		if _, known := parseCoding(name); !known {
			all = false
			continue
		}
		if len(kept) > 0 {
			kept = append(kept, ", "...)
		}
		kept = append(kept, part...)
	}
	switch {
	case all:
		return nil
	case len(kept) == 0:
		return []byte("identity")
	}
	return kept
}

// encoder is what gzip and brotli have in common.
type encoder interface {
	io.WriteCloser
	Flush() error
	Reset(w io.Writer)
}

// The levels of the compressors: a page is 3 and 5 % larger than at level 5.
const (
	gzipLevel   = 2
	brotliLevel = 2
	brotliLog   = 18 // of the window in bytes
)

var (
	gzipWriters = sync.Pool{New: func() any {
		w, err := gzip.NewWriterLevel(io.Discard, gzipLevel)
		if err != nil {
			panic("BUG: a level of gzip: " + err.Error())
		}
		return w
	}}
	brotliWriters = sync.Pool{New: func() any {
		w, err := brotli.NewWriterOptions(io.Discard, brotliLevel, brotli.WriterOptions{LGWin: brotliLog})
		if err != nil {
			panic("BUG: a level of brotli: " + err.Error())
		}
		return w
	}}
	gzipReaders   = sync.Pool{New: func() any { return new(gzip.Reader) }}
	brotliReaders = sync.Pool{New: func() any { return brotli.NewReader(eof{}) }}
)

type eof struct{}

func (eof) Read([]byte) (int, error) { return 0, io.EOF }

// Flush implements h1.Rewriter.
func (in *Insertion) Flush() error {
	if in.enc == nil || !in.dirty {
		return nil
	}
	in.dirty = false
	return in.enc.Flush()
}

// Write is where the page goes: through the compressor, if there is one.
func (in *Insertion) Write(p []byte) (int, error) {
	if in.enc == nil {
		return in.out.Write(p)
	}
	in.dirty = in.dirty || len(p) > 0
	return in.enc.Write(p)
}

// Body implements h1.Rewriter.
func (in *Insertion) Body(w io.Writer, r io.Reader) error {
	in.out = w
	defer func() { in.out, in.enc, in.dirty = nil, nil, false }()
	switch in.coding {
	case gzipped:
		return in.through(&gzipWriters, w, func() error { return in.gunzip(&counter{r: r}) })
	case brotlied:
		return in.through(&brotliWriters, w, func() error {
			came, d := &counter{r: r}, brotliReaders.Get().(*brotli.Reader)
			defer brotliReaders.Put(d)
			d.Reset(came)
			defer d.Reset(eof{})
			return in.place(came.bounded(d))
		})
	}
	return in.place(r)
}

// A compressed page of more than mostOpened bytes has no more than mostTimes as many as came: a kilobyte of brotli can be made to
// open into a gigabyte, which takes seconds whether or not the visitor is still there.
const (
	mostOpened = 64 << 20
	mostTimes  = 250
)

var errTooDense = errors.New("the page is far larger than what came of it")

// counter counts what came of a compressed page.
type counter struct {
	r io.Reader
	n int64
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}

// bounded is what opens the page, as long as it is not far larger than what came.
func (c *counter) bounded(opened io.Reader) io.Reader {
	var total int64
	return readerFunc(func(p []byte) (int, error) {
		n, err := opened.Read(p)
		if total += int64(n); total > mostOpened && total/mostTimes > c.n {
			return 0, errTooDense
		}
		return n, err
	})
}

// through has f write through a compressor from pool.
func (in *Insertion) through(pool *sync.Pool, w io.Writer, f func() error) error {
	in.enc = pool.Get().(encoder)
	in.enc.Reset(w)
	defer func() {
		in.enc.Reset(io.Discard)
		pool.Put(in.enc)
	}()
	if err := f(); err != nil {
		return err
	}
	return in.enc.Close()
}

// gunzip places the tag in a page that is compressed by gzip. What follows its last part, which browsers ignore, is left out.
func (in *Insertion) gunzip(r *counter) error {
	d := gzipReaders.Get().(*gzip.Reader)
	defer gzipReaders.Put(d)
	if err := d.Reset(r); err != nil {
		return err
	}
	read := false
	return in.place(r.bounded(readerFunc(func(p []byte) (int, error) {
		n, err := d.Read(p)
		read = read || n > 0
		if read && errors.Is(err, gzip.ErrHeader) {
			err = io.EOF
		}
		return n, err
	})))
}

type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }
