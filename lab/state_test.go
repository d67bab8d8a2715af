package lab

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

// keep puts a text in the place of the lab's file.
func keep(t *testing.T, text []byte) (dataDir string) {
	t.Helper()
	dataDir = t.TempDir()
	if err := os.MkdirAll(Dir(dataDir), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(Dir(dataDir), stateFile), text, 0o600); err != nil {
		t.Fatal(err)
	}
	return dataDir
}

// TestStatesOfReleases reads what each version of the file looked like, testdata/lab-N.json, and holds what this one writes.
func TestStatesOfReleases(t *testing.T) {
	threshold, unsure, rules := 0.6, 0.4, "path begins /api do captcha\n"
	at := time.Date(2026, 3, 4, 12, 0, 30, 0, time.UTC)
	want := State{
		Applied: Version{Settings{Model: "shipped", Services: map[string]Service{
			"shop": {Threshold: &threshold, Unsure: &unsure, Limits: &[]Limit{{"10s", 20, "10m"}}, Rules: &rules},
		}}, "anna", at},
		Before: []Version{{Settings{Card: "version: kept\n"}, "boris", at.AddDate(0, 0, -1)}},
		Shadow: &Version{Settings{Model: "other"}, "anna", at.Add(-30 * time.Second)},
	}
	first, err := os.ReadFile("testdata/lab-1.json")
	if err != nil {
		t.Fatal(err)
	}
	unnamed := []byte(strings.Replace(string(first), ` "version": 1,`, "", 1)) // as it was before it had a version
	for _, text := range [][]byte{unnamed, first} {
		if got, err := Load(keep(t, text)); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%+v, %v", got, err)
		}
	}
	dir := t.TempDir()
	if err := want.Save(dir); err != nil {
		t.Fatal(err)
	}
	if now, err := os.ReadFile(filepath.Join(Dir(dir), stateFile)); err != nil || string(now)+"\n" != string(first) {
		t.Errorf("the format has changed: raise its version, read the earlier ones, and keep what it writes now, %v:\n%s", err, now)
	}
	if _, err := Load(keep(t, []byte(`{"version": 2}`))); err == nil || !strings.Contains(err.Error(), "run the version that wrote it") {
		t.Errorf("a later version: %v", err)
	}
}
