package journal

import "testing"

// TestSum: figures of the names that the gateway counts by are added up.
func TestSum(t *testing.T) {
	s := Sum([]Figures{
		{Counts: map[string]float64{"requests/robot/ban": 3, "requests/robot/rule": 1, "requests/human/none": 2, "shown": 5, "answers/passed": 2, "seconds/0.1": 9}},
		{Counts: map[string]float64{"requests/robot/ban": 1, "shown/page": 1, "answers/failed": 4, "answers": 7, "requests": 9}},
	})
	if s.Requests["robot"] != 5 || s.Requests["human"] != 2 || s.Total != 7 || s.Challenges["shown"] != 6 || s.Challenges["passed"] != 2 || s.Challenges["failed"] != 4 || len(s.Challenges) != 3 {
		t.Errorf("%+v", s)
	}
}
