package admin

import (
	"errors"
	"time"

	"antirobot/identity"
	"antirobot/journal"
	"antirobot/request"
	"antirobot/verdict/label"
)

// LabelStory is a label as JSON shows it.
type LabelStory struct {
	Subject string    `json:"subject"`
	Label   string    `json:"label"`
	Source  string    `json:"source"`
	At      time.Time `json:"at"`
	Reason  string    `json:"reason,omitempty"`
}

func storyOf(e *label.Entry) LabelStory {
	return LabelStory{e.Subject.String(), e.Label.String(), e.Source.String(), e.At.UTC(), e.Reason}
}

// listLabels shows the labels in the order of their subjects. One walk at a time: it copies the table.
func (s *subjectCalls) listLabels(c *call) (any, error) {
	p, err := newPage[LabelStory](c)
	if err != nil {
		return nil, err
	}
	s.walk.Lock()
	defer s.walk.Unlock()
	all := s.deps.Labels.Labels()
	for i := range all {
		story := storyOf(&all[i])
		p.offer(story.Subject, story)
	}
	items, next := p.take()
	return listed[LabelStory]{items, next}, nil
}

func (s *subjectCalls) setLabel(c *call) (any, error) {
	var in struct {
		Subject string `json:"subject"`
		Request string `json:"request"`
		Label   string `json:"label"`
		Reason  string `json:"reason"`
	}
	if err := decode(c.RequestCtx, &in); err != nil {
		return nil, err
	}
	e := label.Entry{Mark: label.Mark{Source: label.Operator}, At: s.second(), Reason: in.Reason}
	var err error
	if e.Subject, err = s.labelledSubject(in.Subject, in.Request); err != nil {
		return nil, err
	}
	var ok bool
	if e.Label, ok = label.Parse(in.Label); !ok {
		return nil, badField("label", "%.60q is neither human nor robot", in.Label)
	}
	if err := checkReason(in.Reason); err != nil {
		return nil, err
	}
	if err := s.deps.Labels.Label(c.work, e); err != nil {
		return nil, labelKept(err)
	}
	s.act(c, journal.Act{What: "label " + e.Label.String(), Subject: e.Subject.String(), Reason: e.Reason})
	return storyOf(&e), nil
}

func (s *subjectCalls) removeLabel(c *call) (any, error) {
	sub, err := s.labelledSubject(string(c.QueryArgs().Peek("subject")), string(c.QueryArgs().Peek("request")))
	if err != nil {
		return nil, err
	}
	had, err := s.deps.Labels.Unlabel(c.work, sub, s.second())
	if err != nil {
		return nil, labelKept(err)
	}
	if !had {
		return nil, notFound("%s has no label", sub)
	}
	s.act(c, journal.Act{What: "unlabel", Subject: sub.String()})
	return struct {
		Removed string `json:"removed"`
	}{sub.String()}, nil
}

// labelledSubject returns the subject that is named, or to which a request of late was charged.
func (s *subjectCalls) labelledSubject(subject, rid string) (identity.Subject, error) {
	switch {
	case subject != "" && rid != "":
		return identity.Subject{}, badField("request", "give either a subject or a request")
	case subject != "":
		return subjectIn("subject", subject)
	case rid == "":
		return identity.Subject{}, badField("subject", "say who: a subject such as ip:203.0.113.7, or the ID of a "+
			"request")
	}
	id, ok := request.ParseID(rid)
	if !ok {
		return identity.Subject{}, badField("request", "%.60q is no request ID: it has 26 letters and digits", rid)
	}
	if s.deps.Decisions == nil {
		return identity.Subject{}, absentPart("the memory of decisions")
	}
	story, known := s.deps.Decisions.Get(id)
	if !known || story.Subject == "" {
		return identity.Subject{}, notFound("the request %s is not remembered (verdict.decisions): name the subject",
			id)
	}
	return subjectIn("request", story.Subject)
}

// labelKept turns the error of a label that could not be kept into a response.
func labelKept(err error) error {
	if errors.Is(err, label.ErrFull) {
		return &problem{status: statusFull, Code: "full", Message: err.Error() + "; raise labels.max or remove some"}
	}
	return changed(err, "the label")
}
