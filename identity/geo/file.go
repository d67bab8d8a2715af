package geo

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
)

// marker begins the metadata of an MMDB, at the end of the file.
var marker = []byte("\xab\xcd\xefMaxMind.com")

// open reads a whole file: an MMDB or a table, each also packed by gzip.
func open(name string, most int64) (database, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := read(f, most)
	if err != nil {
		return nil, err
	}
	if tail := data[max(0, len(data)-128<<10):]; bytes.Contains(tail, marker) {
		return openMMDB(data)
	}
	return parseTable(data)
}

func read(f io.Reader, most int64) ([]byte, error) {
	br := bufio.NewReader(f)
	var from io.Reader = br
	if b, _ := br.Peek(2); len(b) == 2 && b[0] == 0x1f && b[1] == 0x8b {
		z, err := gzip.NewReader(br)
		if err != nil {
			return nil, fmt.Errorf("gzip: %w", err)
		}
		from = z
	}
	data, err := io.ReadAll(io.LimitReader(from, most+1))
	switch {
	case err != nil:
		return nil, err
	case int64(len(data)) > most:
		return nil, fmt.Errorf("larger than %d bytes", most)
	case len(data) == 0:
		return nil, errors.New("it is empty")
	}
	return data, nil
}
