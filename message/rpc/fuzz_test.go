package rpc

import (
	"bytes"
	"context"
	"encoding/json"
	"net/url"
	"testing"
	"unicode/utf8"

	"antirobot/message"
)

// fuzzConfig has a partner whose Akismet key is known.
func fuzzConfig() message.Config {
	c := message.DefaultConfig()
	c.Partners[0].Domain = withoutStart(c.Partners[0].Domain)
	c.Akismet.Key = "0123456789ab"
	return c
}

// FuzzAkismetForm sends forms: whatever stands in them, each call has an answer of its API, in UTF-8 and without line ends, and
// nobody without the key gets one about a comment.
func FuzzAkismetForm(f *testing.F) {
	f.Add("comment-check", "0123456789ab.gate.example", "blog=http%3A%2F%2Fb&user_ip=192.0.2.1&comment_content=hello&comment_author=Ann")
	f.Add("comment-check", "", "api_key=0123456789ab&blog=b&user_ip=::1&comment_content=%CF%F0%E8&blog_charset=windows-1251")
	f.Add("submit-spam", "", "api_key=0123456789ab&blog=b&user_ip=192.0.2.1&comment_content=%ff%00")
	f.Add("submit-ham", "", "api_key=0123456789ab&blog=b&user_ip=nowhere")
	f.Add("verify-key", "", "key=0123456789ab&blog=b")
	f.Add("comment-check", "", "api_key=x&api_key=0123456789ab&blog=b&user_ip=192.0.2.1&user_role=administrator")
	s, _ := newSystem(f, fuzzConfig())
	f.Fuzz(func(t *testing.T, call, host, query string) {
		form, err := url.ParseQuery(query)
		if err != nil {
			return
		}
		a := s.Akismet(context.Background(), call, host, form)
		switch a.Status {
		case 200, 404, 500:
		default:
			t.Errorf("status %d", a.Status)
		}
		for _, text := range []string{a.Text, a.Help, a.Tip} {
			if !utf8.ValidString(text) || bytes.ContainsAny([]byte(text), "\r\n") {
				t.Errorf("%q can't stand in a header field", text)
			}
		}
		known := form.Get("api_key") == "0123456789ab" || form.Get("key") == "0123456789ab" || len(host) >= 12 && host[:12] == "0123456789ab"
		if !known && (a.Text == "true" || a.Text == "false" || a.Text == akismetThanks || a.Text == "valid") {
			t.Errorf("%s without the key: %+v", call, a)
		}
	})
}

// FuzzJSONBatch sends requests and batches of them: the answer is one JSON value, a batch has no more answers than requests, and
// what is no batch is answered as one.
func FuzzJSONBatch(f *testing.F) {
	f.Add([]byte(`[{"jsonrpc":"2.0","method":"sf.info.version","id":1},{"method":"none","id":"x"}]`))
	f.Add([]byte(`[{"jsonrpc":"2.0","method":"sf.info.version"}]`))
	f.Add([]byte(`[]`))
	f.Add([]byte(`[[{"method":"sf.info.version"}],5,null]`))
	f.Add([]byte("\ufeff {\"method\":\"sf.message.input\",\"params\":{\"partner\":null,\"message\":{\"text\":\"a\"}}}"))
	f.Add([]byte(`{"method":"sf.model.train","params":[{"partner":null,"model":"model","marker":"bad","message":{"text":"a b c d"}}],"id":[1,2]}`))
	s, _ := newSystem(f, fuzzConfig())
	f.Fuzz(func(t *testing.T, body []byte) {
		status, _, answer := s.Serve(context.Background(), JSON, body, Auth{})
		if status != 200 && status != 413 {
			t.Fatalf("status %d", status)
		}
		var asked []json.RawMessage
		batch := json.Unmarshal(bytes.TrimPrefix(body, []byte("\ufeff")), &asked) == nil && len(asked) > 0
		if len(answer) == 0 {
			return // notifications alone
		}
		var answers []json.RawMessage
		switch {
		case !json.Valid(answer):
			t.Errorf("%q is answered with %q", body, answer)
		case batch && len(asked) <= maxBatch && (json.Unmarshal(answer, &answers) != nil || len(answers) > len(asked)):
			t.Errorf("a batch of %d is answered with %q", len(asked), answer)
		case !batch && answer[0] != '{':
			t.Errorf("%q is answered with %q", body, answer)
		}
	})
}
