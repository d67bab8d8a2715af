package config

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"antirobot/problem"
)

// TestDocumentedYAML loads every YAML block of the documentation. A block may be a part of a configuration: the section
// that has its keys is found, and the rest filled in.
func TestDocumentedYAML(t *testing.T) {
	files := append(glob(t, "../docs/*.md", 3), "../README.md")
	blocks := 0
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range yamlBlock.FindAllSubmatchIndex(data, -1) {
			blocks++
			text := string(data[m[2]:m[3]])
			line := 1 + strings.Count(string(data[:m[2]]), "\n")
			if problems := loadFragment(t, text); len(problems) > 0 {
				t.Errorf("%s, the block in line %d: %s", filepath.Base(file), line, strings.Join(problems, "\n"))
			}
		}
	}
	if blocks < 12 {
		t.Errorf("only %d blocks were found", blocks)
	}
}

var yamlBlock = regexp.MustCompile("(?ms)^```yaml\n(.*?)^```$")

func loadFragment(t *testing.T, text string) []string {
	t.Helper()
	var fragment map[string]any
	if err := yaml.Unmarshal([]byte(text), &fragment); err != nil {
		return []string{err.Error()}
	}
	if hasKeys(reflect.TypeFor[Config](), fragment) {
		_, problems := Parse([]byte(text), nil)
		return problems
	}
	path := findSection(reflect.TypeFor[Config](), "", fragment)
	if path == "" {
		return []string{"no section has these keys"}
	}
	var values any = fragment
	steps := strings.Split(path, ".")
	for i := len(steps) - 1; i >= 0; i-- {
		values = map[string]any{steps[i]: values}
	}
	override := func(c *Config) { c.OverrideUpstreams([]string{"http://127.0.0.1:3000"}) }
	if _, err := decode(values.(map[string]any), override); err != nil {
		return problem.Lines(err)
	}
	return nil
}

func hasKeys(section reflect.Type, fragment map[string]any) bool {
	for name := range fragment {
		if typeOf(section, name) == nil {
			return false
		}
	}
	return true
}

func findSection(section reflect.Type, path string, fragment map[string]any) string {
	for _, k := range keysOf(section) {
		if !isSection(k.typ) {
			continue
		}
		at := problem.Below(path, k.name)
		if hasKeys(k.typ, fragment) {
			return at
		}
		if found := findSection(k.typ, at, fragment); found != "" {
			return found
		}
	}
	return ""
}

// TestDocumentedProblems: the problems that docs/configuration.md shows are what check-config says.
func TestDocumentedProblems(t *testing.T) {
	_, problems := Parse([]byte(`
# three slips
captcha:
  key_ttl: 10
services:
  - name: shop
    hosts: [www.example.com]
    upstream: {urls: [http://127.0.0.1:3000]}
    mode: observe
  - name: blog
    hosts:
      - www.example.com
    upstream: {urls: [http://127.0.0.1:3001]}
`), nil)
	data, err := os.ReadFile("../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	want := (&Error{File: "antirobot.yaml", Problems: problems}).Error()
	if !strings.Contains(string(data), want) {
		t.Errorf("docs/configuration.md does not show\n%s", want)
	}
}

// TestDocumentedKeys: every key that docs/configuration.md names with its section exists.
func TestDocumentedKeys(t *testing.T) {
	data, err := os.ReadFile("../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, m := range regexp.MustCompile("`([a-z_]+(?:\\.[a-z_]+)+)(?::[^`]*)?`").FindAllStringSubmatch(string(data), -1) {
		path := m[1]
		if strings.HasSuffix(path, ".json") || strings.HasSuffix(path, ".yaml") {
			continue
		}
		n++
		known := false
		for _, root := range []reflect.Type{reflect.TypeFor[Config](), serviceType} {
			i := strings.LastIndexByte(path, '.')
			if s := sectionAt(root, path[:i]); s != nil && typeOf(s, path[i+1:]) != nil {
				known = true
			}
		}
		if !known {
			t.Errorf("there is no key %s", path)
		}
	}
	if n < 10 {
		t.Errorf("only %d keys were found", n)
	}
}

func glob(t *testing.T, pattern string, least int) []string {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) < least {
		t.Fatalf("%d files are like %s, %v", len(files), pattern, err)
	}
	return files
}
