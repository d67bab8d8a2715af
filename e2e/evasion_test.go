package e2e

import "testing"

// TestMessageEvasions: a sender who omits the attribute, or writes it so that only the service might read it, gets a
// captcha; the service gets nothing.
func TestMessageEvasions(t *testing.T) {
	t.Parallel()
	book := newGuestbook(t)
	g := configured(t, routesConfig, book.URL)
	v := visitor(t)
	const js, parts = "application/json", "multipart/form-data; boundary=B"
	part := func(head, body string) string {
		return "--B\r\nContent-Disposition: form-data" + head + "\r\n\r\n" + body + "\r\n--B--\r\n"
	}
	for _, c := range []struct{ name, kind, body, decision string }{
		{"no field", form, "other=casino", ""},
		{"no body", form, "", ""},
		{"list", form, "words[]=casino", "SPAM"},
		{"numbered list", form, "words%5B0%5D=casino+1", "SPAM"},
		{"case", form, "WORDS=casino+2", "SPAM"},
		{"twice", form, "words=good&words=casino+3", "SPAM"},
		{"json list", js, `{"comment":{"body":["casino 4"]}}`, "SPAM"},
		{"json object", js, `{"comment":{"body":{"text":"casino 5"}}}`, "SPAM"},
		{"json list at the top", js, `[{"comment":{"body":"casino 6"}}]`, "SPAM"},
		{"json twins", js, `{"comment":{"body":"good","BODY":"casino 7"}}`, "SPAM"},
		{"json, the first of two", js, `{"comment":{"body":"casino 8"},"comment":{"body":"good"}}`, "SPAM"},
		{"json without", js, `{"comment":{}}`, ""},
		{"part in single quotes", parts, part("; name='words'", "casino 9"), "SPAM"},
		{"part with two names", parts, part(`; name="x"; name="words"`, "casino 10"), "SPAM"},
		{"part in base64", parts, part("; name=words\r\nContent-Transfer-Encoding: base64", "Y2FzaW5vIDExMQ=="), "SPAM"},
		{"file with a binary prefix", parts, part(`; name="words"; filename="a.gif"`, "GIF89a\x00\xff\xfe a casino for you\x00"), "SPAM"},
		{"after a semicolon", form, "a=1;words=casino+13&words=good", "SPAM"},
		{"a long s", form, "words=good&word%C5%BF=casino+14", "SPAM"},
		{"backslashes in a name", parts, part(`; name="wor\ds"`, "casino 15"), "SPAM"},
		{"byte order mark", parts, part("; name=words", "\xff\xfec\x00a\x00s\x00i\x00n\x00o\x00"), "SPAM"},
		{"base64 with what is none", parts, part("; name=words\r\nContent-Transfer-Encoding: base64", "Y2F *zaW5vIDE2"), "SPAM"},
		{"parts in a part", parts, part("; name=words\r\nContent-Type: multipart/mixed; boundary=C", "--C\r\n\r\ncasino\r\n--C--"), ""},
		{"undeclared charset", form, "words=%CB%F3%F7%F8%E5%E5+%EA%E0%E7%E8%ED%EE+%E2+%E3%EE%F0%EE%E4%E5", "SPAM"},
	} {
		r := v.do("POST", g.url+"/comments", c.body, "Content-Type", c.kind, "X-Requested-With", "XMLHttpRequest").must(t, 200, `"type":"captcha"`)
		if s := g.why(r); s.Cause != "message" || s.Message.Decision != c.decision || c.decision == "" && s.Message.Error == "" {
			t.Errorf("%s: %+v", c.name, s.Message)
		}
	}
	for _, path := range []string{"/Comments?words=casino+there", "/comments.json?words=casino+in+a+format", "/index.php/comments?words=casino+in+front", "/comments?words=casino+of+the+query"} {
		r := v.do("POST", g.url+path, "words=a+good+text+for+"+path[1:15], "Content-Type", form, "X-Requested-With", "XMLHttpRequest").must(t, 200, `"type":"captcha"`)
		if s := g.why(r); s.Cause != "message" || s.Message.Decision != "SPAM" {
			t.Errorf("%s: %+v", path, s.Message)
		}
	}
	for _, c := range []struct{ method, path, field, value, body, decision string }{
		{"PUT", "/comments", "X-HTTP-Method-Override", "POST", "words=casino+21", "SPAM"},
		{"PUT", "/comments", "X_HTTP_Method_Override", "POST", "words=casino+26", "SPAM"},
		{"PATCH", "/comments", "X-Unknown", "1", "words=casino+22&_method=post", "SPAM"},
		{"PUT", "/comments?%5Fmethod=POST", "X-Unknown", "1", "words=casino+23", "SPAM"},
		{"GET", "/comments?_method=POST&words=casino+24", "X-Unknown", "1", "", "SPAM"},
		{"POST", "/comments", "content-type", js, "words=casino+25", ""}, // beside the other
	} {
		v.header[c.field] = []string{c.value}
		r := v.do(c.method, g.url+c.path, c.body, "Content-Type", form, "X-Requested-With", "XMLHttpRequest").must(t, 200, `"type":"captcha"`)
		if s := g.why(r); s.Cause != "message" || s.Message.Decision != c.decision || c.decision == "" && s.Message.Error == "" {
			t.Errorf("%v: %+v", c, s.Message)
		}
		delete(v.header, c.field)
	}
	if bodies, _ := book.take(); len(bodies) > 0 {
		t.Errorf("the service got %q", bodies)
	}
	if n := g.logged(t); n != 28 {
		t.Errorf("%d messages are in the log: each is one, however it can be read", n)
	}
}
