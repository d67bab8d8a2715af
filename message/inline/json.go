package inline

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"
)

const (
	maxDepth  = 32     // of values in values
	maxValues = 20_000 // of one body
)

// object keeps the members of a JSON object as they stand: a name may be there more than once, and services differ in
// which one they read.
type object []member

type member struct {
	name  string
	value any
}

var errNotJSON = errors.New("the body is not JSON")

// parseJSON reads one value with nothing after it: nil, bool, json.Number, string, []any or object.
func parseJSON(body []byte) (any, error) {
	if !utf8.Valid(body) {
		return nil, errors.New("the body is not UTF-8")
	}
	dec := json.NewDecoder(bytes.NewReader(bytes.TrimPrefix(body, []byte("\ufeff"))))
	dec.UseNumber()
	r := jsonReader{dec, maxValues}
	v, err := r.value(0)
	if err != nil {
		return nil, err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("something follows the value")
	}
	return v, nil
}

type jsonReader struct {
	dec  *json.Decoder
	left int // values
}

func (r *jsonReader) value(depth int) (any, error) {
	tok, err := r.dec.Token()
	if err != nil {
		return nil, errNotJSON
	}
	if r.left--; r.left < 0 {
		return nil, errors.New("too many values")
	}
	open, ok := tok.(json.Delim)
	if !ok {
		return tok, nil
	}
	if depth++; depth > maxDepth {
		return nil, errors.New("values are too deep")
	}
	list, members := []any{}, object{}
	for r.dec.More() {
		var m member
		if open == '{' {
			tok, err := r.dec.Token()
			if err != nil {
				return nil, errNotJSON
			}
			m.name, _ = tok.(string)
		}
		if m.value, err = r.value(depth); err != nil {
			return nil, err
		}
		if open == '{' {
			members = append(members, m)
		} else {
			list = append(list, m.value)
		}
	}
	if _, err := r.dec.Token(); err != nil {
		return nil, errNotJSON
	}
	if open == '{' {
		return members, nil
	}
	return list, nil
}

// pointed appends the texts and numbers that a JSON pointer leads to.
func pointed(v any, pointer string, out []string) []string {
	if pointer == "" {
		switch v := v.(type) {
		case string:
			return append(out, v)
		case json.Number:
			return append(out, v.String())
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
	case object:
		for i := len(v) - 1; i >= 0; i-- {
			if v[i].name == step {
				return pointed(v[i].value, rest, out)
			}
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
