package insert

import (
	"bytes"
	"errors"
	"io"
	"sync"

	"golang.org/x/net/html"
)

// maxToken bounds what is held of a page: one token of its head. maxHead bounds how far is looked for the end of the head.
const (
	maxToken = 64 << 10
	maxHead  = 1 << 20
)

// place copies a page from r, with the tag at the end of its head.
func (in *Insertion) place(r io.Reader) error {
	s := scanner{in: in, r: r}
	result, err := s.scan()
	if err != nil {
		return err
	}
	if result == Inserted {
		if _, err := io.WriteString(in, in.tag(s.rebased)); err != nil {
			return err
		}
	}
	in.tell(result)
	if _, err := in.Write(s.held); err != nil || s.ended {
		return err
	}
	buf := copyBuffers.Get().(*[32 << 10]byte)
	defer copyBuffers.Put(buf)
	_, err = io.CopyBuffer(in, onlyReader{r}, buf[:])
	return err
}

var copyBuffers = sync.Pool{New: func() any { return new([32 << 10]byte) }}

// onlyReader hides what else a reader can do, so that io.CopyBuffer uses its buffer.
type onlyReader struct{ io.Reader }

// scanner looks at a page until it knows where the tag stands. What it has looked at goes on before it reads further.
type scanner struct {
	in      *Insertion
	r       io.Reader
	held    []byte // what has been read and has not gone on
	looked  int    // how much of it has been looked at
	err     error  // of reading or writing; io.EOF too
	ended   bool
	seen    int
	begun   bool   // something says that this is a page, and not a piece of one
	rebased bool   // it has a base for its addresses
	within  string // the element of the head whose content is passed over; empty: none
	depth   int    // of templates
}

// Read is what the tokenizer reads.
func (s *scanner) Read(p []byte) (int, error) {
	if err := s.pass(); err != nil {
		s.err = err
		return 0, err
	}
	n, err := s.r.Read(p)
	s.held = append(s.held, p[:n]...)
	if err != nil {
		s.err, s.ended = err, errors.Is(err, io.EOF)
	}
	return n, err
}

// pass passes on what has been looked at.
func (s *scanner) pass() error {
	_, err := s.in.Write(s.held[:s.looked])
	s.held = append(s.held[:0], s.held[s.looked:]...)
	s.looked = 0
	return err
}

// scan passes the page on up to where the tag stands, and says whether it does.
func (s *scanner) scan() (Result, error) {
	z := html.NewTokenizer(s)
	z.SetMaxBuf(maxToken)
	for s.seen < maxHead {
		t := z.Next()
		if t == html.ErrorToken {
			return s.over(z.Err())
		}
		n := len(z.Raw())
		if s.seen == 0 && isWideBOM(s.held) {
			return Charset, nil
		}
		if r := s.look(t, z, s.held[s.looked:s.looked+n]); r != None {
			return r, s.pass()
		}
		s.looked += n
		s.seen += n
	}
	return NoPlace, s.pass()
}

// over says what becomes of a page whose tokens have ended.
func (s *scanner) over(err error) (Result, error) {
	switch {
	case errors.Is(err, html.ErrBufferExceeded):
		return NoPlace, s.pass()
	case !s.ended:
		return None, s.err
	case s.begun && s.within == "" && s.looked == len(s.held):
		return Inserted, s.pass() // a page without a body, which need not say so
	}
	return NoPlace, s.pass()
}

// look looks at a token; None: the tag stands further on.
func (s *scanner) look(t html.TokenType, z *html.Tokenizer, raw []byte) Result {
	switch t {
	case html.DoctypeToken:
		s.begun = true
	case html.TextToken:
		if s.within == "" && !blank(raw) {
			return s.here()
		}
	case html.StartTagToken, html.SelfClosingTagToken:
		name, more := z.TagName()
		return s.start(string(name), more, z)
	case html.EndTagToken:
		name, _ := z.TagName()
		return s.end(string(name))
	}
	return None
}

// here is the result where the head ends.
func (s *scanner) here() Result {
	if s.begun {
		return Inserted
	}
	return NoPlace
}

// start looks at the beginning of an element.
func (s *scanner) start(name string, more bool, z *html.Tokenizer) Result {
	if s.within != "" {
		if name == "template" && s.within == "template" {
			s.depth++
		}
		return None
	}
	switch name {
	case "html", "head", "meta", "base", "script", "title":
		s.begun = true
		return s.attributes(name, more, z)
	case "style", "noscript", "noframes", "template":
		s.within, s.depth = name, 1
	case "link", "basefont", "bgsound":
	case "body":
		return Inserted
	default:
		return s.here()
	}
	return None
}

// attributes looks at those elements of the head whose attributes matter.
func (s *scanner) attributes(name string, more bool, z *html.Tokenizer) Result {
	var isPolicy bool
	var content string
	for more {
		var key, value []byte
		key, value, more = z.TagAttr()
		switch string(key) {
		case "src":
			if name == "script" && string(bytes.TrimSpace(value)) == s.in.Script {
				return Already
			}
		case "href":
			s.rebased = s.rebased || name == "base"
		case "http-equiv":
			isPolicy = bytes.EqualFold(bytes.TrimSpace(value), []byte("Content-Security-Policy"))
		case "content":
			content = string(value)
		}
	}
	switch {
	case name == "script", name == "title":
		s.within, s.depth = name, 1
	case name == "meta" && isPolicy && !s.in.policy.permitsToo(content, s.in.site()):
		return Policy
	}
	return None
}

// end looks at the end of an element.
func (s *scanner) end(name string) Result {
	if s.within != "" {
		if name == s.within {
			if s.depth--; s.depth == 0 {
				s.within = ""
			}
		}
		return None
	}
	switch name {
	case "head", "body", "html", "br":
		return s.here()
	}
	return None
}

var bom = []byte("\xef\xbb\xbf")

// blank reports whether a text is white space alone, after which a head goes on.
func blank(text []byte) bool { return len(bytes.Trim(bytes.TrimPrefix(text, bom), " \t\r\n\f")) == 0 }

// isWideBOM reports whether a page begins like one in UTF-16.
func isWideBOM(b []byte) bool {
	return bytes.HasPrefix(b, []byte("\xfe\xff")) || bytes.HasPrefix(b, []byte("\xff\xfe"))
}
