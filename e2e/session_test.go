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
	Factors []weighed
}

// weighed is a factor with what it adds to the score.
type weighed struct {
	Name   string
	Value  *float64 // nil: unknown
	Amount float64
}

// subject is what a gateway knows of a visitor, as its API shows it.
type subject struct {
	Bans    []struct{ Reason string }
	Session session
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

// subject asks what the gateway knows of a visitor.
func (g *gateway) subject(name string) (s subject) {
	g.t.Helper()
	if err := json.Unmarshal(g.api("GET", "/api/subjects/"+name, nil), &s); err != nil {
		g.t.Fatal(err)
	}
	return s
}

// session asks what its memory has of one.
func (g *gateway) session(name string) session {
	g.t.Helper()
	return g.subject(name).Session
}
