package replay

import (
	"strings"
	"testing"
)

const firefox = "Mozilla/5.0 (X11; Linux x86_64; rv:144.0) Gecko/20100101 Firefox/144.0"

func TestCloudflare(t *testing.T) {
	log := testdata(t, "cloudflare.json")
	reads(t, Cloudflare, log,
		"2026-03-02T07:15:30|203.0.113.7||GET|/cart?id=1|shop.example|User-Agent="+firefox+"|Referer=https://shop.example/|accept-language=ru|tls|1s|text/html",
		"2026-03-02T07:15:30.5|2001:db8::1||POST|/login|shop.example|1.0|250ms|",
		"2026-03-02T07:15:31|203.0.113.8||GET|/x|shop.example|0s|")
	if got := whoIs(t, Auto, "cookie:sid", log); got != "secret,," {
		t.Errorf("by cookie: %s", got)
	}
	if got := whoIs(t, Auto, "column:RayID", log); got != "5f0a1b2c3d4e5f60,," {
		t.Errorf("by key: %s", got)
	}
	var r Record
	if err := Auto.Parse(&r, []byte(strings.SplitN(log, "\n", 2)[0])); err != nil || string(r.JA4) != "t13d1516h2_8daaf6152771_e5627efa2ab1" || r.Answer.Bytes != 5120 {
		t.Errorf("%v %q %d", err, r.JA4, r.Answer.Bytes)
	}
	bad(t, Cloudflare, log,
		`"203.0.113.7"`, `"visitor"`, `has "visitor" for ClientIP`,
		`"ClientIP":"203.0.113.7",`, ``, `has no ClientIP`,
		`"2026-03-02T07:15:30Z"`, `"soon"`, `has "soon" for EdgeStartTimestamp`,
		`"EdgeResponseStatus":200`, `"EdgeResponseStatus":"OK"`, `has "OK" for EdgeResponseStatus`,
		`}`, ``, `is not JSON`)
}

func TestGoogle(t *testing.T) {
	log := testdata(t, "google.json")
	reads(t, Google, log,
		"2026-03-02T07:15:30.25|203.0.113.7||GET|/cart?id=1|shop.example|User-Agent="+firefox+"|Referer=https://shop.example/|tls|250ms|",
		"2026-03-02T07:15:31|2001:db8::1||POST|/|shop.example|0s|")
	bad(t, Google, log,
		`"remoteIp":"203.0.113.7"`, `"remoteIp":""`, `has no httpRequest.remoteIp`,
		`"status":200`, `"status":2000`, `has "2000" for httpRequest.status`,
		`"2026-03-02T07:15:30.250Z"`, `"-"`, `has no timestamp`)
}

func TestEnvoy(t *testing.T) {
	reads(t, Envoy, testdata(t, "envoy.json"),
		"2026-03-02T07:15:30.25|203.0.113.7||GET|/cart?id=1|shop.example|User-Agent="+firefox+"|tls|250ms|",
		"2026-03-02T07:15:31|2001:db8::1||POST|/login|shop.example|1.0|15ms|")
	log := testdata(t, "envoy.log")
	reads(t, Envoy, log,
		"2026-03-02T07:15:30.25|203.0.113.7||GET|/cart?id=1|shop.example|User-Agent="+firefox+"|250ms|",
		`2026-03-02T07:15:31|2001:db8::1||POST|/login||User-Agent=say "hi"\|1.0|15ms|`,
		"2026-03-02T07:15:31|"+standIn(nil, nil, []byte("curl/8.5.0")).String()+"||GET|/unknown|shop.example|User-Agent=curl/8.5.0|3ms|",
		"2026-03-02T07:15:33|203.0.113.9||GET|/mesh|shop.example:8000|User-Agent=curl/8.5.0|4ms|",
		"2026-03-02T07:15:34|203.0.113.10||GET|/behind|shop.example|User-Agent=curl/8.5.0|4ms|")
	if got := whoIs(t, Auto, "column:11", log); !strings.HasPrefix(got, "cc21d9b0-cf5c-432b-8c7e-98aeb7988cd2,") {
		t.Errorf("by column: %s", got)
	}
	bad(t, Envoy, log,
		"2026-03-02T07:15:30.250Z", "2026-03-02T07:15:99Z", `has "2026-03-02T07:15:99Z" for %START_TIME%`,
		` 200 `, ` OK `, `has "OK" for %RESPONSE_CODE%`,
		` 5120 250 `, ` 5120 - `, `has "5120 -" for %BYTES_SENT% or %DURATION%`,
		` "cc21d9b0-cf5c-432b-8c7e-98aeb7988cd2" "shop.example" "10.0.0.1:80"`, "", `has no %X-REQUEST-ID% in quotes`,
		`"GET`, `GET`, `has no request in quotes`)
	bad(t, Envoy, testdata(t, "envoy.json"),
		`"203.0.113.7:37652"`, `null`, `has no downstream_remote_address`,
		`"response_code":200`, `"response_code":"-1"`, `has "-1" for response_code`)
}

// bad changes the first line of a log and compares what is said of it: what to replace, by what, and what is said then.
func bad(t *testing.T, f Format, log string, changes ...string) {
	t.Helper()
	line := strings.SplitN(log, "\n", 2)[0]
	for i := 0; i < len(changes); i += 3 {
		if !strings.Contains(line, changes[i]) {
			t.Fatalf("there is no %q", changes[i])
		}
		reads(t, f, strings.Replace(line, changes[i], changes[i+1], 1), changes[i+2])
	}
}
