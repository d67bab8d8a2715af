package inline

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"antirobot/message/jsonvalue"
)

// parseReadings parses a body in each charset that it may be in, and without the bytes that are none of UTF-8, as services read it that leave
// these out.
func parseReadings(body []byte, named charsets, charset string) (out []any, err error) {
	texts, err := readings(string(body), named, charset)
	if err != nil {
		return nil, err
	}
	if !utf8.Valid(body) {
		texts = append(texts, strings.ToValidUTF8(string(body), ""))
	}
	var wrong error
	for _, text := range texts {
		v, err := jsonvalue.Parse([]byte(text))
		if err != nil {
			wrong = err
			continue
		}
		out = append(out, v)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%w: %w", ErrUnreadable, wrong)
	}
	return out, nil
}

// point adds what a JSON pointer leads to. Names are compared as folded does; one that occurs twice leads to each of its
// values. A name stands for all elements of a list. At the end lists and objects are all that is in them.
func (f *found) point(v any, pointer string) {
	if pointer == "" {
		f.leaves(v)
		return
	}
	step, rest, more := strings.Cut(pointer[1:], "/")
	if more {
		rest = "/" + rest
	}
	step = strings.ReplaceAll(strings.ReplaceAll(step, "~1", "/"), "~0", "~")
	switch v := v.(type) {
	case jsonvalue.Object:
		n := 0
		for _, m := range v {
			if step == "*" || folded(m.Name) == folded(step) {
				before := len(f.values)
				f.point(m.Value, rest)
				if len(f.values) > before {
					n++
				}
			}
		}
		f.twice = f.twice || n > 1 && step != "*"
	case []any:
		if i, err := strconv.Atoi(step); err == nil && i >= 0 && strconv.Itoa(i) == step {
			if i < len(v) {
				f.point(v[i], rest)
			}
			return
		}
		for _, next := range v {
			if step == "*" {
				f.point(next, rest)
			} else {
				f.point(next, pointer)
			}
		}
	}
}

// leaves adds all texts and numbers of a value.
func (f *found) leaves(v any) {
	switch v := v.(type) {
	case string:
		f.values = append(f.values, v)
	case json.Number:
		f.values = append(f.values, v.String())
	case bool:
		f.values = append(f.values, strconv.FormatBool(v))
	case []any:
		for _, next := range v {
			f.leaves(next)
		}
	case jsonvalue.Object:
		for _, m := range v {
			f.leaves(m.Value)
		}
	}
}
