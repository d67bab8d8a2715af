package e2e

import (
	"io"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"
)

// raw sends bytes unchanged and returns everything that comes back until the end.
func raw(t *testing.T, base, request string) string {
	t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(base, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(patience))
	if _, err := io.WriteString(c, request); err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(c)
	if err != nil && len(b) == 0 {
		t.Fatal(err)
	}
	return string(b)
}

// answered fills in the form of a captcha page, urlencoded.
func answered(t *testing.T, page, answer string) string {
	t.Helper()
	form := formOf(t, page)
	form.Set("rep", answer)
	return form.Encode()
}

// followed returns the answer to a page with a moving picture, as a browser with scripts gives it.
func followed(t *testing.T, page, answer string) string {
	t.Helper()
	form := formOf(t, page)
	key, _, _ := strings.Cut(after(after(page, `name="key"`), `data-moving="`), `"`)
	form.Set("key", key)
	form.Set("rep", answer)
	return form.Encode()
}

// origin is scheme and authority of a URL.
func origin(s string) string {
	u, err := url.Parse(s)
	if err != nil {
		return s
	}
	return u.Scheme + "://" + u.Host
}
