package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"time"
)

// playReason stands in every ban and entry that the site asks for: by it they are taken back, and no others.
const playReason = "playing robot on the demo site"

// standing is what the gateway says of a subject, asked through its private API.
type standing struct {
	Role    role
	Subject string // kind:id
	Until   time.Time
	Reason  string // of the ban or the entry
	Pages   int    // that it was seen to load …
	Parts   int    // … and parts of them
	Score   float64
	Judged  bool // there is a score
	Shown   int  // challenges

	mine []held // what playing did
}

type held struct {
	Entry, Reason, Source string
	Until                 time.Time
	role                  role
}

// lists are the lists that make roles, the strongest role first.
var lists = [...]role{roleBlocked, roleWhite, roleListed}

func (a *api) standing(ctx context.Context, subject string) (standing, error) {
	st := standing{Role: roleHuman, Subject: subject}
	var told struct {
		Subject string
		Bans    []held
		Session struct {
			Pages, Parts int
			Score        float64
			Evaluated    *time.Time
			Challenges   struct{ Shown int }
		}
	}
	if err := a.read(ctx, "/api/subjects/"+url.PathEscape(subject), &told); err != nil {
		return st, err
	}
	st.Pages, st.Parts, st.Score = told.Session.Pages, told.Session.Parts, told.Session.Score
	st.Judged, st.Shown = told.Session.Evaluated != nil, told.Session.Challenges.Shown
	for _, l := range lists {
		var page struct{ Items []held }
		if err := a.read(ctx, "/api/lists/"+l.list()+"?limit=200", &page); err != nil {
			return st, err
		}
		for _, h := range page.Items {
			if h.Entry == entry(subject) || h.Entry == told.Subject {
				h.role = l
				st.holds(h)
			}
		}
	}
	for _, b := range told.Bans {
		b.role = roleBanned
		st.holds(b)
	}
	return st, nil
}

// holds takes a ban or an entry into account: the first one makes the role.
func (st *standing) holds(h held) {
	if st.Role == roleHuman {
		st.Role, st.Until, st.Reason = h.role, h.Until, h.Reason
	}
	if h.Reason == playReason || h.Source == "processor" {
		st.mine = append(st.mine, h)
	}
}

func (a *api) read(ctx context.Context, target string, into any) error {
	status, body, err := a.control(ctx, http.MethodGet, target, nil)
	if err != nil {
		return err
	}
	if status != http.StatusOK {
		return fmt.Errorf("admin API: GET %s: %d", target, status)
	}
	if err := json.Unmarshal(body, into); err != nil {
		return fmt.Errorf("admin API: GET %s: %w", target, err)
	}
	return nil
}

// takeBack removes everything that playing has brought on a subject: what the site asked for, and what the gateway has concluded
// from it. What an operator did stays.
func (a *api) takeBack(ctx context.Context, subject string) error {
	st, err := a.standing(ctx, subject)
	if err != nil {
		return err
	}
	for _, h := range st.mine {
		target := "/api/bans?service=*&subject=" + url.QueryEscape(subject)
		if h.role != roleBanned {
			target = "/api/lists/" + h.role.list() + "?entry=" + url.QueryEscape(entry(subject))
		}
		if err := a.expect(ctx, http.MethodDelete, target, nil, true); err != nil {
			return err
		}
	}
	return nil
}
