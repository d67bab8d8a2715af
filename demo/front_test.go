package demo

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"
)

// front stands in for a gateway and its admin API: it keeps bans and list entries, and answers requests accordingly,
// roughly as the gateway would. The end-to-end tests run this site with the real one.
type front struct {
	mu    sync.Mutex
	keeps map[string]string // "subject ip:1.2.3.4", "block 1.2.3.4" -> ttl
	why   map[string]string // the reasons
	asked []*http.Request
	bad   int // answers of the admin API that fail
	site  http.Handler
}

const adminToken = "secret-token-of-the-admin-api-1234"

func (f *front) admin(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if r.Header.Get("Authorization") != "Bearer "+adminToken {
		w.WriteHeader(401)
		return
	}
	if f.bad > 0 {
		f.bad--
		w.WriteHeader(500)
		return
	}
	if strings.HasPrefix(r.URL.Path, "/api/decisions/") {
		_, _ = io.WriteString(w, `{"verdict":"robot","cause":"ban","reason":"<b>because</b>"}`)
		return
	}
	list, thing := "subject", r.URL.Query().Get("subject")
	if sub, ok := strings.CutPrefix(r.URL.Path, "/api/subjects/"); ok {
		thing = sub
	} else if l, ok := strings.CutPrefix(r.URL.Path, "/api/lists/"); ok {
		list, thing = l, r.URL.Query().Get("entry")
	} else if r.URL.Path != "/api/bans" {
		w.WriteHeader(404)
		return
	}
	if r.Method == "GET" {
		f.tell(w, list, thing)
		return
	}
	if r.Method == "DELETE" {
		if f.keeps[list+" "+thing] == "" {
			w.WriteHeader(404)
			return
		}
		delete(f.keeps, list+" "+thing)
		return
	}
	var in struct{ Subject, Entry, TTL, Reason string }
	if r.Header.Get("Content-Type") != "application/json" || json.NewDecoder(r.Body).Decode(&in) != nil || in.Reason == "" {
		w.WriteHeader(400)
		return
	}
	f.keeps[list+" "+in.Subject+in.Entry] = in.TTL
	f.why[list+" "+in.Subject+in.Entry] = in.Reason
}

// tell answers what is known of a subject, or the entries of a list. What the operator or the judgement did has no TTL.
func (f *front) tell(w http.ResponseWriter, list, subject string) {
	out := []map[string]any{}
	for k, ttl := range f.keeps {
		of, thing, _ := strings.Cut(k, " ")
		if of != list || list == "subject" && thing != subject {
			continue
		}
		source := "api"
		if ttl == "judged" {
			source = "processor"
		}
		out = append(out, map[string]any{"entry": thing, "reason": f.why[k], "source": source, "until": time.Unix(1.7e9, 0).Add(2 * time.Minute)})
	}
	if list != "subject" {
		_ = json.NewEncoder(w).Encode(map[string]any{"items": out})
		return
	}
	_ = json.NewEncoder(w).Encode(map[string]any{
		"subject": subject, "bans": out,
		"session": map[string]any{"pages": 31, "parts": 2, "score": 0.75, "evaluated": time.Unix(1.7e9, 0)},
	})
}

func (f *front) gate(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	f.asked = append(f.asked, r)
	ip := r.Header.Get("X-Forwarded-For")
	blocked, robot := f.keeps["block "+ip] != "", f.keeps["ban "+ip] != "" || f.keeps["subject ip:"+ip] != ""
	f.mu.Unlock()
	w.Header().Set("X-Request-Id", "req-1")
	switch {
	case r.Method == "OPTIONS" && !blocked:
		f.site.ServeHTTP(w, r)
	case blocked:
		w.Header().Set("X-Antirobot-Verdict", "blocked")
		w.WriteHeader(403)
	case robot:
		w.Header().Set("X-Antirobot-Verdict", "captcha")
		w.Header().Set("Location", "http://gate.example/showcaptcha?cc=1")
		w.Header().Set("Set-Cookie", "spravka=0123456789abcdefghij; Path=/")
		w.WriteHeader(302)
		_, _ = io.WriteString(w, "<script>alert(1)</script>")
	default:
		f.site.ServeHTTP(w, r)
	}
}

func (f *front) kept() map[string]string {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := map[string]string{}
	for k, v := range f.keeps {
		out[k] = v
	}
	return out
}

// player is a browser on the play page.
type player struct {
	t      *testing.T
	site   http.Handler
	cookie string
	ip     string
}

func (p *player) do(method, target string, form url.Values, header ...string) *httptest.ResponseRecorder {
	p.t.Helper()
	r := httptest.NewRequest(method, target, strings.NewReader(form.Encode()))
	if form != nil {
		r.Header.Set("Content-Type", urlencoded)
	}
	if p.ip != "" {
		r.Header.Set("X-Real-Ip", p.ip)
	}
	r.Header.Set("Cookie", p.cookie)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	p.site.ServeHTTP(w, r)
	for _, c := range w.Result().Cookies() {
		if c.Name == visitorCookie {
			p.cookie = c.Name + "=" + c.Value
		}
	}
	return w
}

func (p *player) turn(who, role string) string {
	p.t.Helper()
	w := p.do("POST", "/play", url.Values{"who": {who}, "role": {role}})
	if w.Code != 303 {
		p.t.Fatalf("%s %s: %d", who, role, w.Code)
	}
	return w.Header().Get("Location")
}

func newFront(t *testing.T, now func() time.Time) (*front, *site) {
	t.Helper()
	f := &front{keeps: map[string]string{}, why: map[string]string{}}
	gate, admin := httptest.NewServer(http.HandlerFunc(f.gate)), httptest.NewServer(http.HandlerFunc(f.admin))
	s := newSite(Options{
		GatewayURL: func() string { return gate.URL + "/" }, AdminURL: func() string { return admin.URL }, Token: adminToken,
		XMLQuery: "key=demo", Now: now, CookieName: "demo",
		SignCookie: func(name, value string, made time.Time) (string, error) {
			return value + "." + made.Format("20060102") + ".sig-" + name, nil
		},
	})
	f.site = s
	t.Cleanup(func() {
		s.prober.http.CloseIdleConnections()
		gate.Close()
		admin.Close()
	})
	return f, s
}
