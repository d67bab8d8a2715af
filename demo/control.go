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

// control calls the admin API. It returns the status and the body; an error concerns only the connection.
func (a *api) control(ctx context.Context, method, target string, in any) (int, []byte, error) {
	if a.url == nil || a.url() == "" {
		return 0, nil, errors.New("no admin API is given to the site")
	}
	ctx, done := context.WithTimeout(ctx, maxControl)
	defer done()
	var body io.Reader
	if in != nil {
		b, err := json.Marshal(in)
		if err != nil {
			return 0, nil, err
		}
		body = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(a.url(), "/")+target, body)
	if err != nil {
		return 0, nil, errors.New("the URL of the admin API is malformed")
	}
	req.Header.Set("Authorization", "Bearer "+a.token)
	if in != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := a.http.Do(req)
	if err != nil {
		return 0, nil, fmt.Errorf("admin API: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return 0, nil, fmt.Errorf("admin API: %w", err)
	}
	return resp.StatusCode, b, nil
}

// assign gives subject (kind:id) a role for roleLife, in place of what playing gave it before.
func (a *api) assign(ctx context.Context, subject string, to role) error {
	if err := a.takeBack(ctx, subject); err != nil {
		return err
	}
	switch to {
	case roleBanned:
		return a.expect(ctx, http.MethodPost, "/api/bans", map[string]string{"subject": subject, "ttl": roleLife, "reason": playReason}, false)
	case roleListed, roleBlocked, roleWhite:
		return a.expect(ctx, http.MethodPost, "/api/lists/"+to.list(), map[string]string{"entry": entry(subject), "ttl": roleLife, "reason": playReason}, false)
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

// expect turns anything but success (or absence, if that is acceptable) into an error.
func (a *api) expect(ctx context.Context, method, target string, in any, absentOK bool) error {
	status, body, err := a.control(ctx, method, target, in)
	if err != nil || status/100 == 2 || absentOK && status == http.StatusNotFound {
		return err
	}
	var told struct {
		Error struct{ Message string } `json:"error"`
	}
	_ = json.Unmarshal(body, &told)
	return fmt.Errorf("admin API: %s %s: %d %s", method, target, status, told.Error.Message)
}

// why asks the admin API what was decided about a request; "" if it does not know.
func (a *api) why(ctx context.Context, requestID string) string {
	if requestID == "" || len(requestID) > 64 {
		return ""
	}
	status, body, err := a.control(ctx, http.MethodGet, "/api/decisions/"+url.PathEscape(requestID), nil)
	if err != nil || status != http.StatusOK {
		return ""
	}
	var d struct{ Verdict, Cause, Reason string }
	if json.Unmarshal(body, &d) != nil {
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
