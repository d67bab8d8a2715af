package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"

	"antirobot/problem"
)

// Bounds of a configuration file. Lists of millions of entries belong in files of their own.
const (
	MaxBytes       = 16 << 20
	maxConfigNodes = 2_000_000 // values, those of aliases counted at each use
)

// document is a YAML file that was read but not yet understood: its values, and the lines on which they stand.
type document struct {
	root     *yaml.Node // nil: the file is empty
	settings map[string]any
	problems []error
	visited  int
}

// parseDocument reads YAML. What is wrong with a single key is noted in problems and left out, so that the rest can be
// checked too; an error means that nothing can be read at all.
func parseDocument(data []byte) (*document, error) {
	if len(data) > MaxBytes {
		return nil, fmt.Errorf("the file has more than %d MiB; put long lists into files of their own (lists)",
			MaxBytes>>20)
	}
	d := &document{settings: map[string]any{}}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var file yaml.Node
	err := dec.Decode(&file)
	if errors.Is(err, io.EOF) {
		return d, nil
	}
	if err != nil {
		return nil, syntaxProblem(data, err)
	}
	var second yaml.Node
	if err := dec.Decode(&second); err == nil {
		return nil, fmt.Errorf("line %d: a second YAML document begins (---); a configuration has only one",
			second.Line)
	} else if !errors.Is(err, io.EOF) {
		return nil, syntaxProblem(data, err)
	}
	root := file.Content[0]
	if isNull(root) {
		return d, nil
	}
	if target(root).Kind != yaml.MappingNode {
		return nil, fmt.Errorf("line %d: a configuration consists of keys with values, such as log: {level: info}",
			root.Line)
	}
	if err := d.tidy(root, "", 0); err != nil {
		return nil, err
	}
	if err := root.Decode(&d.settings); err != nil {
		return nil, syntaxProblem(data, err)
	}
	d.root = root
	return d, nil
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Tag == "!!null" }

func target(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

// maxDepth is how deep sections may nest, aliases included: one that contains itself ends here.
const maxDepth = 64

// tidy removes keys that are duplicates or not strings, and notes them.
func (d *document) tidy(n *yaml.Node, path string, depth int) error {
	if d.visited++; d.visited > maxConfigNodes {
		return fmt.Errorf("more than %d values", maxConfigNodes)
	}
	if depth > maxDepth {
		return fmt.Errorf("line %d: nested more than %d deep, or an alias that contains itself", n.Line, maxDepth)
	}
	n = target(n)
	switch n.Kind {
	case yaml.MappingNode:
		return d.tidyMapping(n, path, depth)
	case yaml.SequenceNode:
		for i, c := range n.Content {
			if err := d.tidy(c, fmt.Sprintf("%s[%d]", path, i), depth+1); err != nil {
				return err
			}
		}
	}
	return nil
}

func (d *document) tidyMapping(n *yaml.Node, path string, depth int) error {
	first := map[string]int{}
	kept := make([]*yaml.Node, 0, len(n.Content))
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := target(n.Content[i]), n.Content[i+1]
		switch name := strings.ToLower(k.Value); {
		case k.Kind != yaml.ScalarNode || k.ShortTag() != "!!str" && k.ShortTag() != "!!merge":
			d.note(path, "line %d: a key must be a name", n.Content[i].Line)
			continue
		case first[name] != 0:
			d.note(problem.Below(path, name), "given twice, on the lines %d and %d", first[name], k.Line)
			continue
		default:
			first[name] = k.Line
			if err := d.tidy(v, problem.Below(path, name), depth+1); err != nil {
				return err
			}
		}
		kept = append(kept, n.Content[i], v)
	}
	n.Content = kept
	return nil
}

func (d *document) note(path, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if path != "" {
		text = path + ": " + text
	}
	d.problems = append(d.problems, errors.New(text))
}

// findNulls notes the keys of a section that have no value. A section without a value has its defaults; for anything
// else it is a mistake: an unfinished line, or a list whose lines are all comments. It notes unknown sections without a
// value, too, since nothing of them is left to be decoded.
func (d *document) findNulls(n *yaml.Node, t reflect.Type, path string) {
	if d.visited++; n == nil || d.visited > 2*maxConfigNodes {
		return
	}
	switch n = target(n); {
	case n.Kind == yaml.MappingNode && isSection(t):
		for i := 0; i+1 < len(n.Content); i += 2 {
			name, v := strings.ToLower(n.Content[i].Value), n.Content[i+1]
			if name == "<<" {
				d.findNulls(v, t, path)
			} else if vt := typeOf(t, name); vt != nil {
				d.findNulls(v, vt, problem.Below(path, name))
			} else if isEmpty(v) {
				d.note(problem.Below(path, name), "%s", unknownKey(t, path, name))
			}
		}
	case n.Kind == yaml.SequenceNode && t.Kind() == reflect.Slice:
		for i, c := range n.Content {
			d.findNulls(c, t.Elem(), fmt.Sprintf("%s[%d]", path, i))
		}
	case n.Kind == yaml.SequenceNode && isSection(t): // of a merge
		for _, c := range n.Content {
			d.findNulls(c, t, path)
		}
	case isNull(n) && t.Kind() == reflect.Slice:
		d.note(path, "has no value; write [] for an empty list, or leave the key out for the default")
	case isNull(n) && (!isSection(t) || strings.HasSuffix(path, "]")):
		d.note(path, "has no value; leave the key out for the default")
	}
}

// isEmpty reports whether there is no value in n, however deep.
func isEmpty(n *yaml.Node) bool {
	n = target(n)
	if n.Kind != yaml.MappingNode {
		return isNull(n)
	}
	for i := 1; i < len(n.Content); i += 2 {
		if !isEmpty(n.Content[i]) {
			return false
		}
	}
	return true
}

// line returns the line of what path names, or of the nearest section around it that is in the file; 0 if there is
// none.
func (d *document) line(path string) int {
	if d.root == nil {
		return 0
	}
	n, line := target(d.root), 0
	for _, s := range stepsOf(path) {
		k, v := child(n, s)
		if v == nil {
			break
		}
		n, line = target(v), k.Line
	}
	return line
}

// child returns the key and the value, or the value twice, of a step below n.
func child(n *yaml.Node, s step) (at, value *yaml.Node) {
	if s.index >= 0 {
		if n.Kind != yaml.SequenceNode || s.index >= len(n.Content) {
			return nil, nil
		}
		return n.Content[s.index], n.Content[s.index]
	}
	if n.Kind != yaml.MappingNode {
		return nil, nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if strings.EqualFold(n.Content[i].Value, s.key) {
			return n.Content[i], n.Content[i+1]
		}
	}
	return nil, nil
}

// yamlLine is how the parser says where it gave up.
var yamlLine = regexp.MustCompile(`^(?:yaml: )?(?:unmarshal errors:\n\s*)?(?:line (\d+): )?`)

// yamlValue is how the parser quotes a value.
var yamlValue = regexp.MustCompile("`[^`]*`")

// syntaxProblem describes an error of the YAML itself.
func syntaxProblem(data []byte, err error) error {
	text := err.Error()
	m := yamlLine.FindStringSubmatch(text)
	text, _, _ = strings.Cut(text[len(m[0]):], "\n")
	text = yamlValue.ReplaceAllString(text, "…") // it may be a secret
	if n := tabLine(data); n > 0 {
		return fmt.Errorf("line %d: indented with a tab; YAML takes spaces only", n)
	}
	if m[1] != "" {
		return fmt.Errorf("line %s: invalid YAML: %s", m[1], text)
	}
	return fmt.Errorf("invalid YAML: %s", text)
}

// tabLine returns the first line that has a tab before its text, 0 if none has.
func tabLine(data []byte) int {
	for n := 1; len(data) > 0; n++ {
		line, rest, _ := bytes.Cut(data, []byte("\n"))
		text := bytes.TrimLeft(line, " \t")
		if len(text) > 0 && text[0] != '#' && bytes.IndexByte(line[:len(line)-len(text)], '\t') >= 0 {
			return n
		}
		data = rest
	}
	return 0
}
