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

type coding uint8

const (
	identity coding = iota
	gzipped
	brotlied
)

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

// Accepts returns an Accept-Encoding that can be opened; nil: the client's is fine.
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

type encoder interface {
	io.WriteCloser
	Flush() error
	Reset(w io.Writer)
}

// Compression levels: pages are 3 and 5 % larger than at level 5.
const (
	gzipLevel   = 2
	brotliLevel = 2
	brotliLog   = 18 // window size
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

// Flush writes what the encoder holds.
func (in *Insertion) Flush() error {
	if in.enc == nil || !in.dirty {
		return nil
	}
	in.dirty = false
	return in.enc.Flush()
}

// Write compresses the page, if necessary.
func (in *Insertion) Write(p []byte) (int, error) {
	if in.enc == nil {
		return in.out.Write(p)
	}
	in.dirty = in.dirty || len(p) > 0
	return in.enc.Write(p)
}

// Body copies the page from r to w, with the insertion.
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

// Beyond mostOpened bytes a page may expand mostTimes: a kilobyte of brotli can become a gigabyte.
const (
	mostOpened = 64 << 20
	mostTimes  = 250
)

var errTooDense = errors.New("the page is far larger than what came of it")

type counter struct {
	r io.Reader
	n int64
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}

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

// gunzip places the tag in a gzip page. Trailing garbage is dropped, as browsers do.
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
