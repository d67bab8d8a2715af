package sources

import (
	"fmt"
	"io"
	"os"
	"slices"

	"antirobot/rules"
	"antirobot/verdict/formula"
)

// Formulas gives rules the models of files. Immutable.
type Formulas struct {
	names []string
	files map[string][]byte
}

// LoadFormulas reads the files; models are parsed when rules bind them.
func LoadFormulas(named []formula.NamedConfig) (*Formulas, error) {
	f := &Formulas{names: []string{}, files: make(map[string][]byte, len(named))}
	for i, n := range named {
		data, err := readModel(n.File)
		if err != nil {
			return nil, fmt.Errorf("named[%d].file: %w", i, err)
		}
		f.names = append(f.names, n.Name)
		f.files[n.Name] = data
	}
	return f, nil
}

func readModel(name string) ([]byte, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	data, err := io.ReadAll(io.LimitReader(file, formula.MaxFile+1))
	if err == nil && len(data) > formula.MaxFile {
		err = fmt.Errorf("%s has more than %d MiB", name, formula.MaxFile>>20)
	}
	return data, err
}

// Names implements rules.Formulas.
func (f *Formulas) Names() []string { return slices.Clone(f.names) }

// Bind implements rules.Formulas.
func (f *Formulas) Bind(name string, factors []string) (rules.Scorer, error) {
	data, ok := f.files[name]
	if !ok {
		return nil, fmt.Errorf("there is no formula %.64q", name)
	}
	m, err := formula.Load(data, factors)
	if err != nil {
		return nil, err
	}
	return m, nil
}
