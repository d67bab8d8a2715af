package spravka

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"antirobot/servertest"
)

const serviceKey = "0123456789abcdef0123456789abcdef"

func TestServiceCookie(t *testing.T) {
	key, old := []byte(serviceKey), []byte(strings.Repeat("k", 32))
	rapid.Check(t, func(rt *rapid.T) {
		name := rapid.StringMatching(`[a-zA-Z0-9_-]{1,12}`).Draw(rt, "name")
		value := rapid.StringMatching("[!#-+\\--:<-\\[\\]-~]{1,40}").Draw(rt, "value")
		at := time.Unix(rapid.Int64Range(0, 4e9).Draw(rt, "time"), 0)
		cookie, err := SignService(name, value, at, key)
		if err != nil {
			rt.Fatal(err)
		}
		got, when, err := VerifyService(name, []byte(cookie), old, key)
		if err != nil || string(got) != value || !when.Equal(at) {
			rt.Fatalf("%q, %v, %v", got, when, err)
		}
		refuse := func(what, name, cookie string, keys ...[]byte) {
			if got, _, err := VerifyService(name, []byte(cookie), keys...); err == nil {
				rt.Fatalf("%s: %q is accepted as %q", what, cookie, got)
			}
		}
		refuse("no key", name, cookie)
		refuse("another key", name, cookie, old)
		refuse("another name", name+"x", cookie, key)
		refuse("the name takes from the value", name+value[:1], cookie[1:], key)
		if head, sig := cookie[:len(cookie)-64], cookie[len(cookie)-64:]; strings.ToUpper(sig) != sig {
			refuse("a second spelling", name, head+strings.ToUpper(sig), key)
		}
		i := rapid.IntRange(0, len(cookie)-1).Draw(rt, "at")
		c := rapid.ByteRange(0, 255).Draw(rt, "byte")
		if cookie[i] != c {
			refuse("altered", name, cookie[:i]+string([]byte{c})+cookie[i+1:], key)
		}
	})
}

// TestServiceCookieIsDelimited: pitfall 4, digits of the time must not slide into the value, nor the value into the
// name.
func TestServiceCookieIsDelimited(t *testing.T) {
	key := []byte(serviceKey)
	cookie, err := SignService("sid", "a.17", time.Unix(1700000000, 0), key)
	if err != nil {
		t.Fatal(err)
	}
	sig := cookie[strings.LastIndex(cookie, "."):]
	for _, c := range []string{"a.171700000000" + sig, "a.17.01700000000" + sig, "a.17.+1700000000" + sig, "a.17.1700000000.0" + sig, ".1700000000" + sig, "1700000000" + sig} {
		if v, _, err := VerifyService("sid", []byte(c), key); err == nil {
			t.Errorf("%s is accepted as %q", c, v)
		}
	}
}

func TestSignServiceRefuses(t *testing.T) {
	for _, c := range []struct{ name, value, key string }{
		{"", "v", serviceKey},
		{"a b", "v", serviceKey},
		{"a=b", "v", serviceKey},
		{"n\n", "v", serviceKey},
		{"n", "", serviceKey},
		{"n", "a;b", serviceKey},
		{"n", "a\nb", serviceKey},
		{"n", "é", serviceKey},
		{"n", strings.Repeat("v", 1025), serviceKey},
		{"n", "v", serviceKey[1:]},
	} {
		if s, err := SignService(c.name, c.value, start, []byte(c.key)); err == nil {
			t.Errorf("%+v gives %s", c, s)
		}
	}
	if _, err := SignService("n", "v", time.Unix(-1, 0), []byte(serviceKey)); err == nil {
		t.Error("a time before 1970 is accepted")
	}
	if _, _, err := VerifyService("n", []byte("v.1700000000."+strings.Repeat("0", 64)), []byte("short")); !errors.Is(
		err, ErrSeal,
	) {
		t.Errorf("short key: %v", err)
	}
}

// TestDocumentedSamples runs the samples of docs/cookies.md as written: their signatures are accepted.
func TestDocumentedSamples(t *testing.T) {
	doc, err := os.ReadFile(filepath.Join("..", "docs", "cookies.md"))
	if err != nil {
		t.Fatal(err)
	}
	const value = "visitor-4711"
	want, err := SignService("sid", value, time.Unix(1700000000, 0), []byte(serviceKey))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(doc), "    "+want+"\n") {
		t.Errorf("the example to try one's code with is not %s", want)
	}
	const args = `("sid", "visitor-4711", 1700000000, "` + serviceKey + `")`
	for _, c := range []struct{ fence, file, before, call, program string }{
		{"python", "sample.py", "", "\nprint(sign" + args + ")\n", "python3"},
		{"js", "sample.js", "", "\nconsole.log(sign" + args + ");\n", "node"},
		{"php", "sample.php", "<?php\n", "\necho sign" + args + ", \"\\n\";\n", "php"},
		{"java", "Sample.java", "", "", "java"},
	} {
		t.Run(c.fence, func(t *testing.T) {
			_, code, ok := strings.Cut(string(doc), "```"+c.fence+"\n")
			code, _, closed := strings.Cut(code, "```")
			if !ok || !closed {
				t.Fatal("the document has no such sample")
			}
			if c.fence == "java" {
				if testing.Short() {
					t.Skip("skipped: a Java machine takes long to start")
				}
				// The first class of a source file is the one that is run.
				code = strings.Replace(code, "class Sign {", "class Sample {\n"+
					"    public static void main(String[] a) throws Exception { System.out.println(Sign.sign"+args+"); }\n}\n\nclass Sign {", 1)
			}
			program := servertest.Need(t, c.program)
			file := filepath.Join(t.TempDir(), c.file)
			if err := os.WriteFile(file, []byte(c.before+code+c.call), 0o600); err != nil {
				t.Fatal(err)
			}
			out, err := exec.CommandContext(t.Context(), program, file).CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			got := strings.TrimSpace(string(out))
			if got != want {
				t.Errorf("got %s, want %s", got, want)
			}
			if v, _, err := VerifyService("sid", []byte(got), []byte(serviceKey)); err != nil || string(v) != value {
				t.Errorf("%q, %v", v, err)
			}
		})
	}
}

func FuzzVerifyService(f *testing.F) {
	good, err := SignService("sid", "v", start, []byte(serviceKey))
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte(good))
	f.Add([]byte("v.1700000000." + strings.Repeat("0", 64)))
	f.Add([]byte("..."))
	f.Fuzz(func(t *testing.T, b []byte) {
		if v, _, err := VerifyService("sid", b, []byte(serviceKey)); err == nil && string(b) != good {
			t.Fatalf("%q is accepted as %q", b, v)
		}
	})
}
