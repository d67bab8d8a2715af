package rpc

import (
	"encoding/json"
	"errors"
	"strconv"
	"strings"

	"antirobot/message/jsonvalue"
)

// parseJSON reads one value with nothing after it: nil, bool, int64, float64, string, []any or map[string]any. Of a
// repeated name the last value counts.
func parseJSON(body []byte) (any, error) {
	v, err := jsonvalue.Parse(body)
	if err != nil {
		return nil, err
	}
	return plain(v)
}

// plain makes numbers and maps of a value's numbers and objects, its lists in place.
func plain(v any) (any, error) {
	var err error
	switch v := v.(type) {
	case json.Number:
		return number(v)
	case []any:
		for i := range v {
			if v[i], err = plain(v[i]); err != nil {
				return nil, err
			}
		}
	case jsonvalue.Object:
		out := make(map[string]any, len(v))
		for _, m := range v {
			if out[m.Name], err = plain(m.Value); err != nil {
				return nil, err
			}
		}
		return out, nil
	}
	return v, nil
}

func number(n json.Number) (any, error) {
	text := n.String()
	if !strings.ContainsAny(text, ".eE") {
		if i, err := strconv.ParseInt(text, 10, 64); err == nil {
			return i, nil
		}
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return nil, errors.New("a number is too big")
	}
	return f, nil
}
