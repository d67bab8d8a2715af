package rules

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"
)

// generalCases belong to the table of TestRules.
func generalCases() []struct{ text, rule, want string } {
	return []struct{ text, rule, want string }{
		{"x", `counterAdd(type=14, attribute="from, ip")`, "T"},
		{"x", `counterAdd(type=14, attribute="from, no")`, "2006"},
		{"x", `userFrequencyCheck(attribute="from, ip", count=0)`, "F"},
		{"x", `listCheck(list="block", match="word", attribute="text")`, "T"},
		{"x", `eventAdd(event="e", attribute="from, ip")`, "T"},
		{"x", `eventAdd(event="e")`, "2006"},
		{"x", `eventCheck(event="e", attribute="from", count=0)`, "T"},
		{"x", `bucketCheck(rate=1, attribute="from")`, "T"},
		{"x", `bucketCheck(rate=1, attribute="from", storage="none")`, "T"},
		{"Hi", `compareCheck(attribute="text", other="title")`, "T"},
		{"hI", `compareCheck(attribute="text", other="title")`, "F"},
		{"hI", `compareCheck(attribute="text", other="title", is="same")`, "T"},
		{"oHi!", `compareCheck(attribute="text", other="title", is="contains")`, "T"},
		{"Hi!", `compareCheck(attribute="text", other="title", is="starts")`, "T"},
		{"Hi!", `compareCheck(attribute="text", other="title", is="ends")`, "F"},
		{"https://hi:8080/x", `compareCheck(attribute="text", other="title", is="host")`, "T"},
		{"https://oHi", `compareCheck(attribute="text", other="title", is="host")`, "F"},
		{"//", `compareCheck(attribute="text", other="title", is="host")`, "F"},
		{"x", `compareCheck(attribute="age", other="from", is="less")`, "T"},
		{"x", `compareCheck(attribute="age", other="from", is="more")`, "F"},
		{"x", `compareCheck(attribute="age", other="text", is="more")`, "1005"},
		{"x", `compareCheck(attribute="age", other="text")`, "F"},
		{"x", `compareCheck(attribute="age", other="text", is="same")`, "1005"},
		{"x", `compareCheck(attribute="age", other="no")`, "2006"},
		{" 7.5 ", `rangeCheck(attribute="text", min=7.5, max=8)`, "T"},
		{"7,5", `rangeCheck(attribute="text", min=0)`, "F"},
		{"x", `rangeCheck(attribute="age", min=-3, max=-3)`, "T"},
		{"x", `rangeCheck(attribute="age", max=-4)`, "F"},
		{"x", `rangeCheck(attribute="ip", max=-4)`, "1005"},
		{"x", `timeCheck(days="sun-sat")`, "T"},
		{"x", `sampleCheck(share=1)`, "F"},
		{"x", `sampleCheck(share=0, attribute="from")`, "T"},
	}
}

// TestWindows: events are counted apart by name, value and window, and a check counts nothing.
func TestWindows(t *testing.T) {
	w := newWorld()
	f := func(src, want string) {
		t.Helper()
		if got := judge(t, src, w); got != want {
			t.Errorf("%s: %s, want %s", src, got, want)
		}
	}
	const check = `do eventCheck(event="failed", attribute="ip, from", timeout=5, count=2) mark over if over stop as X stop as OK`
	for range 2 {
		f(`do eventAdd(event="failed", attribute="ip, from", timeout=5) stop as OK`, "OK")
	}
	f(`do eventAdd(event="failed", attribute="ip, from", timeout=6, number=9) stop as OK`, "OK")
	f(check, "OK")
	f(check, "OK")
	f(`do eventAdd(event="failed", attribute="ip, from", timeout=5) stop as OK`, "OK")
	f(check, "X over")
	w.values["from"] = Value{Kind: UniqueInt, Int: 7}
	f(check, "OK")
}

// TestTogether: no value of one attribute can look like values of two.
func TestTogether(t *testing.T) {
	w := newWorld()
	w.values["a"], w.values["b"] = Value{Kind: Text, Text: "x\ty"}, Value{Kind: Text, Text: "z"}
	judge(t, `do counterAdd(type=1, attribute="a, b")`, w)
	w.values["a"], w.values["b"] = Value{Kind: Text, Text: "x"}, Value{Kind: Text, Text: "y\tz"}
	judge(t, `do counterAdd(type=1, attribute="a,b")`, w)
	if len(w.adds) != 2 || w.adds[0] == w.adds[1] {
		t.Errorf("%q", w.adds)
	}
}

func TestBucketWait(t *testing.T) {
	p, err := Compile(`do bucketCheck(rate=2, per=60, burst=2, attribute="ip") mark fast do bucketCheck(rate=1, attribute="from") if fast stop as THROTTLE`, DefaultOptions())
	if err != nil {
		t.Fatal(err)
	}
	w, r := newWorld(), Run{}
	for i, want := range []time.Duration{0, time.Second, 30 * time.Second} {
		if err := p.Run(context.Background(), w.env(), &r); err != nil || r.Wait() != want || (r.Decision() == "THROTTLE") != (i == 2) {
			t.Errorf("%v: %s, wait %s, want %s", err, r.Decision(), r.Wait(), want)
		}
	}
}

func TestTimeCheck(t *testing.T) {
	at := time.Date(2026, 3, 6, 22, 30, 0, 0, time.UTC) // a Friday; in Moscow Saturday, 01:30
	f := func(params, want string) {
		t.Helper()
		o := DefaultOptions()
		o.Now = func() time.Time { return at }
		p, err := Compile("do timeCheck("+params+") mark F if F stop as F stop as T", o)
		if err != nil {
			t.Fatal(err)
		}
		var r Run
		if err := p.Run(context.Background(), newWorld().env(), &r); err != nil || r.Decision() != want {
			t.Errorf("%s: %s %v, want %s", params, r.Decision(), err, want)
		}
	}
	f(`from="22:30", to="22:31"`, "T")
	f(`from="22:00", to="22:30"`, "F")
	f(`from="22:00", to="06:00", days="fri"`, "T")
	f(`from="23:00", to="23:00"`, "F")
	f(`from="00:00", to="06:00", zone="Europe/Moscow"`, "T")
	f(`from="00:00", to="06:00", days="mon-fri", zone="Europe/Moscow"`, "F")
	f(`from="22:00", to="06:00", days="fri", zone="Europe/Moscow"`, "T") // it began on Friday
	f(`from="22:00", to="06:00", days="sat", zone="Europe/Moscow"`, "F")
	f(`days="sat-sun, fri"`, "T")
	f(`days="sat-mon"`, "F")
}

func TestSample(t *testing.T) {
	w, taken := newWorld(), 0
	for i := range 2000 {
		w.values["from"] = Value{Kind: UniqueInt, Int: int64(i)}
		one := judge(t, `do sampleCheck(share=0.25, attribute="from") mark in if in stop as X`, w)
		if one != judge(t, `do sampleCheck(share=0.25, attribute="from") mark in if in stop as X`, w) {
			t.Fatal("the same value is not always taken")
		}
		if one != "UNKNOWN" {
			taken++
		}
	}
	if taken < 400 || taken > 600 {
		t.Errorf("%d of 2000 were taken, want about 500", taken)
	}
}

func TestLint(t *testing.T) {
	o := DefaultOptions()
	o.Attributes = func(name string) bool { return name == "ip" || name == "text" }
	o.Storages, o.Models, o.Logs = []string{"storage"}, []string{"model"}, []string{}
	f := func(src string, want ...string) {
		t.Helper()
		p, err := Compile(src, o)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, w := range p.Warnings() {
			got = append(got, w.Error())
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s\n got %s\nwant %s", src, strings.Join(got, "; "), strings.Join(want, "; "))
		}
	}
	f(`do lengthCheck(maxLength=5) mark long if long stop as X stop as OK`)
	f(`do lengthCheck(attribute="txt")`, `line 1, column 26: there is no attribute txt`)
	f(`do counterAdd(type=1, attribute="ip, usr")`, `line 1, column 33: there is no attribute usr`)
	f(`do userFrequencyCheck(attribute="ip", storage="stroage")`, `line 1, column 47: there is no storage stroage; did you mean storage?`)
	f(`do modelClassify(model="m")`, `line 1, column 24: there is no model m`)
	f(`do messageLogPut()`)
	f(`do messageLogPut(log="x")`, `line 1, column 22: there is no log x`)
	f(`do ruleFalse() mark spam if spma stop as X`, `line 1, column 29: no rule above sets the tag spma; did you mean spam?`)
	f(`if not stop as A stop as B`, `line 1, column 4: if not without a tag asks for a tag that is called not, and nothing above sets it`)
	f("stop as A\ndo ruleTrue()\nstop as B", `line 2, column 1: this statement is never reached`)
	f("do ruleFalse() mark a\nif a skip to 5\nstop as A\n5: stop as B")
	f("skip to 5\ndo ruleTrue()\n5: stop as B", `line 2, column 1: this statement is never reached`)
	f(`do lengthCheck(minLength=9, maxLength=8)`, `line 1, column 4: lengthCheck: minLength is above maxLength: no text is that long`)
	f(`do rangeCheck(attribute="text", min=2, max=1)`, `line 1, column 4: rangeCheck: min is above max: no number is between them`)
	f(`do eventCheck(event="e", attribute="ip")`, `line 1, column 4: no eventAdd here counts the event e`)
	f(`do eventCheck(event="e", attribute="ip") do eventAdd(event="e", attribute="ip")`)
	f(`do counterCheck(type=7, limit=1, attribute="ip")`, `line 1, column 4: no rule here adds to the counter of type 7`)
	f(`do counterCheck(type=7, limit=1, attribute="ip", prefix="shop")`)
	f(`do counterShareCheck(type=7, attribute="ip")`, `line 1, column 4: no counterMark here judges the type 7`)
	o.Elsewhere = []*Script{mustParse(t, `do eventAdd(event="e") do counterAdd(type=7)`)}
	f(`do eventCheck(event="e", attribute="ip") do counterCheck(type=7, limit=1, attribute="ip")`)
}

func mustParse(t *testing.T, src string) *Script {
	s, err := Parse(src)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestBadGeneralRules(t *testing.T) {
	f := func(src, want string) {
		t.Helper()
		_, err := Compile(src, DefaultOptions())
		if err == nil || err.Error() != want {
			t.Errorf("%s\n got %v\nwant %s", src, err, want)
		}
	}
	f(`do bucketCheck(rate=0)`, `line 1, column 4: bucketCheck needs a rate and a time above zero, and a burst of 1 to 1000000`)
	f(`do bucketCheck(rate=1, per=100000)`, `line 1, column 4: bucketCheck: a token comes every 27h46m40s, which is not between a microsecond and a day`)
	f(`do compareCheck(attribute="a", other="b", is="near")`, `line 1, column 46: is must be one of equal, same, contains, starts, ends, host, less, more`)
	f(`do timeCheck(from="9:00")`, `line 1, column 19: from: a time of day is written as 09:30`)
	f(`do timeCheck(to="24:01")`, `line 1, column 17: to: a time of day is written as 18:00`)
	f(`do timeCheck(days="monday")`, `line 1, column 19: days: days are written as "mon-fri, sun"`)
	f(`do timeCheck(zone="Mars/Base")`, `line 1, column 19: zone: there is no time zone Mars/Base`)
	f(`do counterAdd(type=1, attribute="a,,b")`, `line 1, column 33: attribute has an empty name`)
	f(`do listCheck(list="x", match="regexp")`, `line 1, column 30: match must be one of value, domain, word`)
}
