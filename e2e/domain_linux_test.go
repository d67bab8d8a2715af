package e2e

import (
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"antirobot/servertest"
	"antirobot/store/redisstore/redistest"
)

// TestDomain: one command is the whole installation of a site. In a network of its own, whose ports 80 and 443 are free, from
// an empty directory: a certificate is obtained, HTTP leads to HTTPS, and a second gateway that shares the store has the
// certificate at once, as has the first after a restart.
func TestDomain(t *testing.T) {
	t.Parallel()
	const inside = "ANTIROBOT_OWN_NETWORK"
	if os.Getenv(inside) == "" {
		cmd := exec.Command(os.Args[0], "-test.run=^TestDomain$", "-test.count=1")
		cmd.Env = append(os.Environ(), inside+"=1")
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
		if os.Getuid() != 0 {
			cmd.SysProcAttr = &syscall.SysProcAttr{
				Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET,
				UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}, GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
			}
		}
		out, err := cmd.CombinedOutput()
		if cmd.Process == nil {
			servertest.Lack(t, "the right to make a network ("+err.Error()+")", "run the tests as root")
		}
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	loopbackUp(t)
	const host = "www.shop.example"
	directory, root := authority(t, "80", "443")
	for name, value := range map[string]string{"TLS_ACME_DIRECTORY": directory, "TLS_ACME_ROOT_CA": root} {
		if err := os.Setenv("ANTIROBOT_"+name, value); err != nil { //nolint:usetesting // the process is this test's
			t.Fatal(err)
		}
	}
	args := []string{"serve", "--domain", host, "--upstream", site(t).URL, "--store", "redis://" + redistest.Start(t).Addr, "--secret-file", secretFile(t)}
	g := startWith(t, args...)
	if calls := g.logs.find(func(s string) bool { return strings.Contains(s, `"message":"hosts that the gateway calls"`) }); !strings.Contains(calls, strings.TrimSuffix(strings.TrimPrefix(directory, "https://"), "/dir")) {
		t.Errorf("it does not say that it calls the authority: %s", calls)
	}
	serial := obtained(t, g, "127.0.0.1:443", host, "")
	c := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	req, err := http.NewRequest("GET", "http://127.0.0.1/a?b", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Host = host
	res, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	if to := res.Header.Get("Location"); res.StatusCode != 301 || to != "https://"+host+"/a?b" {
		t.Errorf("over HTTP: %d to %s", res.StatusCode, to)
	}
	conn, err := handshake("127.0.0.1:443", host)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.WriteString(conn, "GET /a?b HTTP/1.1\r\nHost: "+host+"\r\nConnection: close\r\n\r\n")
	page, _ := io.ReadAll(conn)
	if !strings.HasPrefix(string(page), "HTTP/1.1 200") || !strings.Contains(string(page), "GET /a?b") {
		t.Errorf("over HTTPS: %s", page)
	}
	g.kill(syscall.SIGTERM)
	second := startWith(t, args...) // of another, empty directory
	if again := obtained(t, second, "127.0.0.1:443", host, ""); again != serial || second.metric("acme_obtained_total") != 0 {
		t.Errorf("the second gateway's certificate is %s, the first one's %s", again, serial)
	}
	second.kill(syscall.SIGKILL)
	g.run()
	if again := obtained(t, g, "127.0.0.1:443", host, ""); again != serial || g.metric("acme_obtained_total") != 0 {
		t.Errorf("after a restart the certificate is %s, before it was %s", again, serial)
	}
}

// loopbackUp brings up the one interface of a new network.
func loopbackUp(t *testing.T) {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	r, err := unix.NewIfreq("lo")
	if err != nil {
		t.Fatal(err)
	}
	r.SetUint16(unix.IFF_UP)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, r); err != nil {
		t.Fatal(err)
	}
}
