package insert

import (
	"bytes"
	"errors"
	"io"
	"sync"

	"golang.org/x/net/html"
)

// maxToken bounds a buffered token of the head; maxHead the head.
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

// onlyReader makes io.CopyBuffer use its buffer.
type onlyReader struct{ io.Reader }

// scanner reads a page until it finds the place of the tag. Scanned bytes are written before further reads.
type scanner struct {
	in      *Insertion
	r       io.Reader
	held    []byte // unwritten
	looked  int    // scanned
	err     error  // or io.EOF
	ended   bool
	seen    int
	begun   bool   // not a fragment
	rebased bool   // has a base URL
	within  string // element whose content is skipped; empty: none
	depth   int    // of templates
}

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

// pass writes scanned bytes.
func (s *scanner) pass() error {
	_, err := s.in.Write(s.held[:s.looked])
	s.held = append(s.held[:0], s.held[s.looked:]...)
	s.looked = 0
	return err
}

// scan writes the page up to the place of the tag.
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

func (s *scanner) over(err error) (Result, error) {
	switch {
	case errors.Is(err, html.ErrBufferExceeded):
		return NoPlace, s.pass()
	case !s.ended:
		return None, s.err
	case s.begun && s.within == "" && s.looked == len(s.held):
		return Inserted, s.pass() // body tags are optional
	}
	return NoPlace, s.pass()
}

// look examines a token; None: go on.
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

func (s *scanner) here() Result {
	if s.begun {
		return Inserted
	}
	return NoPlace
}

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

// blank reports whether text is white space, which may be in a head.
func blank(text []byte) bool { return len(bytes.Trim(bytes.TrimPrefix(text, bom), " \t\r\n\f")) == 0 }

func isWideBOM(b []byte) bool {
	return bytes.HasPrefix(b, []byte("\xfe\xff")) || bytes.HasPrefix(b, []byte("\xff\xfe"))
}
