package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Bounds on how much of an answer is read.
const (
	maxAnswer  = 64 << 10
	maxControl = 20 * time.Second
)

// plainClient talks directly to the gateway: it uses no proxy from the environment, follows no redirects and keeps no
// cookies.
func plainClient() *http.Client {
	return &http.Client{
		Timeout: 30 * time.Second,
		Transport: &http.Transport{
			Proxy: nil, MaxIdleConnsPerHost: 16, IdleConnTimeout: 30 * time.Second, DisableCompression: true,
			MaxResponseHeaderBytes: 32 << 10,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

type api struct {
	url   func() string // nil: there is none
	token string
	http  *http.Client
}

// call calls the admin API, and reads what it answers into out unless that is nil. What is absent needs no deletion.
func (a *api) call(ctx context.Context, method, target string, in, out any) error {
	if a.url == nil || a.url() == "" {
		return errors.New("no admin API is given to the site")
	}
	ctx, done := context.WithTimeout(ctx, maxControl)
	defer done()
	var body bytes.Buffer
	if in != nil {
		if err := json.NewEncoder(&body).Encode(in); err != nil {
			return err
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(a.url(), "/")+target, &body)
	if err != nil {
		return errors.New("the URL of the admin API is malformed")
	}
	req.Header.Set("Authorization", "Bearer "+a.token)
	if in != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := a.http.Do(req)
	if err != nil {
		return fmt.Errorf("admin API: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	switch {
	case err != nil:
	case resp.StatusCode/100 == 2 && out != nil:
		err = json.Unmarshal(answer, out)
	case resp.StatusCode/100 == 2, method == http.MethodDelete && resp.StatusCode == http.StatusNotFound:
	default:
		var told struct {
			Error struct{ Message string } `json:"error"`
		}
		_ = json.Unmarshal(answer, &told)
		err = fmt.Errorf("%d %s", resp.StatusCode, told.Error.Message)
	}
	if err != nil {
		return fmt.Errorf("admin API: %s %s: %w", method, target, err)
	}
	return nil
}

// assign gives subject (kind:id) a role for roleLife, in place of what playing gave it before.
func (a *api) assign(ctx context.Context, subject string, to role) error {
	if err := a.takeBack(ctx, subject); err != nil {
		return err
	}
	switch to {
	case roleBanned:
		return a.call(ctx, http.MethodPost, "/api/bans", map[string]string{"subject": subject, "ttl": roleLife, "reason": playReason}, nil)
	case roleListed, roleBlocked, roleWhite:
		return a.call(ctx, http.MethodPost, "/api/lists/"+to.list(), map[string]string{"entry": entry(subject), "ttl": roleLife, "reason": playReason}, nil)
	}
	return nil
}

func (r role) list() string {
	switch r {
	case roleBlocked:
		return "block"
	case roleWhite:
		return "white"
	default:
		return "ban"
	}
}

// entry is a subject as written in a list: an address stands for itself.
func entry(subject string) string {
	if a, ok := strings.CutPrefix(subject, "ip:"); ok {
		return a
	}
	return subject
}

// why asks the admin API what was decided about a request; "" if it does not know.
func (a *api) why(ctx context.Context, requestID string) string {
	if requestID == "" || len(requestID) > 64 {
		return ""
	}
	var d struct{ Verdict, Cause, Reason string }
	if a.call(ctx, http.MethodGet, "/api/decisions/"+url.PathEscape(requestID), nil, &d) != nil {
		return ""
	}
	out := d.Verdict
	if d.Cause != "" && d.Cause != "none" {
		out += ": " + d.Cause
	}
	if d.Reason != "" {
		out += " (" + clip(d.Reason, 120) + ")"
	}
	return out
}

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
		}
	}
	if err := a.call(ctx, http.MethodGet, "/api/subjects/"+url.PathEscape(subject), nil, &told); err != nil {
		return st, err
	}
	st.Pages, st.Parts, st.Score = told.Session.Pages, told.Session.Parts, told.Session.Score
	st.Judged = told.Session.Evaluated != nil
	for _, l := range lists {
		var page struct{ Items []held }
		if err := a.call(ctx, http.MethodGet, "/api/lists/"+l.list()+"?limit=200", nil, &page); err != nil {
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
		if err := a.call(ctx, http.MethodDelete, target, nil, nil); err != nil {
			return err
		}
	}
	return nil
}
