package message

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/htmlindex"

	"antirobot/rules"
)

// SourceConfig says where an attribute of a message is read from.
type SourceConfig struct {
	Attribute string `mapstructure:"attribute"`
	From      string `mapstructure:"from"` // form, json, multipart, query, header, subject or address
	Key       string `mapstructure:"key"`  // field, JSON pointer or header; "*" in a pointer stands for all elements
}

// InlineConfig says how the messages of a route are read.
type InlineConfig struct {
	Sources     []SourceConfig `mapstructure:"sources"`
	MaxBody     int64          `mapstructure:"max_body"`     // bytes as they are sent
	MaxExpanded int64          `mapstructure:"max_expanded"` // bytes after decompression
}

// DefaultInlineConfig returns limits, and no sources.
func DefaultInlineConfig() InlineConfig {
	return InlineConfig{MaxBody: 256 << 10, MaxExpanded: 1 << 20}
}

// Validate returns all errors of c with their paths.
func (c InlineConfig) Validate() error {
	v := validator{}
	if len(c.Sources) == 0 {
		v.addf("sources: there is none")
	}
	for i, s := range c.Sources {
		if s.Attribute == "" {
			v.addf("sources[%d].attribute: must be given", i)
		}
		switch s.From {
		case "form", "multipart", "query", "header":
			if s.Key == "" {
				v.addf("sources[%d].key: must be given", i)
			}
		case "json":
			if s.Key != "" && s.Key[0] != '/' {
				v.addf("sources[%d].key: a JSON pointer begins with /", i)
			}
		case "subject", "address":
		default:
			v.addf("sources[%d].from: %q is not form, json, multipart, query, header, subject or address", i, s.From)
		}
	}
	if c.MaxBody <= 0 {
		v.addf("max_body: must be greater than zero")
	}
	if c.MaxExpanded <= 0 {
		v.addf("max_expanded: must be greater than zero")
	}
	return errors.Join(v.errs...)
}

// What is wrong with a body that can't be read. What happens then is the route's config: nothing is skipped silently.
var (
	ErrTooLarge   = errors.New("the body is too large")
	ErrUnreadable = errors.New("the body is not readable")
)

// Input is the request that a message is read from. Nothing of it is changed or kept.
type Input struct {
	ContentType     string
	ContentEncoding string
	Body            []byte
	Query           string                     // raw
	Header          func(name string) []string // all values of a header field
	Subject         string                     // who asks, as kind:id
	Address         netip.Addr
}

const (
	maxFields = 1000 // of a form
	maxParts  = 100  // of a multipart body
)

// Values reads the values of a message of domain d, for System.Judge. What is not there is left out. Texts become what
// the attribute's type asks for, as HTTP has no types; a text that can't is ErrUnreadable. Several values of one field
// are joined by newlines, so that it does not matter which one the service reads.
func (c InlineConfig) Values(d *Domain, in Input) (map[string]any, error) {
	kinds, err := d.messages()
	if err != nil {
		return nil, err
	}
	if err := c.spoken(in); err != nil {
		return nil, err
	}
	r := inlineReader{in: in, limits: c}
	out := make(map[string]any, len(c.Sources))
	for _, s := range c.Sources {
		kind := rules.None
		for _, a := range kinds.attributes {
			if a.Name == s.Attribute {
				kind, _ = a.kind()
			}
		}
		if kind == rules.None {
			return nil, rules.Faultf(CodeProperty, "messages of the domain %s have no attribute %q", d.path, s.Attribute)
		}
		values, err := r.read(s)
		if err != nil {
			return nil, err
		}
		if len(values) == 0 {
			continue
		}
		if out[s.Attribute], err = shaped(kind, s, values); err != nil {
			return nil, fmt.Errorf("attribute %s: %w", s.Attribute, err)
		}
		if text, ok := out[s.Attribute].(string); ok && len(text) > kinds.maxText {
			return nil, fmt.Errorf("attribute %s: %w: the text has %d bytes", s.Attribute, ErrTooLarge, len(text))
		}
	}
	return out, nil
}

// spoken refuses a body of a type that none of the sources reads: the service may read it all the same.
func (c InlineConfig) spoken(in Input) error {
	if len(in.Body) == 0 {
		return nil
	}
	media, _, _ := mime.ParseMediaType(in.ContentType)
	reads := false
	for _, s := range c.Sources {
		switch s.From {
		case "form", "json", "multipart":
			if speaks(media, s.From) {
				return nil
			}
			reads = true
		}
	}
	if !reads {
		return nil
	}
	return fmt.Errorf("%w: content type %q", ErrUnreadable, cutText(in.ContentType, 64))
}

// Fingerprint is a hash of what a message says, the same when its sender sends it again: what depends on who asks, and
// how a body is written (boundaries, order, encodings), is not part of it.
func (c InlineConfig) Fingerprint(values map[string]any) [sha256.Size]byte {
	h := sha256.New()
	var n [8]byte
	text := func(s string) {
		binary.BigEndian.PutUint64(n[:], uint64(len(s)))
		h.Write(n[:])
		io.WriteString(h, s) //nolint:errcheck,gosec // a hash does not fail
	}
	for _, s := range c.Sources {
		if s.From == "subject" || s.From == "address" {
			continue
		}
		if v, ok := values[s.Attribute]; ok {
			text(s.Attribute)
			text(fmt.Sprint(v))
		}
	}
	return [sha256.Size]byte(h.Sum(nil))
}

// shaped turns what was read into a value of a kind.
func shaped(kind rules.Kind, s SourceConfig, values []string) (any, error) {
	switch kind {
	case rules.Int, rules.UniqueInt:
		n, err := strconv.ParseInt(trimText(values[0]), 10, 64)
		if err == nil {
			return n, nil
		}
		if kind == rules.UniqueInt && s.From != "json" {
			// Who it is matters and not the number: a name or a subject has one, too.
			var b [8]byte
			binary.BigEndian.PutUint64(b[:], hashString(values[0]))
			return int64(binary.BigEndian.Uint64(b[:]) >> 1), nil
		}
		return nil, fmt.Errorf("%w: not a whole number", ErrUnreadable)
	case rules.IP:
		addr, err := netip.ParseAddr(trimText(values[0]))
		if err != nil {
			return nil, fmt.Errorf("%w: not an address", ErrUnreadable)
		}
		return addr.WithZone(""), nil
	default:
		return strings.Join(values, "\n"), nil
	}
}

// inlineReader parses a body once for all sources.
type inlineReader struct {
	in     Input
	limits InlineConfig

	expanded  []byte
	form      url.Values
	multipart url.Values
	json      any
	parsed    map[string]bool
}

func (r *inlineReader) read(s SourceConfig) ([]string, error) {
	switch s.From {
	case "subject":
		if r.in.Subject == "" {
			return nil, nil
		}
		return []string{r.in.Subject}, nil
	case "address":
		if !r.in.Address.IsValid() {
			return nil, nil
		}
		return []string{r.in.Address.String()}, nil
	case "query":
		v, err := parseForm(r.in.Query, "")
		return v[s.Key], err
	case "header":
		var out []string
		if r.in.Header != nil {
			for _, v := range r.in.Header(s.Key) {
				out = append(out, headerText(v))
			}
		}
		return out, nil
	}
	media, params, _ := mime.ParseMediaType(r.in.ContentType)
	if !speaks(media, s.From) {
		return nil, nil
	}
	if err := r.parse(s.From, params); err != nil {
		return nil, err
	}
	switch s.From {
	case "form":
		return r.form[s.Key], nil
	case "multipart":
		return r.multipart[s.Key], nil
	default:
		return pointed(r.json, s.Key, nil), nil
	}
}

// speaks says whether a source reads bodies of this media type.
func speaks(media, from string) bool {
	switch from {
	case "form":
		return media == "application/x-www-form-urlencoded"
	case "multipart":
		return media == "multipart/form-data"
	default:
		return media == "application/json" || strings.HasSuffix(media, "+json") || media == "text/json"
	}
}

func (r *inlineReader) parse(from string, params map[string]string) (err error) {
	if r.parsed[from] {
		return nil
	}
	if r.expanded == nil {
		if r.expanded, err = expand(r.in.Body, r.in.ContentEncoding, r.limits); err != nil {
			return err
		}
	}
	switch from {
	case "form":
		r.form, err = parseForm(string(r.expanded), params["charset"])
	case "multipart":
		r.multipart, err = parseMultipart(r.expanded, params["boundary"], params["charset"])
	default:
		var text string
		if text, err = decodeCharset(string(r.expanded), params["charset"]); err == nil {
			if r.json, err = parseJSON([]byte(text)); err != nil {
				err = fmt.Errorf("%w: %w", ErrUnreadable, err)
			}
		}
	}
	if r.parsed == nil {
		r.parsed = make(map[string]bool)
	}
	r.parsed[from] = err == nil
	return err
}

// expand undoes a content encoding, within the limits.
func expand(body []byte, encoding string, limits InlineConfig) ([]byte, error) {
	if int64(len(body)) > limits.MaxBody {
		return nil, ErrTooLarge
	}
	var from io.Reader
	var err error
	switch strings.ToLower(strings.TrimSpace(encoding)) {
	case "", "identity":
		if int64(len(body)) > limits.MaxExpanded {
			return nil, ErrTooLarge
		}
		return body[:len(body):len(body)], nil // parsers copy what they keep
	case "gzip", "x-gzip":
		from, err = gzip.NewReader(bytes.NewReader(body))
	case "deflate":
		if from, err = zlib.NewReader(bytes.NewReader(body)); err != nil {
			from, err = flate.NewReader(bytes.NewReader(body)), nil // some send it without its frame
		}
	default:
		return nil, fmt.Errorf("%w: content encoding %q", ErrUnreadable, cutText(encoding, 32))
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnreadable, err)
	}
	out, err := io.ReadAll(io.LimitReader(from, limits.MaxExpanded+1))
	if int64(len(out)) > limits.MaxExpanded {
		return nil, ErrTooLarge
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnreadable, err)
	}
	return out, nil
}

// parseForm reads an urlencoded form. An escape that is wrong stays as it is. The field _charset_, which browsers fill
// in, is believed if nothing else names a charset.
func parseForm(s, charset string) (url.Values, error) {
	out := url.Values{}
	fields := strings.Split(s, "&")
	if len(fields) > maxFields {
		return nil, fmt.Errorf("%w: more than %d fields", ErrTooLarge, maxFields)
	}
	for _, f := range fields {
		if f == "" {
			continue
		}
		name, value, _ := strings.Cut(f, "=")
		name, value = unescape(name), unescape(value)
		if name == "_charset_" && charset == "" {
			charset = value
		}
		out[name] = append(out[name], value)
	}
	for _, values := range out {
		for i := range values {
			text, err := decodeCharset(values[i], charset)
			if err != nil {
				return nil, err
			}
			values[i] = text
		}
	}
	return out, nil
}

func unescape(s string) string {
	b := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '+':
			b = append(b, ' ')
		case s[i] == '%' && i+2 < len(s) && unhex(s[i+1]) >= 0 && unhex(s[i+2]) >= 0:
			b = append(b, byte(unhex(s[i+1])<<4|unhex(s[i+2])))
			i += 2
		default:
			b = append(b, s[i])
		}
	}
	return string(b)
}

func unhex(c byte) int {
	switch {
	case '0' <= c && c <= '9':
		return int(c - '0')
	case 'a' <= lowerByte(c) && lowerByte(c) <= 'f':
		return int(lowerByte(c) - 'a' + 10)
	}
	return -1
}

// decodeCharset turns s into UTF-8. Without a charset it is UTF-8 already, or, if it can't be, windows-1252. What does
// not fit becomes U+FFFD, as in a browser.
func decodeCharset(s, charset string) (string, error) {
	charset = strings.ToLower(strings.TrimSpace(charset))
	switch {
	case charset == "utf-8" || charset == "utf8":
		return strings.ToValidUTF8(s, "\ufffd"), nil
	case charset == "" && utf8.ValidString(s):
		return s, nil
	case charset == "":
		charset = "windows-1252"
	}
	enc, err := htmlindex.Get(charset)
	if err != nil {
		return "", fmt.Errorf("%w: charset %q", ErrUnreadable, cutText(charset, 32))
	}
	text, err := enc.NewDecoder().String(s)
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrUnreadable, err)
	}
	return text, nil
}

// headerText reads a header field: UTF-8, or Latin-1 where it can't be.
func headerText(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	text, err := charmap.ISO8859_1.NewDecoder().String(s)
	if err != nil {
		return strings.ToValidUTF8(s, "\ufffd")
	}
	return text
}

// parseMultipart reads the fields of a form with files; a field that says it is a file is read as well.
func parseMultipart(body []byte, boundary, charset string) (url.Values, error) {
	out := url.Values{}
	if boundary == "" {
		return nil, fmt.Errorf("%w: no boundary", ErrUnreadable)
	}
	r := multipart.NewReader(bytes.NewReader(body), boundary)
	for n := 0; ; n++ {
		part, err := r.NextPart()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrUnreadable, err)
		}
		if n == maxParts {
			return nil, fmt.Errorf("%w: more than %d parts", ErrTooLarge, maxParts)
		}
		value, err := io.ReadAll(part) // no longer than the body, whose length is bounded
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrUnreadable, err)
		}
		media, params, _ := mime.ParseMediaType(part.Header.Get("Content-Type"))
		if part.FileName() != "" && !strings.HasPrefix(media, "text/") && !utf8.Valid(value) {
			continue // a picture is no text
		}
		own := charset
		if params["charset"] != "" {
			own = params["charset"]
		}
		text, err := decodeCharset(string(value), own)
		if err != nil {
			return nil, err
		}
		out[part.FormName()] = append(out[part.FormName()], text)
	}
}

// pointed appends the texts and numbers that a JSON pointer leads to.
func pointed(v any, pointer string, out []string) []string {
	if pointer == "" {
		switch v := v.(type) {
		case string:
			return append(out, v)
		case int64:
			return append(out, strconv.FormatInt(v, 10))
		case float64:
			return append(out, strconv.FormatFloat(v, 'g', -1, 64))
		case bool:
			return append(out, strconv.FormatBool(v))
		}
		return out
	}
	step, rest, more := strings.Cut(pointer[1:], "/")
	if more {
		rest = "/" + rest
	}
	step = strings.ReplaceAll(strings.ReplaceAll(step, "~1", "/"), "~0", "~")
	switch v := v.(type) {
	case map[string]any:
		if next, ok := v[step]; ok {
			return pointed(next, rest, out)
		}
	case []any:
		if step == "*" {
			for _, next := range v {
				out = pointed(next, rest, out)
			}
			return out
		}
		if i, err := strconv.Atoi(step); err == nil && i >= 0 && i < len(v) && strconv.Itoa(i) == step {
			return pointed(v[i], rest, out)
		}
	}
	return out
}
