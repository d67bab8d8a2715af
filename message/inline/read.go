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

// reader parses a body once for all sources.
type reader struct {
	in     Input
	limits Config

	expanded  []byte
	form      fields
	multipart fields
	json      []any // in each charset that it may be in
	parsed    map[string]bool
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
		v, err := parseForm(r.in.Query, "", r.limits.Charset)
		return v.of(s.Key), err
	case "header":
		if r.in.Header != nil {
			for _, v := range r.in.Header(s.Key) {
				f.values = append(f.values, headerText(v))
			}
		}
		f.twice = len(f.values) > 1
		return f, nil
	}
	media, params, _ := mime.ParseMediaType(r.in.ContentType)
	if !speaks(media, s.From) {
		return f, nil
	}
	if err := r.parse(s.From, params); err != nil {
		return f, err
	}
	switch s.From {
	case "form":
		return r.form.of(s.Key), nil
	case "multipart":
		return r.multipart.of(s.Key), nil
	}
	f.json, f.twice = true, len(r.json) > 1
	for _, v := range r.json {
		f.point(v, s.Key)
	}
	return f, nil
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

func (r *reader) parse(from string, params map[string]string) (err error) {
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
		r.form, err = parseForm(string(r.expanded), params["charset"], r.limits.Charset)
		err = r.andQuery(&r.form, err)
	case "multipart":
		r.multipart, err = parseMultipart(r.expanded, params["boundary"], params["charset"], r.limits.Charset)
		err = r.andQuery(&r.multipart, err)
	default:
		r.json, err = parseReadings(r.expanded, params["charset"], r.limits.Charset)
	}
	if r.parsed == nil {
		r.parsed = make(map[string]bool)
	}
	r.parsed[from] = err == nil
	return err
}

// andQuery adds the fields of the query to those of a body that was read: many services look up a field in both, and
// some prefer the query's.
func (r *reader) andQuery(f *fields, err error) error {
	if err != nil || r.in.Query == "" {
		return err
	}
	query, err := parseForm(r.in.Query, "", r.limits.Charset)
	*f = append(*f, query...)
	return err
}

// expand undoes a content encoding, within the limits.
func expand(body []byte, encoding string, limits Config) ([]byte, error) {
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
		return nil, fmt.Errorf("%w: content encoding %q", ErrUnreadable, rules.Clip(encoding, 32))
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
