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
)

// The columns of labelled factors, as `antirobot events export` writes them; all others are factors. They may be in any
// order, and all but label are optional.
const (
	columnLabel   = "label"   // 1 robot, 0 human, empty: unknown
	columnSource  = "source"  // where the label comes from
	columnKind    = "kind"    // of the subject: ip, i, spravka…
	columnSubject = "subject" // whose row it is: rows of one subject are never on both sides of a split
	columnAt      = "at"      // when, RFC 3339
	columnScore   = "score"   // by the formula in use at the time
)

// Columns are those that are not factors, in the order in which they are written.
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
	Factors []float32 // in the order of the names given to ReadRows; NaN for those that the file lacks; valid until the next row
}

// Label is what is known of a row.
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
	h, lacks, extra, err := readHeader(head, names)
	if err != nil {
		return nil, nil, fmt.Errorf("line 1: %w", err)
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
		if err := h.read(&row, record, names); err != nil {
			return nil, nil, fmt.Errorf("line %d: %w", row.Line, err)
		}
		if err := f(&row); err != nil {
			return nil, nil, fmt.Errorf("line %d: %w", row.Line, err)
		}
	}
}

// header says where the columns of a file are.
type header struct {
	at      map[string]int
	factors []int // of each name; -1: the file lacks it
}

func readHeader(head, names []string) (h header, lacks, extra []string, err error) {
	h = header{map[string]int{}, make([]int, len(names))}
	for i, name := range head {
		name = strings.TrimSpace(strings.TrimPrefix(name, "\ufeff"))
		if _, twice := h.at[name]; twice {
			return h, nil, nil, fmt.Errorf("column %.60q occurs twice", name)
		}
		h.at[name] = i
		if !slices.Contains(names, name) && !slices.Contains(Columns(), name) {
			extra = append(extra, name)
		}
	}
	if _, ok := h.at[columnLabel]; !ok {
		return h, nil, nil, errors.New("there is no column label")
	}
	for i, name := range names {
		h.factors[i] = -1
		if c, ok := h.at[name]; ok {
			h.factors[i] = c
		} else {
			lacks = append(lacks, name)
		}
	}
	if len(lacks) == len(names) {
		return h, nil, nil, errors.New("no column is a factor")
	}
	return h, lacks, extra, nil
}

// read fills row from a record.
func (h *header) read(row *Row, record, names []string) (err error) {
	text := func(column string) string {
		if c, ok := h.at[column]; ok {
			return strings.Clone(record[c])
		}
		return ""
	}
	row.Source, row.Kind, row.Subject, row.At = text(columnSource), text(columnKind), text(columnSubject), text(columnAt)
	if row.Label, err = parseLabel(record[h.at[columnLabel]]); err != nil {
		return err
	}
	for i, c := range h.factors {
		if row.Factors[i], err = parseFactor(record, c); err != nil {
			return fmt.Errorf("%s: %w", names[i], err)
		}
	}
	return nil
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
	return 0, fmt.Errorf("label: %.60q is neither 0 (human) nor 1 (robot) nor empty", s)
}

func parseFactor(record []string, column int) (float32, error) {
	if column < 0 || record[column] == "" {
		return float32(math.NaN()), nil
	}
	v, err := strconv.ParseFloat(record[column], 32)
	if err != nil {
		return 0, fmt.Errorf("%.60q is not a number", record[column])
	}
	return float32(v), nil
}
