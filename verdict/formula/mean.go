package formula

// Mean adds up what the moments of a visitor were scored, in the order in which they came, for figures: the n-th counts n times,
// because the later a moment is, the more is known. A gateway, which has to decide at each, adds up otherwise (processor.visit). The zero
// value has no moments.
type Mean struct {
	N int

	sum float64 // of log-odds, each as often as it counts
}

// Add adds the log-odds of the next moment.
func (m *Mean) Add(raw float64) {
	m.N++
	m.sum += raw * float64(m.N)
}

// LogOdds is the mean; NaN without moments.
func (m *Mean) LogOdds() float64 { return m.sum / (float64(m.N) * float64(m.N+1) / 2) }
