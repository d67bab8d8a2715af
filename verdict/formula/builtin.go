package formula

import (
	"cmp"
	"embed"
	"path"
	"slices"
	"strings"
)

//go:embed builtin
var builtin embed.FS

// Builtins returns the names of the models built into the program, the versions of one in their order.
func Builtins() []string {
	files, err := builtin.ReadDir("builtin")
	if err != nil {
		panic("BUG: " + err.Error())
	}
	var names []string
	for _, f := range files {
		names = append(names, strings.TrimSuffix(f.Name(), path.Ext(f.Name())))
	}
	slices.SortFunc(names, func(a, b string) int { // default-9 before default-10
		aName, aVersion, _ := strings.Cut(a, "-")
		bName, bVersion, _ := strings.Cut(b, "-")
		return cmp.Or(strings.Compare(aName, bName), cmp.Compare(len(aVersion), len(bVersion)), strings.Compare(aVersion, bVersion))
	})
	return names
}

// Builtin returns the file of a model built into the program. The default one is found by its version, too, so that a
// configuration can keep to it when a newer one is shipped.
func Builtin(name string) ([]byte, bool) {
	for _, ext := range []string{".yaml", ".json"} {
		if strings.ContainsAny(name, "/.") {
			break
		}
		if data, err := builtin.ReadFile("builtin/" + name + ext); err == nil {
			return data, true
		}
	}
	data, err := builtin.ReadFile("builtin/default.yaml")
	if err != nil {
		panic("BUG: " + err.Error())
	}
	if name != versionOf(data) {
		return nil, false
	}
	return data, true
}

// versionOf returns the version that a score card names.
func versionOf(card []byte) string {
	_, rest, _ := strings.Cut(string(card), "\nversion: ")
	version, _, _ := strings.Cut(rest, "\n")
	return version
}

// DefaultVersion is the version of the model called default.
func DefaultVersion() string {
	data, _ := Builtin("default")
	return versionOf(data)
}
