package admin

import (
	"errors"
	"fmt"

	"antirobot/identity"
	"antirobot/journal"
	"antirobot/message/queue"
	"antirobot/verdict/words"
)

// erased is how much of a subject was erased, where.
type erased struct {
	Subject string `json:"subject"`
	Entries int    `json:"entries"` // of the journal
	Bans    int    `json:"bans"`
	Labels  int    `json:"labels"`
	Queued  int    `json:"queued"` // messages of the queue
}

// eraseSubject forgets a subject: its entries in the journal, bans, label, standing and session, and its messages in
// the queue. What can't be erased is said; the rest is erased all the same.
func (s *subjectCalls) eraseSubject(c *call) (any, error) {
	sub, err := subjectIn("subject", c.arg)
	if err != nil {
		return nil, err
	}
	out := erased{Subject: sub.String()}
	err = errors.Join(s.eraseRemembered(c, sub, &out), s.eraseKept(c, sub, &out))
	if s.deps.Forget != nil {
		err = errors.Join(err, s.deps.Forget(c.work, sub))
	}
	if err != nil {
		return nil, &problem{
			status: statusUnavailable, Code: "not_durable", Errors: flatten(err),
			Message: "not everything could be erased; ask again: " + err.Error(),
		}
	}
	// whose, is not to be kept
	s.act(c, journal.Act{What: "erase", Reason: words.Sprintf(words.English,
		"%d {entry|entries}, %d {ban|bans}, %d {message|messages} of a subject", out.Entries, out.Bans, out.Queued)})
	return out, nil
}

// eraseRemembered erases entries of the journal and messages of the queue.
func (s *subjectCalls) eraseRemembered(c *call, sub identity.Subject, out *erased) (err error) {
	if s.deps.Journal != nil {
		if out.Entries, err = s.deps.Journal.Erase(c.work, sub.String()); err != nil {
			err = fmt.Errorf("the journal: %w", err)
		}
	}
	if s.deps.Queue == nil {
		return err
	}
	n, e := s.deps.Queue.EraseAll(c.work, queue.Filter{Sender: sub.String()})
	out.Queued = n
	if e != nil {
		err = errors.Join(err, fmt.Errorf("the queue: %w", e))
	}
	return err
}

// eraseKept erases bans and the label.
func (s *subjectCalls) eraseKept(c *call, sub identity.Subject, out *erased) (err error) {
	if s.deps.Bans != nil {
		if out.Bans, err = s.deps.Bans.Unban(c.work, sub, "*"); err != nil {
			err = fmt.Errorf("its bans: %w", err)
		}
	}
	if s.deps.Labels == nil {
		return err
	}
	had, e := s.deps.Labels.Unlabel(c.work, sub, s.second())
	if had {
		out.Labels = 1
	}
	if e != nil {
		err = errors.Join(err, fmt.Errorf("its label: %w", e))
	}
	return err
}
