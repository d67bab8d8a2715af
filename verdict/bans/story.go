package bans

import "time"

// Story is a ban as JSON shows it.
type Story struct {
	Subject   string             `json:"subject"`
	Until     time.Time          `json:"until"`
	Made      time.Time          `json:"made"`
	Service   string             `json:"service,omitempty"` // empty: all services
	Source    string             `json:"source"`
	Score     float32            `json:"score,omitempty"`
	Threshold float32            `json:"threshold,omitempty"`
	Reason    string             `json:"reason,omitempty"`
	Factors   map[string]float32 `json:"factors,omitempty"`
	Amounts   map[string]float32 `json:"amounts,omitempty"` // what each factor added to the score, in log-odds
	Model     string             `json:"model,omitempty"`
	OneClient bool               `json:"one_client,omitempty"` // it stops one client of the address only, which alone has read as a robot does
}

// Story returns the ban as JSON shows it.
func (b *Ban) Story() *Story {
	s := &Story{
		Subject: b.Subject.String(), Until: b.Until.UTC(), Made: b.Made.UTC(), Service: b.Service, Source: b.Source.String(),
		Score: b.Score, Threshold: b.Threshold, Reason: b.Reason, Model: b.Model, OneClient: b.Only != 0,
	}
	for _, f := range b.Factors {
		if f.Name != "" {
			if s.Factors == nil {
				s.Factors = make(map[string]float32, MaxFactors)
			}
			s.Factors[f.Name] = f.Value
		}
		if f.Name != "" && f.Amount != 0 {
			if s.Amounts == nil {
				s.Amounts = make(map[string]float32, MaxFactors)
			}
			s.Amounts[f.Name] = f.Amount
		}
	}
	return s
}
