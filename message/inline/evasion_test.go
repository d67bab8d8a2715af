package inline

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/japanese"
)

const parts = "multipart/form-data; boundary=B"

func onePart(head, body string) string {
	return "--B\r\nContent-Disposition: form-data" + head + "\r\n\r\n" + body + "\r\n--B--\r\n"
}

// TestEvasions: however the sender writes the attribute, its text is in the first reading, and where a service may read
// one of several values, each of them is a reading of its own.
func TestEvasions(t *testing.T) {
	d := newDomain(t)
	const form, js = "application/x-www-form-urlencoded", "application/json"
	base := base64.StdEncoding.EncodeToString([]byte("SPAM"))
	for _, c := range []struct {
		name, from, key, media, body string
		alone                        bool // SPAM is a reading of its own
	}{
		{"list", "form", "body", form, "body[]=SPAM", true},
		{"numbered list", "form", "body", form, "body%5B0%5D=SPAM", true},
		{"object", "form", "body", form, "body[text]=SPAM", true},
		{"case", "form", "body", form, "BODY=SPAM", true},
		{"letters that PHP replaces", "form", "my_body", form, "my.body=SPAM", true},
		{"space before", "form", "body", form, "+body=SPAM", true},
		{"NUL after", "form", "body", form, "body%00x=SPAM", true},
		{"first of two", "form", "body", form, "body=SPAM&body=ok", true},
		{"second of two", "form", "body", form, "body=ok&body=SPAM", true},
		{"value and list", "form", "body", form, "body=ok&body[]=SPAM", true},
		{"value and case", "form", "body", form, "body=ok&Body=SPAM", true},
		{"after a semicolon", "form", "body", form, "a=1;body=SPAM&body=ok", true},
		{"after two semicolons", "form", "body", form, "a;b;body=SPAM&body=ok", true},
		{"%u escapes in the name", "form", "body", form, "body=ok&%u0062ody=SPAM", true},
		{"%u escapes in the text", "form", "body", form, "body=%u0053PA%u004d", true},
		{"a percent sign that escapes nothing", "form", "body", form, "body=ok&bo%dy=S%PAM", true},
		{"brackets around", "form", "body", form, "body=ok&%5Bbody%5D=SPAM", true},
		{"object by a point", "form", "comment[body]", form, "comment[body]=ok&comment.body=SPAM", true},
		{"object in a list", "form", "comment[body]", form, "comment[body]=ok&comment[0][body]=SPAM", true},
		{"a bracket that nobody closes", "form", "my_body", form, "my_body=ok&my[body=SPAM", true},
		{"invisible letters", "form", "body", form, "body=ok&bo%E2%80%8Bdy%01=SPAM", true},
		{"name in a charset", "form", "body", form + "; charset=utf-16le", "body=ok&b%00o%00d%00y%00=S%00P%00A%00M%00", true},
		{"a text in a charset whose name is not", "form", "body", form + "; charset=utf-16le", "body=S%00P%00A%00M%00", true},
		{"name in a second charset", "form", "body", form + "; charset=koi8-r", "body=ok&_charset_=windows-1252&_charset_=utf-16le&b%00o%00d%00y%00=S%00P%00A%00M%00", true},
		{"whole body in a charset", "form", "body", form + "; charset=utf-16be", "\x00b\x00o\x00d\x00y\x00=\x00S\x00P\x00A\x00M", true},
		{"parameters that are wrong", "form", "body", form + "; x; charset=utf-16be", "\x00b\x00o\x00d\x00y\x00=\x00S\x00P\x00A\x00M", true},
		{"a long s", "form", "words", form, "words=ok&word%C5%BF=SPAM", true},
		{"a dotless i", "form", "title", form, "title=ok&t%C4%B1tle=SPAM", true},
		{"a key of a map in quotes", "form", "comment[body]", form, "comment[body]=ok&comment[%27body%27]=SPAM", true},
		{"a question mark before", "form", "body", form, "?body=SPAM&body=ok", true},
		{"a byte that is no letter in the name", "form", "body", form, "body=ok&bo%FFdy=SPAM", true},
		{"a value for want of another", "form", "body", form, "!body=SPAM", true},
		{"the name of what it belongs to", "form", "body", form, "body=ok&comment.Body=SPAM", true},
		{"what it belongs to, as a map", "form", "body", form, "body=ok&comment[body]=SPAM", true},
		{"in a body beside the query", "query", "body", form, "body=SPAM", true},
		{"in JSON beside the query", "query", "body", js, `{"body":"SPAM"}`, true},
		{"in parts beside the query", "query", "body", parts, onePart("; name=body", "SPAM"), true},
		{"elements are read together", "form", "body", form, "body[]=ok&body[]=SPAM", false},

		{"list", "json", "/body", js, `{"body":["SPAM"]}`, true},
		{"object", "json", "/body", js, `{"body":{"text":"SPAM"}}`, true},
		{"list at the top", "json", "/body", js, `[{"body":"SPAM"}]`, true},
		{"list below", "json", "/comment/body", js, `{"comment":[{"body":"SPAM"}]}`, true},
		{"case", "json", "/body", js, `{"BODY":"SPAM"}`, true},
		{"twins", "json", "/body", js, `{"body":"ok","BODY":"SPAM"}`, true},
		{"first of two", "json", "/body", js, `{"body":"SPAM","body":"ok"}`, true},
		{"second of two", "json", "/body", js, `{"body":"ok","body":"SPAM"}`, true},
		{"escaped name", "json", "/body", js, `{"body":"ok","b\u006fdy":"SPAM"}`, true},
		{"two parents", "json", "/comment/body", js, `{"comment":{"body":"SPAM"},"comment":{"body":"ok"}}`, true},
		{"parents of another case", "json", "/comment/body", js, `{"comment":{"body":"ok"},"Comment":{"body":"SPAM"}}`, true},
		{"letters that are dropped", "json", "/body", js, `{"body":"ok","body\ud800":"SPAM"}`, true},
		{"NUL after", "json", "/body", js, `{"body":"ok","body\u0000x":"SPAM"}`, true},
		{"a long s", "json", "/message", js, `{"message":"ok","meſſage":"SPAM"}`, true},
		{"the sign of the kelvin", "json", "/link", js, "{\"link\":\"ok\",\"lin\u212a\":\"SPAM\"}", true},
		{"a byte that is no letter in the name", "json", "/body", js, "{\"body\":\"ok\",\"bo\xffdy\":\"SPAM\"}", true},
		{"a byte that is no letter in the text", "json", "/body", js, "{\"body\":\"S\xffPAM\"}", true},
		{"byte order mark", "json", "/body", js, "\ufeff" + `{"body":"SPAM"}`, true},
		{"a charset that the service does not believe", "json", "/body", js + "; charset=utf-16be", `{"body":"SPAM"}`, true},

		{"single quotes", "multipart", "body", parts, onePart("; name='body'", "SPAM"), true},
		{"no quotes", "multipart", "body", parts, onePart("; name=body", "SPAM"), true},
		{"list", "multipart", "body", parts, onePart(`; name="body[]"`, "SPAM"), true},
		{"name first of two", "multipart", "body", parts, onePart(`; name="body"; name="x"`, "SPAM"), true},
		{"name second of two", "multipart", "body", parts, onePart(`; name="x"; name="body"`, "SPAM"), true},
		{"a name in the quotes of another", "multipart", "body", parts, onePart(`; name="x"; filename="a; name=body"`, "SPAM"), true},
		{"a name in quotes within quotes", "multipart", "body", parts, onePart(`; name="x"; filename="a; name=\"body\"; b"`, "SPAM"), true},
		{"after quotes that nobody closes", "multipart", "body", parts, onePart(`; x="; name=body`, "SPAM"), true},
		{"after a comma", "multipart", "body", parts, onePart(`, name="body"`, "SPAM"), true},
		{"extended name", "multipart", "body", parts, onePart(`; name*=utf-8''b%6fdy`, "SPAM"), true},
		{"name in pieces", "multipart", "body", parts, onePart(`; name*0="bo"; name*1=dy`, "SPAM"), true},
		{"name in pieces, the last one first", "multipart", "body", parts, onePart(`; name*1=dy; name*0="bo"`, "SPAM"), true},
		{"name in extended pieces, the last one first", "multipart", "body", parts, onePart(`; name*2=y; name*1*=%64; name*0*=utf-8''b%6f`, "SPAM"), true},
		{"a name that no semicolon precedes", "multipart", "body", parts, onePart(" name=body", "SPAM"), true},
		{"a name after a sign", "multipart", "body", parts, onePart(`; name=x; x-name="body"`, "SPAM"), true},
		{"the name of a file alone", "multipart", "body", parts, onePart(`; filename=body`, "SPAM"), true},
		{"an identifier for a name", "multipart", "body", parts, "--B\r\nContent-ID: body\r\n\r\nSPAM\r\n--B--", true},
		{"name in an encoded word", "multipart", "body", parts, onePart(`; name="=?utf-8?q?b=6Fdy?="`, "SPAM"), true},
		{"space before the colon", "multipart", "body", parts, "--B\r\nContent-Disposition : form-data; name=body\r\n\r\nSPAM\r\n--B--", true},
		{"a folded head", "multipart", "body", parts, onePart(";\r\n name=body", "SPAM"), true},
		{"_charset_", "multipart", "body", parts, strings.TrimSuffix(onePart("; name=_charset_", "utf-16le"), "--B--\r\n") + onePart("; name=body", "S\x00P\x00A\x00M\x00"), true},
		{"a file without a name", "multipart", "body", parts, onePart(`; name=body; filename=""`, "SPAM\n\xe4"), false},
		{"preamble", "multipart", "body", parts, "x\r\n" + onePart("; name=body", "SPAM"), true},
		{"case of the parameter", "multipart", "body", parts, onePart(`; NAME="body"`, "SPAM"), true},
		{"base64", "multipart", "body", parts, onePart("; name=\"body\"\r\nContent-Transfer-Encoding: base64", base), true},
		{"quoted-printable", "multipart", "body", parts, onePart("; name=\"body\"\r\nContent-Transfer-Encoding: quoted-printable", "=53PAM"), true},
		{"base64 with what is none", "multipart", "body", parts, onePart("; name=\"body\"\r\nContent-Transfer-Encoding: base64", base[:3]+" *"+base[3:]), true},
		{"base64 in pieces", "multipart", "body", parts, onePart("; name=\"body\"\r\nContent-Transfer-Encoding: base64", "U1A=QU0="), true},
		{"the second of two encodings", "multipart", "body", parts, onePart("; name=\"body\"\r\nContent-Transfer-Encoding: 8bit\r\nContent-Transfer-Encoding: base64", base), true},
		{"backslashes in the name", "multipart", "a[body]", parts, onePart(`; name="a\[bo\dy\]"`, "SPAM"), true},
		{"escapes in the name", "multipart", "a[body]", parts, onePart(`; name="a%5Bbody%5D"`, "SPAM"), true},
		{"byte order mark, little end", "multipart", "body", parts, onePart("; name=body", "\xff\xfeS\x00P\x00A\x00M\x00"), true},
		{"byte order mark, big end", "multipart", "body", parts, onePart("; name=body", "\xfe\xff\x00S\x00P\x00A\x00M"), true},
		{"a charset after a wrong parameter", "multipart", "body", parts, onePart("; name=body\r\nContent-Type: text/plain; x; charset=utf-16le", "S\x00P\x00A\x00M\x00"), true},
		{"the charset of a second type", "multipart", "body", parts, onePart("; name=body\r\nContent-Type: text/plain\r\nContent-Type: text/plain; charset=utf-16le", "S\x00P\x00A\x00M\x00"), true},
		{"a file in a charset of its own", "multipart", "body", parts, onePart("; name=body; filename=a.txt\r\nContent-Type: text/plain; charset=utf-16be", "\x00S\x00P\x00A\x00M\x00\n\x04\xff"), false},
		{"two parts", "multipart", "body", parts, strings.TrimSuffix(onePart(`; name="body"`, "SPAM"), "--B--\r\n") + onePart(`; name="body"`, "ok"), true},
		{"a charset that the service does not believe", "form", "body", form + "; charset=utf-16le", "body=SPAM", true},
	} {
		t.Run(c.from+"/"+c.name, func(t *testing.T) {
			cfg := DefaultConfig()
			cfg.Sources = sources("text", c.from, c.key)
			readings, err := cfg.Values(d, Input{ContentType: c.media, Body: []byte(c.body)})
			if err != nil {
				t.Fatal(err)
			}
			if first, _ := readings[0]["text"].(string); !slices.Contains(strings.Split(first, "\n"), "SPAM") {
				t.Errorf("first reading %q", first)
			}
			alone := slices.ContainsFunc(readings, func(v map[string]any) bool { return v["text"] == "SPAM" })
			if alone != c.alone {
				t.Errorf("readings %q", readings)
			}
		})
	}
	cfg := DefaultConfig()
	cfg.Sources = sources("text", "multipart", "body")
	body := onePart(`; name="body"; filename="a.gif"`, "GIF89a\x01\xff\xfe\x80buy cheap pills now\x00\xff")
	if v, err := cfg.Values(d, Input{ContentType: parts, Body: []byte(body)}); err != nil || !strings.Contains(v[0]["text"].(string), "buy cheap pills now") {
		t.Errorf("a file with a binary prefix: %q, %v", v, err)
	}
	cfg.Sources = sources("text", "form", "body")
	if _, err := cfg.Values(d, Input{ContentType: form, Body: []byte(strings.Repeat("body=x&", 40))}); !errors.Is(err, ErrUnreadable) {
		t.Errorf("forty readings: %v", err)
	}
	cfg.Sources = append(sources("text", "form", "body"), Source{Attribute: "text", From: "multipart", Key: "body"})
	for media, body := range map[string]string{form: "body=ok", parts: onePart("; name=body", "ok")} {
		for query, want := range map[string]int{"": 1, "page=2": 1, "body=SPAM": 3, "BODY[]=SPAM": 3} {
			if v, err := cfg.Values(d, Input{ContentType: media, Query: query, Body: []byte(body)}); err != nil || len(v) != want {
				t.Errorf("%s and the query %q: %q, %v", media, query, v, err)
			}
		}
	}
	cfg.Sources = sources("text", "form", "body")
	if v, err := cfg.Values(d, Input{ContentType: form, Body: []byte("body=a; b; c=d")}); err != nil || len(v) != 1 || v[0]["text"] != "a; b; c=d" {
		t.Errorf("semicolons in a text: %q, %v", v, err)
	}
	for _, body := range []string{"", "a=1", "bodyx=SPAM", "xbody=SPAM"} {
		if _, err := cfg.Values(d, Input{ContentType: form, Body: []byte(body)}); !errors.Is(err, ErrMissing) {
			t.Errorf("%q: %v", body, err)
		}
	}
	cfg.Sources[0].Optional = true
	if v, err := cfg.Values(d, Input{ContentType: form, Body: []byte("a=1")}); err != nil || len(v) != 1 || len(v[0]) != 0 {
		t.Errorf("optional: %v, %v", v, err)
	}
}

// TestDoubtful: where services differ in what a body is, or where its parts are cut, it is not readable.
func TestDoubtful(t *testing.T) {
	d := newDomain(t)
	const form, js = "application/x-www-form-urlencoded", "application/json"
	ok, spam := onePart("; name=body", "ok"), onePart("; name=body", "SPAM")
	for name, c := range map[string]struct{ media, body string }{
		"JSON that calls itself a form":  {form + "; x=/json", `{"body":"SPAM","x":"&body=ok&"}`},
		"a list that calls itself form":  {form, `[{"body":"SPAM"},"&body=ok&"]`},
		"two types":                      {form + ", " + js, "body=ok"},
		"two types after a parameter":    {form + "; charset=utf-8, " + js, "body=ok"},
		"no type":                        {"", "body=SPAM"},
		"plain text":                     {"text/plain", "body=SPAM"},
		"many charsets":                  {form, "body=ok&_charset_=a&_charset_=b&_charset_=c&_charset_=d&_charset_=e"},
		"EBCDIC":                         {form + "; charset=ibm037", "body=ok"},
		"UTF-7":                          {form + "; charset=utf-7", "body=ok"},
		"two boundaries":                 {"multipart/form-data; xboundary=A; boundary=B", strings.ReplaceAll(spam, "B", "A") + ok},
		"a boundary with signs":          {`multipart/form-data; boundary="B;C"`, strings.ReplaceAll(ok, "--B", "--B;C")},
		"a name in another charset":      {parts, strings.TrimSuffix(ok, "--B--\r\n") + onePart("; name*=utf-16le''b%00o%00d%00y%00", "SPAM")},
		"a name in base64":               {parts, strings.TrimSuffix(ok, "--B--\r\n") + onePart("; name*=base64''n%87r", "SPAM")},
		"a name in an odd word":          {parts, strings.TrimSuffix(ok, "--B--\r\n") + onePart(`; name="=?utf-7?q?b+AG8-dy?="`, "SPAM")},
		"a boundary in another charset":  {"multipart/form-data; boundary*=utf-8''B", strings.ReplaceAll(spam, "--B", "--utf-8''B") + ok},
		"a boundary in pieces":           {"multipart/form-data; boundary*0=B; boundary*1=C", strings.ReplaceAll(spam, "--B", "--BC") + ok},
		"a boundary with a backslash":    {`multipart/form-data; boundary="B\=C"`, strings.ReplaceAll(spam, "--B", `--B\=C`) + strings.ReplaceAll(ok, "--B", "--B=C")},
		"a boundary with a comma":        {`multipart/form-data; boundary="B,C"`, spam + strings.ReplaceAll(ok, "--B", "--B,C")},
		"parts after the last":           {parts, ok + spam},
		"parts in lines of another kind": {parts, strings.Replace(ok, "ok", "ok\n--B\nContent-Disposition: form-data; name=body\n\nSPAM", 1)},
		"comments in JSON":               {js, `{"x":1,/*"body":"ok"*/"body":"SPAM"}`},
		"NaN":                            {js, `{"x":NaN,"body":"SPAM"}`},
		"JSON in single quotes":          {js, `{'body':'SPAM'}`},
		"parts in a part":                {parts, onePart("; name=body\r\nContent-Type: Multipart/Mixed; boundary=C", "--C\r\n\r\nSPAM\r\n--C--")},
		"a part that is compressed":      {parts, onePart("; name=body\r\nContent-Encoding: gzip", "ok")},
		"two values":                     {js, `{"body":"ok"}{"body":"SPAM"}`},
		"JSON in UTF-16":                 {js, "{\x00\"\x00b\x00\"\x00:\x001\x00}\x00"},
		"JSON in UTF-32":                 {js, "\x00\x00\x00{\x00\x00\x00}"},
	} {
		cfg := DefaultConfig()
		cfg.Sources = append(sources("text", "form", "body", "text", "json", "/body"), Source{Attribute: "text", From: "multipart", Key: "body"})
		if v, err := cfg.Values(d, Input{ContentType: c.media, Body: []byte(c.body)}); !errors.Is(err, ErrUnreadable) {
			t.Errorf("%s: %q, %v", name, v, err)
		}
	}
}

// TestCompressed: what a compressed body says to a service that does not know that it is compressed is read as well.
func TestCompressed(t *testing.T) {
	d := newDomain(t)
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	w.Comment = "&body=SPAM&"
	if _, err := w.Write([]byte("body=ok")); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		media, encoding string
		body            []byte
	}{
		"in a comment of gzip": {"application/x-www-form-urlencoded", "gzip", b.Bytes()},
		"after the end":        {"application/x-www-form-urlencoded", "deflate", append(zipped(t, "zlib", "body=ok"), "&body=SPAM"...)},
		"parts after the end":  {parts, "deflate", append(zipped(t, "zlib", onePart("; name=body", "ok")), "\r\n"+onePart("; name=body", "SPAM")...)},
	} {
		cfg := DefaultConfig()
		cfg.Sources = append(sources("text", "form", "body"), Source{Attribute: "text", From: "multipart", Key: "body"})
		v, err := cfg.Values(d, Input{ContentType: c.media, ContentEncoding: c.encoding, Body: c.body})
		alone := slices.ContainsFunc(v, func(v map[string]any) bool { return v["text"] == "SPAM" })
		if !alone || err != nil {
			t.Errorf("%s: %q, %v", name, v, err)
		}
	}
}

// TestCharsets: a text that is no UTF-8 and names no charset is read as what it can be, or as the route says.
func TestCharsets(t *testing.T) {
	d := newDomain(t)
	const russian = "Заработок в интернете без вложений, пишите в личные сообщения"
	for name, c := range map[string]struct {
		enc           encoding.Encoding
		charset, text string
	}{
		"windows-1251":      {charmap.Windows1251, "", russian},
		"koi8-r":            {charmap.KOI8R, "", russian},
		"windows-1252":      {charmap.Windows1252, "", "Déjà vu à la plage, garçon"},
		"shift_jis":         {japanese.ShiftJIS, "", "今すぐ無料で登録してください"},
		"iso-8859-2, named": {charmap.ISO8859_2, "iso-8859-2", "Zarabiaj łatwo pieniądze"},
	} {
		raw, err := c.enc.NewEncoder().String(c.text)
		if err != nil {
			t.Fatal(err)
		}
		cfg := DefaultConfig()
		cfg.Sources, cfg.Charset = sources("text", "form", "t"), c.charset
		if err := cfg.Validate(); err != nil {
			t.Fatal(err)
		}
		v, err := cfg.Values(d, Input{ContentType: "application/x-www-form-urlencoded", Body: []byte("t=" + raw)})
		if err != nil || v[0]["text"] != c.text {
			t.Errorf("%s: %q, %v", name, v, err)
		}
	}
	cfg := DefaultConfig()
	cfg.Sources, cfg.Charset = sources("text", "form", "t"), "klingon"
	if err := cfg.Validate(); err == nil || !strings.Contains(err.Error(), "charset: ") {
		t.Error(err)
	}
}

// TestNamesInManyPieces: what a name in pieces takes grows with them, not with their square: of 256 KiB it took half a second and gigabytes.
func TestNamesInManyPieces(t *testing.T) {
	var head strings.Builder
	for i := range 13000 {
		fmt.Fprintf(&head, "; name*%d=0123456789", i)
	}
	disposition := []string{"form-data" + head.String()}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	names, _, _ := partNames(disposition)
	runtime.ReadMemStats(&after)
	if whole := strings.Repeat("0123456789", 13000); !slices.Contains(names, whole) {
		t.Errorf("%d names", len(names))
	}
	if n := after.TotalAlloc - before.TotalAlloc; n > 64<<20 {
		t.Errorf("%d MiB for %d bytes", n>>20, head.Len())
	}
}
