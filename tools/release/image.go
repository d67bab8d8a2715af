package main

import (
	"archive/tar"
	"bytes"
	"crypto/x509"
	"debug/buildinfo"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// user is who the program runs as in a container: nobody that a host has.
const user = 65532

// file is one entry of a layer.
type file struct {
	name  string // without a leading slash; a directory ends with one
	mode  int64
	owner int
	data  []byte
}

// makeImage writes an image with one variant for each binary: OUT/image, a directory in the layout of OCI, and of each
// variant OUT/antirobot-ARCH.tar, which docker load and podman load take.
func makeImage(o *options) error {
	shared, err := sharedFiles(o)
	if err != nil {
		return err
	}
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, arch := range slices.Sorted(maps.Keys(o.binaries)) {
		image, err := variant(o, arch, shared)
		if err != nil {
			return fmt.Errorf("%s: %w", arch, err)
		}
		if err := writeArchive(o, arch, image); err != nil {
			return err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add: image, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: arch}},
		})
	}
	dir := filepath.Join(o.out, "image")
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	if _, err := layout.Write(dir, index); err != nil {
		return err
	}
	digest, err := index.Digest()
	if err != nil {
		return err
	}
	fmt.Println(dir, digest)
	return nil
}

// variant is the image for one architecture.
func variant(o *options, arch string, shared []file) (v1.Image, error) {
	program, err := os.ReadFile(o.binaries[arch])
	if err != nil {
		return nil, err
	}
	parts, err := billOfMaterials(o, program)
	if err != nil {
		return nil, err
	}
	files := append(slices.Clone(shared), file{"antirobot", 0o755, 0, program}, file{"usr/share/doc/antirobot/sbom.cdx.json", 0o644, 0, parts})
	text, err := layerOf(files, o.epoch)
	if err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(text)), nil }, tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, err
	}
	image, err := mutate.Append(mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON),
		mutate.Addendum{Layer: layer, History: v1.History{Created: v1.Time{Time: o.epoch}, CreatedBy: "tools/release"}})
	if err != nil {
		return nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created = "linux", arch, v1.Time{Time: o.epoch}
	config.Config = v1.Config{
		User: fmt.Sprintf("%d:%d", user, user), WorkingDir: "/",
		Entrypoint: []string{"/antirobot"}, Cmd: []string{"serve"},
		// Everything that is written is in the data directory, so that the rest may be read-only.
		Env: []string{
			"PATH=/", "HOME=/var/lib/antirobot", "TMPDIR=/var/lib/antirobot", "ZONEINFO=/usr/share/zoneinfo.zip",
			"ANTIROBOT_DATA_DIR=/var/lib/antirobot",
		},
		Volumes:      map[string]struct{}{"/var/lib/antirobot": {}},
		ExposedPorts: map[string]struct{}{"8080/tcp": {}, "8079/tcp": {}},
		StopSignal:   "SIGTERM",
		Healthcheck:  &v1.HealthConfig{Test: []string{"CMD", "/antirobot", "health"}, Interval: 10 * time.Second, Timeout: 5 * time.Second, StartPeriod: time.Minute, Retries: 3},
		Labels: map[string]string{
			"org.opencontainers.image.title": "antirobot", "org.opencontainers.image.version": o.version,
			"org.opencontainers.image.description": "Gateway that tells humans from robots in front of web services",
			"org.opencontainers.image.created":     o.epoch.Format(time.RFC3339),
		},
	}
	return mutate.ConfigFile(image, config)
}

// sharedFiles are those that are the same on all architectures.
func sharedFiles(o *options) ([]file, error) {
	zones, err := os.ReadFile(filepath.Join(goroot(), "lib/time/zoneinfo.zip"))
	if err != nil {
		return nil, err
	}
	example, err := os.ReadFile("config.example.yaml")
	if err != nil {
		return nil, err
	}
	if o.tool == "" {
		if o.tool = o.binaries[runtime.GOARCH]; o.tool == "" {
			return nil, fmt.Errorf("-tool must name a binary that runs here")
		}
	}
	tool, err := filepath.Abs(o.tool)
	if err != nil {
		return nil, err
	}
	licences, err := exec.Command(tool, "licences").Output()
	if err != nil {
		return nil, fmt.Errorf("licences: %w", err)
	}
	return []file{
		{"etc/", 0o755, 0, nil},
		{"etc/antirobot/", 0o755, 0, nil},
		{"etc/passwd", 0o644, 0, fmt.Appendf(nil, "root:x:0:0:root:/:/nologin\nantirobot:x:%d:%d:antirobot:/var/lib/antirobot:/nologin\n", user, user)},
		{"etc/group", 0o644, 0, fmt.Appendf(nil, "root:x:0:\nantirobot:x:%d:\n", user)},
		{"etc/nsswitch.conf", 0o644, 0, []byte("hosts: files dns\n")},
		{"etc/ssl/", 0o755, 0, nil},
		{"etc/ssl/certs/", 0o755, 0, nil},
		{"etc/ssl/certs/ca-certificates.crt", 0o644, 0, authorities()},
		{"usr/", 0o755, 0, nil},
		{"usr/share/", 0o755, 0, nil},
		{"usr/share/zoneinfo.zip", 0o644, 0, zones},
		{"usr/share/doc/", 0o755, 0, nil},
		{"usr/share/doc/antirobot/", 0o755, 0, nil},
		{"usr/share/doc/antirobot/config.example.yaml", 0o644, 0, example},
		{"usr/share/doc/antirobot/LICENCES", 0o644, 0, licences},
		{"var/", 0o755, 0, nil},
		{"var/lib/", 0o755, 0, nil},
		{"var/lib/antirobot/", 0o700, user, nil},
	}, nil
}

func goroot() string {
	out, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}

// authorities are the certificate authorities that Mozilla trusts, of the version that go.mod pins.
func authorities() []byte {
	var b bytes.Buffer
	for root := range bundle.Roots() {
		if _, err := x509.ParseCertificate(root.Certificate); err == nil {
			_ = pem.Encode(&b, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate})
		}
	}
	return b.Bytes()
}

// layerOf is a tar with one time and no names of users.
func layerOf(files []file, at time.Time) ([]byte, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, f := range files {
		h := tar.Header{Name: f.name, Mode: f.mode, Uid: f.owner, Gid: f.owner, Size: int64(len(f.data)), ModTime: at, Typeflag: tar.TypeReg, Format: tar.FormatPAX}
		if strings.HasSuffix(f.name, "/") {
			h.Typeflag = tar.TypeDir
		}
		if err := w.WriteHeader(&h); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.data); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return b.Bytes(), err
}

func writeArchive(o *options, arch string, image v1.Image) error {
	tag, err := name.NewTag("antirobot:" + strings.NewReplacer("+", "-", "~", "-").Replace(o.version))
	if err != nil {
		return err
	}
	path := filepath.Join(o.out, "antirobot-"+arch+".tar")
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	if err := tarball.Write(tag, image, f); err != nil {
		f.Close()
		return err
	}
	fmt.Println(path)
	return f.Close()
}

// billOfMaterials lists the libraries in a program, as CycloneDX.
func billOfMaterials(o *options, program []byte) ([]byte, error) {
	info, err := buildinfo.Read(bytes.NewReader(program))
	if err != nil {
		return nil, err
	}
	type component struct {
		Type    string `json:"type"`
		Name    string `json:"name"`
		Version string `json:"version"`
		PURL    string `json:"purl,omitempty"`
	}
	parts := []component{{"library", "std", info.GoVersion, "pkg:golang/std@" + strings.TrimPrefix(info.GoVersion, "go")}}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		parts = append(parts, component{"library", m.Path, m.Version, "pkg:golang/" + m.Path + "@" + m.Version})
	}
	return json.MarshalIndent(map[string]any{
		"bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
		"metadata":   map[string]any{"timestamp": o.epoch.Format(time.RFC3339), "component": component{"application", "antirobot", o.version, ""}},
		"components": parts,
	}, "", "  ")
}
