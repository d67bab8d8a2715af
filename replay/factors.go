package replay

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"errors"
	"math"
	"strconv"
	"time"

	"antirobot/identity"
	"antirobot/request"
)

// Label is the known kind of a client.
type Label int8

// The labels.
const (
	LabelUnknown Label = iota
	LabelHuman
	LabelRobot
)

// Factors writes the factors of every evaluation as CSV, for training: label (1 robot, 0 human, empty unknown), source,
// subject, at, score, and a column for each factor, empty if it is unknown. Make it with NewFactors.
type Factors struct {
	Label  Label  // of the request being served
	Source string // where the label comes from

	csv *csv.Writer
	row []string
	err error
}

// NewFactors writes the header of the table.
func NewFactors(w *bufio.Writer, names []string) *Factors {
	f := &Factors{csv: csv.NewWriter(w)}
	f.row = append([]string{"label", "source", "subject", "at", "score"}, names...)
	f.err = f.csv.Write(f.row)
	return f
}

// Observe writes a row; it is a processor.Observer.
func (f *Factors) Observe(sub identity.Subject, _ uint16, at time.Time, factors []float32, score float32) {
	if f.err != nil {
		return
	}
	row := append(f.row[:0], f.Label.column(), f.Source, sub.String(), at.UTC().Format("2006-01-02T15:04:05.000Z"),
		number32(score))
	for _, x := range factors {
		row = append(row, number32(x))
	}
	f.err = f.csv.Write(row)
	f.row = row
}

func number32(x float32) string {
	if math.IsNaN(float64(x)) {
		return ""
	}
	return strconv.FormatFloat(float64(x), 'g', -1, 32)
}

// Flush writes the buffer, and returns the first error of any row.
func (f *Factors) Flush() error {
	f.csv.Flush()
	return errors.Join(f.err, f.csv.Error())
}

// label sets what is known of who made a record: what own labels say; or else one that declares itself a robot is a
// robot, and of the others nothing is known. Without agents the log has no User-Agents, and nobody can declare
// anything.
func (f *Factors) label(r *Record, g *Gateway, own Labels, agents bool) {
	if k, ok := own[r.visitor()]; ok {
		f.Label, f.Source = k.Label, k.Source
		return
	}
	agent := r.Agent()
	f.Label, f.Source = LabelUnknown, ""
	if agents && declaresRobot(agent) {
		f.Label, f.Source = LabelRobot, "declared"
	}
	if name, _ := g.crawler(agent, r.Addr); name != "" {
		f.Source = name
	}
}

// robotWords are parts of the User-Agents of programs that identify themselves, in lower case.
var robotWords = [...]string{
	"bot", "crawl", "spider", "slurp", "curl/", "wget", "python", "java/", "go-http-client", "libwww", "scrapy",
	"httpclient",
	"okhttp", "headless", "phantom", "feed", "rss", "fetch", "monitor", "scan", "http://", "https://", "@", "perl",
	"ruby", "axios",
}

// declaresRobot reports whether a User-Agent says that it is a program, or is empty.
func declaresRobot(agent []byte) bool {
	if len(agent) == 0 {
		return true
	}
	var buf [256]byte
	low := request.AppendLower(buf[:0], agent[:min(len(agent), len(buf))])
	for _, w := range robotWords {
		if bytes.Contains(low, []byte(w)) {
			return true
		}
	}
	return false
}
