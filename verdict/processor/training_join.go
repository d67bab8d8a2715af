package processor

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
	"antirobot/settings"
	"antirobot/verdict/formula"
)

// OwnLabels are labels by the key that stands for a subject in a training log.
type OwnLabels map[uint64]OwnLabel

// OwnLabel is what an operator's file says of a subject.
type OwnLabel struct {
	Label  formula.Label
	Source string
}

// maxOwnLabels bounds the lines of a file of labels.
const maxOwnLabels = 2_000_000

// sourceOwn is the source of labels whose file names none.
const sourceOwn = "own"

// TrainingKey returns by what key a training log calls a subject. The secret of the log never leaves its directory.
func TrainingKey(dir string, s identity.Subject) (uint64, error) {
	t, err := savedSalt(dir)
	if err != nil {
		return 0, err
	}
	return t.who(s), nil
}

// savedSalt reads the secret of a log that exists.
func savedSalt(dir string) (*training, error) {
	if _, err := os.Stat(filepath.Join(dir, saltFile)); err != nil {
		return nil, fmt.Errorf("%s has no training log: is processor.training.sample above 0?", dir)
	}
	t := &training{dir: dir}
	if err := t.openSalt(); err != nil {
		return nil, err
	}
	return t, nil
}

// ReadOwnLabels reads an operator's own labels, to be joined to the rows of the log in dir: CSV with a header, and the
// columns subject (as ip:203.0.113.7, L:alice or service:NAME=VALUE) and label (human or 0, robot or 1), and perhaps
// source. Of several lines about a subject the last one holds. Other columns are left alone.
func ReadOwnLabels(r io.Reader, dir string) (OwnLabels, error) {
	t, err := savedSalt(dir)
	if err != nil {
		return nil, err
	}
	in := csv.NewReader(bufio.NewReader(r))
	in.ReuseRecord = true
	head, err := in.Read()
	if errors.Is(err, io.EOF) {
		return nil, errors.New("the file is empty: its first line names the columns, subject and label")
	}
	if err != nil {
		return nil, err
	}
	head = slices.Clone(head)
	head[0] = strings.TrimPrefix(head[0], "\ufeff")
	subject, known, source := slices.Index(head, "subject"), slices.Index(head, "label"), slices.Index(head, "source")
	if subject < 0 || known < 0 {
		return nil, errors.New("line 1: the columns subject and label are needed")
	}
	own := OwnLabels{}
	for {
		record, err := in.Read()
		if errors.Is(err, io.EOF) {
			return own, nil
		}
		if err != nil {
			return nil, err
		}
		line, _ := in.FieldPos(0)
		s, err := identity.ParseSubject(record[subject])
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", line, err)
		}
		l := OwnLabel{Source: sourceOwn}
		if l.Label, err = ownLabel(record[known]); err != nil {
			return nil, fmt.Errorf("line %d: %w", line, err)
		}
		if source >= 0 && record[source] != "" {
			l.Source = strings.Clone(record[source])
		}
		if len(own) == maxOwnLabels {
			return nil, fmt.Errorf("line %d: more than %d subjects", line, maxOwnLabels)
		}
		own[t.who(s)] = l
	}
}

func ownLabel(s string) (formula.Label, error) {
	switch s {
	case "human", "0":
		return formula.Person, nil
	case "robot", "1":
		return formula.Robot, nil
	}
	return 0, fmt.Errorf("label: %q is neither human (0) nor robot (1)", settings.Clip(s))
}
