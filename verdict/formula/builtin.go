package formula

import (
	"embed"
	"path"
	"strings"
)

//go:embed builtin
var builtin embed.FS

// Builtins returns the names of the models built into the program.
func Builtins() []string {
	files, err := builtin.ReadDir("builtin")
	if err != nil {
		panic("BUG: " + err.Error())
	}
	var names []string
	for _, f := range files {
		names = append(names, strings.TrimSuffix(f.Name(), path.Ext(f.Name())))
	}
	return names
}

// Builtin returns the file of a model built into the program.
func Builtin(name string) ([]byte, bool) {
	if strings.ContainsAny(name, "/.") {
		return nil, false
	}
	data, err := builtin.ReadFile("builtin/" + name + ".yaml")
	return data, err == nil
}
