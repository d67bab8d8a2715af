package config

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"antirobot/verdict/formula"
	"antirobot/verdict/processor"
)

// LoadModel loads a built-in model by its name, any other from its file.
func LoadModel(name string) (*formula.Model, error) {
	if data, ok := formula.Builtin(name); ok {
		m, err := formula.Load(data, processor.FactorNames())
		if err != nil {
			return nil, fmt.Errorf("built-in %s: %w", name, err)
		}
		return m, nil
	}
	data, err := readModel(name)
	if err != nil {
		if errors.Is(err, os.ErrNotExist) && !strings.ContainsAny(name, "./") {
			return nil, fmt.Errorf("%w; built in are %s", err, strings.Join(formula.Builtins(), ", "))
		}
		return nil, err
	}
	m, err := formula.Load(data, processor.FactorNames())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return m, nil
}

// readModel reads the file of a model, but for one byte no more than a model may have: Load says so of longer ones.
func readModel(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, formula.MaxFile+1))
}

// LoadModels reads the configured model and the candidate beside it, which may be nil.
func LoadModels(cfg formula.Config) (m formula.Models, err error) {
	if m.Model, err = LoadModel(cfg.Model); err != nil {
		return m, modelProblems("formula.model", err)
	}
	if cfg.Shadow == "" {
		return m, nil
	}
	if m.Shadow, err = LoadModel(cfg.Shadow); err != nil {
		return m, modelProblems("formula.shadow", err)
	}
	return m, nil
}

// modelProblems puts the key before each problem of a model.
func modelProblems(key string, err error) error {
	var errs []error
	for line := range strings.SplitSeq(err.Error(), "\n") {
		errs = append(errs, errors.New(key+": "+line))
	}
	return errors.Join(errs...)
}

// TrainingDir is where the training log of a data directory is.
func TrainingDir(dataDir string) string { return filepath.Join(dataDir, "training") }
