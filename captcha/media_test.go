package captcha

import (
	"bytes"
	"encoding/binary"
	"image/png"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode"

	"golang.org/x/sys/unix"
)

func TestImageAndAudio(t *testing.T) {
	e := newEnv(t, nil)
	page, fields := e.visit("https://example.com/")
	key := fields.Get("key")
	img := e.c.Image(e.request("GET", "https://example.com"+between(t, string(page.Body), `<img src="`, `"`)))
	if img.Status != 200 || img.Get("Content-Type") != "image/png" {
		t.Fatalf("%d %v", img.Status, img.Header)
	}
	p, err := png.Decode(bytes.NewReader(img.Body))
	if err != nil || p.Bounds().Dx() != 480 || p.Bounds().Dy() != 160 {
		t.Errorf("%v %v", err, p.Bounds())
	}
	if n := len(page.Body) + len(img.Body); n > 30<<10 {
		t.Errorf("the page and its picture have %d bytes", n)
	}
	again := e.c.Image(e.request("GET", "https://example.com/captcha/image?key="+key))
	if !bytes.Equal(again.Body, img.Body) {
		t.Error("asking again gives another look at the same digits")
	}
	snd := e.c.Audio(e.request("GET", "https://example.com/captcha/audio?key="+key+"&lang=en"))
	if snd.Status != 200 || snd.Get("Content-Type") != "audio/wav" || !bytes.HasPrefix(snd.Body, []byte("RIFF")) ||
		string(snd.Body[8:12]) != "WAVE" {
		t.Fatalf("%d %v", snd.Status, snd.Header)
	}
	if n := binary.LittleEndian.Uint32(snd.Body[4:]); int(n) > len(snd.Body) {
		t.Errorf("the sound is cut: %d of %d bytes", len(snd.Body), n)
	}
	russian := e.c.Audio(e.request("GET", "https://example.com/captcha/audio?key="+key+"&lang=ru"))
	if bytes.Equal(russian.Body, snd.Body) {
		t.Error("the sound does not follow the page's language")
	}
	for what, a := range map[string]Response{
		"no key":       e.c.Image(e.request("GET", "https://example.com/captcha/image")),
		"a wrong key":  e.c.Audio(e.request("GET", "https://example.com/captcha/audio?key="+key+"A")),
		"another host": e.c.Image(e.request("GET", "https://www.example.com/captcha/image?key="+key)),
	} {
		if a.Status != 404 || len(a.Body) != 0 {
			t.Errorf("%s: %d", what, a.Status)
		}
	}
	if a := e.c.Image(e.request("POST", "https://example.com/captcha/image?key="+key)); a.Status != 405 ||
		a.Get("Allow") != "GET, HEAD" {
		t.Errorf("POST: %d", a.Status)
	}
	e.pass(30 * time.Minute)
	if a := e.c.Image(e.request("GET", "https://example.com/captcha/image?key="+key)); a.Status != 404 {
		t.Errorf("an expired key: %d", a.Status)
	}
}

// TestVoices: every language is spoken in the voice that its catalogue names, and all these voices differ.
func TestVoices(t *testing.T) {
	e := newEnv(t, nil)
	_, fields := e.visit("https://example.com/")
	heard := map[string][]byte{}
	for _, l := range e.set.Languages() {
		a := e.c.Audio(e.request("GET", "https://example.com/captcha/audio?key="+fields.Get("key")+"&lang="+l.Tag))
		if a.Status != 200 || len(a.Body) < 10<<10 {
			t.Fatalf("%s: status %d, %d bytes", l.Tag, a.Status, len(a.Body))
		}
		if was := heard[l.Voice]; was != nil && len(was) != len(a.Body) {
			t.Errorf("%s is not heard in %s", l.Tag, l.Voice)
		}
		heard[l.Voice] = a.Body
	}
	sizes := map[int]string{}
	for voice, b := range heard {
		if other := sizes[len(b)]; other != "" {
			t.Errorf("%s sounds as %s", voice, other)
		}
		sizes[len(b)] = voice
	}
	if len(heard) != 5 {
		t.Errorf("%d voices are used", len(heard))
	}
}

func TestAudioRanges(t *testing.T) {
	e := newEnv(t, nil)
	_, fields := e.visit("https://example.com/")
	get := func(opts ...opt) Response {
		return e.c.Audio(e.request("GET", "https://example.com/captcha/audio?key="+fields.Get("key"), opts...))
	}
	whole := get()
	size := len(whole.Body)
	if whole.Get("Accept-Ranges") != "bytes" || whole.Get("ETag") == "" {
		t.Errorf("%v", whole.Header)
	}
	f := func(spec string, status, from, to int) {
		t.Helper()
		a := get(header("Range", spec))
		if a.Status != status || !bytes.Equal(a.Body, whole.Body[from:to]) {
			t.Errorf("%q: status %d, %d bytes", spec, a.Status, len(a.Body))
		}
		want := ""
		switch status {
		case 206:
			want = "bytes " + strconv.Itoa(from) + "-" + strconv.Itoa(to-1) + "/" + strconv.Itoa(size)
		case 416:
			want = "bytes */" + strconv.Itoa(size)
		}
		if a.Get("Content-Range") != want {
			t.Errorf("%q: Content-Range %q, want %q", spec, a.Get("Content-Range"), want)
		}
	}
	f("bytes=0-1", 206, 0, 2)
	f("bytes=0-", 206, 0, size)
	f("bytes=100-199", 206, 100, 200)
	f("bytes=-5", 206, size-5, size)
	f("bytes=10-99999999", 206, 10, size)
	f("bytes=-99999999", 206, 0, size)
	f("bytes="+strconv.Itoa(size)+"-", 416, 0, 0)
	f("bytes=-0", 416, 0, 0)
	f("bytes=5-4", 200, 0, size)
	f("bytes=0-1,3-4", 200, 0, size)
	f("bytes=x-y", 200, 0, size)
	f("bytes=-", 200, 0, size)
	f("items=0-1", 200, 0, size)
	f("bytes=99999999999999999999-", 416, 0, 0)
	f("bytes=0-99999999999999999999", 206, 0, size)
	if a := get(header("Range", "bytes=0-1"), header("If-Range", whole.Get("ETag"))); a.Status != 206 {
		t.Errorf("If-Range that fits: %d", a.Status)
	}
	if a := get(header("Range", "bytes=0-1"), header("If-Range", `"other"`)); a.Status != 200 || len(a.Body) != size {
		t.Errorf("If-Range of another body: %d", a.Status)
	}
}

func FuzzRange(f *testing.F) {
	f.Add("bytes=0-1", 10)
	f.Add("bytes=-5", 0)
	f.Add("bytes=9-", 3)
	f.Fuzz(func(t *testing.T, spec string, size int) {
		if size < 0 {
			return
		}
		from, to, ok, satisfiable := parseRange(spec, size)
		if ok && satisfiable && (from < 0 || from >= to || to > size) {
			t.Fatalf("%q of %d: %d to %d", spec, size, from, to)
		}
	})
}

// TestPitfall12RenderingIsLimited: per address and in total.
func TestPitfall12RenderingIsLimited(t *testing.T) {
	e := newEnv(t, nil, onePlace, func(b *bounds) { b.images, b.audio, b.wait = rate{1, 2}, rate{2, 1}, 0 })
	_, fields := e.visit("https://example.com/")
	target := "?key=" + fields.Get("key")
	img := func(opts ...opt) Response {
		return e.c.Image(e.request("GET", "https://example.com/captcha/image"+target, opts...))
	}
	snd := func(opts ...opt) Response {
		return e.c.Audio(e.request("GET", "https://example.com/captcha/audio"+target, opts...))
	}
	for _, ask := range []func(...opt) Response{img, img, snd} {
		if a := ask(); a.Status != 200 {
			t.Fatal("limited too early")
		}
	}
	if a := img(); a.Status != 429 || a.Get("Retry-After") != "60" {
		t.Errorf("image: %d %q", a.Status, a.Get("Retry-After"))
	}
	if a := snd(); a.Status != 429 || a.Get("Retry-After") != "30" {
		t.Errorf("audio: %d %q", a.Status, a.Get("Retry-After"))
	}
	if a := img(from("203.0.113.8")); a.Status != 200 {
		t.Errorf("another address: %d", a.Status)
	}
	defer e.occupy()()
	if a := snd(from("203.0.113.8")); a.Status != 200 {
		t.Errorf("what was made before: %d", a.Status)
	}
	_, fields = e.visit("https://example.com/", from("203.0.113.8"))
	target = "?key=" + fields.Get("key")
	if a := img(from("203.0.113.8")); a.Status != 503 || a.Get("Retry-After") != "1" ||
		string(a.Body) != "Please try again in 1 s.\n" {
		t.Errorf("all places taken: %d %q %q", a.Status, a.Get("Retry-After"), a.Body)
	}
	if a := img(from("203.0.113.9"), header("Accept", "application/json")); a.Status != 503 ||
		!bytes.Contains(a.Body, []byte(`"retry-after":1`)) {
		t.Errorf("all places taken, as JSON: %d %q", a.Status, a.Body)
	}
}

// TestPitfall18DigitsOfAllScripts checks what digitValue assumes about Unicode.
func TestPitfall18DigitsOfAllScripts(t *testing.T) {
	for _, r := range unicode.Nd.R16 {
		if r.Stride != 1 || (r.Hi-r.Lo+1)%10 != 0 {
			t.Errorf("range %x-%x", r.Lo, r.Hi)
		}
	}
	for _, r := range unicode.Nd.R32 {
		if r.Stride != 1 || (r.Hi-r.Lo+1)%10 != 0 {
			t.Errorf("range %x-%x", r.Lo, r.Hi)
		}
	}
	for zero := range map[rune]bool{'٠': true, '۰': true, '०': true, '０': true, '๐': true, '𝟘': true} {
		for i := range rune(10) {
			if v, ok := digitValue(zero + i); !ok || v != byte(i) {
				t.Errorf("%c is %d, %v", zero+i, v, ok)
			}
		}
	}
	if _, ok := digitValue('②'); ok {
		t.Error("② is a digit")
	}
}

// TestPitfall15NothingSecretInLogs: an error of the store is logged; keys, answers, cookies and passes are not.
func TestPitfall15NothingSecretInLogs(t *testing.T) {
	e, log := newLoggingEnv(t)
	a, fields := e.challengeForm()
	rep := e.answerOf(fields.Get("key"))
	b := e.submit(fields, rep, header("Cookie", "antirobot_probe="+value(cookies(&a)["antirobot_probe"])))
	text := log.String()
	if !strings.Contains(text, "store is away") {
		t.Fatalf("nothing logged: %s", text)
	}
	for what, secret := range map[string]string{
		"key": fields.Get("key"), "form": fields.Get("saved"), "answer": rep, "cookie": "session=42", "pass": value(cookies(&b)["spravka"]),
		"probe": value(cookies(&a)["antirobot_probe"]),
	} {
		if secret != "" && strings.Contains(text, secret) {
			t.Errorf("the %s is logged: %s", what, text)
		}
	}
}

func benchEnv(b *testing.B) *env {
	return newEnv(b, nil, func(b *bounds) {
		much := rate{1_000_000, 1_000_000}
		b.images, b.audio, b.checks, b.media = much, much, much, much
	})
}

// measure runs f and reports it per second of wall time and per second of this process's CPU time: on a busy machine,
// the latter is what one core can do.
func measure(b *testing.B, what string, f func()) {
	b.ReportAllocs()
	before := cpuTime(b)
	for b.Loop() {
		f()
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), what+"/s")
	b.ReportMetric(float64(b.N)/(cpuTime(b)-before).Seconds(), what+"/cpu-s")
}

func cpuTime(b *testing.B) time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func BenchmarkPage(b *testing.B) {
	e := benchEnv(b)
	a := e.c.Redirect(e.request("GET", "https://example.com/search?text=a+b&p=2"))
	q := e.request("GET", a.Get("Location"), header("Accept-Language", "ru-RU,ru;q=0.9,en-US;q=0.8,en;q=0.7"))
	measure(b, "pages", func() {
		if e.c.Page(q).Status != 200 {
			b.Fatal("no page")
		}
	})
}

func BenchmarkWrongAnswer(b *testing.B) {
	e := benchEnv(b)
	_, fields := e.visit("https://example.com/")
	q := e.request("POST", "https://example.com/checkcaptcha", form("key", fields.Get("key"), "rep", "123", "retpath",
		fields.Get("retpath")))
	measure(b, "answers", func() { e.c.Check(q) })
}

func benchMedia(b *testing.B, what string, f func(*Captcha, *Request) Response) {
	e := benchEnv(b)
	_, fields := e.visit("https://example.com/")
	q := e.request("GET", "https://example.com/captcha/x?key="+fields.Get("key"))
	measure(b, what, func() {
		if f(e.c, q).Status != 200 {
			b.Fatal("refused")
		}
	})
}

func BenchmarkImage(b *testing.B) { benchMedia(b, "images", (*Captcha).Image) }
