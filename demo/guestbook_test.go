package demo

import (
	"bytes"
	"fmt"
	"mime/multipart"
	"strings"
	"testing"
	"time"

	"antirobot/message/learn"
)

func TestGuestbook(t *testing.T) {
	site := newSite(Options{})
	w := post(t, site, "/guestbook", urlencoded, "name=Ann&words=%3Cb%3Ehello%3C%2Fb%3E+world",
		"X-Test-Header", "came <through>", "Cookie", "spravka=0123456789abcdef; i=xyz")
	body := w.Body.String()
	checkHTML(t, "posted", body)
	for _, want := range []string{"&lt;b&gt;hello&lt;/b&gt; world", "X-Test-Header", "came &lt;through&gt;", "spravka=012345…", "i=xyz"} {
		if !strings.Contains(body, want) {
			t.Errorf("no %q on the page", want)
		}
	}
	if strings.Contains(body, "0123456789abcdef") {
		t.Error("the page prints a whole pass")
	}
	if got := get(t, site, "/guestbook").Body.String(); !strings.Contains(got, "hello&lt;/b&gt; world") {
		t.Error("the entry is not kept")
	}

	var buf bytes.Buffer
	mp := multipart.NewWriter(&buf)
	_ = mp.WriteField("name", "Bob")
	_ = mp.WriteField("words", "by multipart")
	part, _ := mp.CreateFormFile("file", `pic".png`)
	_, _ = part.Write(make([]byte, 1234))
	_ = mp.Close()
	body = post(t, site, "/guestbook", mp.FormDataContentType(), buf.String()).Body.String()
	if !strings.Contains(body, "1234 bytes") || !strings.Contains(body, "by multipart") {
		t.Error("the multipart form is not shown")
	}

	for _, c := range []struct {
		kind, body string
		want       int
	}{
		{urlencoded, "name=x", 422},
		{urlencoded, "words=" + strings.Repeat("x", maxForm), 413},
		{mp.FormDataContentType(), "garbage", 422},
		{"multipart/form-data", "x", 400},
		{urlencoded, "words=%zz", 400},
	} {
		if w := post(t, site, "/guestbook", c.kind, c.body); w.Code != c.want {
			t.Errorf("%s %.20q: %d, want %d", c.kind, c.body, w.Code, c.want)
		}
	}
	if w := post(t, site, "/guestbook", urlencoded, "words=x", "Sec-Fetch-Site", "cross-site", "Origin", "https://evil.example"); w.Code != 403 {
		t.Errorf("a foreign page may sign: %d", w.Code)
	}
}

func TestGuestbookIsBounded(t *testing.T) {
	now := time.Unix(1e9, 0)
	s := newSite(Options{Now: func() time.Time { return now }})
	for i := range 100 {
		post(t, s, "/guestbook", urlencoded, fmt.Sprintf("words=entry+%d", i))
	}
	if n := len(s.book.latest(now)); n != maxEntries || s.book.latest(now)[0].Words != "entry 99" {
		t.Errorf("%d entries", n)
	}
	now = now.Add(entryLife)
	if n := len(s.book.latest(now)); n != 0 {
		t.Errorf("%d entries outlive their time", n)
	}
}

// TestLessons: the demo's model knows enough to judge by itself, and no lesson is given twice.
func TestLessons(t *testing.T) {
	n, seen := map[bool]int{}, map[string]bool{}
	for _, l := range Lessons() {
		if seen[l.Text] {
			t.Errorf("%q twice", l.Text)
		}
		seen[l.Text] = true
		n[l.Spam]++
	}
	if n[false] < learn.LeastGood || n[true] < learn.LeastBad {
		t.Errorf("%d good and %d bad lessons, of at least %d and %d", n[false], n[true], learn.LeastGood, learn.LeastBad)
	}
}
