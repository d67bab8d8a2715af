package e2e

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"time"
)

// TestHighBytesOfTargets: bytes of 0x80 and above in a URL reach the service as they came, escaped, or not at all, over HTTP/1.1 and
// HTTP/2 alike.
func TestHighBytesOfTargets(t *testing.T) {
	t.Parallel()
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.RequestURI) }))
	t.Cleanup(service.Close)
	for setting, want := range map[string]string{
		"pass": "200 /\xd0\xb0?b=\xff", "encode": "200 /%D0%B0?b=%FF", "refuse": "400 ",
	} {
		_, _, plain := http2Gateway(t, service.URL, "http: {target_high_bytes: "+setting+"}\n")
		for _, protocol := range []string{"HTTP/1.1", "HTTP/2.0"} {
			over := &http.Transport{Protocols: new(http.Protocols), DisableKeepAlives: true}
			over.Protocols.SetHTTP1(protocol == "HTTP/1.1")
			over.Protocols.SetUnencryptedHTTP2(protocol == "HTTP/2.0")
			c := &http.Client{Transport: over, Timeout: time.Minute}
			res, err := c.Do(&http.Request{Method: "GET", Host: plain, URL: &url.URL{Scheme: "http", Host: plain, Opaque: "/\xd0\xb0?b=\xff"}, Header: http.Header{}})
			if err != nil {
				t.Errorf("%s over %s: %v", setting, protocol, err)
				continue
			}
			body, _ := io.ReadAll(res.Body)
			_ = res.Body.Close()
			if res.StatusCode != 200 {
				body = nil
			}
			if got := fmt.Sprintf("%d %s", res.StatusCode, body); got != want || res.Proto != protocol {
				t.Errorf("%s over %s: %q by %s, want %q", setting, protocol, got, res.Proto, want)
			}
		}
	}
}
