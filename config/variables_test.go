package config

import (
	"fmt"
	"reflect"
	"testing"
	"time"
)

// TestEveryKeyByEnvironment sets each key that has a value of its own by its variable, all at once, to what it is anyway: each
// variable is one key's alone, each is read, and the configuration stays the same.
func TestEveryKeyByEnvironment(t *testing.T) {
	d := Default()
	base := defaultService()
	owner := map[string]string{}
	set := 0
	for _, k := range leaves(reflect.TypeFor[Config](), "") {
		name := VariableOf(k.name)
		if first, taken := owner[name]; taken {
			t.Errorf("%s is the variable of %s and of %s", name, first, k.name)
		}
		owner[name] = k.name
		root, steps := reflect.ValueOf(d), stepsOf(k.name)
		if steps[0].key == "defaults" {
			root, steps = reflect.ValueOf(base), steps[1:]
		}
		if text := textOf(valueAt(root, steps)); text != "" {
			t.Setenv(name, text)
			set++
		}
	}
	t.Setenv(VariableOf("defaults.upstream.urls"), "http://127.0.0.1:3000")
	s := Sources{Environment: true}
	cfg, err := s.Read()
	if err != nil {
		t.Fatal(err)
	}
	if set < 100 || len(cfg.Origins) != set+1 {
		t.Errorf("%d variables were set and %d keys are set by them", set+1, len(cfg.Origins))
	}
	for _, k := range changedKeys(reflect.ValueOf(d), reflect.ValueOf(*cfg), "") {
		if k != "defaults" && k != "services" {
			t.Errorf("%s has another value when its variable says the same: %s", k, textOf(valueAt(reflect.ValueOf(*cfg), stepsOf(k))))
		}
	}
}

// valueAt returns what steps lead to.
func valueAt(v reflect.Value, steps []step) reflect.Value {
	for _, s := range steps {
		for _, k := range keysOf(v.Type()) {
			if k.name == s.key {
				v = v.Field(k.index)
				break
			}
		}
	}
	return v
}

// textOf is how a value stands in a variable; "" for an empty one and for lists of sections.
func textOf(v reflect.Value) string {
	switch x := v.Interface().(type) {
	case time.Duration:
		return x.String()
	case []string:
		text := ""
		for i, s := range x {
			if i > 0 {
				text += ","
			}
			text += s
		}
		return text
	}
	switch v.Kind() {
	case reflect.String, reflect.Bool, reflect.Int, reflect.Int64, reflect.Uint32, reflect.Float64, reflect.Uint64, reflect.Uint8, reflect.Uint16:
		return fmt.Sprint(v.Interface())
	}
	return ""
}
