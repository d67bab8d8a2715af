package replay

import (
	"strings"
	"testing"
)

func TestALB(t *testing.T) {
	log := testdata(t, "alb.log")
	reads(t, ALB, log,
		"2026-03-02T07:15:30.002|203.0.113.7||GET|/cart?id=1|shop.example:443|User-Agent=Mozilla/5.0 (X11; Linux x86_64; rv:144.0) Gecko/20100101 Firefox/144.0|tls|247ms|",
		`2026-03-02T07:15:31.498|2001:db8::7||POST|/login|shop.example:443|User-Agent=say "hi"|tls|2ms|`,
		"2026-03-02T07:15:32|2001:db8::8||GET|/|10.0.0.30:80|4ms|",
		"2026-03-02T07:15:33|203.0.113.9||GET|/slow|shop.example:80|User-Agent=curl/8.5.0|1.0|0s|",
		"2026-03-02T07:15:34.999|203.0.113.10||GET|/classic|shop.example:443|User-Agent=curl/8.5.0|tls|250.078ms|")
	if got := whoIs(t, Auto, "column:18", log); got != "Root=1-58337281-1d84f3d73c47ec4e58577259,Root=1-58337327-72bd00b0343d75b906739c42,Root=1-58337364-23a8c76965a2ef7629b185e3,Root=1-58337364-23a8c76965a2ef7629b185e4," {
		t.Errorf("by column: %s", got)
	}
	end := func(from string) string { return log[strings.Index(log, from):strings.Index(log, "\n")] }
	bad(t, ALB, log,
		"2026-03-02T07:15:30.250000Z", "2026-03-02T07:15:99Z", `has "2026-03-02T07:15:99Z" for time`,
		"203.0.113.7:2817", "-", "has no client:port",
		"203.0.113.7:2817", "host:80", `has "host:80" for client:port`,
		" 200 200 ", " ok 200 ", `has "ok" for elb_status_code`,
		end(" 5120"), "", "has no sent_bytes",
		end(` "GET`), "", "has no request in quotes",
		end("?id=1"), "", "has no request in quotes",
		end(" (X11"), "", "has no end of user_agent")
}
