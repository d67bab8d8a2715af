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

// LoadModel loads a model from its file.
func LoadModel(name string) (*formula.Model, error) {
	data, err := readModel(name)
	if err != nil {
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

// LoadModels reads the configured model and the candidate beside it; each is nil if there is none.
func LoadModels(cfg formula.Config) (m formula.Models, err error) {
	load := func(key, name string) *formula.Model {
		if name == "" || err != nil {
			return nil
		}
		model, problem := LoadModel(name)
		if problem != nil {
			err = modelProblems(key, problem)
		}
		return model
	}
	m.Model, m.Shadow = load("formula.model", cfg.Model), load("formula.shadow", cfg.Shadow)
	return m, err
}

func modelProblems(key string, err error) error {
	var errs []error
	for line := range strings.SplitSeq(err.Error(), "\n") {
		errs = append(errs, errors.New(key+": "+line))
	}
	return errors.Join(errs...)
}

// TrainingDir is where the training log of a data directory is.
func TrainingDir(dataDir string) string { return filepath.Join(dataDir, "training") }
