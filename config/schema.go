package config

import (
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"antirobot/problem"
	"antirobot/spelling"
)

// key is one key of a section, as its struct declares it.
type key struct {
	name  string
	typ   reflect.Type // of the value; Service for the sections that are resolved later
	index int          // of the struct's field
}

var (
	serviceType  = reflect.TypeFor[Service]()
	unresolved   = reflect.TypeFor[map[string]any]() // services and their paths, before they are resolved
	durationType = reflect.TypeFor[time.Duration]()
)

func keysOf(section reflect.Type) []key {
	var keys []key
	for i := range section.NumField() {
		f := section.Field(i)
		name := f.Tag.Get("mapstructure")
		if !f.IsExported() || name == "-" {
			continue
		}
		if name == "" {
			panic("BUG: " + section.String() + "." + f.Name + " has no mapstructure tag")
		}
		keys = append(keys, key{name: name, typ: settled(f.Type), index: i})
	}
	return keys
}

// settled replaces a type that will be decoded into a Service by Service.
func settled(t reflect.Type) reflect.Type {
	switch {
	case t == unresolved:
		return serviceType
	case t.Kind() == reflect.Slice:
		return reflect.SliceOf(settled(t.Elem()))
	case t.Kind() == reflect.Pointer:
		return t.Elem()
	}
	return t
}

// isSection reports whether a value of t has keys of its own.
func isSection(t reflect.Type) bool { return t.Kind() == reflect.Struct }

// pathPrefix is the key that paths of a service have and Service does not.
const pathPrefix = "prefix"

// typeOf returns the type of a section's key; nil if it has none of that name.
func typeOf(section reflect.Type, name string) reflect.Type {
	for _, k := range keysOf(section) {
		if strings.EqualFold(k.name, name) {
			return k.typ
		}
	}
	if section == serviceType && strings.EqualFold(name, pathPrefix) {
		return reflect.TypeFor[string]()
	}
	return nil
}

// step is one part of a path: a key, or an index into a list.
type step struct {
	key   string
	index int // -1: a key
}

// stepsOf takes a path such as services[0].hosts[1] apart.
func stepsOf(path string) []step {
	var steps []step
	for part := range strings.SplitSeq(path, ".") {
		name, rest, more := strings.Cut(part, "[")
		if name != "" {
			steps = append(steps, step{key: name, index: -1})
		}
		for more {
			var n string
			n, rest, _ = strings.Cut(rest, "]")
			i, err := strconv.Atoi(n)
			if err != nil {
				return steps
			}
			steps = append(steps, step{index: i})
			_, rest, more = strings.Cut(rest, "[")
		}
	}
	return steps
}

// sectionAt returns the section that path leads to from root; nil if there is none.
func sectionAt(root reflect.Type, path string) reflect.Type {
	t := root
	for _, s := range stepsOf(path) {
		switch {
		case s.index < 0 && isSection(t):
			t = typeOf(t, s.key)
		case s.index >= 0 && t.Kind() == reflect.Slice:
			t = t.Elem()
		default:
			return nil
		}
		if t == nil {
			return nil
		}
	}
	if !isSection(t) {
		return nil
	}
	return t
}

// suggest returns what may have been meant by a key that a section does not have: the same key in a section below it,
// or one of its own keys that is spelled almost alike. It returns "" when there is nothing near.
func suggest(section reflect.Type, name string) string {
	name = strings.ToLower(name)
	var below []string
	findBelow(section, name, "", &below)
	if len(below) > 0 {
		return strings.Join(below[:min(len(below), 2)], " or ")
	}
	var own []string
	for _, k := range keysOf(section) {
		own = append(own, k.name)
	}
	return spelling.Nearest(name, own)
}

// findBelow collects the paths of sections' keys called name, nearest first. Lists are not looked into.
func findBelow(section reflect.Type, name, path string, found *[]string) {
	keys := keysOf(section)
	for _, k := range keys {
		if path != "" && k.name == name {
			*found = append(*found, path+k.name)
		}
	}
	for _, k := range keys {
		if isSection(k.typ) {
			findBelow(k.typ, name, path+k.name+".", found)
		}
	}
}

// changedKeys returns the paths of the keys below path whose values differ between a and b, two structs of one type.
// A list differs as a whole; a missing list and an empty one are the same.
func changedKeys(a, b reflect.Value, path string) []string {
	var changed []string
	for _, k := range keysOf(a.Type()) {
		x, y, at := a.Field(k.index), b.Field(k.index), problem.Below(path, k.name)
		switch {
		case x.Kind() == reflect.Struct:
			changed = append(changed, changedKeys(x, y, at)...)
		case x.Kind() == reflect.Slice && x.Len() == 0 && y.Len() == 0:
		case !reflect.DeepEqual(x.Interface(), y.Interface()):
			changed = append(changed, at)
		}
	}
	return changed
}

// copyKeys copies the keys that are one of roots, or lie below one, from one struct to another of its type.
func copyKeys(from, to reflect.Value, path string, roots []string) {
	for _, k := range keysOf(from.Type()) {
		at := problem.Below(path, k.name)
		if len(below([]string{at}, roots)) > 0 {
			to.Field(k.index).Set(from.Field(k.index))
		} else if isSection(k.typ) && k.typ != serviceType {
			copyKeys(from.Field(k.index), to.Field(k.index), at, roots)
		}
	}
}

func below(paths, roots []string) []string {
	return slices.DeleteFunc(slices.Clone(paths), func(p string) bool {
		return !slices.ContainsFunc(roots, func(r string) bool {
			return p == r || strings.HasPrefix(p, r+".")
		})
	})
}
