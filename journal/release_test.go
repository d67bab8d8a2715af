package journal

import (
	"encoding/json"
	"flag"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"antirobot/identity"
	"antirobot/request"
	"antirobot/verdict"
	"antirobot/verdict/bans"
)

// What earlier releases wrote stands in testdata/journal-N.tgz, the closed journal, and journal-N.json, what is to be read from
// it. To keep what this release writes, when a format has changed: go test ./journal -run TestJournalsOfReleases -keep N
var keep = flag.String("keep", "", "write the journal of this release to testdata/journal-`N`.tgz")

// kept is what is read from a kept journal: all entries with their stories, what leads to them, and the figures.
type kept struct {
	At       time.Time // when it was written
	Told     []Told    // the oldest first
	Subjects map[string][]Entry
	Figures  map[string][]Figures // by minute, hour and day
}

// TestJournalsOfReleases opens the journal of each earlier release, and reads every field.
func TestJournalsOfReleases(t *testing.T) {
	if *keep != "" {
		keepJournal(t, "testdata/journal-"+*keep)
	}
	archives, err := filepath.Glob("testdata/journal-*.tgz")
	if err != nil || len(archives) == 0 {
		t.Fatalf("no journal of an earlier release: %v", err)
	}
	for _, archive := range archives {
		var want kept
		text, err := os.ReadFile(strings.TrimSuffix(archive, ".tgz") + ".json")
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(text, &want); err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		if out, err := exec.Command("tar", "-C", dir, "-xzf", archive).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		w := newWorld(t, small(), func(d *Deps) { d.Dir = filepath.Join(dir, "journal") })
		w.at.Store(want.At.UnixMilli())
		got := readAll(w)
		if len(got.Told) != len(want.Told) {
			t.Fatalf("%s: %d entries, %d were written", archive, len(got.Told), len(want.Told))
		}
		for i := range want.Told {
			if !reflect.DeepEqual(got.Told[i], want.Told[i]) {
				t.Errorf("%s:\n got %+v\n     %+v\nwant %+v\n     %+v", archive, got.Told[i].Entries, got.Told[i].Story, want.Told[i].Entries, want.Told[i].Story)
			}
		}
		if !reflect.DeepEqual(got.Subjects, want.Subjects) || !reflect.DeepEqual(got.Figures, want.Figures) {
			t.Errorf("%s:\n got %+v\n     %+v\nwant %+v\n     %+v", archive, got.Subjects, got.Figures, want.Subjects, want.Figures)
		}
		if archive == archives[len(archives)-1] {
			everyFieldIsSet(t, want.Told)
		}
	}
}

// everyFieldIsSet: the newest of the kept journals has each field of an entry and of a story, so that none is left untried.
func everyFieldIsSet(t *testing.T, all []Told) {
	t.Helper()
	some := func(has func(told *Told) bool) bool {
		return slices.ContainsFunc(all, func(told Told) bool { return has(&told) })
	}
	for f := range reflect.TypeFor[Entry]().NumField() {
		if reflect.TypeFor[Entry]().Field(f).Name == "Gateway" {
			continue // says who was asked, and is not stored
		}
		if !some(func(told *Told) bool { return !reflect.ValueOf(told.Entries[0]).Field(f).IsZero() }) {
			t.Errorf("no entry that was kept has %s: keep what this release writes", reflect.TypeFor[Entry]().Field(f).Name)
		}
	}
	for f := range reflect.TypeFor[verdict.Story]().NumField() {
		switch reflect.TypeFor[verdict.Story]().Field(f).Name {
		case "Answered", "RetryAfter":
			continue // of recent decisions alone: an entry has its status
		}
		if !some(func(told *Told) bool {
			return told.Story != nil && !reflect.ValueOf(told.Story).Elem().Field(f).IsZero()
		}) {
			t.Errorf("no story that was kept has %s: keep what this release writes", reflect.TypeFor[verdict.Story]().Field(f).Name)
		}
	}
}

func readAll(w *world) kept {
	w.t.Helper()
	all := kept{At: w.now(), Subjects: map[string][]Entry{}, Figures: map[string][]Figures{}}
	entries := w.find("")
	slices.Reverse(entries)
	for _, e := range entries {
		id, _ := request.ParseID(e.ID)
		told, ok, err := w.Get(id)
		if err != nil || !ok {
			w.t.Fatalf("%s: %v %v", e.ID, ok, err)
		}
		all.Told = append(all.Told, told)
		for _, subject := range []string{e.Subject, "ip:" + e.Address} {
			if all.Subjects[subject], err = w.Subject(subject, 100); err != nil {
				w.t.Fatal(err)
			}
		}
	}
	for by, s := range steps {
		f, err := w.Figures(by, w.now().Add(-100*s.long), w.now().Add(s.long))
		if err != nil {
			w.t.Fatal(err)
		}
		all.Figures[by] = f
	}
	return all
}

// keepJournal writes the journal of this release: an entry of each kind, every column and every part of a story.
func keepJournal(t *testing.T, name string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "journal")
	w := newWorld(t, small(), func(d *Deps) {
		d.Dir = dir
		d.Counts = func() map[string]float64 { return map[string]float64{"requests human": 40, "challenges shown": 2.5} }
	})
	for i, kind := range []verdict.EventKind{verdict.EventRequest, verdict.EventShown, verdict.EventSolved, verdict.EventFailed} {
		from := string(rune('7' + i%2)) // the last one's challenge is solved, the first one's is not
		rid := w.decide("203.0.113."+from, "/kept/"+from, "an agent", func(d *verdict.Decision, n *verdict.Note) {
			d.Paid, d.Mode, n.Kind, n.Share, n.Work, n.Trace = i == 0, verdict.Observe, kind, 0.25, i == 1, verdict.Trace{1, 2, byte(i)}
		})
		story := verdict.Story{}
		fill(reflect.ValueOf(&story).Elem(), 3)
		story.RequestID = rid.String()
		w.stories.Store(rid, story)
		w.pass(time.Second)
		w.written(uint64(i + 1)) //nolint:gosec // few
	}
	w.Act(Act{By: "anna", What: "unban", Subject: "ip:203.0.113.7", Service: "shop", Reason: "wrote to us", TTL: "1h"})
	w.written(5)
	w.pass(time.Second)
	w.Ban(&bans.Ban{Subject: identity.AddrSubject(netip.MustParseAddr("203.0.113.9")), Made: w.now(), Until: w.now().Add(time.Hour), Reason: "flood", Service: "shop"})
	w.written(6)
	w.pass(openFor + time.Second)
	w.upkeep(w.now()) // the writer is idle: nothing comes
	w.pass(time.Minute)
	all := readAll(w)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	text, err := json.MarshalIndent(all, "", " ")
	if err == nil {
		err = os.MkdirAll(filepath.Dir(name), 0o750)
	}
	if err == nil {
		err = os.WriteFile(name+".json", append(text, '\n'), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("tar", "-C", filepath.Dir(dir), "-czf", name+".tgz", "journal/state").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// fill sets every field of v, of lists one element, down to a depth.
func fill(v reflect.Value, depth int) {
	if depth == 0 {
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), depth)
	case reflect.Struct:
		if at, ok := v.Addr().Interface().(*time.Time); ok {
			*at = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
			return
		}
		for i := range v.NumField() {
			fill(v.Field(i), depth-1)
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0), depth)
	case reflect.Map:
		key, val := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key, depth)
		fill(val, depth)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, val)
	case reflect.String:
		v.SetString("kept")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Float32, reflect.Float64:
		v.SetFloat(0.75)
	case reflect.Interface:
	default:
		if v.CanInt() {
			v.SetInt(7)
		} else {
			v.SetUint(7)
		}
	}
}
