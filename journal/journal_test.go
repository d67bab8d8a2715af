package journal

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/rs/zerolog"

	"antirobot/identity"
	"antirobot/request"
	"antirobot/servertest"
	"antirobot/store/pebblestore"
	"antirobot/verdict"
	"antirobot/verdict/bans"
)

// world is a journal over a real memory of decisions.
type world struct {
	*Journal
	t       testing.TB
	set     *metrics.Set
	at      atomic.Int64 // unix milliseconds
	stories sync.Map     // verdict.Story by request.ID
}

func (w *world) Noted(n *verdict.Note) (verdict.Story, bool) {
	s, ok := w.stories.Load(n.ID)
	if !ok {
		return verdict.Story{}, false
	}
	return s.(verdict.Story), true
}

func small() Config {
	c := DefaultConfig()
	c.Humans = 1
	return c
}

func newWorld(t testing.TB, cfg Config, change func(d *Deps)) *world {
	t.Helper()
	w := &world{t: t, set: metrics.NewSet()}
	w.at.Store(time.Date(2026, 3, 4, 12, 0, 30, 0, time.UTC).UnixMilli())
	d := Deps{Dir: t.TempDir(), Stories: w, Now: w.now, Log: zerolog.Nop(), Metrics: w.set}
	if change != nil {
		change(&d)
	}
	j, err := New(cfg, d)
	if err != nil {
		t.Fatal(err)
	}
	w.Journal = j
	t.Cleanup(func() { _ = j.Close() })
	return w
}

func (w *world) now() time.Time { return time.UnixMilli(w.at.Load()).UTC() }

func (w *world) pass(d time.Duration) { w.at.Add(d.Milliseconds()) }

// decide lets a decision about a request of an address be noted, and returns its ID.
func (w *world) decide(from, path, agent string, change func(d *verdict.Decision, n *verdict.Note)) request.ID {
	at := w.now()
	view := request.View{At: at, Method: []byte("GET"), Path: []byte(path), Fields: []request.Field{{Name: []byte("User-Agent"), Value: []byte(agent)}}}
	id := identity.Identity{Addr: netip.MustParseAddr(from), N: 1}
	id.Subjects[0] = identity.AddrSubject(id.Addr)
	d := verdict.Decision{Verdict: verdict.Robot, Cause: verdict.CauseBan, Subject: id.Subjects[0]}
	n := verdict.Note{Status: 302, Took: 1500 * time.Microsecond, Share: 1}
	rid := request.NewID(at)
	if change != nil {
		change(&d, &n)
	}
	kind := n.Kind
	d.Note(&n, rid, &view, &id, &verdict.Settings{Name: "shop"})
	n.Kind = kind
	w.stories.Store(rid, verdict.Story{
		RequestID: rid.String(), At: at, Service: "shop", Path: path, Verdict: d.Verdict.String(), Cause: d.Cause.String(),
		Subject: d.Subject.String(), Considered: []string{d.Subject.String()},
		Ban: &bans.Story{Subject: d.Subject.String(), Reason: "pace: more than 5 pages in 10s"},
	})
	w.Note(&n)
	return rid
}

// written waits until there are so many entries.
func (w *world) written(n uint64) {
	w.t.Helper()
	servertest.Eventually(w.t, fmt.Sprint(n, " entries"), func() bool { return w.entries.Get() >= n })
}

func (w *world) find(query string) []Entry {
	w.t.Helper()
	q, err := ParseQuery(query, w.now())
	if err != nil {
		w.t.Fatal(err)
	}
	f, err := w.Find(context.Background(), &q, 100, "", "")
	if err != nil {
		w.t.Fatal(err)
	}
	return f.Entries
}

// TestRemembers: a request is found by its number, by its subject and by a filter, with its story, also after a restart.
func TestRemembers(t *testing.T) {
	dir := t.TempDir()
	w := newWorld(t, small(), func(d *Deps) { d.Dir = dir })
	rid := w.decide("203.0.113.7", "/goods/1", "curl/8", nil)
	w.pass(time.Second)
	w.decide("2001:db8::1", "/api/x", "Mozilla/5.0", func(d *verdict.Decision, n *verdict.Note) {
		d.Verdict, d.Cause, n.Share, n.Status = verdict.Human, verdict.CauseNone, 0.25, 200
	})
	w.Act(Act{By: "anna", What: "unban", Subject: "ip:203.0.113.7", Reason: "wrote to us"})
	w.Ban(&bans.Ban{Subject: identity.AddrSubject(netip.MustParseAddr("203.0.113.9")), Made: w.now(), Until: w.now().Add(time.Hour), Reason: "flood"})
	w.written(4)
	look := func(when string) {
		t.Helper()
		told, ok, err := w.Get(rid)
		if err != nil || !ok || told.Story == nil || told.Story.Ban.Reason != "pace: more than 5 pages in 10s" || len(told.Entries) != 1 {
			t.Fatalf("%s: %+v %v %v", when, told, ok, err)
		}
		e := told.Entries[0]
		if e.Address != "203.0.113.7" || e.Agent != "curl/8" || e.Status != 302 || e.Seconds != 0.0015 || e.Reason == "" || e.Share != 0 {
			t.Errorf("%s: %+v", when, e)
		}
		entries, err := w.Subject("ip:203.0.113.7", 10)
		if err != nil || len(entries) != 2 || entries[0].Kind != "act" || entries[0].By != "anna" {
			t.Errorf("%s: %+v %v", when, entries, err)
		}
		if got := w.find("verdict:human"); len(got) != 1 || got[0].Share != 0.25 || got[0].Path != "/api/x" {
			t.Errorf("%s: %+v", when, got)
		}
		counts, err := w.Top(context.Background(), &Query{}, []string{"path", "subject"}, 1)
		if err != nil || len(counts) != 2 || len(counts[0]) != 1 || counts[0][0] != (Count{"/api/x", 1, 4}) || len(counts[1]) != 1 {
			t.Errorf("%s: %+v %v", when, counts, err)
		}
	}
	look("at once")
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	w = newWorld(t, small(), func(d *Deps) { d.Dir = dir })
	w.pass(time.Second)
	look("after a restart")
}

// TestQueries: what each condition selects.
func TestQueries(t *testing.T) {
	w := newWorld(t, small(), nil)
	w.decide("203.0.113.7", "/api/a", "curl/8.1", nil)
	w.decide("198.51.100.9", "/b", "Mozilla/5.0 (X11,8.1)", func(d *verdict.Decision, n *verdict.Note) {
		d.Verdict, d.Cause, n.Status, n.Trace = verdict.Blocked, verdict.CauseOwnBlock, 403, verdict.Trace{0xab, 15: 1}
	})
	w.written(2)
	for query, want := range map[string]string{
		"": "/b /api/a", "verdict:robot": "/api/a", "-verdict:robot": "/b", "verdict:robot,blocked": "/b /api/a", "path:/api": "/api/a",
		"ip:203.0.113.7": "/api/a", "203.0.113.0/24": "/api/a", "ip:198.51.100.0/24 status:4xx": "/b", "status:302": "/api/a",
		"agent:CURL": "/api/a", `agent:"5.0 (x"`: "/b", `agent:"x11,8.1"`: "/b", `"x11,8.1"`: "/b", "agent:x11,8.1": "/b /api/a", "cause:own-block": "/b", "subject:ip:203.0.113.7": "/api/a", "curl": "/api/a",
		"kind:shown": "", "service:shop since:1h": "/b /api/a", "until:1h": "", "reason:pace": "/b /api/a", "mode:enforce method:GET": "/b /api/a",
		"trace:ab000000000000000000000000000001": "/b", "-trace:ab000000000000000000000000000001": "/api/a", "trace:ab000000000000000000000000000002": "",
	} {
		var got []string
		for _, e := range w.find(query) {
			got = append(got, e.Path)
		}
		if len(got) == 2 && got[0] == "/api/a" { // both came within a millisecond
			got[0], got[1] = got[1], got[0]
		}
		if s := strings.Join(got, " "); s != want {
			t.Errorf("%q finds %q, want %q", query, s, want)
		}
	}
	for _, bad := range []string{"verdict:nobody", "colour:red", "ip:x", "since:yesterday", "status:abc", "trace:abc", `path:"a`, strings.Repeat("a ", 40), strings.Repeat("a", 2000)} {
		if _, err := ParseQuery(bad, w.now()); err == nil {
			t.Errorf("%q is no query", bad)
		}
	}
}

// TestPages: a search goes on where it ended, and what came after an entry is found by its ID.
func TestPages(t *testing.T) {
	w := newWorld(t, small(), nil)
	var ids []string
	for i := range 5 {
		ids = append(ids, w.decide("203.0.113.7", fmt.Sprint("/", i), "x", nil).String())
		w.pass(time.Millisecond)
	}
	w.written(5)
	first, err := w.Find(context.Background(), &Query{}, 2, "", "")
	if err != nil || len(first.Entries) != 2 || first.Entries[0].Path != "/4" || first.Next == "" {
		t.Fatalf("%+v %v", first, err)
	}
	second, err := w.Find(context.Background(), &Query{}, 10, first.Next, "")
	if err != nil || len(second.Entries) != 3 || second.Entries[0].Path != "/2" || second.Next != "" {
		t.Fatalf("%+v %v", second, err)
	}
	newer, err := w.Find(context.Background(), &Query{}, 10, "", ids[3])
	if err != nil || len(newer.Entries) != 1 || newer.Entries[0].Path != "/4" {
		t.Fatalf("%+v %v", newer, err)
	}
}

// TestAbandoned: a challenge without an answer is an entry of its own; one that was solved is not.
func TestAbandoned(t *testing.T) {
	w := newWorld(t, small(), nil)
	kind := func(k verdict.EventKind) func(*verdict.Decision, *verdict.Note) {
		return func(_ *verdict.Decision, n *verdict.Note) { n.Kind = k }
	}
	w.decide("203.0.113.7", "/gives-up", "a", kind(verdict.EventShown))
	w.decide("203.0.113.8", "/solves", "a", kind(verdict.EventShown))
	w.pass(time.Millisecond)
	w.decide("203.0.113.8", "/checkcaptcha", "a", kind(verdict.EventSolved))
	w.written(3)
	w.abandon(w.now().Add(openFor + time.Second)) // the writer is idle: nothing comes
	if got := w.find("kind:abandoned"); len(got) != 1 || got[0].Path != "/gives-up" {
		t.Errorf("%+v", got)
	}
}

// TestSheds: what does not fit into the queue is counted, and nobody waits.
func TestSheds(t *testing.T) {
	fs := &fullFS{FS: vfs.Default}
	dir := t.TempDir()
	w := newWorld(t, small(), func(d *Deps) {
		d.queue = 64
		d.open = func() (*pebblestore.Log, error) {
			return pebblestore.OpenLog(pebblestore.LogDeps{Dir: dir, Log: zerolog.Nop(), CacheBytes: 1 << 20, FS: fs})
		}
	})
	w.decide("203.0.113.7", "/before", "x", nil)
	w.written(1)
	fs.full.Store(true)
	servertest.Eventually(t, "something is shed", func() bool {
		for range 200 {
			w.decide("203.0.113.7", "/flood"+strings.Repeat("x", 100), "x", nil)
		}
		return w.shed.Get() > 0
	})
	if got := w.find("path:/before"); len(got) != 1 {
		t.Errorf("reading while the disk is full: %+v", got)
	}
	fs.full.Store(false)
	servertest.Eventually(t, "writes go on when there is room", func() bool {
		w.decide("203.0.113.7", "/after", "x", nil)
		return len(w.find("path:/after")) > 0
	})
	if err := w.Healthy(); err != nil {
		t.Error(err)
	}
}

// fullFS is a disk that is full when the test says so.
type fullFS struct {
	vfs.FS
	full atomic.Bool
}

type fullFile struct {
	vfs.File
	fs *fullFS
}

var errFull = &os.PathError{Op: "write", Path: "journal", Err: syscall.ENOSPC}

func (f *fullFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if f.full.Load() {
		return nil, errFull
	}
	file, err := f.FS.Create(name, c)
	return &fullFile{file, f}, err
}

func (f *fullFS) ReuseForWrite(old, name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if f.full.Load() {
		return nil, errFull
	}
	file, err := f.FS.ReuseForWrite(old, name, c)
	return &fullFile{file, f}, err
}

func (f *fullFile) Write(b []byte) (int, error) {
	if f.fs.full.Load() {
		return 0, errFull
	}
	return f.File.Write(b)
}

// TestSurvivesKill: what was written is there after the process has been killed.
func TestSurvivesKill(t *testing.T) {
	if dir := os.Getenv("JOURNAL_OF_THE_KILLED"); dir != "" {
		w := newWorld(t, small(), func(d *Deps) { d.Dir = dir })
		for i := range 300 {
			w.decide("203.0.113.7", fmt.Sprint("/", i), "x", nil)
			if i%100 == 99 {
				w.written(uint64(i + 1))
			}
		}
		for i := range uint64(2) { // when the second one is written, the first one is on the disk
			w.Act(Act{By: "anna", What: "try"})
			w.written(301 + i)
		}
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	}
	dir := filepath.Join(t.TempDir(), "journal")
	cmd := exec.Command(os.Args[0], "-test.run=^TestSurvivesKill$")
	cmd.Env = append(os.Environ(), "JOURNAL_OF_THE_KILLED="+dir)
	var dead *exec.ExitError
	if out, err := cmd.CombinedOutput(); !errors.As(err, &dead) || dead.ExitCode() != -1 {
		t.Fatalf("%v\n%s", err, out)
	}
	w := newWorld(t, small(), func(d *Deps) { d.Dir = dir })
	q := Query{}
	f, err := w.Find(context.Background(), &q, 1000, "", "")
	if err != nil || len(f.Entries) < 301 {
		t.Fatalf("%d entries of 301, %v", len(f.Entries), err)
	}
}

// TestFiguresAreThereEarly: whoever has just started a gateway does not look at zeros until the minute is over.
func TestFiguresAreThereEarly(t *testing.T) {
	t.Parallel()
	w := newWorld(t, small(), func(d *Deps) { d.Counts = func() map[string]float64 { return map[string]float64{"requests/human": 4} } })
	servertest.Eventually(t, "figures of the first seconds", func() bool {
		all, err := w.Figures("minute", w.now().Add(-time.Hour), w.now())
		return err == nil && len(all) == 1 && all[0].Counts["requests/human"] == 4
	})
}
