package cmd

import (
	_ "embed"
	"fmt"
	"html/template"
	"os"

	"antirobot/svg"
	"antirobot/verdict/formula"
)

//go:embed formula_report.html
var reportPage string

// writeReport writes the report as one self-contained HTML file.
func writeReport(name string, r *formulaReport) (err error) {
	page, err := template.New("report").Funcs(template.FuncMap{
		"percent": percent, "roc": r.roc, "zoom": r.zoom, "recall": r.recall, "thresholds": r.thresholds,
		"scores": r.scores,
		"width": func(i importance) float32 {
			if r.Importance[0].Moves <= 0 {
				return 0
			}
			return 100 * i.Moves / r.Importance[0].Moves
		},
	}).Parse(reportPage)
	if err != nil {
		return fmt.Errorf("report: %w", err)
	}
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	defer func() {
		if e := f.Close(); err == nil {
			err = e
		}
	}()
	return page.Execute(f, r)
}

// plot is the unit square, drawn into a picture.
type plot struct {
	*svg.Image
	most float64 // value at the right end
}

const (
	plotLeft, plotTop, plotWidth, plotHeight = 44.0, 10.0, 340.0, 220.0
)

func (p plot) x(v float64) float64 { return plotLeft + plotWidth*min(v/p.most, 1) }

func (p plot) y(v float64) float64 { return plotTop + plotHeight*(1-v) }

// begin draws the grid and the names of the axes.
func begin(label, xName, yName string, most float64) plot {
	p := plot{svg.New(400, 270, label), most}
	for i := range 6 {
		v := float64(i) / 5
		p.Line(plotLeft, p.y(v), plotLeft+plotWidth, p.y(v), "grid", "")
		p.Text(plotLeft-6, p.y(v)+4, "end", "tick", fmt.Sprintf("%.1f", v))
		p.Text(p.x(v*most), plotTop+plotHeight+16, "middle", "tick", fmt.Sprintf("%.3g", v*most))
	}
	p.Text(plotLeft+plotWidth/2, 264, "middle", "axis", xName)
	p.Upwards(11, plotTop+plotHeight/2, "axis", yName)
	return p
}

// line draws points in order; NaNs are left out.
func (p plot) line(class string, points [][2]float64) {
	drawn := make([][2]float64, len(points))
	for i, q := range points {
		drawn[i] = [2]float64{p.x(q[0]), p.y(q[1])}
	}
	p.Path(drawn, class)
}

func (p plot) dot(x, y float64) { p.Dot(p.x(x), p.y(y), 4, "mark") }

func (r *formulaReport) curve(label string, most float64) template.HTML {
	p := begin(label, "people banned (share)", "robots banned (share)", most)
	if most == 1 {
		p.line("chance", [][2]float64{{0, 0}, {1, 1}})
	}
	var points [][2]float64
	for i, c := range r.Total.Curve {
		x, y := float64(c.FPR), float64(c.Recall)
		if x > most && i > 0 { // end at the edge
			before := r.Total.Curve[i-1]
			if x0 := float64(before.FPR); x0 < most {
				points = append(points, [2]float64{most, float64(before.Recall) +
					(y-float64(before.Recall))*(most-x0)/(x-x0)})
			}
			break
		}
		points = append(points, [2]float64{x, y})
	}
	p.line("robots", points)
	if float64(r.Suggested.FPR) <= most {
		p.dot(float64(r.Suggested.FPR), float64(r.Suggested.Recall))
	}
	return p.HTML()
}

func (r *formulaReport) roc() template.HTML { return r.curve("ROC curve", 1) }

func (r *formulaReport) zoom() template.HTML {
	return r.curve("ROC curve at low rates of false positives", 0.05)
}

func (r *formulaReport) recall() template.HTML {
	p := begin("Precision and recall", "robots banned (share)", "precision", 1)
	var points [][2]float64
	for _, c := range r.Total.Curve {
		points = append(points, [2]float64{float64(c.Recall), float64(c.Precision)})
	}
	p.line("precision", points)
	return p.HTML()
}

func (r *formulaReport) thresholds() template.HTML {
	p := begin("Precision and recall by threshold", "threshold", "share", 1)
	var precision, recall, wronged [][2]float64
	for _, q := range r.Total.Points {
		t := float64(q.Threshold)
		precision = append(precision, [2]float64{t, float64(q.Precision)})
		recall = append(recall, [2]float64{t, float64(q.Recall)})
		wronged = append(wronged, [2]float64{t, float64(q.FPR)})
	}
	p.line("precision", precision)
	p.line("robots", recall)
	p.line("people", wronged)
	t := p.x(float64(r.Suggested.Threshold))
	p.Line(t, plotTop, t, plotTop+plotHeight, "at", "")
	return p.HTML()
}

// scores draws how the scores of people and of robots are spread, each as shares of their own.
func (r *formulaReport) scores() template.HTML {
	p := begin("Scores of people and robots", "score", "share of each", 1)
	draw := func(class string, counts [20]int, of int, shift float64) {
		for i, n := range counts {
			if n == 0 || of == 0 {
				continue
			}
			v := float64(n) / float64(of)
			p.Rect(p.x(float64(i)/20)+shift, p.y(v), 7, plotHeight*v, class, "")
		}
	}
	draw("people", r.Total.PeopleScores, r.Total.People, 1)
	draw("robots", r.Total.RobotScores, r.Total.Robots, 9)
	return p.HTML()
}

// Percent is for the page.
func (s sourceFigures) Percent() string {
	if s.Count == 0 {
		return ""
	}
	return percent(formula.Figure(float64(s.Banned) / float64(s.Count)))
}

// Label is for the page.
func (s sourceFigures) Label() string { return s.label() }

// Sentence is for the page.
func (r *formulaReport) Sentence() string { return r.suggestion() }
