package cbb

import (
	"bytes"
	"errors"
	"fmt"
)

// errPage is what a list of texts most often is when it is none.
var errPage = errors.New("it begins with <, as pages do and texts do not")

// textLine parses one line of a list of texts: an entry, and behind a # that stands alone a comment.
func (p *parser) textLine(n int, b []byte) {
	if n == 1 && len(b) > 0 && b[0] == '<' {
		p.err = errPage
		return
	}
	if i := bytes.Index(b, []byte(" # ")); i >= 0 {
		b = bytes.TrimSpace(b[:i])
	}
	if len(b) == 0 || b[0] == '#' {
		return
	}
	p.lines++
	if len(b) > maxLine {
		p.reject(n, string(b[:64]), fmt.Errorf("line of %d bytes, the limit is %d", len(b), maxLine))
		return
	}
	if err := p.text(string(b)); err != nil {
		p.reject(n, string(b), err)
	}
}

// text adds one entry of a list of texts.
func (p *parser) text(entry string) error {
	if p.out.entries >= p.maxEntries {
		p.err = errTooMany
		return nil
	}
	if err := p.out.texts.Add(entry); err != nil {
		return err
	}
	p.out.entries++
	return nil
}
