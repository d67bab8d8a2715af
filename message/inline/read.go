package inline

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"fmt"
	"io"
	"mime"
	"strings"

	"antirobot/rules"
)

type reader struct {
	in     Input
	limits Config

	content content
	fields  map[string]fields // of form and multipart
	json    []any
	parsed  map[string]bool
}

func (r *reader) read(s Source) (f found, err error) {
	switch s.From {
	case "subject":
		if r.in.Subject != "" {
			f.values = []string{r.in.Subject}
		}
		return f, nil
	case "address":
		if r.in.Address.IsValid() {
			f.values = []string{r.in.Address.String()}
		}
		return f, nil
	case "query":
		return r.query(s.Key)
	case "header":
		if r.in.Header != nil {
			for _, v := range r.in.Header(s.Key) {
				f.values = append(f.values, headerText(v))
			}
		}
		f.twice = len(f.values) > 1
		return f, nil
	}
	if !r.content.speaks(s.From) {
		return f, nil
	}
	if err := r.parse(s.From); err != nil {
		return f, err
	}
	if s.From != "json" {
		return r.fields[s.From].of(s.Key), nil
	}
	f.json, f.twice = true, len(r.json) > 1
	for _, v := range r.json {
		f.point(v, s.Key)
	}
	return f, nil
}

// query reads a field of the query, and of the body, where many services look first.
func (r *reader) query(key string) (f found, err error) {
	for _, from := range [...]string{"form", "multipart", "json"} {
		if len(r.in.Body) == 0 || !r.content.speaks(from) {
			continue
		}
		if err := r.parse(from); err != nil {
			return f, err
		}
		if from != "json" {
			return r.fields[from].of(key), nil
		}
	}
	v, err := parseForm(r.in.Query, nil, r.limits.Charset)
	f = v.of(key)
	of := len(f.values)
	for _, v := range r.json {
		f.point(v, "/"+strings.NewReplacer("~", "~0", "/", "~1").Replace(key))
	}
	f.twice = f.twice || of > 0 && len(f.values) > of
	return f, err
}

func newReader(in Input, limits Config) *reader {
	return &reader{
		in: in, limits: limits, content: readContent(in.ContentType), fields: make(map[string]fields),
		parsed: make(map[string]bool),
	}
}

// parse reads the body once, and a compressed one also as it stands: many services do not decompress.
func (r *reader) parse(from string) (err error) {
	if r.parsed[from] {
		return nil
	}
	named, err := r.content.charsets()
	if err != nil {
		return err
	}
	expanded, err := expand(r.in.Body, r.in.ContentEncoding, r.limits)
	if err != nil {
		return err
	}
	if err := r.parseBody(from, expanded, named); err != nil {
		return err
	}
	compressed := len(expanded) != len(r.in.Body) || !bytes.Equal(expanded, r.in.Body)
	if compressed && (from == "form" || from == "json" && looksJSON(r.in.Body) || from == "multipart" &&
		bytes.Contains(r.in.Body, []byte("--"+r.content.boundary))) {
		if err := r.parseBody(from, r.in.Body, named); err != nil {
			return err
		}
	}
	r.parsed[from] = true
	if from == "json" {
		return nil
	}
	// Many services look the fields of the query up with those of the body.
	query, err := parseForm(r.in.Query, nil, r.limits.Charset)
	r.fields[from] = append(r.fields[from], query...)
	return err
}

func (r *reader) parseBody(from string, body []byte, named charsets) (err error) {
	var more fields
	switch from {
	case "form":
		more, err = parseForms(body, named, r.limits.Charset)
	case "multipart":
		more, err = parseMultipart(body, r.content.boundary, named, r.limits.Charset)
	default:
		values, err := parseReadings(body, named, r.limits.Charset)
		r.json = append(r.json, values...)
		return err
	}
	r.fields[from] = append(r.fields[from], more...)
	return err
}

func expand(body []byte, encoding string, limits Config) ([]byte, error) {
	if int64(len(body)) > limits.MaxBody {
		return nil, ErrTooLarge
	}
	var from io.Reader
	var err error
	switch strings.ToLower(strings.TrimSpace(encoding)) {
	case "", "identity":
		if int64(len(body)) > expansion*limits.MaxBody {
			return nil, ErrTooLarge
		}
		return body[:len(body):len(body)], nil
	case "gzip", "x-gzip":
		from, err = gzip.NewReader(bytes.NewReader(body))
	case "deflate":
		if from, err = zlib.NewReader(bytes.NewReader(body)); err != nil {
			from, err = flate.NewReader(bytes.NewReader(body)), nil // without a frame
		}
	default:
		return nil, fmt.Errorf("%w: content encoding %q", ErrUnreadable, rules.Clip(encoding, 32))
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnreadable, err)
	}
	out, err := io.ReadAll(io.LimitReader(from, expansion*limits.MaxBody+1))
	if int64(len(out)) > expansion*limits.MaxBody {
		return nil, ErrTooLarge
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnreadable, err)
	}
	return out, nil
}

// OverrideFields are the header fields in which frameworks look for another method.
var OverrideFields = [...]string{"X-HTTP-Method-Override", "X-HTTP-Method", "X-Method-Override"}

const overrideField = "_method"

// HasFields says whether a body of this content type has fields that services look up by name.
func HasFields(contentType string) bool {
	c := readContent(contentType)
	return c.speaks("form") || c.speaks("multipart") || c.speaks("json")
}

// Overrides returns the methods that a request claims besides its own, in the header, the query or the body; some
// frameworks take the first of a list.
func (c Config) Overrides(in Input) (methods []string, err error) {
	query, err := parseForm(in.Query, nil, c.Charset)
	if err != nil {
		return nil, err
	}
	found := query.of(overrideField).values
	var sources []Source
	for _, name := range OverrideFields {
		sources = append(sources, Source{From: "header", Key: name})
	}
	for _, from := range []string{"form", "multipart"} {
		sources = append(sources, Source{From: from, Key: overrideField})
	}
	sources = append(sources, Source{From: "json", Key: "/" + overrideField})
	r := newReader(in, c)
	for _, s := range sources {
		f, err := r.read(s)
		if err != nil {
			return nil, err
		}
		found = append(found, f.values...)
	}
	for _, v := range found {
		for m := range strings.SplitSeq(v, ",") {
			methods = append(methods, strings.ToUpper(strings.TrimSpace(m)))
		}
	}
	return methods, nil
}

// FieldText is what a request says in one field.
type FieldText struct {
	Attribute string
	Text      string
	Several   bool // services differ in which value they read
}

// Texts reads the sources as texts, without a message domain. Absent ones are left out. Errors are ErrTooLarge and
// ErrUnreadable.
func (c Config) Texts(in Input) ([]FieldText, error) {
	if err := c.spoken(in); err != nil {
		return nil, err
	}
	r := newReader(in, c)
	var out []FieldText
	for _, s := range c.Sources {
		f, err := r.read(s)
		if err != nil {
			return out, err
		}
		if len(f.values) > 0 {
			out = append(out, FieldText{s.Attribute, strings.Join(f.values, "\n"), f.twice || len(f.values) > 1})
		}
	}
	return out, nil
}

type content struct {
	media    string
	boundary string
	named    []string
}

func readContent(contentType string) (c content) {
	media, params, err := mime.ParseMediaType(contentType)
	if err != nil && strings.Contains(contentType, ",") {
		return c
	}
	lower := strings.ToLower(contentType)
	c.media = media
	if strings.Count(lower, "boundary") == 1 && !strings.Contains(lower, "boundary*") && !strings.Contains(lower, `\`) {
		c.boundary = params["boundary"] // where all services find the same one
	}
	c.named = namedCharsets(contentType)
	return c
}

func namedCharsets(contentType string) (named []string) {
	for piece := range strings.SplitSeq(strings.ToLower(contentType), "charset") {
		if name, ok := strings.CutPrefix(strings.TrimLeft(piece, " *"), "="); ok {
			name, _, _ = strings.Cut(name, ";")
			named = append(named, name)
		}
	}
	return named
}

func (c *content) charsets() (named charsets, err error) {
	for _, name := range c.named {
		if named, err = named.and(name); err != nil {
			return nil, err
		}
	}
	return named, nil
}

func (c *content) speaks(from string) bool {
	switch from {
	case "form":
		return c.media == "application/x-www-form-urlencoded"
	case "multipart":
		return c.media == "multipart/form-data"
	default:
		return c.media == "application/json" || strings.HasSuffix(c.media, "+json") || c.media == "text/json"
	}
}

func looksJSON(body []byte) bool {
	body = bytes.TrimLeft(bytes.TrimPrefix(body, []byte("\ufeff")), " \t\r\n")
	return len(body) > 0 && (body[0] == '{' || body[0] == '[')
}

func parseForms(body []byte, named charsets, charset string) (out fields, err error) {
	if looksJSON(body) {
		return nil, fmt.Errorf("%w: a form that may be JSON", ErrUnreadable)
	}
	bodies := []string{string(body)}
	for _, name := range named {
		const probe = "&a="
		if text, err := decode(probe, name); err != nil || text == probe {
			continue // unknown charsets are refused with the values
		}
		text, err := decode(bodies[0], name)
		if err != nil {
			return nil, err
		}
		bodies = append(bodies, text)
	}
	for _, s := range bodies {
		more, err := parseForm(s, named, charset)
		if err != nil {
			return nil, err
		}
		out = append(out, more...)
	}
	return out, nil
}
