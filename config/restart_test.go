package config

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"antirobot/problem"
	"antirobot/proxy/h1/hello"
)

// liveKeys are what a reload takes over. With restartKeys they are everything: a new key has to be put on one side.
var liveKeys = []string{
	"keys", "log.level", "http", "drain_timeout", "drain_delay", "lists", "geo", "captcha", "defaults", "services",
	"identity.trusted_proxies", "identity.client_address_header", "identity.ja4_header", "identity.http2_header", "identity.i_per_hour",
	"check.style", "check.path", "check.headers", "check.allowed", "check.secret", "check.secret_file",
	"check.accel_location", "check.on_error", "formula",
}

// TestEveryKeyIsLiveOrNeedsARestart changes each key alone: it is named exactly when it is one of those that a reload
// does not take over.
func TestEveryKeyIsLiveOrNeedsARestart(t *testing.T) {
	var walk func(section reflect.Type, path string, index []int)
	walk = func(section reflect.Type, path string, index []int) {
		for _, k := range keysOf(section) {
			at, own := problem.Below(path, k.name), append(slices.Clone(index), k.index)
			if isSection(k.typ) && k.typ != serviceType {
				walk(k.typ, at, own)
				continue
			}
			restart := len(below([]string{at}, restartKeys)) > 0 || at == "listen"
			if live := len(below([]string{at}, liveKeys)) > 0; live == restart {
				t.Errorf("%s: live %v, needs a restart %v", at, live, restart)
				continue
			}
			if at == "defaults" || at == "services" {
				continue
			}
			now, next := Default(), Default()
			change(t, reflect.ValueOf(&next).Elem().FieldByIndex(own))
			var want []string
			if restart {
				want = []string{at}
			}
			if got := now.NeedRestart(&next); !slices.Equal(got, want) {
				t.Errorf("%s changed: need restart %v, want %v", at, got, want)
			}
			now.CarryOver(&next)
			left := changedKeys(reflect.ValueOf(now), reflect.ValueOf(next), "")
			if restart && len(left) > 0 || !restart && !slices.Equal(left, []string{at}) {
				t.Errorf("%s changed: still %v after what runs was carried over", at, left)
			}
		}
	}
	walk(reflect.TypeFor[Config](), "", nil)
}

// change gives v another value.
func change(t *testing.T, v reflect.Value) {
	t.Helper()
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(!v.Bool())
	case reflect.Int, reflect.Int64:
		v.SetInt(v.Int() + int64(time.Second))
	case reflect.Float64:
		v.SetFloat(v.Float() + 1)
	case reflect.String:
		v.SetString(v.String() + "x")
	case reflect.Slice:
		v.Set(reflect.Append(v, reflect.Zero(v.Type().Elem())))
	default:
		t.Fatalf("%s is of no kind that a configuration has", v.Type())
	}
}

func TestNeedRestartOfListeners(t *testing.T) {
	f := func(name string, now, next []Listener, want bool) {
		t.Helper()
		a, b := Default(), Default()
		a.Listen, b.Listen = now, next
		if got := slices.Contains(a.NeedRestart(&b), "listen"); got != want {
			t.Errorf("%s: got %v", name, got)
		}
		a.CarryOver(&b)
		if kept := reflect.DeepEqual(b.Listen, now); want && !kept || !want && !reflect.DeepEqual(b.Listen, next) {
			t.Errorf("%s: carried over %v", name, b.Listen)
		}
	}
	plain := []Listener{{Address: ":80"}}
	tls := []Listener{{Address: ":80", TLSCert: "a", TLSKey: "b"}}
	f("the same", plain, []Listener{{Address: ":80"}}, false)
	f("another port", plain, []Listener{{Address: ":81"}}, true)
	f("one more", plain, []Listener{{Address: ":80"}, {Address: ":81"}}, true)
	f("none", plain, nil, true)
	f("TLS", plain, tls, true)
	f("other files of a certificate", tls, []Listener{{Address: ":80", TLSCert: "c", TLSKey: "d"}}, false)
	f("further certificates", tls, []Listener{{Address: ":80", TLSCert: "a", TLSKey: "b", Certificates: []hello.CertificateFiles{{CertFile: "c", KeyFile: "d"}}}}, false)

	// Any other key of a listener opens the socket anew.
	files := []string{"tls_cert", "tls_key", "certificates", "client_ca"}
	for _, k := range keysOf(reflect.TypeFor[Listener]()) {
		if slices.Contains(files, k.name) {
			continue
		}
		next := Listener{Address: ":80"}
		change(t, reflect.ValueOf(&next).Elem().Field(k.index))
		f(k.name, plain, []Listener{next}, true)
	}
}

// TestExampleMarksWhatNeedsARestart: [restart] in the example stands where the code says so, and nowhere else.
func TestExampleMarksWhatNeedsARestart(t *testing.T) {
	part, _ := exampleParts(t)
	marked := 0
	var above bool
	var section string
	for line := range strings.Lines(string(part)) {
		text := strings.TrimSpace(line)
		mark := strings.Contains(text, "[restart]")
		key, _, isKey := strings.Cut(text, ":")
		switch {
		case text == "" || strings.HasPrefix(text, "# ---"):
			above = false
		case strings.HasPrefix(text, "#"):
			above = above || mark
		case isKey && !strings.HasPrefix(text, "-"):
			indent := len(line) - len(strings.TrimLeft(line, " "))
			at := key
			switch indent {
			case 0:
				section = key
			case 2:
				at = section + "." + key
			default:
				continue
			}
			needs := len(below([]string{at}, append([]string{"listen"}, restartKeys...))) > 0
			whole := len(below([]string{section}, append([]string{"listen"}, restartKeys...))) > 0
			switch said := above || mark; {
			case indent == 0 && needs != said:
				t.Errorf("%s: needs a restart %v, marked %v", at, needs, said)
			case indent == 2 && !whole && needs != said:
				t.Errorf("%s: needs a restart %v, marked %v", at, needs, said)
			}
			if needs {
				marked++
			}
			above = false
		}
	}
	if marked < 10 {
		t.Errorf("only %d keys were seen to need a restart", marked)
	}
}
