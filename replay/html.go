package replay

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
)

//go:embed report.html
var reportHTML string

//go:embed report.css
var reportCSS string

// maxRows bounds the rows of a table in a page: the page is for people to read, the JSON has all rows.
const maxRows = 200

// HTML writes a result as a self-contained page: no script, its styles allowed by hash in its own policy, plots as SVG,
// light and dark.
func (res *Result) HTML(w io.Writer) error {
	t, err := template.New("report").Funcs(template.FuncMap{
		"thousands": thousands, "percent": percent, "printable": printable, "traffic": trafficPlot,
		"reasons": reasonsPlot, "spans": spansPlot,
		"first":      func(l []Person) []Person { return l[:min(len(l), maxRows)] },
		"firstStops": func(l []Stop) []Stop { return l[:min(len(l), maxRows)] },
	}).Parse(reportHTML)
	if err != nil {
		return fmt.Errorf("report: %w", err)
	}
	sum := sha256.Sum256([]byte(reportCSS))
	page := struct {
		*Result
		CSS  template.CSS
		Hash string
	}{res, template.CSS(reportCSS), "sha256-" +
		base64.StdEncoding.EncodeToString(sum[:])} //nolint:gosec // our own file
	if err := t.Execute(w, page); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	return nil
}
