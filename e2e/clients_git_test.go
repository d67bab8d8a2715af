package e2e

import (
	"errors"
	"fmt"
	"net/http/cgi"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"antirobot/servertest"
)

// gitEnv keeps the machine's configuration away from git.
var gitEnv = []string{
	"GIT_CONFIG_NOSYSTEM=1", "GIT_TERMINAL_PROMPT=0", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.org",
	"GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.org",
}

// repository is what git http-backend serves.
type repository struct {
	git  string
	root string
	bare string
}

// do runs git in a directory.
func (r *repository) do(t *testing.T, dir string, args ...string) (string, error) {
	t.Helper()
	said, err := runTool(t, dir, gitEnv, r.git, args...)
	return "git " + strings.Join(args, " ") + "\n" + said, err
}

// must is do for commands that don't need the gateway.
func (r *repository) must(t *testing.T, dir string, args ...string) string {
	t.Helper()
	said, err := r.do(t, dir, args...)
	if err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	return said
}

// commit adds a commit to the copy in dir.
func (r *repository) commit(t *testing.T, dir, text string) {
	t.Helper()
	write(t, filepath.Join(dir, "more"), text)
	r.must(t, dir, "add", ".")
	r.must(t, dir, "commit", "-q", "-m", text)
}

func newRepository(t *testing.T) *repository {
	t.Helper()
	r := &repository{git: servertest.Need(t, "git"), root: t.TempDir()}
	r.bare = filepath.Join(r.root, "project.git")
	r.must(t, r.root, "init", "-q", "--bare", "-b", "main", r.bare)
	r.must(t, r.bare, "config", "http.receivepack", "true")
	seed := filepath.Join(r.root, "seed")
	r.must(t, r.root, "init", "-q", "-b", "main", seed)
	for i := range 50 {
		write(t, filepath.Join(seed, fmt.Sprintf("file%d", i)), strings.Repeat(fmt.Sprintf("line %d\n", i), 200))
	}
	r.commit(t, seed, "first")
	r.must(t, seed, "push", "-q", r.bare, "main")
	return r
}

// handler serves the repository over smart HTTP.
func (r *repository) handler(t *testing.T) *cgi.Handler {
	t.Helper()
	path, err := exec.Command(r.git, "--exec-path").Output()
	if err != nil {
		t.Fatal(err)
	}
	backend := filepath.Join(strings.TrimSpace(string(path)), "git-http-backend")
	if _, err := os.Stat(backend); err != nil {
		servertest.Lack(t, "git-http-backend", "make deps")
	}
	return &cgi.Handler{Path: backend, Dir: r.root, Env: []string{
		"GIT_PROJECT_ROOT=" + r.root, "GIT_HTTP_EXPORT_ALL=1", "REMOTE_USER=a", "HOME=" + r.root, "GIT_CONFIG_NOSYSTEM=1",
	}}
}

// TestClientsGit clones a repository, pushes to it, and fetches again and again, as builds do.
func TestClientsGit(t *testing.T) {
	t.Parallel()
	const pushes, fetches = 10, 30
	r := newRepository(t)
	(&tool{
		people:  true,
		service: r.handler(t),
		work: func(t *testing.T, url, dir string, round int) (string, error) {
			copied := filepath.Join(dir, "copy")
			said, err := r.do(t, dir, "clone", "-q", url+"/project.git", copied)
			if round > 1 {
				return said, errors.Join(err, r.refused(t, url, dir))
			}
			for i := 0; i < pushes && err == nil; i++ {
				r.commit(t, copied, fmt.Sprint("more ", i))
				said, err = r.do(t, copied, "push", "-q")
			}
			for i := 0; i < fetches && err == nil; i++ {
				said, err = r.do(t, copied, "fetch", "-q")
			}
			return said, err
		},
		done: func(t *testing.T, got []string) {
			if log := r.must(t, r.bare, "log", "--format=%s", "main"); strings.Count(log, "more ") != pushes {
				t.Errorf("the repository has\n%s", log)
			}
			if n := count(got, "GET /project.git/info/refs"); n < 1+pushes+fetches {
				t.Errorf("the service got %d requests for references", n)
			}
		},
	}).try(t)
}

// refused checks that every command of an existing copy fails.
func (r *repository) refused(t *testing.T, url, dir string) (failed error) {
	t.Helper()
	copied := filepath.Join(dir, "own")
	r.must(t, dir, "clone", "-q", r.bare, copied)
	r.must(t, copied, "remote", "set-url", "origin", url+"/project.git")
	r.commit(t, copied, "lost")
	for _, args := range [][]string{{"push", "-q"}, {"fetch", "-q"}, {"ls-remote"}} {
		said, err := r.do(t, copied, args...)
		if err == nil {
			t.Errorf("it reports no error: %s", said)
		}
		failed = errors.Join(failed, err)
	}
	return failed
}
