package captcha

import (
	"bytes"
	"encoding/xml"
	"net/url"
	"strings"
	"testing"

	"antirobot/identity"
	"antirobot/spravka"
)

// xmlAnswer is how a partner's parser reads the answer.
type xmlAnswer struct {
	XMLName  xml.Name `xml:"yandexsearch"`
	Version  string   `xml:"version,attr"`
	Response struct {
		Error struct {
			Code string `xml:"code,attr"`
			Text string `xml:",chardata"`
		} `xml:"error"`
	} `xml:"response"`
	ImgURL string `xml:"captcha-img-url"`
	Key    string `xml:"captcha-key"`
	Status string `xml:"captcha-status"`
}

func readXML(t *testing.T, a Response) (x xmlAnswer) {
	t.Helper()
	if err := xml.Unmarshal(a.Body, &x); err != nil {
		t.Fatalf("%v:\n%s", err, a.Body)
	}
	return x
}

func TestXMLPartner(t *testing.T) {
	e := newEnv(t, nil)
	user, site := from("203.0.113.7"), partner("megasearch")
	a := e.c.ChallengeXML(e.request("GET", "http://example.com/xml?query=a", user, site), false)
	x := readXML(t, a)
	for _, literal := range []string{
		`<?xml version="1.0" encoding="utf-8"?>`, `<yandexsearch version="1.0">`, `<error code="100">Robot request</error>`,
		"<captcha-status></captcha-status>", "<captcha-img-url>http://example.com/captcha/image?key=",
	} {
		if !bytes.Contains(a.Body, []byte(literal)) {
			t.Errorf("%s is missing:\n%s", literal, a.Body)
		}
	}
	if bytes.Contains(a.Body, []byte("/>")) || bytes.Contains(a.Body, []byte("'")) ||
		!strings.HasPrefix(a.Get("Content-Type"), "text/xml") || a.Status != 200 {
		t.Errorf("%s", a.Body)
	}
	if x.Version != "1.0" || x.Response.Error.Code != "100" || x.Key == "" ||
		x.ImgURL != "http://example.com/captcha/image?key="+x.Key || x.Status != "" {
		t.Errorf("%+v", x)
	}
	// A user without a pass gets a fresh, unearned one.
	fresh, err := e.ring.OpenPass([]byte(value(cookies(&a)["spravka"])), e.now())
	if err != nil || fresh.Earned || fresh.Allowance != 0 || fresh.Partner != spravka.PartnerOf("megasearch") {
		t.Errorf("%v %+v", err, fresh)
	}
	if !strings.Contains(cookies(&a)["spravka"], "; Domain=example.com") {
		t.Errorf("no Domain to replace in %q", cookies(&a)["spravka"])
	}
	// A wrong answer: a new key, failed. Neither the partner's own address matters, nor whether it names the user
	// again.
	rep := e.answerOf(x.Key)
	a = e.c.XCheck(
		e.request("GET", "http://example.com/xcheckcaptcha?key="+x.Key+"&rep="+wrong(rep), from("192.0.2.200"), site),
	)
	again := readXML(t, a)
	if again.Status != "failed" || again.Key == x.Key || a.Status != 200 || a.Outcome != OutcomeFailed {
		t.Errorf("%d %+v", a.Status, again)
	}
	// A right answer: a pass bound to the user named by the first key.
	a = e.c.XCheck(e.request("GET", "http://example.com/xcheckcaptcha?key="+again.Key+"&rep="+e.answerOf(again.Key),
		from("192.0.2.200"), site))
	set := cookies(&a)["spravka"]
	p, err := e.ring.OpenPass([]byte(value(set)), e.now())
	if a.Status != 200 || err != nil || !p.Earned || p.Allowance != 100 ||
		p.Partner != spravka.PartnerOf("megasearch") {
		t.Fatalf("%d %v %+v", a.Status, err, p)
	}
	if p.Net != identity.NetKey(identity.NetOf(addr("203.0.113.7"))) ||
		!strings.Contains(set, "; Domain=example.com") || strings.Contains(set, "Secure") {
		t.Errorf("%q, net %x", set, p.Net)
	}
	if bytes.Contains(a.Body, []byte("<captcha-status>")) || bytes.Contains(a.Body, []byte("error")) {
		t.Errorf("a client would take this for a challenge: %s", a.Body)
	}
	if n, err := e.c.prices.earned(t.Context(), addr("203.0.113.7"), e.now()); err != nil || n.day != 1 {
		t.Errorf("the pass is not counted with the user: %v %v", n, err)
	}
}

func TestXMLKeysOfPartners(t *testing.T) {
	e := newEnv(t, nil)
	x := readXML(t, e.c.ChallengeXML(e.request("GET", "https://example.com/xml", partner("one")), false))
	rep := e.answerOf(x.Key)
	url := "https://example.com/xcheckcaptcha?key=" + x.Key + "&rep=" + rep
	if a := e.c.XCheck(e.request("GET", url, partner("two"))); a.Outcome == OutcomeSolved {
		t.Error("another partner answers the key")
	}
	if a := e.c.Check(e.request("GET", "https://example.com/checkcaptcha?key="+x.Key+"&rep="+rep)); a.Outcome == OutcomeSolved {
		t.Error("a page answers a partner's key")
	}
	if a := e.c.XCheck(e.request("GET", url, partner("one"))); a.Outcome != OutcomeSolved {
		t.Errorf("outcome %d", a.Outcome)
	}
	// A user who belongs to no partner: their own address counts.
	x = readXML(t, e.c.ChallengeXML(e.request("GET", "https://example.com/xml", header("X-Real-Ip", "198.51.100.1")),
		false))
	url = "https://example.com/xcheckcaptcha?key=" + x.Key + "&rep=" + e.answerOf(x.Key)
	if a := e.c.XCheck(e.request("GET", url, from("198.51.100.1"))); a.Outcome == OutcomeSolved {
		t.Error("answered from another network")
	}
	if a := e.c.XCheck(e.request("GET", url)); a.Outcome != OutcomeSolved || a.Pass.Partner != 0 {
		t.Errorf("outcome %d", a.Outcome)
	}
}

// TestPitfall17XMLEscapes: external input can't become markup. The host is the only such value, and is normally checked
// before; here it is not.
func TestPitfall17XMLEscapes(t *testing.T) {
	e := newEnv(t, nil)
	q := e.request("GET", "https://example.com/xml")
	q.Base = `https://<x y="z">&amp;`
	a := e.c.ChallengeXML(q, false)
	if x := readXML(t, a); !strings.HasPrefix(x.ImgURL, q.Base+"/captcha/image") {
		t.Errorf("%q", x.ImgURL)
	}
}

func TestFindPartner(t *testing.T) {
	e := newEnv(t, func(_ *Config, s *ServiceConfig, _ *identity.ServiceConfig) {
		s.Partners = []PartnerConfig{
			{Name: "keyed", Key: "0123456789abcdef+&"},
			{
				Name:      "placed",
				Addresses: []string{"192.0.2.0/28", "2001:db8::1", "::ffff:10.1.2.3", "::ffff:198.51.100.0/120"},
			},
		}
	})
	f := func(target, from, want string) {
		t.Helper()
		q := e.request("GET", "https://example.com"+target)
		got := ""
		if p := e.svc.FindPartner(q.View, addr(from)); p != nil {
			got = p.Name
		}
		if got != want {
			t.Errorf("%s from %s is %q, want %q", target, from, got, want)
		}
	}
	key := url.QueryEscape("0123456789abcdef+&")
	f("/xml?query=a&key="+key, "203.0.113.7", "keyed")
	f("/xml?query=a&key="+key+"x", "203.0.113.7", "")
	f("/xml?key=", "203.0.113.7", "")
	f("/xml", "192.0.2.5", "placed")
	f("/xml", "192.0.2.16", "")
	f("/xml", "2001:db8::1", "placed")
	f("/xml?key=wrong", "2001:db8::1", "placed")
	f("/xml", "10.1.2.3", "placed")
	f("/xml", "198.51.100.200", "placed")
	f("/xml", "198.51.101.1", "")

	demands := func(target string, p *Partner, want bool) {
		t.Helper()
		if got := e.svc.Demands(e.request("GET", "https://example.com"+target).View, p); got != want {
			t.Errorf("%s: %v", target, got)
		}
	}
	demands("/xml?query=e48a2b93de1740f48f6de0d45dc4192a", &Partner{}, true)
	demands("/xml?a=b&showmecaptcha=yes", &Partner{}, true)
	demands("/xml?a=b&showmecaptcha=yes", nil, false)
	demands("/xml?query=other", &Partner{}, false)
}
