package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
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
