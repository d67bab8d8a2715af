package replay

import (
	"bufio"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
)

// Input is one log. Open is called once or, if Again allows it, twice: first to find out when the log begins.
type Input struct {
	Name  string
	Size  int64 // bytes as stored; 0: unknown
	Again bool
	Open  func() (io.ReadCloser, error)

	is fs.FileInfo // nil: no file
}

// Files returns the Inputs of a file, or of all files in a directory and those below it, but for hidden ones: clouds
// store logs so, as many small files. What can't be read there is an Input that can't be opened. "-" is standard input,
// which is read from stdin.
func Files(name string, stdin io.Reader) ([]Input, error) {
	if name == "-" {
		return []Input{{Name: "standard input", Open: func() (io.ReadCloser, error) {
			return io.NopCloser(stdin),
				nil
		}}}, nil
	}
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return []Input{file(name, info)}, nil
	}
	var inputs []Input
	top := strings.TrimRight(name, "/") + "/" // the target of a link
	err = filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
		switch hidden := path != top && strings.HasPrefix(d.Name(), "."); {
		case err != nil && path == top:
			return err
		case err != nil:
			inputs = append(inputs, unreadable(path, err))
			return nil
		case hidden && d.IsDir():
			return fs.SkipDir
		case hidden:
			return nil
		}
		switch info, err := os.Stat(path); { // of what a link leads to
		case err != nil:
			inputs = append(inputs, unreadable(path, err))
		case info.Mode().IsRegular():
			inputs = append(inputs, file(path, info))
		}
		return nil
	})
	if err == nil && len(inputs) == 0 {
		err = fmt.Errorf("%s: there are no files in this directory", name)
	}
	return inputs, err
}

func file(name string, info fs.FileInfo) Input {
	in := Input{Name: name, Open: func() (io.ReadCloser, error) { return os.Open(name) }}
	if info.Mode().IsRegular() {
		in.Size, in.Again, in.is = info.Size(), true, info
	}
	return in
}

func unreadable(name string, err error) Input {
	return Input{Name: name, Again: true, Open: func() (io.ReadCloser, error) { return nil, err }}
}

// Distinct leaves out each Input that is the file of an earlier one, as a link to it is: nobody asks for everything
// twice.
func Distinct(inputs []Input) []Input {
	type file struct{ dev, ino any } // their types differ from system to system
	seen := map[file]bool{}
	return slices.DeleteFunc(inputs, func(in Input) bool {
		if in.is == nil {
			return false
		}
		st, ok := in.is.Sys().(*syscall.Stat_t)
		if !ok {
			return false
		}
		f := file{st.Dev, st.Ino}
		again := seen[f]
		seen[f] = true
		return again
	})
}

// reason returns an error of an Input without what names the Input.
func reason(err error) string {
	var p *fs.PathError
	switch {
	case errors.As(err, &p):
		err = p.Err
	case errors.Is(err, io.ErrUnexpectedEOF):
		return "the compressed file is cut off"
	}
	return err.Error()
}

const (
	maxLine    = 1 << 20 // a longer line is a bad line
	readBuffer = 256 << 10
)

var errLineTooLong = fmt.Errorf("is longer than %d bytes", maxLine)

// lines reads the lines of an Input, decompressed if it is compressed with gzip, whatever its name.
type lines struct {
	in    io.ReadCloser
	r     *bufio.Reader
	long  []byte
	count int // of lines read
}

// counting counts the bytes that are read.
type counting struct {
	io.Reader
	n *atomic.Int64
}

func (c counting) Read(b []byte) (int, error) {
	n, err := c.Reader.Read(b)
	c.n.Add(int64(n))
	return n, err
}

func openLines(in *Input, read *atomic.Int64) (*lines, error) {
	f, err := in.Open()
	if err != nil {
		return nil, err
	}
	raw := bufio.NewReaderSize(counting{f, read}, readBuffer)
	l := &lines{in: f, r: raw}
	if magic, _ := raw.Peek(2); len(magic) == 2 && magic[0] == 0x1f && magic[1] == 0x8b {
		z, err := gzip.NewReader(raw)
		if err != nil {
			f.Close()
			return nil, err
		}
		l.r = bufio.NewReaderSize(z, readBuffer)
	}
	return l, nil
}

// next returns the next line without its line end, valid until the next call. errLineTooLong concerns one line, any
// other error ends the input.
func (l *lines) next() ([]byte, error) {
	l.count++
	b, err := l.r.ReadSlice('\n')
	if err == nil {
		return b[:len(b)-1], nil
	}
	if err != bufio.ErrBufferFull { //nolint:errorlint // bufio returns it as it is
		if len(b) > 0 && errors.Is(err, io.EOF) {
			return b, nil // the last line has no line end
		}
		return nil, err
	}
	l.long = l.long[:0]
	tooLong := false
	for {
		if !tooLong {
			l.long = append(l.long, b...)
			tooLong = len(l.long) > maxLine
		}
		if err != bufio.ErrBufferFull { //nolint:errorlint // bufio returns it as it is
			break
		}
		b, err = l.r.ReadSlice('\n')
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if tooLong {
		l.long = nil
		return nil, errLineTooLong
	}
	if n := len(l.long); n > 0 && l.long[n-1] == '\n' {
		return l.long[:n-1], nil
	}
	return l.long, nil
}

func (l *lines) close() { l.in.Close() }
