package svg

import (
	"encoding/xml"
	"io"
	"math"
	"strings"
	"testing"
)

// TestImage: what is drawn is well formed whatever the texts, and what can't be drawn is left out.
func TestImage(t *testing.T) {
	const hostile = `</title><script>"&'`
	m := New(100, 50, hostile)
	m.Text(1, 2, "end", "strong", hostile)
	m.Rect(0, 0, 10, 5, "robot", hostile)
	m.Rect(0, 0, 0, 5, "robot", "empty")
	m.Line(0, 0, 1, 1, "grid", hostile)
	m.Path([][2]float64{{1, 2}, {math.NaN(), 3}, {4, 5}}, "curve")
	m.Dot(1, 2, 3.5, "mark")
	got := string(m.HTML())
	count := map[string]int{}
	texts := 0
	for d := xml.NewDecoder(strings.NewReader(got)); ; {
		token, err := d.Token()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatalf("%v in %s", err, got)
		}
		switch token := token.(type) {
		case xml.StartElement:
			count[token.Name.Local]++
		case xml.CharData:
			if string(token) == hostile {
				texts++
			}
		}
	}
	for name, want := range map[string]int{"svg": 1, "text": 1, "rect": 1, "title": 2, "line": 1, "polyline": 1, "circle": 1, "script": 0} {
		if count[name] != want {
			t.Errorf("%d of %s, want %d, in %s", count[name], name, want, got)
		}
	}
	if texts != 3 || !strings.Contains(got, `points="1.0,2.0 4.0,5.0"`) || strings.Contains(got, "empty") {
		t.Errorf("%d texts in %s", texts, got)
	}
}
