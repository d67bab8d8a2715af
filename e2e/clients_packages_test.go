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
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"antirobot/servertest"
)

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
