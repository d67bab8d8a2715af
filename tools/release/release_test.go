package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// These tests need root and Linux, for namespaces of their own, and a binary without cgo that ANTIROBOT_BIN names: make
// check-packages. Nothing is installed on the machine itself.

// built goes to the root of the repository and returns the program.
func built(t *testing.T) string {
	t.Helper()
	bin := os.Getenv("ANTIROBOT_BIN")
	if bin == "" {
		t.Fatal("ANTIROBOT_BIN must name a binary: run make check-packages")
	}
	t.Chdir("../..")
	return bin
}

// inside runs a script in a mount, process and network namespace of its own, in which DIR is an empty directory of memory.
func inside(t *testing.T, script string, env ...string) string {
	t.Helper()
	cmd := exec.Command("unshare", "--mount", "--pid", "--net", "--fork", "--kill-child", "bash", "-eu", "-o", "pipefail", "-c",
		"mount -t tmpfs tmpfs $DIR; ip link set lo up; cd $DIR\n"+script)
	cmd.Env = append(os.Environ(), append(env, "DIR="+t.TempDir())...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return string(out)
}

// TestDebian installs the deb over a copy of this system, upgrades it while the gateway answers, removes and purges it.
func TestDebian(t *testing.T) {
	one, two := twoVersions(t, "deb")
	out := inside(t, systemCopy+debianScript, "ONE="+one, "TWO="+two)
	if !strings.HasSuffix(strings.TrimSpace(out), "all is well") {
		t.Errorf("%s", out)
	}
}

// TestRPM installs the rpm over a copy of this system by Debian's rpm, upgrades it and removes it.
func TestRPM(t *testing.T) {
	one, two := twoVersions(t, "rpm")
	out := inside(t, systemCopy+rpmScript, "ONE="+one, "TWO="+two)
	if !strings.HasSuffix(strings.TrimSpace(out), "all is well") {
		t.Errorf("%s", out)
	}
}

// twoVersions makes a package twice, and returns where they are.
func twoVersions(t *testing.T, kind string) (one, two string) {
	bin := built(t)
	var made []string
	for _, version := range []string{"1.0.0", "1.0.1"} {
		dir := t.TempDir()
		o := &options{version: version, arch: "amd64", binaries: map[string]string{"": bin}, out: dir, epoch: time.Unix(1700000000, 0).UTC()}
		if err := makePackages(o); err != nil {
			t.Fatal(err)
		}
		found, err := filepath.Glob(filepath.Join(dir, "*."+kind))
		if err != nil || len(found) != 1 {
			t.Fatalf("%s: %v %v", kind, found, err)
		}
		made = append(made, found[0])
	}
	return made[0], made[1]
}

// systemCopy makes root, where this system may be changed without changing it.
const systemCopy = `
mkdir upper work root
mount -t overlay overlay -o lowerdir=/,upperdir=$DIR/upper,workdir=$DIR/work root
mount -t proc proc root/proc
mount --bind /dev root/dev
`

// Dependencies are names of packages that Debian's database of rpm does not have.
const rpmScript = `
mkdir -p root/tmp/rpms && cp $ONE root/tmp/rpms/one.rpm && cp $TWO root/tmp/rpms/two.rpm
cat > root/tmp/steps <<'STEPS'
set -eu
rpm() { command rpm --dbpath /tmp/rpmdb "$@"; }
rpm -qp --requires /tmp/rpms/one.rpm | grep shadow-utils
rpm -i --nodeps /tmp/rpms/one.rpm
getent passwd antirobot
test "$(stat -c '%U %a' /var/lib/antirobot)" = "antirobot 700"
test "$(stat -c '%G %a' /etc/antirobot/antirobot.yaml)" = "antirobot 640"
antirobot check-config | grep good
test -f /usr/lib/systemd/system/antirobot.service
test "$(rpm -q --qf '%{VERSION}' antirobot)" = 1.0.0

# the upgrade keeps the operator's file, and what was written meanwhile
echo '# mine' >> /etc/antirobot/antirobot.yaml
touch /var/lib/antirobot/keys.json
rpm -U --nodeps /tmp/rpms/two.rpm
test "$(rpm -q --qf '%{VERSION}' antirobot)" = 1.0.1
grep -q '# mine' /etc/antirobot/antirobot.yaml
antirobot check-config | grep good

# removed: the program goes, the operator's file and the data stay
rpm -e antirobot
test ! -e /usr/bin/antirobot
grep -q '# mine' /etc/antirobot/antirobot.yaml.rpmsave
test -f /var/lib/antirobot/keys.json
STEPS
chroot root bash /tmp/steps
echo all is well
`

const debianScript = `
mkdir -p root/tmp/debs && cp $ONE root/tmp/debs/antirobot_1.0.0_amd64.deb && cp $TWO root/tmp/debs/antirobot_1.0.1_amd64.deb
cat > root/tmp/steps <<'STEPS'
set -eu
export DEBIAN_FRONTEND=noninteractive
dpkg -i /tmp/debs/antirobot_1.0.0_amd64.deb </dev/null
getent passwd antirobot
test "$(stat -c '%U %a' /var/lib/antirobot)" = "antirobot 700"
test "$(stat -c '%G %a' /etc/antirobot/antirobot.yaml)" = "antirobot 640"
antirobot check-config | grep good
man -w antirobot-serve 2>/dev/null || test -f /usr/share/man/man1/antirobot-serve.1.gz
test -f /usr/lib/systemd/system/antirobot.service
antirobot licences | grep 'Go, its standard library'
dpkg-deb -c /tmp/debs/antirobot_1.0.0_amd64.deb > /tmp/contents # some images of Debian leave documentation out
grep /usr/share/doc/antirobot/LICENCES /tmp/contents
grep /usr/share/bash-completion/completions/antirobot /tmp/contents
for f in docs/operating.md docs/adr/0001-own-connection-loop.md docs/images/captcha.png docs/journey.svg deploy/haproxy/antirobot.lua deploy/helm/antirobot/templates/service.yaml; do # what the documentation names is there
	grep " ./usr/share/doc/antirobot/$f\$" /tmp/contents
done
run() { setpriv --reuid antirobot --regid antirobot --clear-groups --inh-caps +net_bind_service --ambient-caps +net_bind_service antirobot serve >>/tmp/log 2>&1 & }
await() { for i in $(seq 600); do antirobot health >/dev/null 2>&1 && return; sleep 0.2; done; cat /tmp/log; exit 1; }
python3 -m http.server -d /etc/antirobot --bind 127.0.0.1 3000 >/dev/null 2>&1 &
site=$!
run; gateway=$!
await
for i in $(seq 300); do curl -sf http://127.0.0.1/ >/tmp/listing && break; sleep 0.2; done # the site may need longer to start
grep antirobot.yaml /tmp/listing >/dev/null

# the upgrade, while visitors come: the old program goes on until it is told to end, and the operator's file stays
echo '# mine' >> /etc/antirobot/antirobot.yaml
(while [ ! -f /tmp/stop ]; do curl -sf http://127.0.0.1/ >/dev/null || echo failed; done) >/tmp/failures &
load=$!
dpkg -i /tmp/debs/antirobot_1.0.1_amd64.deb </dev/null
touch /tmp/stop; wait $load
test ! -s /tmp/failures
grep -q '# mine' /etc/antirobot/antirobot.yaml
token=$(cat /var/lib/antirobot/admin.token)
kill $gateway; wait $gateway
run; gateway=$!
await
test "$token" = "$(cat /var/lib/antirobot/admin.token)"
kill $gateway; wait $gateway
kill $site

# an upgrade leaves the file of an operator who gave it to somebody, linked or removed it
f() { stat -Lc '%U:%G:%a' /etc/antirobot/antirobot.yaml; }
chown antirobot:root /etc/antirobot/antirobot.yaml; chmod 600 /etc/antirobot/antirobot.yaml
dpkg -i /tmp/debs/antirobot_1.0.1_amd64.deb </dev/null
test "$(f)" = antirobot:root:600
mv /etc/antirobot/antirobot.yaml /root/mine.yaml
chown root:root /root/mine.yaml
ln -s /root/mine.yaml /etc/antirobot/antirobot.yaml
dpkg -i /tmp/debs/antirobot_1.0.1_amd64.deb </dev/null
test "$(f)" = root:root:600
rm /etc/antirobot/antirobot.yaml
dpkg -i /tmp/debs/antirobot_1.0.1_amd64.deb </dev/null
test ! -e /etc/antirobot/antirobot.yaml
mv /root/mine.yaml /etc/antirobot/antirobot.yaml

# removed: the program goes, the configuration and the data stay; purged: the data stays
dpkg -r antirobot </dev/null
test ! -e /usr/bin/antirobot
test -f /etc/antirobot/antirobot.yaml
dpkg -P antirobot </dev/null
test ! -e /etc/antirobot/antirobot.yaml
test -f /var/lib/antirobot/keys.json
test "$(stat -c %U /var/lib/antirobot)" = antirobot
STEPS
chroot root bash /tmp/steps
echo all is well
`

// TestImage makes the image twice, compares, and runs it from its unpacked layer: as nobody, with nothing but the data
// directory to write to, ready by its own probe.
func TestImage(t *testing.T) {
	bin := built(t)
	var archives [2][]byte
	var out string
	for i := range archives {
		out = t.TempDir()
		o := &options{version: "1.0.0", binaries: map[string]string{"amd64": bin}, tool: bin, out: out, epoch: time.Unix(1700000000, 0).UTC()}
		if err := makeImage(o); err != nil {
			t.Fatal(err)
		}
		var err error
		if archives[i], err = os.ReadFile(filepath.Join(out, "antirobot-amd64.tar")); err != nil {
			t.Fatal(err)
		}
	}
	if string(archives[0]) != string(archives[1]) {
		t.Error("the same input gave another image")
	}
	said := inside(t, imageScript, "ARCHIVE="+filepath.Join(out, "antirobot-amd64.tar"))
	for _, want := range []string{`"ready":true`, `"User":"65532:65532"`, `"Healthcheck"`, "Europe/Berlin is known", "pkg:golang/github.com/cockroachdb/pebble/v2@", "all is well"} {
		if !strings.Contains(said, want) {
			t.Errorf("there is no %s in\n%s", want, said)
		}
	}
}

// TestImageARM64 runs the image for arm64 in the same way, by Debian's qemu-user-static where this machine is another.
func TestImageARM64(t *testing.T) {
	const emulator = "qemu-aarch64-static"
	qemu, err := exec.LookPath(emulator)
	if err != nil && os.Getenv("CI") == "" {
		t.Skipf("SKIPPED for want of %s: the image for arm64 was not run; apt-get install qemu-user-static", emulator)
	} else if err != nil {
		t.Fatal(err)
	}
	program, err := filepath.Abs(os.Getenv("ANTIROBOT_ARM64"))
	if err != nil || os.Getenv("ANTIROBOT_ARM64") == "" {
		t.Fatal("ANTIROBOT_ARM64 must name a binary: run make check-packages")
	}
	bin, out := built(t), t.TempDir()
	o := &options{version: "1.0.0", binaries: map[string]string{"arm64": program}, tool: bin, out: out, epoch: time.Unix(1700000000, 0).UTC()}
	if err := makeImage(o); err != nil {
		t.Fatal(err)
	}
	said := inside(t, imageScript, "ARCHIVE="+filepath.Join(out, "antirobot-arm64.tar"), "QEMU="+qemu)
	for _, want := range []string{`"architecture":"arm64"`, `"ready":true`, "linux/arm64", "all is well"} {
		if !strings.Contains(said, want) {
			t.Errorf("there is no %s in\n%s", want, said)
		}
	}
}

// The variable QEMU names what runs the program; empty: this machine does.
const imageScript = `
mkdir image root
tar -C image -xf $ARCHIVE
cat image/sha256*  # its configuration
tar -C root -xzf image/*.tar.gz
mkdir root/proc && mount -t proc proc root/proc
emulator=
if [ -n "${QEMU-}" ]; then cp $QEMU root/emulator; emulator=/emulator; fi
mount --bind root root && mount -o remount,bind,ro root
mount -t tmpfs -o uid=65532,gid=65532,mode=0700 tmpfs root/var/lib/antirobot
# as the configuration of the image says
cat root/usr/share/doc/antirobot/sbom.cdx.json
run() { exec env -i PATH=/ HOME=/var/lib/antirobot TMPDIR=/var/lib/antirobot ZONEINFO=/usr/share/zoneinfo.zip ANTIROBOT_DATA_DIR=/var/lib/antirobot ANTIROBOT_PROCESSOR_TIME_ZONE=Europe/Berlin /usr/sbin/chroot --userspec=65532:65532 root $emulator /antirobot "$@"; }
run serve --upstream http://127.0.0.1:3000 > log 2>&1 &
gateway=$!
for i in $(seq 600); do (run health) >/dev/null 2>&1 && break; kill -0 $gateway; sleep 0.2; done
(run health)
(run version)
echo Europe/Berlin is known
test "$(stat -c %u root/var/lib/antirobot/keys.json)" = 65532
! touch root/x 2>/dev/null
kill $gateway; wait $gateway
echo all is well
`
