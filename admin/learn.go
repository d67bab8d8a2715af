package admin

import (
	"errors"

	"antirobot/journal"
	"antirobot/verdict/learn"
)

// LearntStory is the card of a service, as JSON shows it.
type LearntStory struct {
	Service  string        `json:"service"`
	Sample   learn.Counts  `json:"sample"`
	Opinion  bool          `json:"opinion"`          // visitors are graded
	Learnt   *learn.Learnt `json:"learnt,omitempty"` // absent: nothing was learnt yet
	Card     string        `json:"card,omitempty"`   // as a file
	Previous bool          `json:"previous"`         // there is a card to roll back to
}

func learntStory(s *learn.State) LearntStory {
	story := LearntStory{Service: s.Service, Sample: s.Sample, Previous: s.Previous}
	if s.Card != nil {
		story.Opinion, story.Learnt, story.Card = s.Card.Opinion(), &s.Card.Learnt, string(s.Card.Text())
	}
	return story
}

func (s *gatewayCalls) learnt(c *call) (any, error) {
	list, err := s.deps.Learning.States(c.work)
	if err != nil {
		return nil, err
	}
	items := make([]LearntStory, 0, len(list))
	for i := range list {
		items = append(items, learntStory(&list[i]))
	}
	return struct {
		Items []LearntStory `json:"items"`
	}{items}, nil
}

// rollBackLearnt puts the previous card of a service back into use.
func (s *gatewayCalls) rollBackLearnt(c *call) (any, error) {
	var in struct {
		Service string `json:"service"`
	}
	if err := decode(c.RequestCtx, &in); err != nil {
		return nil, err
	}
	card, err := s.deps.Learning.RollBack(c.work, in.Service)
	if errors.Is(err, learn.ErrNoCard) {
		return nil, notFound("%.60q has no previous card", in.Service)
	}
	if err != nil {
		return nil, changed(err, "the card")
	}
	s.act(c, journal.Act{What: "learn rollback", Reason: in.Service})
	return learntStory(&learn.State{Service: in.Service, Card: card, Previous: true}), nil
}
