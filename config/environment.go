package config

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"antirobot/spelling"
)

// readTexts reads what is in variables and flags as text into what their keys take. What can't be read is taken out
// of values and returned as problems.
func readTexts(values map[string]any, origins []Origin) error {
	var errs []error
	for _, o := range origins {
		steps := strings.Split(o.Key, ".")
		section, name := values, steps[len(steps)-1]
		for _, s := range steps[:len(steps)-1] {
			section, _ = section[s].(map[string]any)
		}
		if section == nil { // the file has something else in the place of the section, which is said of it
			continue
		}
		got, err := readText(section[name], o.typ)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", o.Key, err))
			delete(section, name)
			continue
		}
		section[name] = got
	}
	return errors.Join(errs...)
}

func readText(value any, t reflect.Type) (any, error) {
	var items []string
	switch v := value.(type) {
	case []string: // of a flag
		items = v
	case string:
		if t.Kind() != reflect.Slice {
			return readScalar(v, t)
		}
		if strings.HasPrefix(strings.TrimSpace(v), "[") {
			return readYAML(v)
		}
		items = strings.Split(v, ",")
	default:
		return value, nil
	}
	var list []any
	for _, item := range items {
		item = strings.TrimSpace(item)
		switch elem := t.Elem(); {
		case elem == reflect.TypeFor[Listener]():
			list = append(list, map[string]any{"address": item})
		case isSection(elem):
			return nil, errors.New("is a list of sections; write it as YAML in brackets, such as [{name: a}]")
		default:
			one, err := readScalar(item, elem)
			if err != nil {
				return nil, err
			}
			list = append(list, one)
		}
	}
	return list, nil
}

// readScalar reads a value as it would be read from a file. If a string is expected, the text is taken literally.
func readScalar(text string, t reflect.Type) (any, error) {
	switch {
	case t == durationType || t.Kind() == reflect.String:
		return text, nil
	case t.Kind() == reflect.Bool:
		switch strings.ToLower(text) {
		case "true":
			return true, nil
		case "false":
			return false, nil
		}
		return nil, errors.New("must be true or false")
	}
	return readYAML(text)
}

// readYAML reads a value as it would stand in a file. What is wrong with it is said without repeating it: it may be a
// secret.
func readYAML(text string) (any, error) {
	var v any
	if err := yaml.Unmarshal([]byte(text), &v); err != nil {
		return nil, syntaxProblem([]byte(text), err)
	}
	return v, nil
}

// unknownVariables warns of variables that look like ours but set nothing. They are not errors, since others set such
// variables too: Kubernetes does for a service called antirobot.
func (c *Config) unknownVariables() []string {
	if !c.environment {
		return nil
	}
	known := []string{fileVariable}
	for _, k := range leaves(reflect.TypeFor[Config](), "") {
		known = append(known, VariableOf(k.name))
	}
	named := c.namedVariables()
	var w []string
	for _, e := range os.Environ() {
		name, _, _ := strings.Cut(e, "=")
		if !strings.HasPrefix(name, variablePrefix+"_") || slices.Contains(known, name) ||
			slices.Contains(named, name) {
			continue
		}
		line := fmt.Sprintf("the environment has %.60s, which belongs to no key", name)
		if near := spelling.Nearest(name, known); near != "" {
			line += "; did you mean " + near + "?"
		}
		w = append(w, line)
	}
	slices.Sort(w)
	return w
}

// namedVariables returns the variables that the configuration itself names, in keys such as keys.secret_env.
func (c *Config) namedVariables() []string {
	var names []string
	var walk func(v reflect.Value)
	walk = func(v reflect.Value) {
		switch v.Kind() {
		case reflect.Struct:
			for i := range v.NumField() {
				f := v.Type().Field(i)
				if f.Type.Kind() == reflect.String && strings.HasSuffix(f.Tag.Get("mapstructure"), "_env") {
					names = append(names, v.Field(i).String())
				} else if f.IsExported() {
					walk(v.Field(i))
				}
			}
		case reflect.Slice:
			for i := range v.Len() {
				walk(v.Index(i))
			}
		}
	}
	walk(reflect.ValueOf(c).Elem())
	return names
}
