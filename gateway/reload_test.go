package gateway

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/rs/zerolog"

	"antirobot/config"
)

const first = `
listen: [{address: "127.0.0.1:0"}]
admin: {listen: ""}
data_dir: %DIR%
store: {url: "memory:"}
log: {level: error}
check: {listen: ["127.0.0.1:0"]}
defaults:
  upstream: {urls: ["http://127.0.0.1:1"]}
services:
  - {name: shop, hosts: [shop.example]}
`

// changed differs from first in what each part makes of it.
const changed = first + `
  - {name: blog, hosts: [blog.example]}
lists: {block: [192.0.2.66]}
identity: {trusted_proxies: [10.0.0.0/8]}
http: {max_conns: 77}
formula: {model: "%DIR%/card.yaml"}
`

// inUse is what a reload puts into use, as the parts have it.
type inUse struct {
	cfg, keys, captcha, pages, model any
	lists, services                  int
}

func newReloadable(t *testing.T) (*Server, func(text string) *config.Config) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "card.yaml"), []byte("version: mine\nbias: -4\nfactors: []\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	read := func(text string) *config.Config {
		cfg, problems := config.Parse([]byte(strings.ReplaceAll(text, "%DIR%", dir)), nil)
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		return cfg
	}
	level := zerolog.GlobalLevel()
	a, err := New(read(first), Deps{Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close(); a.Close(); zerolog.SetGlobalLevel(level) })
	return a, read
}

// applied applies a configuration as a reload does: alarms read the services beside it.
func (a *Server) applied(next *config.Config, changes []change) error {
	a.reloading.Lock()
	defer a.reloading.Unlock()
	return a.apply(next, changes)
}

func (a *Server) inUse() inUse {
	return inUse{
		cfg: a.Config(), keys: a.storage.keys.Ring(), captcha: a.judge.captcha, pages: a.judge.pages, model: a.judge.formula.Model(),
		lists: a.judge.Lists.Stats().Networks, services: len(a.judge.groups),
	}
}

// TestReloadChangesAllOrNothing makes the preparation of each part fail in turn, and finds all parts as they were; with
// none that fails, all are new.
func TestReloadChangesAllOrNothing(t *testing.T) {
	a, read := newReloadable(t)
	before := a.inUse()
	fault := errors.New("a fault of the test's")
	n := len(a.changes())
	for i := range n {
		changes := a.changes()
		committed := false
		for k := range changes {
			prepare := changes[k].prepare
			changes[k].prepare = func(next *config.Config) (func(), error) {
				commit, err := prepare(next)
				if k == i && err == nil {
					err = fault
				}
				return func() { committed = true; commit() }, err
			}
		}
		if err := a.applied(read(changed), changes); !errors.Is(err, fault) {
			t.Fatalf("%s: %v", changes[i].of, err)
		}
		if now := a.inUse(); now != before || committed {
			t.Errorf("%s failed, and something has changed: %+v, before %+v", changes[i].of, now, before)
		}
	}
	if err := a.applied(read(changed), a.changes()); err != nil {
		t.Fatal(err)
	}
	now := a.inUse()
	if now.cfg == before.cfg || now.keys == before.keys || now.model == before.model || now.lists == before.lists || now.services != 2 {
		t.Errorf("after a good one: %+v, before %+v", now, before)
	}
}

// TestAskedWhileReloaded asks what the private listener and other gateways ask while a configuration is put into use; the race
// detector looks on.
func TestAskedWhileReloaded(t *testing.T) {
	a, read := newReloadable(t)
	next := read(changed)
	var asked sync.WaitGroup
	var done atomic.Bool
	dirs := t.TempDir()
	for _, ask := range []func(turn int){
		func(int) { a.self() },
		func(int) { a.link.health() },
		func(int) { status{a}.Services() },
		func(turn int) { _ = a.Backup(filepath.Join(dirs, strconv.Itoa(turn))) },
		func(int) { _, _ = a.messages.Messages() },
	} {
		asked.Go(func() {
			for turn := 0; !done.Load(); turn++ {
				ask(turn)
			}
		})
	}
	err := a.applied(next, a.changes())
	done.Store(true)
	asked.Wait()
	if err != nil || a.Config() != next {
		t.Errorf("%v, %p in force in place of %p", err, a.Config(), next)
	}
}

// TestReloadNamesWhatIsBroken breaks the files of parts, each of which is read again by a reload.
func TestReloadNamesWhatIsBroken(t *testing.T) {
	a, read := newReloadable(t)
	before := a.inUse()
	good, err := os.ReadFile(filepath.Join(a.Config().DataDir, "keys.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(a.Config().DataDir, "keys.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := a.applied(read(changed), a.changes()); err == nil || !strings.Contains(err.Error(), "keys") || a.inUse() != before {
		t.Errorf("broken keys: %v, %+v", err, a.inUse())
	}
	if err := os.WriteFile(filepath.Join(a.Config().DataDir, "keys.json"), good, 0o600); err != nil {
		t.Fatal(err)
	}
	for section, text := range map[string]string{
		"formula.model": strings.Replace(changed, "%DIR%/card.yaml", "/nowhere/model.yaml", 1),
		"check":         strings.Replace(changed, `check: {listen`, `check: {secret_file: /nowhere/secret, listen`, 1),
		"templates":     changed + "captcha: {templates: /nowhere/pages}\n",
	} {
		if err := a.applied(read(text), a.changes()); err == nil || !strings.Contains(err.Error(), section) || a.inUse() != before {
			t.Errorf("%s: %v, %+v", section, err, a.inUse())
		}
	}
}
