package requestrules

import (
	"os"
	"strings"
	"testing"
	"time"

	"antirobot/request"
	"antirobot/verdict"
)

// visit is a request of a recipe, a number of times, and what is decided of the last one. The first line is method and path,
// then follow fields of the head, and fields of the body as "body: name=value".
type visit struct {
	times  int
	addr   string
	lines  string // separated by "|"
	status int    // of the service's answer
	want   string
}

const browser = "|User-Agent: Mozilla/5.0|Accept: text/html|Accept-Language: en"

// cookbook has for each recipe what it passes and what it stops.
var cookbook = map[string][]visit{
	"credential-stuffing": {
		{5, "192.0.2.1", "POST /login", 401, "OK"},
		{1, "192.0.2.1", "POST /login", 200, "OK"},
		{1, "192.0.2.1", "POST /login", 401, "OK"},
		{1, "192.0.2.1", "POST /login", 401, "CAPTCHA"},
		{1, "192.0.2.1", "POST /Login/", 401, "CAPTCHA"},
		{1, "192.0.2.1", "GET /", 401, "OK"},
		{1, "192.0.2.2", "POST /login", 401, "OK"},
	},
	"password-guessing": {
		{1, "192.0.2.1", "POST /login|body: user=ann", 401, "OK"},
		{3, "192.0.2.2", "POST /login|body: user=ann", 401, "OK"},
		{1, "192.0.2.3", "POST /login|body: user=ann", 401, "CAPTCHA"},
		{1, "192.0.2.3", "POST /login|body: user=bob", 401, "OK"},
		{1, "192.0.2.3", "GET /", 401, "OK"},
	},
	"price-scraping": {
		{30, "192.0.2.1", "GET /prices/7", 200, "OK"}, {1, "192.0.2.1", "GET /prices", 200, "CAPTCHA"}, {1, "192.0.2.1", "GET /", 200, "OK"}, {1, "192.0.2.2", "GET /prices", 200, "OK"},
	},
	"sign-up-farm": {
		{9, "192.0.2.1", "GET /signup", 200, "OK"}, {3, "192.0.2.1", "POST /signup", 200, "OK"}, {1, "192.0.2.1", "POST /signup", 200, "CAPTCHA"}, {1, "192.0.2.2", "POST /signup", 200, "OK"},
	},
	"disposable-mail": {
		{1, "192.0.2.1", "POST /signup|body: mail=ann@example.com", 200, "OK"},
		{1, "192.0.2.1", "POST /signup|body: mail=x@Mailinator.com", 200, "CAPTCHA"},
		{1, "192.0.2.1", "POST /signup|body: mail=x@a.yopmail.com", 200, "CAPTCHA"},
		{1, "192.0.2.1", "POST /signup|body: mail=x@yopmail.com\nann@example.com", 200, "CAPTCHA"},
		{1, "192.0.2.1", "POST /signup|body: mail=x@notyopmail.com", 200, "OK"},
		{1, "192.0.2.1", "GET /", 200, "OK"},
	},
	"review-bombing": {
		{20, "192.0.2.1", "POST /products/7/reviews", 200, "OK"},
		{1, "192.0.2.9", "POST /products/7/reviews", 200, "CAPTCHA"},
		{1, "192.0.2.9", "POST /products//%37/./reviews;a=b", 200, "CAPTCHA"},
		{1, "192.0.2.9", "POST /products/7/Reviews", 200, "CAPTCHA"},
		{1, "192.0.2.9", "POST /products/007/reviews", 200, "CAPTCHA"},
		{1, "192.0.2.9", "POST /products/9/reviews/", 200, "CAPTCHA"},
		{1, "192.0.2.1", "POST /products/8/reviews", 200, "OK"},
		{1, "192.0.2.1", "GET /products/7/reviews", 200, "OK"},
	},
	"card-testing": {
		{2, "192.0.2.1", "POST /pay", 402, "OK"}, {1, "192.0.2.1", "POST /pay", 200, "OK"}, {1, "192.0.2.1", "POST /pay", 402, "OK"}, {1, "192.0.2.1", "POST /pay", 402, "CAPTCHA"}, {1, "192.0.2.2", "POST /pay", 402, "OK"},
	},
	"honeypot-field": {
		{1, "192.0.2.1", "POST /contact|body: website=", 200, "OK"}, {1, "192.0.2.1", "POST /contact|body: website=http://x.example", 200, "BLOCK"}, {1, "192.0.2.1", "GET /contact", 200, "OK"},
	},
	"scan-of-paths": {
		{21, "192.0.2.1", "GET /a", 404, "OK"}, {1, "192.0.2.1", "GET /", 200, "BLOCK"}, {99, "192.0.2.2", "GET /a", 200, "OK"},
	},
	"probes-for-secrets": {
		{1, "192.0.2.1", "GET /.env", 404, "BLOCK"}, {1, "192.0.2.1", "GET /%2egit/config", 404, "BLOCK"}, {1, "192.0.2.1", "GET /environment", 200, "OK"},
	},
	"without-an-agent": {
		{1, "192.0.2.1", "GET /" + browser, 200, "OK"}, {1, "192.0.2.1", "GET /", 200, "CAPTCHA"}, {1, "192.0.2.1", "GET /|User-Agent: x|Accept: */*", 200, "OK"},
	},
	"libraries-are-told": {
		{1, "192.0.2.1", "GET /" + browser, 200, "OK"}, {1, "192.0.2.1", "GET /|User-Agent: curl/8.5.0", 200, "MARK"}, {1, "192.0.2.1", "GET /", 200, "OK"},
	},
	"api-by-key": {
		{20, "192.0.2.1", "GET /api|X-Api-Key: a", 200, "OK"}, {1, "192.0.2.2", "GET /api|X-Api-Key: a", 200, "THROTTLE"}, {1, "192.0.2.1", "GET /api|X-Api-Key: b", 200, "OK"}, {1, "192.0.2.1", "GET /api", 200, "BLOCK"},
	},
	"costly-search": {
		{5, "192.0.2.1", "GET /search", 200, "OK"}, {1, "192.0.2.1", "GET /search", 200, "THROTTLE"}, {1, "192.0.2.1", "GET /", 200, "OK"}, {1, "192.0.2.2", "GET /search", 200, "OK"},
	},
	"office-hours": {
		{1, "192.0.2.1", "GET /admin/users", 200, "OK"}, {1, "192.0.2.1", "night GET /admin/users", 200, "CAPTCHA"}, {1, "192.0.2.1", "night GET /", 200, "OK"},
	},
	"administration-from-inside": {
		{1, "192.0.2.1", "GET /admin", 200, "OK"}, {1, "198.51.100.1", "GET /admin", 200, "BLOCK"}, {1, "198.51.100.1", "GET /administration", 200, "OK"},
	},
	"forms-from-elsewhere": {
		{1, "192.0.2.1", "POST /a|Origin: https://example.com", 200, "OK"},
		{1, "192.0.2.1", "POST /a|Origin: https://example.com:8443", 200, "OK"},
		{1, "192.0.2.1", "POST /a|Origin: https://evilexample.com", 200, "BLOCK"},
		{1, "192.0.2.1", "POST /a|Origin: https://evil.example/example.com", 200, "BLOCK"},
		{1, "192.0.2.1", "POST /a|Origin: null", 200, "BLOCK"},
		{1, "192.0.2.1", "POST /a|Origin: https://evil.example", 200, "BLOCK"},
		{1, "192.0.2.1", "GET /a|Origin: https://evil.example", 200, "OK"},
		{1, "192.0.2.1", "POST /a", 200, "OK"},
	},
	"coupon-guessing": {
		{10, "192.0.2.1", "POST /coupon", 200, "OK"}, {1, "192.0.2.1", "POST /coupon", 200, "THROTTLE"}, {1, "192.0.2.1", "GET /", 200, "OK"}, {1, "192.0.2.2", "POST /coupon", 200, "OK"},
	},
	"shared-account": {
		{9, "192.0.2.1", "GET /|Cookie: account=ann", 200, "OK"},
		{1, "192.0.2.2", "GET /|Cookie: account=ann", 200, "OK"},
		{1, "192.0.2.3", "GET /|Cookie: account=ann", 200, "OK"},
		{1, "192.0.2.4", "GET /|Cookie: account=ann", 200, "OK"},
		{1, "192.0.2.5", "GET /|Cookie: account=ann", 200, "CAPTCHA"},
		{1, "192.0.2.5", "GET /|Cookie: account=bob", 200, "OK"},
	},
	"advertising": {
		{1, "192.0.2.1", "POST /contact|body: text=See https://a.example and https://b.example", 200, "OK"},
		{1, "192.0.2.1", "POST /contact|body: text=https://a.example http://b.example HTTP://c.example", 200, "QUARANTINE"},
		{1, "192.0.2.1", "GET /contact", 200, "OK"},
	},
	"ai-crawlers": {
		{1, "192.0.2.1", "GET /|User-Agent: Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; GPTBot/1.2; +https://openai.com/gptbot)", 200, "BLOCK"},
		{1, "192.0.2.1", "GET /a|User-Agent: CCBot/2.0 (https://commoncrawl.org/faq/)", 200, "BLOCK"},
		{1, "192.0.2.1", "GET /robots.txt|User-Agent: CCBot/2.0 (https://commoncrawl.org/faq/)", 200, "OK"},
		{1, "192.0.2.1", "GET /" + browser, 200, "OK"},
		{1, "192.0.2.1", "GET /|User-Agent: Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)", 200, "OK"},
		{1, "192.0.2.1", "GET /", 200, "OK"},
	},
}

// TestCookbook runs each recipe of docs/cookbook.md as it stands there.
func TestCookbook(t *testing.T) {
	text, err := os.ReadFile("../../docs/cookbook.md")
	if err != nil {
		t.Fatal(err)
	}
	recipes := strings.Split(string(text), "\n## ")[1:]
	if len(recipes) != len(cookbook) || len(recipes) < 20 {
		t.Errorf("%d recipes, and %d have cases", len(recipes), len(cookbook))
	}
	for _, r := range recipes {
		title, rest, _ := strings.Cut(r, "\n")
		_, name, _ := strings.Cut(title, ". ")
		blocks := strings.Split(rest, "```")
		t.Run(name, func(t *testing.T) {
			w := newWorld(t) // Wednesday, 12:05
			s := w.service(blocks[1], func(c *ServiceConfig) {
				if len(blocks) > 3 {
					c.After = blocks[3]
				}
				if warned := c.Warnings(&Names{}); len(warned) > 0 {
					t.Errorf("warnings: %v", warned)
				}
			})
			stopped := false
			for _, v := range cookbook[name] {
				got := ""
				for range max(v.times, 1) {
					got = w.visit(s, &v)
				}
				if got != v.want {
					t.Errorf("%s %s: %s, want %s", v.addr, v.lines, got, v.want)
				}
				stopped = stopped || v.want != "OK"
			}
			if !stopped {
				t.Error("no case shows what it stops")
			}
		})
	}
}

func (w *world) visit(s *Ruleset, of *visit) string {
	var lines []string
	var posted []request.Field
	for _, l := range strings.Split(of.lines, "|") {
		if field, ok := strings.CutPrefix(l, "body: "); ok {
			name, value, _ := strings.Cut(field, "=")
			posted = append(posted, request.Field{Name: []byte(name), Value: []byte(value)})
			continue
		}
		lines = append(lines, l)
	}
	first, night := strings.CutPrefix(lines[0], "night ")
	lines[0] = first
	if night {
		w.pass(12 * time.Hour)
		defer w.pass(-12 * time.Hour)
	}
	v, id := newRequest(of.addr, lines...)
	v.At, v.Posted = w.now(), posted
	r := new(verdict.Ruling)
	s.Judge(r, v, id, shop, verdict.Human)
	s.Answered(v, id, shop, &verdict.Answer{Status: of.status})
	if r.Failed != "" {
		return r.Failed
	}
	return r.Decision
}
