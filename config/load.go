package config

import (
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/go-viper/mapstructure/v2"

	"antirobot/problem"
)

// Read reads the file alone, without environment and flags, or only the defaults if there is none, applies overrides, and returns the whole
// configuration, or every error in it with its path.
func Read(file string, override func(*Config)) (*Config, error) {
	if file == "" {
		return decode(nil, override)
	}
	data, err := readBounded(file)
	if err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	cfg, problems := Parse(data, override)
	if len(problems) > 0 {
		return nil, &Error{File: file, Problems: problems}
	}
	return cfg, nil
}

func readBounded(file string) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, MaxBytes+1))
}

// Parse turns the bytes of a configuration file into a Config, or says everything that is wrong in them.
func Parse(data []byte, override func(*Config)) (*Config, []string) {
	d, err := parseDocument(data)
	if err != nil {
		return nil, problem.Lines(err)
	}
	return new(Sources).assemble(d, override)
}

// decode turns values into a Config over the defaults. Unknown keys are errors; all errors come at once.
func decode(values map[string]any, override func(*Config)) (*Config, error) {
	cfg := Default()
	err := overlay(values, &cfg, "")
	if override != nil {
		override(&cfg)
	}
	if len(cfg.TLS.ACME.Hosts) > 0 && reflect.DeepEqual(cfg.Listen, Default().Listen) { // a whole site on one machine
		cfg.Listen = []Listener{{Address: ":443", ACME: true}, {Address: ":80", RedirectHTTPS: true}}
	}
	unread := problem.Lines(errors.Join(err, cfg.resolveServices()))
	problems := oneOfEach(append(unread, withoutBelow(problem.Lines(cfg.Validate()), unread)...))
	return &cfg, problemsAt("", redacted(problems))
}

// overlay writes the keys that values has over what dst holds; lists are replaced, structures are merged. path is
// put before each error.
func overlay(values map[string]any, dst any, path string) error {
	d, err := mapstructure.NewDecoder(&mapstructure.DecoderConfig{
		Result:      dst,
		ErrorUnused: true,
		ZeroFields:  true, // replaces lists instead of merging them by index
		DecodeHook:  mapstructure.DecodeHookFuncValue(readValue),
	})
	if err != nil {
		return err
	}
	return decodeProblems(path, reflect.TypeOf(dst).Elem(), d.Decode(withoutNulls(values)))
}

// withoutNulls returns values without the sections that have no value: they keep their defaults.
func withoutNulls(values map[string]any) map[string]any {
	kept := make(map[string]any, len(values))
	for k, v := range values {
		switch v := v.(type) {
		case nil:
		case map[string]any:
			kept[k] = withoutNulls(v)
		default:
			kept[k] = v
		}
	}
	return kept
}

// A problem of mapstructure's begins with the quoted name of the field, or of the type at the root.
var decodeProblem = regexp.MustCompile(`^'([^']*)' (.*)$`)

// decodeProblems rewrites err, a decoding error, as one error for each problem that begins with the key's path.
func decodeProblems(path string, root reflect.Type, err error) error {
	if err == nil {
		return nil
	}
	var errs []error
	add := func(at, text string) {
		errs = append(errs, errors.New(problem.Below(path, at)+": "+text))
	}
	for _, line := range problem.Lines(err) {
		line = strings.TrimPrefix(strings.TrimSpace(line), "* ")
		m := decodeProblem.FindStringSubmatch(line)
		if m == nil {
			if line != "" && !strings.HasPrefix(line, "decoding failed") {
				add("", line)
			}
			continue
		}
		name, text := m[1], m[2]
		if name == root.String() {
			name = ""
		}
		keys, unknown := strings.CutPrefix(text, "has invalid keys: ")
		if !unknown {
			add(name, text)
			continue
		}
		section := sectionAt(root, name)
		for key := range strings.SplitSeq(keys, ", ") {
			add(problem.Below(name, key), unknownKey(section, problem.Below(path, name), key))
		}
	}
	return errors.Join(errs...)
}

// unknownKey says of a key that the section at a path does not have what may have been meant, or else what it has.
func unknownKey(section reflect.Type, at, name string) string {
	if section == nil {
		return "unknown key"
	}
	if meant := suggest(section, name); meant != "" {
		return "unknown key; did you mean " + meant + "?"
	}
	var names []string
	path := strings.Contains(at, ".paths[")
	if path {
		names = append(names, pathPrefix)
	}
	for _, k := range keysOf(section) {
		if (path || at == "defaults") && slices.Contains([]string{"name", "hosts", "prefixes", "paths"}, k.name) {
			continue // of a whole service
		}
		names = append(names, k.name)
	}
	return "unknown key; the keys here are " + strings.Join(names, ", ")
}
