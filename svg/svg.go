// Package svg writes the plots of reports: pictures that stand in an HTML page and load nothing. Their looks are
// classes of the page's style sheet. Every text is escaped here, so that what New and the methods are given may come
// from anybody; classes and anchors are constants of the caller.
package svg

import (
	"fmt"
	"html/template"
	"math"
	"strings"
)

// Image is a picture under construction. Its size is that of its own coordinates; the page scales it. Not safe for
// concurrent use.
type Image struct {
	b strings.Builder
}

// New returns an empty picture of the given size, with a description for people who can't see it.
func New(width, height int, label string) *Image {
	m := &Image{}
	fmt.Fprintf(&m.b, `<svg viewBox="0 0 %d %d" role="img" aria-label="%s">`, width, height,
		template.HTMLEscapeString(label))
	return m
}

// HTML returns the finished picture; nothing may be drawn afterwards.
func (m *Image) HTML() template.HTML {
	return template.HTML(m.b.String() + "</svg>") //nolint:gosec // every text in it was escaped
}

// Text writes s at a point; anchor says which end of it stands there: start, middle or end.
func (m *Image) Text(x, y float64, anchor, class, s string) {
	fmt.Fprintf(&m.b, `<text x="%.1f" y="%.1f" text-anchor="%s" class="%s">%s</text>`, x, y, anchor, class,
		template.HTMLEscapeString(s))
}

// Rect draws a rectangle with its upper left corner at a point, if there is any of it; title is shown to who points at
// it.
func (m *Image) Rect(x, y, w, h float64, class, title string) {
	if h <= 0 || w <= 0 {
		return
	}
	fmt.Fprintf(&m.b, `<rect x="%.2f" y="%.2f" width="%.2f" height="%.2f" class="%s">%s</rect>`, x, y, w, h, class,
		titled(title))
}

// Line draws a straight line.
func (m *Image) Line(x1, y1, x2, y2 float64, class, title string) {
	fmt.Fprintf(&m.b, `<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" class="%s">%s</line>`, x1, y1, x2, y2, class,
		titled(title))
}

// Path draws straight lines from point to point; points that are no numbers are left out.
func (m *Image) Path(points [][2]float64, class string) {
	fmt.Fprintf(&m.b, `<polyline class="%s" points="`, class)
	between := ""
	for _, p := range points {
		if !math.IsNaN(p[0]) && !math.IsNaN(p[1]) {
			fmt.Fprintf(&m.b, "%s%.1f,%.1f", between, p[0], p[1])
			between = " "
		}
	}
	m.b.WriteString(`"/>`)
}

// Dot draws a disc around a point.
func (m *Image) Dot(x, y, radius float64, class string) {
	fmt.Fprintf(&m.b, `<circle cx="%.1f" cy="%.1f" r="%.1f" class="%s"/>`, x, y, radius, class)
}

func titled(s string) string {
	if s == "" {
		return ""
	}
	return "<title>" + template.HTMLEscapeString(s) + "</title>"
}
