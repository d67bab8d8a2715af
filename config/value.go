package config

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"

	"antirobot/duration"
)

// readValue reads one value of the file into the type of its key, or says in an operator's words why it can't. Values
// that do not fit are named only where they can't be secrets: numbers, durations and sizes.
func readValue(from, to reflect.Value) (any, error) {
	if !from.IsValid() {
		return nil, nil
	}
	data := from.Interface()
	switch t := to.Type(); {
	case t == durationType:
		return readDuration(data)
	case t == reflect.TypeFor[Listener]() && from.Kind() == reflect.String:
		return map[string]any{"address": data}, nil
	case t.Kind() == reflect.Int64:
		return readSize(data)
	case t.Kind() == reflect.Int:
		return readInteger(data)
	case t.Kind() == reflect.Float64:
		return readNumber(data)
	case t.Kind() == reflect.String && from.Kind() != reflect.String:
		return nil, wrongKind("a text", from, "; put it in quotes")
	case t.Kind() == reflect.Bool && from.Kind() != reflect.Bool:
		return nil, wrongKind("true or false", from, "")
	case t.Kind() == reflect.Slice && from.Kind() != reflect.Slice:
		return nil, wrongKind("a list", from, "; write [a, b], or a line that begins with - for each")
	case (t.Kind() == reflect.Struct || t.Kind() == reflect.Map) && from.Kind() != reflect.Map && t != from.Type():
		return nil, wrongKind("a section of keys", from, "")
	}
	return data, nil
}

// wrongKind names the expected kind and the actual one. The hint is given where a single value stands.
func wrongKind(want string, got reflect.Value, hint string) error {
	is := "text"
	switch got.Kind() {
	case reflect.Bool:
		is = "true or false"
	case reflect.Int, reflect.Int64, reflect.Uint64, reflect.Float64:
		is = "a number"
	case reflect.Slice:
		is, hint = "a list", ""
	case reflect.Map:
		is, hint = "a section", ""
	case reflect.Struct:
		is = "a date"
	}
	return fmt.Errorf("must be %s and is %s%s", want, is, hint)
}

// readDuration reads "90s", "1h30m", "7d", and a bare 0.
func readDuration(data any) (time.Duration, error) {
	switch v := data.(type) {
	case time.Duration:
		return v, nil
	case string:
		return duration.Parse(strings.TrimSpace(v))
	case int, int64, uint64, float64:
		if s := fmt.Sprint(v); s != "0" {
			return 0, duration.NoUnit(s)
		}
		return 0, nil
	}
	return 0, wrongKind("a duration such as 90s, 10m or 7d", reflect.ValueOf(data), "")
}

func readInteger(data any) (any, error) {
	switch v := data.(type) {
	case int, int64:
		return v, nil
	case float64:
		if v == math.Trunc(v) && math.Abs(v) < 1<<53 {
			return int64(v), nil // 1e6
		}
		return nil, fmt.Errorf("%v is not a whole number", v)
	case uint64:
		return nil, fmt.Errorf("%d is too large", v)
	}
	return nil, wrongKind("a whole number", reflect.ValueOf(data), "")
}

// readSize reads a whole number, or "64KiB", "10MB" and the like as bytes.
func readSize(data any) (any, error) {
	if text, ok := data.(string); ok {
		return parseSize(text)
	}
	return readInteger(data)
}

func readNumber(data any) (any, error) {
	switch v := data.(type) {
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return nil, errors.New("must be a finite number")
		}
		return v, nil
	case int, int64, uint64:
		return v, nil
	}
	return nil, wrongKind("a number", reflect.ValueOf(data), "")
}

// sizeUnits are the suffixes that a size may have, longest first.
var sizeUnits = []struct {
	suffix string
	bytes  int64
}{
	{"kib", 1 << 10},
	{"mib", 1 << 20},
	{"gib", 1 << 30},
	{"tib", 1 << 40},
	{"kb", 1e3},
	{"mb", 1e6},
	{"gb", 1e9},
	{"tb", 1e12},
	{"b", 1},
}

// parseSize reads a number of bytes: 4096, 64KiB, 10MB.
func parseSize(text string) (int64, error) {
	s := strings.ToLower(strings.TrimSpace(text))
	unit := int64(1)
	for _, u := range sizeUnits {
		if rest, ok := strings.CutSuffix(s, u.suffix); ok {
			s, unit = strings.TrimSpace(rest), u.bytes
			break
		}
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 0 || s[0] == '+' || n > math.MaxInt64/unit {
		return 0, fmt.Errorf("%.60q is not a number; a size is written in bytes, or with KiB, MiB or GiB", text)
	}
	return n * unit, nil
}
