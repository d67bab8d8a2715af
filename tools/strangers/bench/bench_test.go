package bench

import (
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"antirobot/tools/strangers/sim"
)

// TestAreas: as computed by hand. A robot of three is above one person and equal to one, another above two and equal to one,
// the third above all: 1.5/3, 2.5/3, 1.
func TestAreas(t *testing.T) {
	near := func(what string, got, want float64) {
		t.Helper()
		if math.Abs(got-want) > 5e-4 {
			t.Errorf("%s is %.4f, not %.4f", what, got, want)
		}
	}
	var visitors []visitor
	for _, score := range []float64{3, 1, 2} {
		visitors = append(visitors, visitor{score: score}, visitor{score: score + 1, robot: true})
	}
	a := areaOf(visitors)
	near("area", a.value, 7./9)
	near("variance", a.variance, 2*(7./54)/2/3)
	low, high := a.interval()
	near("low", low, 7./9-1.96*math.Sqrt(a.variance))
	near("high", high, 1)
	two := meanArea([]area{a, {1, 0}})
	near("mean", two.value, 8./9)
	near("variance of the mean", two.variance, a.variance/4)

	low, high = wilson(128, 341)
	near("Wilson's low", low, .3258)
	near("Wilson's high", high, .4279)
	low, high = wilson(0, 337)
	near("low of none", low, 0)
	near("high of none", high, .0113)
}

func TestForms(t *testing.T) {
	l := sim.Line{
		Time: "2025-11-12T00:00:00.106+01:00", Addr: "10.20.24.165", Visitor: "a659d7a6e2ef", Method: "GET", URI: "/a?b=c&d", Proto: "HTTP/1.1", Status: 200,
		Bytes: 1822, UA: `a "b" \c`, Type: "text/html", Accept: "*/*", Mode: "navigate", Dest: "document", Site: "none",
	}
	const first = `{"time":"2025-11-12T00:00:00.106+01:00","remote_addr":"10.20.24.165","visitor":"a659d7a6e2ef","request_method":"GET","request_uri":"/a?b=c&d",` +
		`"server_protocol":"HTTP/1.1","status":200,"body_bytes_sent":1822,"http_referer":"","http_user_agent":"a \"b\" \\c","sent_http_content_type":"text/html"`
	for i, want := range []string{
		`10.20.24.165 - - [12/Nov/2025:00:00:00 +0100] "GET /a?b=c&d HTTP/1.1" 200 1822 "-" "a \x22b\x22 \x5Cc" a659d7a6e2ef`,
		first + "}",
		first + `,"http_accept":"*/*","http_sec_fetch_mode":"navigate","http_sec_fetch_dest":"document","http_sec_fetch_site":"none"}`,
	} {
		var got strings.Builder
		if err := forms[i].write(&got, l); err != nil || got.String() != want+"\n" {
			t.Errorf("%s: %v\n%s", forms[i].name, err, got.String())
		}
	}
}

// TestDefaults: figures are of what operators get who change nothing.
func TestDefaults(t *testing.T) {
	raw, err := os.ReadFile("../../../config.example.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{fmt.Sprintf("\n    threshold: %v ", Threshold), fmt.Sprintf("\n    unsure:\n      above: %v\n", Unsure)} {
		if !strings.Contains(string(raw), want) {
			t.Errorf("config.example.yaml has no %q", want)
		}
	}
}

// judge is a program that takes the visitors for what the labels say, but one robot in five for a person it is unsure of.
const judge = `#!/bin/sh
while [ $# -gt 0 ]; do case $1 in --labels) labels=$2;; --scores) scores=$2;; esac; shift; done
awk -F, 'BEGIN {print "visitor,score,judged_most"} FNR > 1 && $2 {print ++n % 5 ? $1 ",0.8,0.9" : $1 ",0.2,0.4"} FNR > 1 && !$2 {print $1 ",0.3,0.1"}' "$labels" >"$scores"
cp "$labels" "$0.labels"
`

func program(t *testing.T, script string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "antirobot")
	if err := os.WriteFile(name, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	return name
}

func options(program string) Options {
	return Options{Antirobot: program, Sites: []string{"jobs"}, Seeds: []uint64{1}, Threshold: .5, Unsure: .3, AtOnce: 1, Progress: io.Discard}
}

func TestRun(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	name := program(t, judge)
	r, err := Run(context.Background(), options(name))
	if err != nil {
		t.Fatal(err)
	}
	known, err := os.ReadFile(name + ".labels")
	if err != nil {
		t.Fatal(err)
	}
	people, robots := strings.Count(string(known), ",0,"), strings.Count(string(known), ",1,")
	var out strings.Builder
	if err := r.Write(&out, true); err != nil {
		t.Fatal(err)
	}
	said := strings.Join(strings.Fields(out.String()), " ")
	missed := robots / 5
	for _, want := range []string{
		fmt.Sprintf("jobs types %.3f", 1-float64(missed)/float64(robots)),
		fmt.Sprintf(" 0 0 %d %d %d %d jobs all", people, robots-missed, missed, robots),
		fmt.Sprintf("0 of %d (0.0 %%; 0.0 to ", people),
		fmt.Sprintf(" %d of %d (100.0 %%; ", robots, robots),
		" skimmer person 0 0 9 0 0 9 0 0 9 ",
	} {
		if !strings.Contains(said, want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
	left, err := os.ReadDir(os.Getenv("TMPDIR"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v %v", left, err)
	}
}

func TestRunSaysWhatToDo(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	f := func(o Options, want string) {
		t.Helper()
		if _, err := Run(context.Background(), o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, not %q", err, want)
		}
	}
	f(options("/nowhere/antirobot"), "make build makes the program")
	f(options(program(t, "#!/bin/sh\necho unknown flag >&2; exit 2")), "unknown flag")
	o := options(program(t, judge))
	o.Seeds = nil
	f(o, "at least one seed")
	o = options(program(t, judge))
	o.Sites = []string{"moon"}
	f(o, "there are jobs, comics")

	if _, err := read(strings.NewReader("visitor,score\n"), nil); err == nil || !strings.Contains(err.Error(), "no column judged_most") {
		t.Error(err)
	}
	if _, err := read(strings.NewReader("visitor,score,judged_most\nip:1.2.3.4,0.1,0.1\n"), nil); err == nil || !strings.Contains(err.Error(), "has no label") {
		t.Error(err)
	}
	left, err := os.ReadDir(os.Getenv("TMPDIR"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v %v", left, err)
	}
}
