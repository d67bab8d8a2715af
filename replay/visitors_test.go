package replay

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"antirobot/config"
	"antirobot/identity"
	"antirobot/verdict/formula"
	"antirobot/verdict/processor"
)

// village is a log without hosts: readers of a site who are named in the last column, each of whom opens ten pages, one
// from the other, with a style sheet and two calls of a script at once, now the one first and now the other.
func village(readers int) string {
	var b strings.Builder
	for page := range 10 {
		for n := range readers {
			at := time.Date(2026, 3, 4, 9, page*3, n, 0, time.UTC)
			say := func(after time.Duration, path, from string) {
				fmt.Fprintf(&b, "203.0.113.7 - - [%s] \"GET %s HTTP/1.1\" 200 900 %q \"Mozilla/5.0 (X11; Linux x86_64; rv:144.0) Gecko/20100101 Firefox/144.0\" reader-%d\n",
					at.Add(after).Format("02/Jan/2006:15:04:05 -0700"), path, from, n)
			}
			here, from := fmt.Sprintf("/page/%d", page), "https://search.example/find"
			if page > 0 {
				from = fmt.Sprintf("https://www.site.example/page/%d", page-1)
			}
			say(0, here, from)
			say(0, "/site.css", "https://www.site.example"+here)
			calls := [...]string{"/price?of=%d", "/stock?of=%d"}
			for i := range calls {
				say(time.Second, fmt.Sprintf(calls[(n+i)%2], page), "https://www.site.example"+here)
			}
		}
	}
	return b.String()
}

// lone is a gateway of one service for any host, and what its processor observes goes to see.
func lone(t *testing.T, see processor.Observer) *Gateway {
	t.Helper()
	cfg, err := config.Read("", func(c *config.Config) { c.OverrideUpstreams([]string{"http://127.0.0.1:1"}) })
	if err != nil {
		t.Fatal(err)
	}
	g, err := NewGateway(cfg, Deps{Observer: see, Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.Close() })
	return g
}

// TestLogWithoutHosts: the log itself shows which host is the site's, so that the ways of its visitors are known, and what
// scripts ask for, so that it is no page; each visitor gets a score, and the label that a file gives it.
func TestLogWithoutHosts(t *testing.T) {
	model, err := formula.Load([]byte("version: mine\nbias: -4\nfactors: []\n"), processor.FactorNames())
	if err != nil {
		t.Fatal(err)
	}
	labels, err := ReadLabels(strings.NewReader("visitor,label\nreader-0,human\nreader-1,robot\nReader-2,robot\n"))
	if err != nil {
		t.Fatal(err)
	}
	at := func(name string) int { return slices.Index(processor.FactorNames(), name) }
	same, loads := float32(0), float32(0)
	v := &Visitors{Model: model, Labels: labels}
	g := lone(t, func(s identity.Subject, n uint16, when time.Time, x []float32, score float32) {
		v.Observe(s, n, when, x, score)
		same, loads = x[at("referer_same_share")], x[at("load_share")]*x[at("session_pages")]
	})
	who, err := ParseIdentity("column:10")
	if err != nil {
		t.Fatal(err)
	}
	l, err := Open(context.Background(), []Input{text("test.log", village(12), true)}, Options{Identity: who})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	u := Runner{Gateway: g, Visitors: v, Labels: labels}
	res, err := u.Run(context.Background(), l)
	if err != nil {
		t.Fatal(err)
	}
	if res.Report.Stopped > 0 || !strings.Contains(strings.Join(res.Report.Notes, ""), "each visitor that --identity names") {
		t.Errorf("all have one address: %d are stopped; %q", res.Report.Stopped, res.Report.Notes)
	}
	if !slices.Contains(res.Report.Notes, "2 of the 3 visitors of --labels are in the log") {
		t.Errorf("one label is of nobody: %q", res.Report.Notes)
	}
	if same < 0.8 {
		t.Errorf("%.2f of the last reader's requests come from the site", same)
	}
	if loads < 9 || loads > 11 {
		t.Errorf("the last reader has loaded %.1f pages, not 10", loads)
	}
	var out bytes.Buffer
	if err := v.Write(&out); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 13 {
		t.Fatalf("%d lines about 12 visitors:\n%s", len(lines), &out)
	}
	for _, want := range []string{"reader-0,i:%s,0,", "reader-1,i:%s,1,", "reader-2,i:%s,,"} {
		name, _, _ := strings.Cut(want, ",")
		sub := identity.TextSubject(identity.KindI, []byte(name)).String()
		if !strings.Contains(out.String(), fmt.Sprintf(want, strings.TrimPrefix(sub, "i:"))) {
			t.Errorf("%s is not in\n%s", name, &out)
		}
	}
}

// TestHostOfAnotherSite: a host whose pages are not in the log is not the site's, however many come from there.
func TestHostOfAnotherSite(t *testing.T) {
	var b strings.Builder
	for i := range 50 {
		b.WriteString(strings.Replace(line(i, "203.0.113.1", "-", "/a", "x"), `"-"`, `"https://elsewhere.example/links"`, 1))
	}
	l, err := Open(context.Background(), []Input{text("test.log", b.String(), true)}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	in := &ahead{log: l}
	in.look()
	if host := in.ownHost(); host != nil {
		t.Errorf("the site is taken for %s", host)
	}
	if len(in.first) != 50 {
		t.Errorf("%d records are ahead", len(in.first))
	}
}

func TestReadLabelsErrors(t *testing.T) {
	for _, bad := range []string{"", "who,label\n", "visitor,label\na,maybe\n", "visitor,label\na\n", "visitor,label\n\"a"} {
		if got, err := ReadLabels(strings.NewReader(bad)); err == nil {
			t.Errorf("%q is %v", bad, got)
		}
	}
	got, err := ReadLabels(strings.NewReader("\ufeffsource,visitor,label,more\nshop,a,1,x\n,b,human,y\nshop,a,0,z\n"))
	if err != nil || len(got) != 2 || got["a"] != (Known{LabelHuman, "shop"}) || got["b"] != (Known{LabelHuman, "own"}) {
		t.Errorf("%v, %v", got, err)
	}
}

func FuzzLabels(f *testing.F) {
	f.Add("visitor,label,source\na,robot,shop\n")
	f.Fuzz(func(t *testing.T, s string) {
		labels, err := ReadLabels(strings.NewReader(s))
		for who, k := range labels {
			if err == nil && (k.Label == LabelUnknown || k.Source == "") {
				t.Errorf("%q is %+v", who, k)
			}
		}
	})
}
