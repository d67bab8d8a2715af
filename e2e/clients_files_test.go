package e2e

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/cgi"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/webdav"

	"antirobot/servertest"
)

// shelf is a service that keeps what is put into it.
type shelf struct {
	mu    sync.Mutex
	files map[string][]byte
}

func (s *shelf) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	name := path.Clean(r.URL.Path)
	s.mu.Lock()
	defer s.mu.Unlock()
	kept, has := s.files[name]
	switch {
	case err != nil:
		w.WriteHeader(http.StatusBadRequest)
	case r.Method == http.MethodPut:
		s.files[name] = body
		w.WriteHeader(http.StatusCreated)
	case !has:
		w.WriteHeader(http.StatusNotFound)
	case r.Method == http.MethodDelete:
		delete(s.files, name)
		w.WriteHeader(http.StatusNoContent)
	default:
		http.ServeContent(w, r, name, time.Unix(1700000000, 0), bytes.NewReader(kept))
	}
}

// ranges are what curl makes many URLs of.
var ranges = regexp.MustCompile(`f\[0-\d+\]`)

// TestClientsCurl uploads files, asks for their heads, and deletes them. A command fails if the service does nothing.
func TestClientsCurl(t *testing.T) {
	t.Parallel()
	curl := servertest.Need(t, "curl")
	const files = 150
	s := &shelf{files: map[string][]byte{}}
	(&tool{
		people:  true,
		service: s,
		work: func(t *testing.T, url, dir string, round int) (all string, err error) {
			for i := range files {
				write(t, filepath.Join(dir, fmt.Sprintf("f%d", i)), fmt.Sprintf("text %d", i))
			}
			to := fmt.Sprintf("%s/%d/", url, round)
			for _, args := range [][]string{
				{"-T", fmt.Sprintf("f[0-%d]", files-1), to},
				{"-I", to + fmt.Sprintf("f[0-%d]", files-1)},
				{"-T", "f0", "-H", "Expect: 100-continue", to + "again"},
				{"--data-binary", "@f1", "-X", "PUT", to + "form"},
				{"-X", "DELETE", to + fmt.Sprintf("f[0-%d]", files-2)},
			} {
				if round > 1 { // one request a command, so that each must fail
					for i := range args {
						args[i] = ranges.ReplaceAllString(args[i], "f0")
					}
				}
				said, failed := runTool(t, dir, nil, curl, append([]string{"-sS", "--fail"}, args...)...)
				all += said
				if err = errors.Join(err, failed); round > 1 && failed == nil {
					t.Errorf("curl --fail %q reports no error: %s", args, said)
				}
			}
			return all, err
		},
		done: func(t *testing.T, got []string) {
			if n := count(got, "PUT "); n != files+2 {
				t.Errorf("the service got %d uploads", n)
			}
			for name, text := range map[string]string{"again": "text 0", "form": "text 1", "f149": "text 149"} {
				if is := string(s.files["/1/"+name]); is != text || len(s.files) != 3 {
					t.Errorf("the service has %d files, %s is %q", len(s.files), name, is)
				}
			}
		},
	}).try(t)
}

// filesIn returns how many files are in a directory and below it.
func filesIn(t *testing.T, dir string) (n int) {
	t.Helper()
	err := filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			n++
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func davHandler(dir string) http.Handler {
	return &webdav.Handler{FileSystem: webdav.Dir(dir), LockSystem: webdav.NewMemLS()}
}

// TestClientsRclone copies a thousand small files over WebDAV, there and back.
func TestClientsRclone(t *testing.T) {
	t.Parallel()
	rclone := servertest.Need(t, "rclone")
	const files = 1000
	kept := t.TempDir()
	(&tool{
		service: davHandler(kept),
		work: func(t *testing.T, url, dir string, round int) (all string, err error) {
			n, retries := files, "3" // two transfers that make a folder at once are refused by its lock
			if round > 1 {
				n, retries = 3, "1"
			}
			own, back := filepath.Join(dir, "own"), filepath.Join(dir, "back")
			for i := range n {
				at := filepath.Join(own, fmt.Sprintf("%d", i%10))
				if err := os.MkdirAll(at, 0o700); err != nil {
					t.Fatal(err)
				}
				write(t, filepath.Join(at, fmt.Sprintf("f%d", i)), fmt.Sprintf("%d %d", round, i))
			}
			for _, args := range [][]string{
				{"copy", own, "there:backup"}, {"copy", "there:backup", back}, {"check", own, "there:backup", "--size-only"},
			} {
				args = append(args, "--config", filepath.Join(dir, "none"), "--retries", retries, "--low-level-retries", "1")
				said, failed := runTool(t, dir, []string{
					"RCLONE_CONFIG_THERE_TYPE=webdav", "RCLONE_CONFIG_THERE_VENDOR=other", "RCLONE_CONFIG_THERE_URL=" + url,
				}, rclone, args...)
				all += said
				if err = errors.Join(err, failed); round > 1 && failed == nil {
					t.Errorf("rclone %s reports no error: %s", args[0], said)
				}
			}
			if round == 1 && err == nil && filesIn(t, back) != n {
				t.Errorf("%d files came back", filesIn(t, back))
			}
			return all, err
		},
		done: func(t *testing.T, _ []string) {
			if n := filesIn(t, kept); n != files {
				t.Errorf("the service has %d files", n)
			}
		},
	}).try(t)
}

// TestClientsCadaver works at the command line of a WebDAV client that always exits with 0.
func TestClientsCadaver(t *testing.T) {
	t.Parallel()
	cadaver := servertest.Need(t, "cadaver")
	const files = 100
	kept := t.TempDir()
	(&tool{
		people:  true,
		service: davHandler(kept),
		work: func(t *testing.T, url, dir string, round int) (string, error) {
			var do strings.Builder
			fmt.Fprintf(&do, "mkcol d%[1]d\ncd d%[1]d\n", round)
			n := files
			if round > 1 {
				n = 2
			}
			for i := range n {
				write(t, filepath.Join(dir, fmt.Sprintf("f%d", i)), fmt.Sprint(i))
				fmt.Fprintf(&do, "put f%d\n", i)
			}
			do.WriteString("ls\nmove f0 g\nget f1 back\ndelete f1\nquit\n")
			said, err := feedTool(t, dir, nil, do.String(), cadaver, url+"/")
			if b, _ := os.ReadFile(filepath.Join(dir, "back")); round == 1 && string(b) != "1" {
				t.Errorf("what came back is %q", b)
			}
			if strings.Contains(said, "failed") {
				err = errors.Join(err, errors.New("a command has failed"))
			}
			return said, err
		},
		done: func(t *testing.T, got []string) {
			if n := filesIn(t, kept); n != files-1 {
				t.Errorf("the service has %d files", n)
			}
			if count(got, "MOVE ") != 1 || count(got, "DELETE ") != 1 {
				t.Errorf("the service got %q", got)
			}
		},
	}).try(t)
}

// download is a file of a service for downloads.
func download() []byte { return bytes.Repeat([]byte("0123456789abcdef"), 1<<17) }

// TestClientsWget resumes a download, and fetches other files.
func TestClientsWget(t *testing.T) {
	t.Parallel()
	wget := servertest.Need(t, "wget")
	const files = 100
	s := &shelf{files: map[string][]byte{"/big.iso": download()}}
	for i := range files {
		s.files[fmt.Sprintf("/part%d.bin", i)] = bytes.Repeat([]byte{byte(i)}, 2000)
	}
	(&tool{
		service: s,
		work: func(t *testing.T, url, dir string, round int) (string, error) {
			write(t, filepath.Join(dir, "big.iso"), string(download()[:1000000]))
			args := []string{"-c", "-nv", "--tries=2", "--waitretry=1", url + "/big.iso"}
			for i := range files {
				args = append(args, fmt.Sprintf("%s/part%d.bin", url, i))
			}
			said, err := runTool(t, dir, nil, wget, args...)
			b, _ := os.ReadFile(filepath.Join(dir, "big.iso"))
			if whole := bytes.Equal(b, download()); whole != (round == 1) {
				t.Errorf("the file is whole: %v, %d bytes", whole, len(b))
			}
			if n := filesIn(t, dir); round == 1 && n < files+1 || round > 1 && n > 1 {
				t.Errorf("it has %d files", n)
			}
			return said, err
		},
		done: func(t *testing.T, got []string) {
			if n := count(got, "GET "); n != files+1 {
				t.Errorf("the service got %d requests", n)
			}
		},
	}).try(t)
}

// TestClientsAria2 fetches a file in many pieces at once, and other files.
func TestClientsAria2(t *testing.T) {
	t.Parallel()
	aria := servertest.Need(t, "aria2c")
	s := &shelf{files: map[string][]byte{"/big.iso": download()}}
	const files = 60
	for i := range files {
		s.files[fmt.Sprintf("/part%d.bin", i)] = bytes.Repeat([]byte{byte(i)}, 2000)
	}
	(&tool{
		service: s,
		work: func(t *testing.T, url, dir string, round int) (string, error) {
			args := []string{
				"--no-conf", "-q", "--console-log-level=error", "--file-allocation=none", "-x8", "-s8", "-k", "1M", "-Z",
				"--max-tries=2", "--retry-wait=1", url + "/big.iso",
			}
			for i := range files {
				args = append(args, fmt.Sprintf("%s/part%d.bin", url, i))
			}
			said, err := runTool(t, dir, nil, aria, args...)
			if b, _ := os.ReadFile(filepath.Join(dir, "big.iso")); bytes.Equal(b, download()) != (round == 1) {
				t.Errorf("the file has %d bytes", len(b))
			}
			return said, err
		},
		done: func(t *testing.T, got []string) {
			if n := count(got, "GET /part"); n < files {
				t.Errorf("the service got %d requests", n)
			}
		},
	}).try(t)
}

// TestClientsLargeUpload: a program that is stopped at a large upload reads why.
func TestClientsLargeUpload(t *testing.T) {
	t.Parallel()
	curl := servertest.Need(t, "curl")
	dir := t.TempDir()
	write(t, filepath.Join(dir, "large"), strings.Repeat("0123456789abcdef", 2<<20))
	service := watchService(t, &shelf{files: map[string][]byte{}})
	g, secure, plain := http2Gateway(t, service.URL, "")
	g.ban("ip:127.0.0.1", "10m")
	for _, args := range [][]string{
		{"--http1.1", "http://" + plain + "/"},
		{"--http1.1", "https://" + secure + "/"},
		{"--http2", "https://" + secure + "/"},
		{"--http2-prior-knowledge", "http://" + plain + "/"},
		{"--limit-rate", "40M", "--http1.1", "http://" + plain + "/"},
	} {
		for _, expect := range []string{"Expect:", "Expect: 100-continue"} {
			said, err := runTool(t, dir, nil, curl, append([]string{"-sS", "-k", "--fail", "-H", expect, "-T", "large"}, args...)...)
			// Over HTTP/2 this curl reports an answer that is complete before its upload as a broken stream.
			if err == nil || !strings.Contains(said, "403") && !strings.Contains(said, "HTTP/2 framing layer") {
				t.Errorf("%q %s: %v %s", args, expect, err, said)
			}
		}
	}
	if got := service.take(); len(got) > 0 {
		t.Errorf("the service got %d requests", len(got))
	}
}

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

// packed makes a compressed tar archive. files are names and texts in turn.
func packed(t *testing.T, files ...string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	for i := 0; i < len(files); i += 2 {
		if err := w.WriteHeader(&tar.Header{Name: files[i], Mode: 0o644, Size: int64(len(files[i+1]))}); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, files[i+1]); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestClientsNpm installs three hundred packages from a registry.
func TestClientsNpm(t *testing.T) {
	t.Parallel()
	npm := servertest.Need(t, "npm")
	const packages = 300
	balls, wants := map[string][]byte{}, map[string]string{}
	for i := range packages {
		name := fmt.Sprintf("part%d", i)
		manifest := fmt.Sprintf(`{"name":%q,"version":"1.0.0"}`, name)
		balls[name] = packed(t, "package/package.json", manifest, "package/index.js", "module.exports = 1\n")
		wants[name] = "^1.0.0"
	}
	registry := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, file, isFile := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/-/")
		ball, has := balls[name]
		switch {
		case !has:
			http.NotFound(w, r)
		case isFile && file == name+"-1.0.0.tgz":
			w.Header().Set("Content-Type", "application/octet-stream")
			_, _ = w.Write(ball)
		default:
			sum := sha512.Sum512(ball)
			version := map[string]any{"name": name, "version": "1.0.0", "dist": map[string]string{
				"tarball":   fmt.Sprintf("http://%s/%s/-/%s-1.0.0.tgz", r.Host, name, name),
				"integrity": "sha512-" + base64.StdEncoding.EncodeToString(sum[:]),
			}}
			w.Header().Set("Content-Type", "application/vnd.npm.install-v1+json")
			_ = json.NewEncoder(w).Encode(map[string]any{
				"name": name, "dist-tags": map[string]string{"latest": "1.0.0"}, "versions": map[string]any{"1.0.0": version},
			})
		}
	})
	(&tool{
		service: registry,
		work: func(t *testing.T, url, dir string, round int) (string, error) {
			project, err := json.Marshal(map[string]any{"name": "p", "version": "1.0.0", "dependencies": wants})
			if err != nil {
				t.Fatal(err)
			}
			write(t, filepath.Join(dir, "package.json"), string(project))
			said, err := runTool(t, dir, nil, npm, "install", "--registry", url+"/", "--cache", filepath.Join(dir, ".cache"),
				"--no-audit", "--no-fund", "--ignore-scripts", "--no-update-notifier", "--fetch-retries=0", "--loglevel=error")
			modules, _ := filepath.Glob(filepath.Join(dir, "node_modules", "*", "index.js"))
			if n := len(modules); (n == packages) != (round == 1) {
				t.Errorf("%d packages are there", n)
			}
			return said, err
		},
		done: func(t *testing.T, got []string) {
			if n := count(got, "GET /part"); n != 2*packages {
				t.Errorf("the registry got %d requests", n)
			}
		},
	}).try(t)
}

// TestClientsApt updates the list of packages from a directory and fetches a hundred of them.
func TestClientsApt(t *testing.T) {
	t.Parallel()
	apt := servertest.Need(t, "apt-get")
	const packages = 100
	files := &shelf{files: map[string][]byte{}}
	var list strings.Builder
	var names []string
	for i := range packages {
		name := fmt.Sprintf("part%d", i)
		deb := fmt.Appendf(nil, "it is fetched and never opened %d", i)
		files.files["/debian/"+name+".deb"] = deb
		names = append(names, name)
		fmt.Fprintf(&list, "Package: %[1]s\nVersion: 1.0\nArchitecture: all\nMaintainer: a <a@example.org>\n"+
			"Description: part\nFilename: ./%[1]s.deb\nSize: %[2]d\nSHA256: %[3]x\n\n", name, len(deb), sha256.Sum256(deb))
	}
	files.files["/debian/Packages"] = []byte(list.String())
	files.files["/debian/Release"] = fmt.Appendf(nil, "Origin: test\nSuite: test\nDate: Sat, 01 Aug 2026 00:00:00 UTC\n"+
		"SHA256:\n %x %d Packages\n", sha256.Sum256([]byte(list.String())), list.Len())
	(&tool{
		service: files,
		work: func(t *testing.T, url, dir string, round int) (string, error) {
			for _, d := range []string{"lists/partial", "cache/archives/partial", "etc/trusted.gpg.d", "to"} {
				if err := os.MkdirAll(filepath.Join(dir, d), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			write(t, filepath.Join(dir, "sources.list"), "deb [trusted=yes] "+url+"/debian ./\n")
			write(t, filepath.Join(dir, "status"), "")
			write(t, filepath.Join(dir, "apt.conf"), "")
			own, opts := []string{"APT_CONFIG=" + dir + "/apt.conf"}, []string{"-q"}
			for _, o := range []string{
				"Dir::Etc=" + dir + "/etc", "Dir::Etc::SourceList=" + dir + "/sources.list", "Dir::Etc::SourceParts=-",
				"Dir::State=" + dir, "Dir::State::status=" + dir + "/status", "Dir::Cache=" + dir + "/cache",
				"APT::Sandbox::User=root", "APT::Update::Error-Mode=any", "Acquire::Retries=0", "Acquire::Languages=none",
			} {
				opts = append(opts, "-o", o)
			}
			said, err := runTool(t, dir, own, apt, append(opts, "update")...)
			if err != nil {
				return said, err
			}
			more, err := runTool(t, filepath.Join(dir, "to"), own, apt, append(append(opts, "download"), names...)...)
			if n := filesIn(t, filepath.Join(dir, "to")); (n == packages) != (round == 1) {
				t.Errorf("%d packages are there", n)
			}
			return said + more, err
		},
		done: func(t *testing.T, got []string) {
			if n := count(got, "GET /debian/./part"); n != packages {
				t.Errorf("the service got %d requests for packages", n)
			}
		},
	}).try(t)
}

// imageManifest is the media type of an image.
const imageManifest = "application/vnd.oci.image.manifest.v1+json"

// registry keeps the images that clients push, and gives them to clients that pull.
type registry struct {
	mu        sync.Mutex
	blobs     map[string][]byte
	manifests map[string][]byte
	uploads   map[string][]byte
}

func (g *registry) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	g.mu.Lock()
	defer g.mu.Unlock()
	path, ours := strings.CutPrefix(r.URL.Path, "/v2/")
	switch {
	case err != nil || !ours:
		w.WriteHeader(http.StatusBadRequest)
	case path == "":
		w.WriteHeader(http.StatusOK)
	case path == "app/tags/list":
		fmt.Fprint(w, `{"name":"app","tags":["v1"]}`)
	case strings.HasPrefix(path, "app/blobs/uploads/"):
		g.upload(w, r, path, body)
	case strings.HasPrefix(path, "app/blobs/"):
		g.give(w, g.blobs, strings.TrimPrefix(path, "app/blobs/"), "application/octet-stream")
	case strings.HasPrefix(path, "app/manifests/"):
		name := strings.TrimPrefix(path, "app/manifests/")
		if r.Method == http.MethodPut {
			g.manifests[name], g.manifests[digestOf(body)] = body, body
			w.Header().Set("Docker-Content-Digest", digestOf(body))
			w.WriteHeader(http.StatusCreated)
			return
		}
		g.give(w, g.manifests, name, imageManifest)
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}

func (g *registry) upload(w http.ResponseWriter, r *http.Request, path string, body []byte) {
	if r.Method == http.MethodPost {
		path += fmt.Sprint(len(g.uploads))
	}
	g.uploads[path] = append(g.uploads[path], body...)
	w.Header().Set("Location", "/v2/"+path)
	if r.Method != http.MethodPut {
		w.Header().Set("Range", fmt.Sprintf("0-%d", max(0, len(g.uploads[path])-1)))
		w.WriteHeader(http.StatusAccepted)
		return
	}
	if want := r.URL.Query().Get("digest"); digestOf(g.uploads[path]) != want {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	g.blobs[r.URL.Query().Get("digest")] = g.uploads[path]
	w.WriteHeader(http.StatusCreated)
}

func (g *registry) give(w http.ResponseWriter, from map[string][]byte, name, kind string) {
	b, has := from[name]
	if !has {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Content-Length", fmt.Sprint(len(b)))
	w.Header().Set("Docker-Content-Digest", digestOf(b))
	_, _ = w.Write(b)
}

func digestOf(b []byte) string {
	sum := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// image writes an image to a directory, in the layout of OCI.
func image(t *testing.T, dir string, round, layers int) {
	t.Helper()
	blobs := filepath.Join(dir, "blobs", "sha256")
	if err := os.MkdirAll(blobs, 0o700); err != nil {
		t.Fatal(err)
	}
	type descriptor struct {
		MediaType string `json:"mediaType"`
		Digest    string `json:"digest"`
		Size      int    `json:"size"`
	}
	blob := func(kind string, b []byte) descriptor {
		write(t, filepath.Join(blobs, strings.TrimPrefix(digestOf(b), "sha256:")), string(b))
		return descriptor{kind, digestOf(b), len(b)}
	}
	text := func(v any) []byte {
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	all, plain := []descriptor{}, []string{}
	for i := range layers {
		b := packed(t, fmt.Sprintf("file%d", i), fmt.Sprintf("%d %d", round, i))
		z, err := gzip.NewReader(bytes.NewReader(b))
		if err != nil {
			t.Fatal(err)
		}
		whole, err := io.ReadAll(z)
		if err != nil {
			t.Fatal(err)
		}
		all, plain = append(all, blob("application/vnd.oci.image.layer.v1.tar+gzip", b)), append(plain, digestOf(whole))
	}
	config := blob("application/vnd.oci.image.config.v1+json", text(map[string]any{
		"architecture": "amd64", "os": "linux", "rootfs": map[string]any{"type": "layers", "diff_ids": plain},
	}))
	manifest := blob(imageManifest, text(map[string]any{
		"schemaVersion": 2, "mediaType": imageManifest, "config": config, "layers": all,
	}))
	write(t, filepath.Join(dir, "oci-layout"), `{"imageLayoutVersion":"1.0.0"}`)
	index := text(map[string]any{"schemaVersion": 2, "manifests": []descriptor{manifest}})
	write(t, filepath.Join(dir, "index.json"), string(index))
}

// TestClientsSkopeo pushes an image of many layers to a registry, inspects it, and pulls it.
func TestClientsSkopeo(t *testing.T) {
	t.Parallel()
	skopeo := servertest.Need(t, "skopeo")
	const layers = 40
	kept := &registry{blobs: map[string][]byte{}, manifests: map[string][]byte{}, uploads: map[string][]byte{}}
	(&tool{
		service: kept,
		work: func(t *testing.T, url, dir string, round int) (said string, err error) {
			image(t, filepath.Join(dir, "image"), round, layers)
			patient := "60s"
			if round > 1 { // after a 429 it tries again when Retry-After says
				patient = "4s"
			}
			there := "docker://" + strings.TrimPrefix(url, "http://") + "/app:v" + fmt.Sprint(round)
			for _, args := range [][]string{
				{"copy", "--dest-tls-verify=false", "oci:" + dir + "/image", there},
				{"inspect", "--tls-verify=false", there},
				{"copy", "--src-tls-verify=false", there, "oci:" + dir + "/back"},
			} {
				args = append([]string{"--insecure-policy", "--command-timeout", patient}, args...)
				out, failed := runTool(t, dir, nil, skopeo, args...)
				said += out
				if failed != nil {
					return said, failed
				}
			}
			return said, nil
		},
		done: func(t *testing.T, got []string) {
			if len(kept.blobs) != layers+1 || kept.manifests["v1"] == nil {
				t.Errorf("the registry has %d blobs", len(kept.blobs))
			}
			if n := count(got, "GET /v2/app/blobs/"); n < layers+1 {
				t.Errorf("the registry gave %d blobs", n)
			}
		},
	}).try(t)
}
