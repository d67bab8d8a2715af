package config

import (
	"bytes"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"antirobot/problem"
)

// TestExampleBegins: the keys at the top of the file are a complete configuration, and few.
func TestExampleBegins(t *testing.T) {
	data, err := os.ReadFile("../config.example.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var lines []byte
	keys := 0
	_, data, _ = bytes.Cut(data, []byte("are a complete file:\n"))
	data, _, _ = bytes.Cut(data, []byte("# The reference follows"))
	for line := range bytes.Lines(data) {
		if text := bytes.TrimPrefix(line, []byte("#")); len(text) > 1 && text[0] != ' ' || bytes.HasPrefix(text, []byte("  ")) {
			lines = append(lines, text...)
			keys += len(regexp.MustCompile(`[a-z0-9_]+: `).FindAll(text, -1))
		}
	}
	if cfg := mustParse(t, lines); cfg.Services[0]["name"] != "shop" || keys > 45 {
		t.Errorf("%d keys, %v", keys, cfg.Services)
	}
}

// exampleParts returns the first part of config.example.yaml, and the larger example of its end without the #.
func exampleParts(t *testing.T) (defaults, larger []byte) {
	t.Helper()
	data, err := os.ReadFile("../config.example.yaml")
	if err != nil {
		t.Fatal(err)
	}
	defaults, rest, found := bytes.Cut(data, []byte("\n# A larger example."))
	if !found {
		t.Fatal("the larger example is gone")
	}
	for line := range bytes.Lines(rest) {
		if !bytes.HasPrefix(line, []byte("# ")) || bytes.HasPrefix(line, []byte("#  ")) {
			larger = append(larger, bytes.TrimPrefix(line, []byte("#"))...)
		}
	}
	_, larger, _ = bytes.Cut(larger, []byte("\n")) // what is left of the heading
	return defaults, larger
}

func mustParse(t *testing.T, data []byte) *Config {
	t.Helper()
	cfg, problems := Parse(data, nil)
	if len(problems) > 0 {
		t.Fatalf("%s", strings.Join(problems, "\n"))
	}
	return cfg
}

// TestExampleSaysTheDefaults compares the example with the defaults, value by value.
func TestExampleSaysTheDefaults(t *testing.T) {
	part, _ := exampleParts(t)
	cfg := mustParse(t, part)
	want := Default()
	cfg.Defaults, cfg.Services = nil, nil
	for _, key := range changedKeys(reflect.ValueOf(cfg).Elem(), reflect.ValueOf(want), "") {
		t.Errorf("%s differs from its default", key)
	}
	if n := len(cfg.Resolved); n != 1 {
		t.Fatalf("%d services", n)
	}
	service := defaultService()
	service.Name = "example"
	service.Upstream.URLs = []string{"http://127.0.0.1:3000"}
	for _, key := range changedKeys(reflect.ValueOf(cfg.Resolved[0]), reflect.ValueOf(service), "defaults") {
		t.Errorf("%s differs from its default", key)
	}
}

// TestExampleHasEveryKey walks the structs: a key that is nowhere in the file, or one of the first part that nobody
// explains, is an error. That none is unknown is what loading it says.
func TestExampleHasEveryKey(t *testing.T) {
	part, larger := exampleParts(t)
	mustParse(t, part)
	cfg := mustParse(t, larger)
	if len(cfg.Resolved) != 2 {
		t.Errorf("the larger example has %d services", len(cfg.Resolved))
	}

	first, both := map[string]bool{}, map[string]bool{}
	collectKeys(t, part, first)
	collectKeys(t, part, both)
	collectKeys(t, larger, both)

	keys := schemaKeys(reflect.TypeFor[Config](), "")
	if len(keys) < 200 {
		t.Fatalf("only %d keys: the walk does not see the structs", len(keys))
	}
	for _, key := range keys {
		ofEntry := strings.Contains(key, "[]")
		switch {
		case !both[key]:
			t.Errorf("%s is not in config.example.yaml", key)
		case !ofEntry && !first[key]:
			t.Errorf("%s is not in the first part of config.example.yaml", key)
		}
	}
}

// schemaKeys returns the path of every key, with [] for the entries of lists. What services and paths share with
// defaults is listed there, and what a key of a cookie may be is listed once, as are the keys of a section in itself.
func schemaKeys(section reflect.Type, path string) []string {
	var keys []string
	for _, k := range keysOf(section) {
		at := problem.Below(path, k.name)
		if section == serviceType {
			ofService := slices.Contains([]string{"name", "hosts", "prefixes", "paths"}, k.name)
			if ofService != (path == "services[]") {
				continue
			}
		}
		keys = append(keys, oneKeyRef.ReplaceAllString(at, "keys[]."))
		switch {
		case isSection(k.typ):
			keys = append(keys, schemaKeys(k.typ, at)...)
		case k.typ.Kind() == reflect.Slice && isSection(k.typ.Elem()) && k.name != "paths" && k.typ.Elem() != section:
			keys = append(keys, schemaKeys(k.typ.Elem(), at+"[]")...)
		}
	}
	return keys
}

var oneKeyRef = regexp.MustCompile(`^.*\.keys\[\]\.`)

// collectKeys notes the paths of the keys of a file. What a service or a path sets counts as a key of defaults too.
func collectKeys(t *testing.T, data []byte, into map[string]bool) {
	t.Helper()
	var root yaml.Node
	if err := yaml.Unmarshal(data, &root); err != nil {
		t.Fatal(err)
	}
	var walk func(n *yaml.Node, path string)
	walk = func(n *yaml.Node, path string) {
		switch n.Kind {
		case yaml.MappingNode:
			for i := 0; i < len(n.Content); i += 2 {
				at := problem.Below(path, n.Content[i].Value)
				into[oneKeyRef.ReplaceAllString(at, "keys[].")] = true
				for _, of := range []string{"services[].paths[].", "services[]."} {
					if rest, ok := strings.CutPrefix(at, of); ok {
						into["defaults."+rest] = true
						break
					}
				}
				walk(n.Content[i+1], at)
			}
		case yaml.SequenceNode:
			for _, c := range n.Content {
				walk(c, path+"[]")
			}
		}
	}
	walk(root.Content[0], "")
}
