package inline

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"antirobot/message"
	"antirobot/rules"
	"antirobot/store"
)

func newDomain(t testing.TB) *message.Domain {
	t.Helper()
	st := store.NewMemory(nil)
	s, err := message.New(message.DefaultConfig(), message.Deps{Store: st, Log: zerolog.Nop()})
	if err == nil {
		err = s.Start(context.Background())
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close(); _ = st.Close() })
	d, err := s.Domain("default", "")
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func zipped(t testing.TB, kind, s string) []byte {
	t.Helper()
	var b bytes.Buffer
	var w interface {
		Write(p []byte) (int, error)
		Close() error
	}
	switch kind {
	case "gzip":
		w = gzip.NewWriter(&b)
	case "zlib":
		w = zlib.NewWriter(&b)
	default:
		w, _ = flate.NewWriter(&b, 9)
	}
	if _, err := w.Write([]byte(s)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func sources(s ...string) (out []Source) {
	for i := 0; i < len(s); i += 3 {
		out = append(out, Source{Attribute: s[i], From: s[i+1], Key: s[i+2]})
	}
	return out
}

func TestInline(t *testing.T) {
	d := newDomain(t)
	form, js := "application/x-www-form-urlencoded", "application/json"
	part := "--B\r\nContent-Disposition: form-data; name=\"t\"\r\n\r\nпривет\r\n" +
		"--B\r\nContent-Disposition: form-data; name=\"w\"\r\nContent-Type: text/plain; charset=windows-1251\r\n\r\n\xef\xf0\xe8\xe2\xe5\xf2\r\n" +
		"--B\r\nContent-Disposition: form-data; name=\"f\"; filename=\"a.txt\"\r\nContent-Type: text/plain\r\n\r\nin a file\r\n" +
		"--B\r\nContent-Disposition: form-data; name=\"p\"; filename=\"a.png\"\r\nContent-Type: image/png\r\n\r\n\x89PNG\xff\r\n" +
		"--B\r\nContent-Disposition: form-data; name=\"t\"\r\n\r\nagain\r\n--B--\r\n"
	for _, c := range []struct {
		name    string
		sources []Source
		in      Input
		want    any // string: the text; map; error
	}{
		{"form", sources("text", "form", "c"), Input{ContentType: form, Body: []byte("a=1&c=%D0%BF%D1%80+x%21&b")}, "пр x!"},
		{"form, all values", sources("text", "form", "c"), Input{ContentType: form, Body: []byte("c=one&c=two")}, "one\ntwo"},
		{"form, a name with escapes", sources("text", "form", "c[1]"), Input{ContentType: form, Body: []byte("c%5B1%5D=x")}, "x"},
		{"form, bad escapes stay", sources("text", "form", "c"), Input{ContentType: form, Body: []byte("c=100%&d=%zz")}, "100%"},
		{"form, semicolons are no separators", sources("text", "form", "c"), Input{ContentType: form, Body: []byte("c=a;b")}, "a;b"},
		{"form, charset", sources("text", "form", "c"), Input{ContentType: form + "; charset=windows-1251", Body: []byte("c=%EF%F0%E8")}, "при"},
		{"form, _charset_", sources("text", "form", "c"), Input{ContentType: form, Body: []byte("c=%CB%CF%C4&_charset_=koi8-r")}, "код"},
		{"form, no charset and no UTF-8", sources("text", "form", "c"), Input{ContentType: form, Body: []byte("c=caf%E9")}, "café"},
		{"form, unknown charset", sources("text", "form", "c"), Input{ContentType: form + "; charset=x-secret", Body: []byte("c=a")}, ErrUnreadable},
		{"form, field not there", sources("text", "form", "x"), Input{ContentType: form, Body: []byte("c=a")}, ErrMissing},
		{"form, other media type", sources("text", "form", "c"), Input{ContentType: js, Body: []byte(`{"c":"a"}`)}, ErrUnreadable},
		{"form or json, plain text", sources("text", "form", "c", "text", "json", "/c"), Input{ContentType: "text/plain", Body: []byte(`c=a`)}, ErrUnreadable},
		{"no body, another media type", sources("text", "form", "c"), Input{ContentType: js}, ErrMissing},
		{"a header, and a body that nobody reads", sources("text", "header", "X-T"), Input{ContentType: js, Body: []byte("{}"), Header: func(string) []string { return []string{"a"} }}, "a"},
		{"longer than a text may be", sources("text", "form", "c"), Input{ContentType: form, Body: []byte("c=" + strings.Repeat("x", 64<<10+1))}, ErrTooLarge},
		{"form, too many fields", sources("text", "form", "c"), Input{ContentType: form, Body: []byte(strings.Repeat("a&", 2000))}, ErrTooLarge},
		{"gzip", sources("text", "form", "c"), Input{ContentType: form, ContentEncoding: "gzip", Body: zipped(t, "gzip", "c=z")}, "z"},
		{"deflate", sources("text", "form", "c"), Input{ContentType: form, ContentEncoding: "Deflate", Body: zipped(t, "zlib", "c=z")}, "z"},
		{"raw deflate", sources("text", "form", "c"), Input{ContentType: form, ContentEncoding: "deflate", Body: zipped(t, "flate", "c=z")}, "z"},
		{"bomb", sources("text", "form", "c"), Input{ContentType: form, ContentEncoding: "gzip", Body: zipped(t, "gzip", strings.Repeat("c", 2<<20))}, ErrTooLarge},
		{"broken gzip", sources("text", "form", "c"), Input{ContentType: form, ContentEncoding: "gzip", Body: []byte("c=z")}, ErrUnreadable},
		{"cut gzip", sources("text", "form", "c"), Input{ContentType: form, ContentEncoding: "gzip", Body: zipped(t, "gzip", "c=z")[:15]}, ErrUnreadable},
		{"unknown encoding", sources("text", "form", "c"), Input{ContentType: form, ContentEncoding: "br", Body: []byte("c=z")}, ErrUnreadable},
		{"two encodings", sources("text", "form", "c"), Input{ContentType: form, ContentEncoding: "gzip, gzip", Body: []byte("c=z")}, ErrUnreadable},
		{"too large", sources("text", "form", "c"), Input{ContentType: form, Body: make([]byte, 300<<10)}, ErrTooLarge},

		{"json", sources("text", "json", "/a/b/1/c~1d~0"), Input{ContentType: js, Body: []byte(`{"a":{"b":[0,{"c/d~":"deep"}]}}`)}, "deep"},
		{"json, root", sources("text", "json", ""), Input{ContentType: js, Body: []byte(`"all"`)}, "all"},
		{"json, all elements", sources("text", "json", "/m/*/t"), Input{ContentType: js, Body: []byte(`{"m":[{"t":"a"},{"x":1},{"t":"b"}]}`)}, "a\nb"},
		{"json, empty name", sources("text", "json", "/"), Input{ContentType: js, Body: []byte(`{"":"x"}`)}, "x"},
		{"json, no leading zeros", sources("text", "json", "/01"), Input{ContentType: js, Body: []byte(`["a","b"]`)}, ErrMissing},
		{"json, null is nothing", sources("text", "json", "/a"), Input{ContentType: js, Body: []byte(`{"a":null}`)}, ErrMissing},
		{"json, vendor type", sources("text", "json", "/a"), Input{ContentType: "application/vnd.x+json", Body: []byte(`{"a":"x"}`)}, "x"},
		{"json, utf-16", sources("text", "json", "/a"), Input{ContentType: js + "; charset=utf-16le", Body: []byte("{\x00\"\x00a\x00\"\x00:\x00\"\x00\x3f\x04\"\x00}\x00")}, "п"},
		{"json, wrong", sources("text", "json", "/a"), Input{ContentType: js, Body: []byte(`{"a":`)}, ErrUnreadable},
		{"json, too deep", sources("text", "json", "/a"), Input{ContentType: js, Body: []byte(strings.Repeat("[", 1000))}, ErrUnreadable},
		{"json number to a number", sources("from", "json", "/id"), Input{ContentType: js, Body: []byte(`{"id":77}`)}, map[string]any{"from": int64(77)}},

		{"multipart", sources("text", "multipart", "t"), Input{ContentType: "multipart/form-data; boundary=B", Body: []byte(part)}, "привет\nagain"},
		{"multipart, charset of a part", sources("text", "multipart", "w"), Input{ContentType: "multipart/form-data; boundary=B", Body: []byte(part)}, "привет"},
		{"multipart, text that calls itself a file", sources("text", "multipart", "f"), Input{ContentType: "multipart/form-data; boundary=B", Body: []byte(part)}, "in a file"},
		{"multipart, picture", sources("text", "multipart", "p"), Input{ContentType: "multipart/form-data; boundary=B", Body: []byte(part)}, ""},
		{"multipart, cut", sources("text", "multipart", "t"), Input{ContentType: "multipart/form-data; boundary=B", Body: []byte(part[:60])}, ErrUnreadable},
		{"multipart, no boundary", sources("text", "multipart", "t"), Input{ContentType: "multipart/form-data", Body: []byte(part)}, ErrUnreadable},
		{"multipart, too many parts", sources("text", "multipart", "t"), Input{ContentType: "multipart/form-data; boundary=B", Body: []byte(strings.Repeat("--B\r\n\r\nx\r\n", 200) + "--B--")}, ErrTooLarge},

		{"query", sources("text", "query", "q"), Input{Query: "a=1&q=x%20y"}, "x y"},
		{"subject, number and address", sources("from", "subject", "", "ip", "address", "", "text", "header", "X-T"), Input{
			Subject: "12", Address: netip.MustParseAddr("10.0.0.1"), Header: func(string) []string { return []string{"caf\xe9", "b"} },
		}, map[string]any{"from": int64(12), "ip": netip.MustParseAddr("10.0.0.1"), "text": "café\nb"}},
		{"header to a number", sources("ip", "header", "X-Ip"), Input{Header: func(string) []string { return []string{"nobody"} }}, ErrUnreadable},
		{"nothing", sources("from", "subject", "", "ip", "address", ""), Input{}, map[string]any{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := DefaultConfig()
			cfg.Sources = c.sources
			if err := cfg.Validate(); err != nil {
				t.Fatal(err)
			}
			body := bytes.Clone(c.in.Body)
			readings, err := cfg.Values(d, c.in)
			var got map[string]any
			if err == nil {
				got = readings[0]
			}
			if !bytes.Equal(body, c.in.Body) {
				t.Error("the body was changed")
			}
			switch want := c.want.(type) {
			case error:
				if !errors.Is(err, want) {
					t.Errorf("error %v, want %v", err, want)
				}
				return
			case string:
				c.want = map[string]any{"text": want}
			}
			if err != nil || !reflect.DeepEqual(got, c.want) {
				t.Errorf("got %q, %v, want %q", got, err, c.want)
			}
		})
	}
}

// TestInlineSubjects checks that subjects that are no numbers have each their own.
func TestInlineSubjects(t *testing.T) {
	d := newDomain(t)
	cfg := Config{Sources: sources("from", "subject", ""), MaxBody: 1}
	seen := map[any]bool{}
	for i := range 1000 {
		all, err := cfg.Values(d, Input{Subject: fmt.Sprintf("ip:10.0.0.%d", i)})
		if err != nil {
			t.Fatal(err)
		}
		v := all[0]
		if seen[v["from"]] || v["from"].(int64) < 0 {
			t.Fatal(v, err)
		}
		seen[v["from"]] = true
	}
	cfg.Sources[0].Attribute = "nobody"
	var f *rules.Fault
	if _, err := cfg.Values(d, Input{}); !errors.As(err, &f) || f.Code != message.CodeProperty {
		t.Error(err)
	}
}

func TestConfig(t *testing.T) {
	err := Config{Sources: sources("", "form", "", "a", "magic", "", "b", "json", "x")}.Validate()
	for _, want := range []string{"sources[0].attribute", "sources[0].key", `sources[1].from: "magic"`, "sources[2].key", "max_body"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("no %s in %v", want, err)
		}
	}
}

func FuzzInline(f *testing.F) {
	d := newDomain(f)
	f.Add("application/x-www-form-urlencoded; charset=koi8-r", "", "", []byte("t=%CB&from=1"), "/a/*/b")
	f.Add("application/json", "gzip", "q=1", zipped(f, "gzip", `{"a":[{"b":"x"}]}`), "/a/*/b")
	f.Add("multipart/form-data; boundary=B", "", "", []byte("--B\r\nContent-Disposition: form-data; name=\"t\"\r\n\r\nx\r\n--B--\r\n"), "/")
	f.Fuzz(func(t *testing.T, contentType, encoding, query string, body []byte, pointer string) {
		if pointer != "" && pointer[0] != '/' {
			return
		}
		for _, from := range []string{"form", "json", "multipart"} {
			cfg := Config{Sources: sources("text", from, pointer, "from", "query", "q"), MaxBody: 4 << 10}
			values, err := cfg.Values(d, Input{ContentType: contentType, ContentEncoding: encoding, Query: query, Body: body})
			if err != nil {
				continue
			}
			for _, v := range values {
				if text, ok := v["text"].(string); ok && len(text) > 64<<10 || len(values) > maxReadings {
					t.Fatalf("%d bytes of text from %d, %d readings", len(text), len(body), len(values))
				}
			}
		}
	})
}
