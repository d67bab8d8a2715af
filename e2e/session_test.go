package e2e

import (
	"encoding/json"
	"fmt"
)

// session is what the memory of a gateway has of a subject, as its API shows it.
type session struct {
	Pages   int
	Score   float64
	Claims  string `json:"claims_to_be"`
	Factors []struct {
		Name  string
		Value *float64 // nil: unknown
	}
}

// factor returns a factor as text.
func (s *session) factor(name string) string {
	for _, f := range s.Factors {
		if f.Name == name && f.Value != nil {
			return fmt.Sprint(*f.Value)
		}
	}
	return "unknown"
}

// session asks what the gateway has of a subject.
func (g *gateway) session(subject string) session {
	g.t.Helper()
	var a struct{ Session session }
	if err := json.Unmarshal(g.api("GET", "/api/subjects/"+subject, nil), &a); err != nil {
		g.t.Fatal(err)
	}
	return a.Session
}
