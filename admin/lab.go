package admin

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"antirobot/journal"
	"antirobot/lab"
)

// Lab rehearses and applies changes of the settings. The gateway does.
type Lab interface {
	View() (lab.View, error)
	Rehearse(ctx context.Context, c *lab.Change, since, now time.Time) (*lab.Rehearsal, error)
	Apply(c *lab.Change, by string) (lab.VersionView, error)
	Shadow(c *lab.Change, by string) (lab.VersionView, error) // nil ends it
	TakeBack() (lab.VersionView, error)
}

// Bounds of a rehearsal.
const (
	usualRehearsal = 3 * 24 * time.Hour
	maxRehearsal   = 60 * 24 * time.Hour
)

func (s *Server) lab() (Lab, error) {
	if s.deps.Lab == nil {
		return nil, absentPart("the lab")
	}
	return s.deps.Lab, nil
}

// labProblem says what is wrong with a change.
func labProblem(err error) error {
	if errors.Is(err, lab.ErrBusy) {
		return &problem{status: fasthttp.StatusConflict, Code: "busy", Message: err.Error() + "; try again in a moment"}
	}
	all := flatten(err)
	return &problem{
		status: fasthttp.StatusUnprocessableEntity, Code: "change_refused", Errors: all,
		Message: "nothing was changed: " + strings.Join(all, "; "),
	}
}

// labView shows what can be changed, what was changed, and what can be taken back.
func (s *Server) labView(*call) (any, error) {
	l, err := s.lab()
	if err != nil {
		return nil, err
	}
	return l.View()
}

// labCall is a change with the span of a rehearsal.
type labCall struct {
	lab.Change
	Since string `json:"since"` // a time of RFC 3339, or a duration before now; empty: three days
}

// rehearse says what a change would have done.
func (s *Server) rehearse(c *call) (any, error) {
	l, err := s.lab()
	if err != nil {
		return nil, err
	}
	var in labCall
	if err := decode(c.RequestCtx, &in); err != nil {
		return nil, err
	}
	now := s.now()
	since := now.Add(-usualRehearsal)
	if in.Since != "" {
		q, err := journal.ParseQuery("since:"+in.Since, now)
		if err != nil || now.Sub(q.Since) > maxRehearsal || q.Since.After(now) {
			return nil, badField("since", "%q is neither a time of the last sixty days nor a duration such as 12h or 3d", clipped(in.Since))
		}
		since = q.Since
	}
	c.acted = true // nothing is done that the journal would have to keep
	out, err := l.Rehearse(c.work, &in.Change, since, now)
	if err != nil {
		return nil, labProblem(err)
	}
	return out, nil
}

// applyLab puts a change into force.
func (s *Server) applyLab(c *call) (any, error) {
	return s.changeLab(c, "lab apply", Lab.Apply)
}

// shadow has a change looked at: what it would do is shown, and its model scores beside the one in use.
func (s *Server) shadow(c *call) (any, error) {
	return s.changeLab(c, "lab shadow", Lab.Shadow)
}

func (s *Server) changeLab(c *call, what string, do func(Lab, *lab.Change, string) (lab.VersionView, error)) (any, error) {
	l, err := s.lab()
	if err != nil {
		return nil, err
	}
	var in lab.Change
	if err := decode(c.RequestCtx, &in); err != nil {
		return nil, err
	}
	v, err := do(l, &in, c.who.Name)
	if err != nil {
		return nil, labProblem(err)
	}
	s.act(c, journal.Act{What: what, Reason: strings.Join(in.Changes(), "; ")})
	return v, nil
}

func (s *Server) shadowOver(c *call) (any, error) {
	l, err := s.lab()
	if err != nil {
		return nil, err
	}
	v, err := l.Shadow(nil, c.who.Name)
	if err != nil {
		return nil, labProblem(err)
	}
	s.act(c, journal.Act{What: "lab shadow over"})
	return v, nil
}

// takeBack puts into force what was before the last change.
func (s *Server) takeBack(c *call) (any, error) {
	l, err := s.lab()
	if err != nil {
		return nil, err
	}
	v, err := l.TakeBack()
	if err != nil {
		return nil, labProblem(err)
	}
	s.act(c, journal.Act{What: "lab take back", Reason: strings.Join(v.Changes, "; ")})
	return v, nil
}
