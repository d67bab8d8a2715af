package main

import (
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"strings"

	"github.com/go-viper/mapstructure/v2"
	"github.com/spf13/viper"
)

// readConfig reads the file, or only the defaults if there is none, applies overrides, and returns the whole
// configuration, or every error in it with its path.
func readConfig(file string, override func(*Config)) (*Config, error) {
	v := viper.NewWithOptions(viper.KeyDelimiter("::"))
	if file != "" {
		v.SetConfigFile(file)
		v.SetConfigType("yaml")
		if err := v.ReadInConfig(); err != nil {
			return nil, fmt.Errorf("read %s: %w", file, err)
		}
	}
	cfg, err := decodeConfig(v.AllSettings(), override)
	if err != nil && file != "" {
		return nil, &ConfigError{File: file, Err: err}
	}
	return cfg, err
}

// decodeConfig turns settings into a Config over the defaults. Unknown keys are errors; all errors come at once.
func decodeConfig(settings map[string]any, override func(*Config)) (*Config, error) {
	cfg := DefaultConfig()
	var errs []error
	if err := overlay(settings, &cfg, ""); err != nil {
		errs = append(errs, err)
	}
	if override != nil {
		override(&cfg)
	}
	if err := cfg.resolveServices(); err != nil {
		errs = append(errs, err)
	}
	if err := cfg.Validate(); err != nil {
		errs = append(errs, err)
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return &cfg, nil
}

// overlay writes the keys that settings has over what dst holds; lists are replaced, structures are merged. path is
// put before each error.
func overlay(settings map[string]any, dst any, path string) error {
	d, err := mapstructure.NewDecoder(&mapstructure.DecoderConfig{
		Result:      dst,
		ErrorUnused: true,
		ZeroFields:  true, // replaces lists instead of merging them by index
		Squash:      true,
		DecodeHook: mapstructure.ComposeDecodeHookFunc(
			refuseNull,
			mapstructure.TextUnmarshallerHookFunc(),
			mapstructure.StringToTimeDurationHookFunc(),
			sizeHook,
		),
	})
	if err != nil {
		return err
	}
	return decodeProblems(path, reflect.TypeOf(dst).Elem().String(), d.Decode(settings))
}

// A problem of mapstructure's begins with the quoted name of the field, or of the type at the root.
var decodeProblem = regexp.MustCompile(`^'([^']*)' (.*)$`)

// decodeProblems rewrites err, a decoding error, as one error for each problem that begins with the key's path.
func decodeProblems(path, root string, err error) error {
	if err == nil {
		return nil
	}
	var errs []error
	add := func(at, text string) {
		if at == "" {
			at, text, _ = strings.Cut(text, ": ")
		}
		errs = append(errs, errors.New(joinPath(path, at)+": "+text))
	}
	for _, line := range configProblems(err) {
		line = strings.TrimPrefix(strings.TrimSpace(line), "* ")
		m := decodeProblem.FindStringSubmatch(line)
		if m == nil {
			if line != "" && !strings.HasPrefix(line, "decoding failed") {
				add("", line)
			}
			continue
		}
		name, text := m[1], m[2]
		if name == root {
			name = ""
		}
		keys, unknown := strings.CutPrefix(text, "has invalid keys: ")
		if !unknown {
			add(name, text)
			continue
		}
		for key := range strings.SplitSeq(keys, ", ") {
			if name != "" {
				key = name + "." + key
			}
			add(key, "unknown key")
		}
	}
	return errors.Join(errs...)
}

// refuseNull gives a key without a value the meaning "as by default" only where it is a section; elsewhere it is a slip.
func refuseNull(_, to reflect.Type, data any) (any, error) {
	if data == nil && to.Kind() != reflect.Struct && to.Kind() != reflect.Map && to.Kind() != reflect.Slice {
		return nil, errors.New("has no value")
	}
	return data, nil
}

// sizeHook reads "64KiB", "10MB" and the like into byte counts.
func sizeHook(from, to reflect.Type, data any) (any, error) {
	if from.Kind() != reflect.String || to.Kind() != reflect.Int64 || to.String() == "time.Duration" {
		return data, nil
	}
	text, _ := data.(string)
	return parseSize(text)
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

func parseSize(text string) (int64, error) {
	s := strings.ToLower(strings.TrimSpace(text))
	unit := int64(1)
	for _, u := range sizeUnits {
		if rest, ok := strings.CutSuffix(s, u.suffix); ok {
			s, unit = strings.TrimSpace(rest), u.bytes
			break
		}
	}
	var n int64
	if _, err := fmt.Sscanf(s, "%d", &n); err != nil || fmt.Sprint(n) != s || n < 0 || n > (1<<62)/unit {
		return 0, fmt.Errorf("%q is no size: write bytes, or a number with KiB, MiB, GiB", text)
	}
	return n * unit, nil
}

// ConfigError is a configuration that can't be used, with everything that is wrong in it.
type ConfigError struct {
	File string
	Err  error
}

func (e *ConfigError) Error() string {
	lines := configProblems(e.Err)
	return fmt.Sprintf("%s: %d problem(s)\n  %s", e.File, len(lines), strings.Join(lines, "\n  "))
}

func (e *ConfigError) Unwrap() error { return e.Err }

// configProblems returns one line for each problem in err.
func configProblems(err error) []string {
	if err == nil {
		return nil
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var lines []string
		for _, e := range joined.Unwrap() {
			lines = append(lines, configProblems(e)...)
		}
		return lines
	}
	return strings.Split(err.Error(), "\n")
}

// withPath puts path before each problem of err.
func withPath(path string, err error) error {
	if err == nil {
		return nil
	}
	var errs []error
	for _, line := range configProblems(err) {
		errs = append(errs, errors.New(joinPath(path, strings.TrimSpace(line))))
	}
	return errors.Join(errs...)
}

func joinPath(path, line string) string {
	if path == "" {
		return line
	}
	if strings.HasPrefix(line, "[") {
		return path + line
	}
	return path + "." + line
}
