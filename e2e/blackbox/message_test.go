package blackbox

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
)

// Field is one header line.
type Field struct{ Name, Value string }

// Fields are header lines in their order.
type Fields []Field

// All returns the values of name, compared without case.
func (f Fields) All(name string) (out []string) {
	for _, x := range f {
		if strings.EqualFold(x.Name, name) {
			out = append(out, x.Value)
		}
	}
	return out
}

// Get returns all values of name, joined.
func (f Fields) Get(name string) string { return strings.Join(f.All(name), ", ") }

// Has reports whether name is there.
func (f Fields) Has(name string) bool { return len(f.All(name)) > 0 }

// Req is a request as the service saw it.
type Req struct {
	Conn     int // number of the service's connection within the case, from 1
	Head     string
	Method   string
	Target   string
	Proto    string
	Fields   Fields
	Body     string
	Trailer  Fields
	Complete bool
	Err      string // why it is no strict HTTP, or why its body is incomplete
}

// Resp is an answer as the client saw it.
type Resp struct {
	Head     string
	Proto    string
	Status   int
	Reason   string
	Fields   Fields
	Body     string
	Trailer  Fields
	Framing  string // none, length, chunked, close
	Complete bool
	Err      error  // why the body is incomplete
	Interim  []Resp // 1xx before it
}

var (
	requestLine = regexp.MustCompile(`^([!#$%&'*+\-.^_\x60|~0-9A-Za-z]+) (\S+) (HTTP/\d\.\d)$`)
	statusLine  = regexp.MustCompile(`^(HTTP/1\.[01]) (\d{3})(?: ([^\r\n\x00]*))?$`)
	fieldLine   = regexp.MustCompile(`^([!#$%&'*+\-.^_\x60|~0-9A-Za-z]+):[ \t]*([^\r\n\x00]*?)[ \t]*$`)
	digits      = regexp.MustCompile(`^[0-9]+$`)
	hexDigits   = regexp.MustCompile(`^[0-9A-Fa-f]{1,16}$`)
)

// readHeadBytes reads up to an empty line, with any kind of line ends.
func readHeadBytes(r *bufio.Reader) (string, error) {
	var b strings.Builder
	for {
		line, err := r.ReadString('\n')
		b.WriteString(line)
		if err != nil {
			return b.String(), err
		}
		if (line == "\r\n" || line == "\n") && strings.TrimSpace(b.String()) != "" {
			return b.String(), nil
		}
		if b.Len() > 4<<20 {
			return b.String(), errors.New("endless head")
		}
	}
}

// parseFields is strict: CRLF, tokens, no folding.
func parseFields(lines []string) (Fields, error) {
	var out Fields
	for _, l := range lines {
		if strings.ContainsAny(l, "\r\n\x00") {
			return out, fmt.Errorf("line %q holds a line end or NUL", l)
		}
		m := fieldLine.FindStringSubmatch(l)
		if m == nil {
			return out, fmt.Errorf("line %q is no field", clip(l))
		}
		out = append(out, Field{m[1], m[2]})
	}
	return out, nil
}

// headLines splits a strict head.
func headLines(head string) ([]string, error) {
	rest, ok := strings.CutSuffix(head, "\r\n\r\n")
	if !ok {
		return nil, errors.New("head does not end with CRLF CRLF")
	}
	return strings.Split(rest, "\r\n"), nil
}

// framing returns how long a body is: chunked, or length n; n is -1 if neither is given.
func framing(f Fields) (chunked bool, n int64, err error) {
	te, cl := f.All("Transfer-Encoding"), f.All("Content-Length")
	if len(te) > 0 && len(cl) > 0 {
		return false, 0, errors.New("Transfer-Encoding and Content-Length")
	}
	if len(te) > 0 {
		if len(te) > 1 || !strings.EqualFold(te[0], "chunked") {
			return false, 0, fmt.Errorf("Transfer-Encoding %q", te)
		}
		return true, -1, nil
	}
	if len(cl) == 0 {
		return false, -1, nil
	}
	if len(cl) > 1 || !digits.MatchString(cl[0]) {
		return false, 0, fmt.Errorf("Content-Length %q", cl)
	}
	n, err = strconv.ParseInt(cl[0], 10, 64)
	return false, n, err
}

// readChunked decodes strictly.
func readChunked(r *bufio.Reader) (body string, trailer Fields, err error) {
	var b strings.Builder
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return b.String(), nil, fmt.Errorf("chunk size: %w", io.ErrUnexpectedEOF)
		}
		size, ok := strings.CutSuffix(line, "\r\n")
		size, _, _ = strings.Cut(size, ";")
		if !ok || !hexDigits.MatchString(size) {
			return b.String(), nil, fmt.Errorf("chunk size line %q", clip(line))
		}
		n, err := strconv.ParseInt(size, 16, 64)
		if err != nil {
			return b.String(), nil, err
		}
		if n == 0 {
			break
		}
		if _, err := io.CopyN(&b, r, n); err != nil {
			return b.String(), nil, fmt.Errorf("chunk data: %w", io.ErrUnexpectedEOF)
		}
		var end [2]byte
		if _, err := io.ReadFull(r, end[:]); err != nil {
			return b.String(), nil, fmt.Errorf("chunk end: %w", io.ErrUnexpectedEOF)
		}
		if string(end[:]) != "\r\n" {
			return b.String(), nil, fmt.Errorf("chunk ends with %q", end)
		}
	}
	var lines []string
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return b.String(), nil, fmt.Errorf("trailer: %w", io.ErrUnexpectedEOF)
		}
		l, ok := strings.CutSuffix(line, "\r\n")
		if !ok {
			return b.String(), nil, fmt.Errorf("trailer line %q", clip(line))
		}
		if l == "" {
			break
		}
		lines = append(lines, l)
	}
	trailer, err = parseFields(lines)
	return b.String(), trailer, err
}

func parseRequestHead(head string) *Req {
	q := &Req{Head: head}
	bad := func(format string, args ...any) *Req {
		if q.Err == "" {
			q.Err = fmt.Sprintf(format, args...)
		}
		return q
	}
	lines, err := headLines(head)
	if err != nil {
		return bad("%v", err)
	}
	m := requestLine.FindStringSubmatch(lines[0])
	if m == nil {
		return bad("request line %q", clip(lines[0]))
	}
	q.Method, q.Target, q.Proto = m[1], m[2], m[3]
	if q.Fields, err = parseFields(lines[1:]); err != nil {
		return bad("%v", err)
	}
	if _, _, err := framing(q.Fields); err != nil {
		return bad("framing: %v", err)
	}
	if n := len(q.Fields.All("Host")); n != 1 {
		return bad("%d Host fields", n)
	}
	return q
}

// parseResponseHead is strict: what a client gets must be flawless.
func parseResponseHead(head string) (*Resp, error) {
	lines, err := headLines(head)
	if err != nil {
		return nil, fmt.Errorf("%w: %q", err, clip(head))
	}
	m := statusLine.FindStringSubmatch(lines[0])
	if m == nil {
		return nil, fmt.Errorf("status line %q", clip(lines[0]))
	}
	p := &Resp{Head: head, Proto: m[1], Reason: m[3]}
	p.Status, _ = strconv.Atoi(m[2])
	if p.Fields, err = parseFields(lines[1:]); err != nil {
		return nil, err
	}
	if _, _, err := framing(p.Fields); err != nil {
		return nil, fmt.Errorf("answer: %w", err)
	}
	return p, nil
}

func clip(s string) string {
	if len(s) > 200 {
		return s[:150] + "…" + s[len(s)-40:]
	}
	return s
}
