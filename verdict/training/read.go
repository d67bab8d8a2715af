package training

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strconv"
	"strings"
	"time"

	"antirobot/identity"
	"antirobot/verdict/formula"
)

// record is one record; its slices are valid until the next.
type record struct {
	kind    byte
	at      int64 // unix milliseconds
	subject identity.Kind
	who     uint64
	outcome outcome
	service uint16 // the number of its settings, see verdict.Settings
	score   float32
	x       []float32 // in the file's order
	place   map[string]int
}

// row writes a record in the order of names, which may differ from the file's.
func (r *record) row(row []string, label formula.Label, source string, names []string) []string {
	known := ""
	if label != formula.Unlabelled {
		known = strconv.Itoa(int(label))
	}
	row = append(row, known, source, r.subject.String(), fmt.Sprintf("%016x", r.who),
		time.UnixMilli(r.at).UTC().Format("2006-01-02T15:04:05.000Z"), number(r.score))
	for _, n := range names {
		i, ok := r.place[n]
		if !ok {
			row = append(row, "")
			continue
		}
		row = append(row, number(r.x[i]))
	}
	return row
}

func number(v float32) string {
	if math.IsNaN(float64(v)) {
		return ""
	}
	return strconv.FormatFloat(float64(v), 'g', -1, 32)
}

// readFile calls f for every record of a file. It reports a file that ends within a record or contains something
// else; what comes before that is read.
func readFile(name string, f func(*record) error) (broken bool, err error) {
	file, err := os.Open(name)
	if err != nil {
		return false, err
	}
	defer file.Close()
	return readRecords(bufio.NewReaderSize(file, 1<<16), f)
}

func readRecords(in *bufio.Reader, f func(*record) error) (broken bool, err error) {
	head := make([]byte, len(magic))
	if _, err := io.ReadFull(in, head); err != nil || string(head) != magic {
		return true, nil //nolint:nilerr // a file that was not written whole, or another one
	}
	var names []string
	if line, err := in.ReadSlice('\n'); err != nil || json.Unmarshal(line, &names) != nil || len(names) > formula.MaxFactors {
		return true, nil //nolint:nilerr // a file that was not written whole
	}
	r := record{x: make([]float32, len(names)), place: make(map[string]int, len(names))}
	for i, n := range names {
		r.place[strings.Clone(n)] = i
	}
	var fixed [18]byte
	body := make([]byte, 6+4*len(names))
	for {
		if _, err := io.ReadFull(in, fixed[:]); err != nil {
			return !errors.Is(err, io.EOF), nil
		}
		r.kind, r.at = fixed[0], int64(binary.BigEndian.Uint64(fixed[1:])) //nolint:gosec // as it was written
		r.subject, r.who = identity.Kind(fixed[9]), binary.BigEndian.Uint64(fixed[10:])
		switch r.kind {
		case 'O':
			o, err := in.ReadByte()
			if err != nil {
				return true, nil //nolint:nilerr // as above
			}
			r.outcome = outcome(o)
		case 'V':
			if _, err := io.ReadFull(in, body); err != nil {
				return true, nil //nolint:nilerr // as above
			}
			r.service = binary.BigEndian.Uint16(body)
			r.score = math.Float32frombits(binary.BigEndian.Uint32(body[2:]))
			for i := range r.x {
				r.x[i] = math.Float32frombits(binary.BigEndian.Uint32(body[6+4*i:]))
			}
		default:
			return true, nil
		}
		if err := f(&r); err != nil {
			return false, err
		}
	}
}
