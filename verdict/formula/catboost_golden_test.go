package formula

import (
	"encoding/json"
	"fmt"
	"math"
	"path/filepath"
	"testing"
)

// TestCatBoostGolden compares models that CatBoost trained and saved with CatBoost's own predictions; see
// testdata/catboost/README.md.
func TestCatBoostGolden(t *testing.T) {
	for _, name := range []string{"xor", "regression"} {
		t.Run(name, func(t *testing.T) {
			var rows struct {
				X [][]float32 `json:"x"`
				Y []float64   `json:"y"`
			}
			if err := json.Unmarshal(read(t, filepath.Join("testdata", "catboost", name+".json")), &rows); err != nil {
				t.Fatal(err)
			}
			if len(rows.X) != 10 || len(rows.Y) != 10 {
				t.Fatalf("%d rows, %d predictions", len(rows.X), len(rows.Y))
			}
			var names []string
			for i := range rows.X[0] {
				names = append(names, fmt.Sprintf("f%d", i))
			}
			m := mustLoad(t, string(read(t, filepath.Join("testdata", "catboost", name+"-model.json"))), names...)
			for i, x := range rows.X {
				if got, want := m.Raw(x), float32(rows.Y[i]); far(got, want, 2) {
					t.Errorf("row %d: %v, CatBoost says %v", i, got, want)
				}
				if got := m.Score(x); got != float32(math.Min(1, math.Max(0, float64(m.Raw(x))))) {
					t.Errorf("row %d: the score of a regression is %v", i, got)
				}
				sumsUp(t, m, x)
			}
		})
	}
}
