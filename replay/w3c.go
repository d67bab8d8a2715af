package replay

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"time"

	"antirobot/verdict/words"
)

// The W3C extended format names its columns in a line of its own, which may come again with others:
//
//	#Fields: date time c-ip cs-method cs-uri-stem cs-uri-query sc-status cs(User-Agent) time-taken
//	2026-03-02 07:15:30 203.0.113.7 GET /cart id=1 200 Mozilla/5.0+(X11;+Linux+x86_64) 250
//
// https://www.w3.org/TR/WD-logfile. IIS writes spaces as "+" and time-taken in milliseconds
// (https://learn.microsoft.com/windows/win32/http/w3c-logging). CloudFront parts columns by tabs, encodes values as in
// URLs, and writes time-taken in seconds
// (https://docs.aws.amazon.com/AmazonCloudFront/latest/DeveloperGuide/standard-logs-reference.html). All times are UTC.

var errNoColumns = errors.New("has no #Fields line before it, which says what its columns are")

// columns is what the last directives of a W3C log said. The zero value knows none.
type columns struct {
	names  []string // in lower case
	index  map[string]int
	heads  []headColumn
	date   string // of #Date, for lines without one
	edge   bool   // CloudFront's
	values [][]byte
}

// headColumn is a column that holds a header field of requests.
type headColumn struct {
	name   []byte
	column string
}

const maxColumns = 256

func (c *columns) known() bool { return len(c.names) > 0 }

// isDirective reports whether a line is a directive, #Name: value.
func isDirective(line []byte) bool {
	name, _, ok := bytes.Cut(line, []byte(":"))
	return ok && len(name) > 1 && len(name) < 32 && name[0] == '#' && bytes.IndexByte(name, ' ') < 0
}

// beginsW3C reports whether a line begins with a date and a time in columns of their own, as nearly all W3C logs do.
func beginsW3C(line []byte) bool {
	return shaped(line, "0000-00-00 00:00:00 ") || shaped(line, "0000-00-00\t00:00:00\t")
}

func (c *columns) parse(r *Record, line []byte) error {
	if len(line) > 0 && line[0] == '#' {
		return c.directive(string(line))
	}
	if !c.known() {
		return errNoColumns
	}
	if err := c.split(r.reset(line)); err != nil {
		return err
	}
	return c.read(r)
}

func (c *columns) directive(line string) error {
	name, value, _ := strings.Cut(line, ":")
	switch strings.ToLower(name) {
	case "#date":
		c.date, _, _ = strings.Cut(strings.TrimSpace(value), " ")
	case "#fields":
		names := strings.Fields(strings.ToLower(value))
		if len(names) == 0 || len(names) > maxColumns {
			return fmt.Errorf("names no columns, or more than %d", maxColumns)
		}
		*c = columns{names: names, index: make(map[string]int, len(names)), date: c.date, values: c.values}
		for i, n := range names {
			if _, twice := c.index[n]; twice {
				continue
			}
			c.index[n] = i
			if head, ok := strings.CutPrefix(n, "cs("); ok && n != "cs(host)" {
				c.heads = append(c.heads, headColumn{[]byte(strings.TrimSuffix(head, ")")), n})
			}
		}
		_, c.edge = c.index["x-edge-location"]
	}
	return errNoRequest
}

// split parts a line into its values, by tabs or by spaces, whichever comes first: the other may stand in what a
// visitor has sent.
func (c *columns) split(line []byte) error {
	c.values = c.values[:0]
	by, n := byte(' '), 0
	if i := bytes.IndexAny(line, " \t"); i >= 0 {
		by = line[i]
	}
	for v := range bytes.SplitSeq(line, []byte{by}) {
		if len(v) == 0 && by == ' ' {
			continue
		}
		if n++; n <= len(c.names) {
			c.values = append(c.values, v)
		}
	}
	if n != len(c.names) {
		return errors.New(words.Sprintf(words.English, "has %d {column|columns}, and #Fields names %d", n,
			len(c.names)))
	}
	return nil
}

// bad describes an invalid value of a column that every line must have.
func (c *columns) bad(name string) error {
	if !c.has(name) {
		return fmt.Errorf("has no %s, since #Fields does not name it", name)
	}
	return badField(name, c.get(name))
}

// get returns the first value that is present and not "-"; nil if there is none.
func (c *columns) get(names ...string) []byte {
	for _, n := range names {
		if i, ok := c.index[n]; ok && !isDash(c.values[i]) {
			return c.values[i]
		}
	}
	return nil
}

// text is get for values in which spaces were written otherwise.
func (c *columns) text(names ...string) []byte {
	v := c.get(names...)
	if !c.edge {
		return spacesForPluses(v)
	}
	if v = unpercent(v); bytes.Contains(v, []byte("%20")) {
		v = unpercent(v) // CloudFront has encoded some fields twice
	}
	return v
}

// spacesForPluses undoes what IIS writes for spaces, in place. Of two, as in "compatible;++http://", the second was a
// plus.
func spacesForPluses(b []byte) []byte {
	for i := 0; i < len(b); i++ {
		if b[i] == '+' {
			b[i] = ' '
			if i+1 < len(b) && b[i+1] == '+' {
				i++
			}
		}
	}
	return b
}

// unpercent undoes %HH in place.
func unpercent(b []byte) []byte { return unhex(b, '%') }

// unhex undoes two hexadecimal digits behind a mark, in place.
func unhex(b []byte, mark byte) []byte {
	out := b[:0]
	for i := 0; i < len(b); i++ {
		if b[i] == mark && i+2 < len(b) {
			if c, ok := hexByte(b[i+1 : i+3]); ok {
				out = append(out, c)
				i += 2
				continue
			}
		}
		out = append(out, b[i])
	}
	return out
}

func (c *columns) read(r *Record) error {
	r.Method, r.Target = c.get("cs-method"), c.target()
	switch {
	case !c.has("cs-method"):
		return c.bad("cs-method")
	case !c.has("cs-uri-stem") && !c.has("cs-uri"):
		return c.bad("cs-uri-stem")
	case !isMethod(r.Method) || len(r.Target) == 0:
		return errNoRequest
	}
	if err := c.began(r); err != nil {
		return err
	}
	var ok bool
	if r.Addr, ok = parseAddr(c.get("c-ip")); !ok {
		return c.bad("c-ip")
	}
	if !c.edge { // CloudFront's c-ip is the visitor's; what the visitor says of itself is in the other column
		r.forwarded(c.text("x-forwarded-for", "cs(x-forwarded-for)"))
	}
	if r.Answer.Status, ok = parseStatus(c.get("sc-status")); !ok {
		return c.bad("sc-status")
	}
	r.Answer.Bytes = parseCount(c.get("sc-bytes"))
	r.Answer.ContentType = c.text("sc-content-type", "sc(content-type)")
	r.User = c.text("cs-username")
	r.Host = c.get("x-host-header", "cs-host", "cs(host)")
	r.TLS = string(c.get("cs-protocol")) == "https" || string(c.get("s-port")) == "443"
	r.HTTP10 = string(c.get("cs-version", "cs-protocol-version")) == "HTTP/1.0"
	c.identify(r)
	c.fields(r)
	return nil
}

func (c *columns) has(name string) bool {
	_, ok := c.index[name]
	return ok
}

func (c *columns) target() []byte {
	t := c.get("cs-uri-stem", "cs-uri")
	if q := c.get("cs-uri-query"); q != nil && t != nil {
		t = append(append(append(make([]byte, 0, len(t)+1+len(q)), t...), '?'), q...)
	}
	return t
}

// began works out when a request began: servers log when they answered it.
func (c *columns) began(r *Record) error {
	date := string(c.get("date"))
	if date == "" {
		date = c.date
	}
	if date == "" {
		return errors.New("has no date: neither a column, nor #Date before it")
	}
	if !c.has("time") {
		return c.bad("time")
	}
	at, err := time.Parse("2006-01-02 15:04:05", date+" "+string(c.get("time")))
	if err != nil || at.Year() < 1970 {
		return badField("date and time", []byte(date+" "+string(c.get("time"))))
	}
	if took := c.get("time-taken"); took != nil {
		seconds := parseFloat(took)
		if !c.edge && bytes.IndexByte(took, '.') < 0 { // IIS; the others write seconds, as the format says
			seconds /= 1000
		}
		r.Answer.Took = clampTook(seconds)
	}
	r.At = at
	r.began()
	return nil
}

func (c *columns) fields(r *Record) {
	for i := range c.heads {
		h := &c.heads[i]
		if string(h.name) == "referer" { // an address has no spaces, and is written as it is
			r.field(h.name, c.get(h.column))
		} else {
			r.field(h.name, c.text(h.column))
		}
	}
}

// identify finds the visitor, and whether it is signed in.
func (c *columns) identify(r *Record) {
	c.find(r, r.from)
	c.find(r, r.signs)
}

func (c *columns) find(r *Record, i *Identity) {
	switch {
	case i == nil || !i.somewhere():
	case i.cookie != "":
		v := c.get("cs(cookie)")
		if c.edge {
			v = unpercent(bytes.Clone(v))
		} else {
			v = bytes.ReplaceAll(v, []byte(";+"), []byte("; "))
		}
		r.take(i, cookieOf(v, i.cookie))
	case i.column > 0:
		if i.column <= len(c.values) {
			r.take(i, c.values[i.column-1])
		}
	case i.key != "":
		r.take(i, c.get(strings.ToLower(i.key)))
	default:
		r.take(i, r.User)
	}
}
