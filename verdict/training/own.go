package training

import (
	"bufio"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"antirobot/identity"
	"antirobot/verdict/formula"
)

// OwnLabels are labels by the key that stands for a subject in a training log.
type OwnLabels map[uint64]OwnLabel

// OwnLabel is what a file of labels says of somebody.
type OwnLabel struct {
	Label  formula.Label
	Source string
}

// maxOwnLabels bounds the lines of a file of labels.
const maxOwnLabels = 2_000_000

// sourceOwn is the source of labels whose file names none.
const sourceOwn = "own"

// Key returns by what key the log in a directory calls a subject. The secret of the log never leaves its directory.
func Key(dir string, s identity.Subject) (uint64, error) {
	t, err := savedSalt(dir)
	if err != nil {
		return 0, err
	}
	return t.Who(s), nil
}

// savedSalt reads the secret of a log that exists.
func savedSalt(dir string) (*Log, error) {
	if _, err := os.Stat(filepath.Join(dir, saltFile)); err != nil {
		return nil, fmt.Errorf("%s has no training log: is processor.training.sample above 0?", dir)
	}
	t := &Log{dir: dir}
	if err := t.openSalt(); err != nil {
		return nil, err
	}
	return t, nil
}

// ReadOwnLabels reads an operator's own labels as ReadLabels does, to be joined to the rows of the log in dir: subjects are
// called as in ip:203.0.113.7, L:alice or service:NAME=VALUE, in the column subject. Of several lines about one the last one
// holds.
func ReadOwnLabels(r io.Reader, dir string) (OwnLabels, error) {
	t, err := savedSalt(dir)
	if err != nil {
		return nil, err
	}
	own := OwnLabels{}
	err = ReadLabels(r, "subject", func(name string, l OwnLabel) error {
		s, err := identity.ParseSubject(name)
		if err != nil {
			return err
		}
		if len(own) == maxOwnLabels {
			return fmt.Errorf("more than %d subjects", maxOwnLabels)
		}
		own[t.Who(s)] = l
		return nil
	})
	if err != nil {
		return nil, err
	}
	return own, nil
}

// ReadLabels reads CSV with a header and calls f with each line: column says who it is about, and the column label what that
// is (human or 0, robot or 1); there may be a column source. Other columns are left alone. Errors, also those of f, are
// returned with their line. The name is valid until f returns.
func ReadLabels(r io.Reader, column string, f func(name string, l OwnLabel) error) error {
	in := csv.NewReader(bufio.NewReader(r))
	in.ReuseRecord = true
	head, err := in.Read()
	if errors.Is(err, io.EOF) {
		return fmt.Errorf("the file is empty: its first line names the columns, %s and label", column)
	}
	if err != nil {
		return err
	}
	head = slices.Clone(head)
	head[0] = strings.TrimPrefix(head[0], "\ufeff")
	name, known, source := slices.Index(head, column), slices.Index(head, "label"), slices.Index(head, "source")
	if name < 0 || known < 0 {
		return fmt.Errorf("line 1: the columns %s and label are needed", column)
	}
	for {
		record, err := in.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		l := OwnLabel{Source: sourceOwn}
		if l.Label, err = ownLabel(record[known]); err == nil {
			if source >= 0 && record[source] != "" {
				l.Source = strings.Clone(record[source])
			}
			err = f(record[name], l)
		}
		if err != nil {
			line, _ := in.FieldPos(0)
			return fmt.Errorf("line %d: %w", line, err)
		}
	}
}

func ownLabel(s string) (formula.Label, error) {
	switch s {
	case "human", "0":
		return formula.Person, nil
	case "robot", "1":
		return formula.Robot, nil
	}
	return 0, fmt.Errorf("label: %.60q is neither human (0) nor robot (1)", s)
}
