package cbb

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestLastGoodCopySurvivesRestart(t *testing.T) {
	dir := t.TempDir()
	srv := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("ETag", `"v1"`)
		_, _ = w.Write([]byte("192.0.2.0/24\n"))
	})
	inDir := func(d *Deps) { d.Dir = filepath.Join(dir, "lists") }
	cfg := urlList(srv.URL)
	l := open(t, cfg, inDir)
	if err := refresh(t, l, "f"); err != nil {
		t.Fatal(err)
	}

	srv.become(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("If-None-Match") != `"v1"` {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		w.WriteHeader(http.StatusNotModified)
	})
	l2 := open(t, cfg, inDir)
	if got := said(l2, "192.0.2.1", ""); got != "- - f -" {
		t.Errorf("after a restart: %s", got)
	}
	if st := l2.Stats().Lists[0]; !st.FromDisk || st.Fetched.IsZero() {
		t.Errorf("stats %+v", st)
	}
	if err := refresh(t, l2, "f"); err != nil {
		t.Errorf("the ETag is not kept: %v", err)
	}
	if st := l2.Stats().Lists[0]; st.FromDisk {
		t.Errorf("confirmed and still from disk: %+v", st)
	}

	files, _ := filepath.Glob(filepath.Join(dir, "lists", "*"))
	if len(files) != 1 {
		t.Fatalf("files: %v", files)
	}
	b, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)-5] ^= 1 // 192.0.2.1/24: a valid list, but not the one that was fetched
	if err := os.WriteFile(files[0], b, 0o600); err != nil {
		t.Fatal(err)
	}
	l3 := open(t, cfg, inDir)
	if got := said(l3, "192.0.2.1", ""); got != "- - - -" {
		t.Errorf("a copy with a wrong checksum is used: %s", got)
	}
	// What a killed process left half-written is not a copy, and is removed.
	if err := os.WriteFile(filepath.Join(dir, "lists", ".f-1.list.2"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	open(t, cfg, inDir)
	if files, _ = filepath.Glob(filepath.Join(dir, "lists", ".*")); len(files) != 0 {
		t.Errorf("left: %v", files)
	}
}

func TestRefusedCopyIsNotKept(t *testing.T) {
	dir := t.TempDir()
	srv := serveText(t, "192.0.2.0/24\n")
	l := open(t, urlList(srv.URL), func(d *Deps) { d.Dir = dir })
	if err := refresh(t, l, "f"); err != nil {
		t.Fatal(err)
	}
	srv.become(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("0.0.0.0/0\n")) })
	if err := refresh(t, l, "f"); !errors.Is(err, ErrTooWide) {
		t.Fatal(err)
	}
	if got := said(open(t, urlList(srv.URL), func(d *Deps) { d.Dir = dir }), "192.0.2.1", ""); got != "- - f -" {
		t.Errorf("after a restart: %s", got)
	}
	if files, _ := filepath.Glob(filepath.Join(dir, "*")); len(files) != 1 {
		t.Errorf("files: %v", files)
	}
}

func TestDiskThatFailsDoesNotStopTheList(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "lists")
	srv := serveText(t, "192.0.2.0/24\n")
	l := open(t, urlList(srv.URL), func(d *Deps) { d.Dir = dir })
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := refresh(t, l, "f"); err == nil {
		t.Error("nobody is told")
	}
	if got := said(l, "192.0.2.1", ""); got != "- - f -" {
		t.Errorf("%s", got)
	}
}

func TestFileIsReadAgainWhenItChanges(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "own.txt")
	write := func(s string, at int64) {
		t.Helper()
		if err := os.WriteFile(file, []byte(s), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(file, time.Unix(at, 0), time.Unix(at, 0)); err != nil {
			t.Fatal(err)
		}
	}
	write("192.0.2.1 mine\n", 1000)
	cfg := config(func(c *Config) { c.Lists = []ListConfig{{Name: "own", Flag: "block", File: file, Own: true}} })
	l := open(t, cfg, nil)
	if got := said(l, "192.0.2.1", ""); got != "own - - -" {
		t.Errorf("at once: %s", got)
	}
	built := l.snap.Load()
	if err := refresh(t, l, "own"); err != nil || l.snap.Load() != built {
		t.Errorf("an unchanged file is read again: %v", err)
	}
	write("192.0.2.2 mine\n", 1001) // the same size
	if err := refresh(t, l, "own"); err != nil {
		t.Fatal(err)
	}
	if got := said(l, "192.0.2.1", "") + "," + said(l, "192.0.2.2", ""); got != "- - - -,own - - -" {
		t.Errorf("changed: %s", got)
	}
	write("what is this", 1002)
	if err := refresh(t, l, "own"); !errors.Is(err, errGarbage) {
		t.Errorf("%v", err)
	}
	if err := refresh(t, l, "own"); !errors.Is(err, errGarbage) {
		t.Errorf("the error is forgotten: %v", err)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if err := refresh(t, l, "own"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v", err)
	}
	if got := said(l, "192.0.2.2", ""); got != "own - - -" {
		t.Errorf("the last good copy: %s", got)
	}
	write("192.0.2.3\n", 1003)
	if err := refresh(t, l, "own"); err != nil || said(l, "192.0.2.3", "") != "own - - -" {
		t.Errorf("it came back: %v", err)
	}
}
