package training

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"antirobot/identity"
	"antirobot/verdict/formula"
)

// TestOwnLabels: an operator's file is joined by the key that the log's secret makes, and outweighs everything.
func TestOwnLabels(t *testing.T) {
	dir := t.TempDir()
	log := opened(t, dir, 1, 1<<20)
	defer log.Close()
	alice, bob := identity.TextSubject(identity.KindL, []byte("alice")), identity.TextSubject(identity.KindL, []byte("bob"))
	for _, s := range []identity.Subject{alice, bob} {
		log.Observe(s, 3, day, make([]float32, len(names)), 0.25)
	}
	own, err := ReadOwnLabels(strings.NewReader("\ufeffnote,label,subject,source\nx,human,L:alice,\ny,1,L:alice,fraud desk\n"), dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := log.Flush(); err != nil {
		t.Fatal(err)
	}
	rows, _ := export(t, dir, ExportOptions{Labels: own}, day)
	for s, want := range map[identity.Subject]formula.Row{
		alice: {Label: formula.Robot, Source: "fraud desk"}, bob: {Label: formula.Person, Source: "signed-in"},
	} {
		if r := rows[fmt.Sprintf("%016x", log.Who(s))]; len(r) != 1 || r[0].Label != want.Label || r[0].Source != want.Source {
			t.Errorf("%v: %+v", s, r)
		}
	}
	if key, err := Key(dir, alice); err != nil || key != log.Who(alice) {
		t.Errorf("%x, %v", key, err)
	}

	g := func(in, want string) {
		t.Helper()
		if _, err := ReadOwnLabels(strings.NewReader(in), dir); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", in, err, want)
		}
	}
	g("", "the file is empty")
	g("who,label\n", "columns subject and label")
	g("subject,label\nalice,human\n", "line 2")
	g("subject,label\nL:alice,perhaps\n", `"perhaps" is neither human (0) nor robot (1)`)
	g("subject,label\nL:alice\n", "wrong number of fields")
	if _, err := ReadOwnLabels(strings.NewReader("subject,label\n"), t.TempDir()); err == nil || !strings.Contains(err.Error(), "no training log") {
		t.Errorf("without a log: %v", err)
	}
}

func FuzzReadOwnLabels(f *testing.F) {
	dir := f.TempDir()
	log := opened(f, dir, 1, 1<<20)
	f.Cleanup(func() { _ = log.end() })
	f.Add([]byte("subject,label,source\nL:alice,human,shop\nip:203.0.113.7,1,\n"))
	f.Add([]byte("label,subject\n\"0\",\"i:x\"\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		own, err := ReadOwnLabels(bytes.NewReader(data), dir)
		if err == nil && own == nil {
			t.Error("neither labels nor an error")
		}
		for _, l := range own {
			if l.Source == "" || l.Label != formula.Person && l.Label != formula.Robot {
				t.Errorf("%+v", l)
			}
		}
	})
}
