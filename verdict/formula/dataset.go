package formula

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"antirobot/settings"
)

// The columns of labelled factors, as `antirobot events export` writes them; all others are factors. They may stand in
// any order, and all but label may be missing.
const (
	columnLabel   = "label"   // 1 robot, 0 human, empty: not known
	columnSource  = "source"  // where the label comes from
	columnKind    = "kind"    // of the subject: ip, i, spravka…
	columnSubject = "subject" // who: rows of one subject are never on both sides of a split
	columnAt      = "at"      // when, RFC 3339
	columnScore   = "score"   // of the formula that was in use
)

// Columns are those that are no factors, in the order in which they are written.
func Columns() []string {
	return []string{columnLabel, columnSource, columnKind, columnSubject, columnAt, columnScore}
}

// Row is one line of labelled factors.
type Row struct {
	Line    int
	Label   Label
	Source  string
	Kind    string
	Subject string
	At      string
	Factors []float32 // in the order of the names that ReadRows was given; those that the file lacks are NaN; valid until the next row
}

// Label says what is known of a row.
type Label int8

// The labels.
const (
	Unlabelled Label = iota - 1
	Person
	Robot
)

// ReadRows reads labelled factors in CSV with a header and calls f for every row. It returns the names of those
// factors that the file lacks, and the columns that are neither a factor nor one of Columns.
func ReadRows(r io.Reader, names []string, f func(*Row) error) (lacks, extra []string, err error) {
	in := csv.NewReader(r)
	in.ReuseRecord = true
	head, err := in.Read()
	if errors.Is(err, io.EOF) {
		return nil, nil, errors.New("the file is empty")
	}
	if err != nil {
		return nil, nil, err
	}
	at := map[string]int{}
	for i, name := range head {
		name = strings.TrimSpace(strings.TrimPrefix(name, "\ufeff"))
		if _, twice := at[name]; twice {
			return nil, nil, fmt.Errorf("line 1: column %q stands twice", settings.Clip(name))
		}
		at[name] = i
		if !slices.Contains(names, name) && !slices.Contains(Columns(), name) {
			extra = append(extra, name)
		}
	}
	if _, ok := at[columnLabel]; !ok {
		return nil, nil, errors.New("line 1: there is no column label")
	}
	columns := make([]int, len(names))
	for i, name := range names {
		columns[i] = -1
		if c, ok := at[name]; ok {
			columns[i] = c
		} else {
			lacks = append(lacks, name)
		}
	}
	if len(lacks) == len(names) {
		return nil, nil, errors.New("line 1: no column is a factor")
	}
	text := func(record []string, column string) string {
		if c, ok := at[column]; ok {
			return strings.Clone(record[c])
		}
		return ""
	}
	row := Row{Factors: make([]float32, len(names))}
	for {
		record, err := in.Read()
		if errors.Is(err, io.EOF) {
			return lacks, extra, nil
		}
		if err != nil {
			return nil, nil, err
		}
		row.Line, _ = in.FieldPos(0)
		row.Source, row.Kind, row.Subject = text(record, columnSource), text(record, columnKind), text(record, columnSubject)
		row.At = text(record, columnAt)
		if row.Label, err = parseLabel(record[at[columnLabel]]); err != nil {
			return nil, nil, fmt.Errorf("line %d: %w", row.Line, err)
		}
		for i, c := range columns {
			if row.Factors[i], err = parseFactor(record, c); err != nil {
				return nil, nil, fmt.Errorf("line %d: %s: %w", row.Line, names[i], err)
			}
		}
		if err := f(&row); err != nil {
			return nil, nil, fmt.Errorf("line %d: %w", row.Line, err)
		}
	}
}

func parseLabel(s string) (Label, error) {
	switch strings.TrimSpace(s) {
	case "":
		return Unlabelled, nil
	case "0":
		return Person, nil
	case "1":
		return Robot, nil
	}
	return 0, fmt.Errorf("label: %q is neither 0 (human) nor 1 (robot) nor empty", settings.Clip(s))
}

func parseFactor(record []string, column int) (float32, error) {
	if column < 0 || record[column] == "" {
		return float32(math.NaN()), nil
	}
	v, err := strconv.ParseFloat(record[column], 32)
	if err != nil {
		return 0, fmt.Errorf("%q is no number", settings.Clip(record[column]))
	}
	return float32(v), nil
}
