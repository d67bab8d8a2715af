package captcha

import "testing"

// TestFormIsSentOnOnlyFromItsOwnPage: a browser adds its credentials for our origin to whatever another page makes it
// send, whether a sibling site or the same host without encryption. Only an answer from our own page sends a form on.
func TestFormIsSentOnOnlyFromItsOwnPage(t *testing.T) {
	type fields = map[string]string
	for what, c := range map[string]struct {
		url    string
		method string
		header fields
		sent   bool
		secret bool // Authorization is sent on too
	}{
		"fetch metadata":             {header: fields{"Sec-Fetch-Site": "same-origin", "Origin": "null"}, sent: true, secret: true},
		"origin":                     {header: fields{"Origin": "https://EXAMPLE.com"}, sent: true, secret: true},
		"origin with its port":       {header: fields{"Origin": "https://example.com:443"}, sent: true, secret: true},
		"referer alone":              {header: fields{"Referer": "https://example.com/letters"}, sent: true, secret: true},
		"nothing, no browser":        {header: fields{}, sent: true},
		"sibling":                    {header: fields{"Sec-Fetch-Site": "same-site", "Origin": "https://www.example.com"}},
		"cross-site":                 {header: fields{"Sec-Fetch-Site": "cross-site", "Origin": "https://evil.example"}},
		"sibling, older browser":     {header: fields{"Origin": "https://www.example.com"}},
		"http page, older browser":   {header: fields{"Origin": "http://example.com"}},
		"another port":               {header: fields{"Origin": "https://example.com:8443"}},
		"hidden origin":              {header: fields{"Origin": "null"}},
		"hidden origin, own referer": {header: fields{"Origin": "null", "Referer": "https://example.com/"}},
		"foreign referer":            {header: fields{"Referer": "https://example.com.evil.example/"}},
		"a host that begins alike":   {header: fields{"Origin": "https://example.community"}},
		"to http":                    {url: "http://example.com", header: fields{"Origin": "http://example.com"}},
		"to another port":            {url: "https://example.com:8443", header: fields{"Origin": "https://example.com:8443"}},
		"a link":                     {method: "GET", header: fields{"Sec-Fetch-Site": "same-origin"}},
	} {
		t.Run(what, func(t *testing.T) {
			e := newEnv(t, nil)
			_, form := e.challengeForm()
			opts := []opt{header("Authorization", "Basic c2VjcmV0")}
			for name, value := range c.header {
				opts = append(opts, header(name, value))
			}
			form.Set("rep", e.answerOf(form.Get("key")))
			url := "https://example.com"
			if c.url != "" {
				url = c.url
			}
			q := e.request("POST", url+"/checkcaptcha", append(opts,
				body("application/x-www-form-urlencoded", form.Encode()))...)
			if c.method != "" {
				q = e.request(c.method, url+"/checkcaptcha?"+form.Encode(), opts...)
			}
			a := e.c.Check(q)
			if c.sent != (a.Resend != nil) {
				t.Fatalf("status %d, sent on: %t", a.Status, a.Resend != nil)
			}
			if !c.sent {
				if a.Status != 410 || a.Outcome == OutcomeSolved || len(a.Body) == 0 {
					t.Errorf("status %d, outcome %d, %d bytes", a.Status, a.Outcome, len(a.Body))
				}
				return
			}
			secret := false
			for _, f := range a.Resend.Header {
				secret = secret || f.Name == "Authorization"
			}
			if secret != c.secret {
				t.Errorf("Authorization went on: %t", secret)
			}
		})
	}
}
