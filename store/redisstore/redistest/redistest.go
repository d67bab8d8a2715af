// Package redistest runs Redis servers on loopback for tests: single ones, clusters, and a proxy with faults. A server
// has its own directory, and ends with the test.
package redistest

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"antirobot/servertest"
)

// Server is a redis-server process.
type Server struct {
	Addr string // host:port
	port int
	dir  string
	args []string
	tls  bool

	sentinel string // its configuration file, if it is a sentinel

	cmd   *exec.Cmd
	out   *servertest.Log
	ended chan struct{} // closed when the process has ended
}

// Start runs a server with extra arguments, by default without a disk.
func Start(t testing.TB, args ...string) *Server {
	t.Helper()
	s := &Server{dir: dir(t), args: args}
	s.start(t)
	return s
}

// StartTLS runs a server that speaks only TLS, with the caller's certificate.
func StartTLS(t testing.TB, cert, key, ca string, args ...string) *Server {
	t.Helper()
	s := &Server{dir: dir(t), tls: true, args: append([]string{
		"--tls-cert-file", cert, "--tls-key-file", key, "--tls-ca-cert-file", ca, "--tls-auth-clients", "no",
	}, args...)}
	s.start(t)
	return s
}

func dir(t testing.TB) string {
	t.Helper()
	d, err := os.MkdirTemp("", "redistest-") // t.TempDir is removed while a killed server may still write
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(d) })
	return d
}

// start runs a server on a free port.
func (s *Server) start(t testing.TB) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; {
		s.port = ports.Next(t, busAbove)
		if s.run(t) {
			break
		}
		s.mayTryAgain(t, deadline)
	}
	t.Cleanup(s.Kill)
}

// Restart runs the server again, on its old port and directory.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !s.run(t); {
		s.mayTryAgain(t, deadline)
	}
}

// mayTryAgain fails the test unless another process had the port.
func (s *Server) mayTryAgain(t testing.TB, deadline time.Time) {
	t.Helper()
	if !strings.Contains(s.out.String(), "already in use") || time.Now().After(deadline) {
		t.Fatalf("redis-server does not listen on %s:\n%s", s.Addr, s.out)
	}
	time.Sleep(20 * time.Millisecond)
}

// run runs the server, and reports whether it listens itself: another process may have the port.
func (s *Server) run(t testing.TB) bool {
	t.Helper()
	s.Addr = net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port))
	port, tlsPort := strconv.Itoa(s.port), "0"
	if s.tls {
		port, tlsPort = tlsPort, port
	}
	args := append([]string{"--port", port, "--bind", "127.0.0.1", "--dir", s.dir, "--save", "", "--daemonize", "no"},
		s.args...)
	if s.tls {
		args = append(args, "--tls-port", tlsPort)
	}
	ready := "eady to accept connections"
	if s.sentinel != "" {
		args = []string{s.sentinel, "--sentinel", "--port", port, "--bind", "127.0.0.1", "--dir", s.dir}
		ready = "Sentinel ID is"
	}
	cmd, out, ended := exec.Command(servertest.Need(t, "redis-server", "valkey-server"),
		args...), new(servertest.Log), make(chan struct{})
	s.cmd, s.out, s.ended = cmd, out, ended
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = endWithUs()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = cmd.Wait() // how it ended is in its output
		close(ended)
	}()
	for deadline := time.Now().Add(time.Minute); !strings.Contains(out.String(), ready); {
		select {
		case <-ended:
			return false
		case <-time.After(20 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			s.Kill()
			t.Fatalf("redis-server does not listen on %s:\n%s", s.Addr, out)
		}
	}
	return true
}

// PID returns the number of the process.
func (s *Server) PID() int { return s.cmd.Process.Pid }

// Kill ends the server at once; its data in memory is lost.
func (s *Server) Kill() {
	_ = s.cmd.Process.Kill() // it may have ended
	<-s.ended
}

// runs reports whether the process has not ended.
func (s *Server) runs() bool {
	select {
	case <-s.ended:
		return false
	default:
		return true
	}
}

// Signal signals the server: SIGSTOP makes it hang, SIGCONT go on.
func (s *Server) Signal(t testing.TB, sig syscall.Signal) {
	t.Helper()
	if err := s.cmd.Process.Signal(sig); err != nil {
		t.Fatal(err)
	}
}

// CLI runs a command of the server and returns what redis-cli prints.
func (s *Server) CLI(t testing.TB, args ...string) string {
	t.Helper()
	out, err := s.tryCLI(args...)
	if err != nil {
		t.Fatalf("redis-cli %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

func (s *Server) tryCLI(args ...string) (string, error) {
	cmd := exec.Command("redis-cli", append([]string{"-p", strconv.Itoa(s.port)}, args...)...)
	out, err := cmd.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

var ports = servertest.NewPorts(12000, 9000)

// busAbove is the distance of a cluster node's bus port.
const busAbove = 10000

// Cluster is a set of masters and their replicas.
type Cluster struct {
	Servers []*Server // masters first, until one is killed
}

// StartCluster runs masters with replicas each, and waits until they form a cluster.
func StartCluster(t testing.TB, masters, replicas int, args ...string) *Cluster {
	t.Helper()
	c := &Cluster{}
	var addrs []string
	for range masters * (1 + replicas) {
		s := &Server{dir: dir(t)}
		s.args = append([]string{
			"--cluster-enabled", "yes", "--cluster-config-file", filepath.Join(s.dir,
				"nodes.conf"), "--cluster-node-timeout", "1000",
			"--repl-diskless-sync-delay", "0", "--cluster-replica-validity-factor", "0",
		}, args...)
		s.start(t)
		c.Servers = append(c.Servers, s)
		addrs = append(addrs, s.Addr)
	}
	create := append([]string{"--cluster", "create"}, addrs...)
	create = append(create, "--cluster-replicas", strconv.Itoa(replicas), "--cluster-yes")
	if out, err := c.Servers[0].tryCLI(create...); err != nil {
		t.Fatalf("create a cluster: %v\n%s", err, out)
	}
	for deadline := time.Now().Add(30 * time.Second); !c.settled(masters * replicas); {
		if time.Now().After(deadline) {
			t.Fatalf("the cluster does not settle:\n%s", c.Servers[0].CLI(t, "cluster", "nodes"))
		}
		time.Sleep(100 * time.Millisecond)
	}
	return c
}

func (c *Cluster) settled(replicas int) bool {
	slaves := 0
	for _, s := range c.Servers {
		out, err := s.tryCLI("cluster", "info")
		if err != nil || !strings.Contains(out, "cluster_state:ok") {
			return false
		}
		if out, err = s.tryCLI("info", "replication"); err != nil {
			return false
		}
		if strings.Contains(out, "role:slave") && strings.Contains(out, "master_link_status:up") {
			slaves++
		}
	}
	return slaves == replicas
}

// URL is the cluster's address in the form that the gateway takes.
func (c *Cluster) URL() string {
	var hosts []string
	for _, s := range c.Servers {
		hosts = append(hosts, s.Addr)
	}
	return "redis-cluster://" + strings.Join(hosts, ",")
}

// Master returns the server that currently holds the slot of a key.
func (c *Cluster) Master(t testing.TB, key string) *Server {
	t.Helper()
	slot := c.alive(t).CLI(t, "cluster", "keyslot", key)
	n, err := strconv.Atoi(strings.TrimPrefix(slot, "(integer) "))
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range c.Servers {
		out, err := s.tryCLI("cluster", "nodes")
		if err != nil {
			continue
		}
		for line := range strings.SplitSeq(out, "\n") {
			f := strings.Fields(line)
			if len(f) < 9 || !strings.Contains(f[2], "myself") || !strings.Contains(f[2], "master") {
				continue
			}
			for _, r := range f[8:] {
				var lo, hi int
				if k, _ := fmt.Sscanf(r, "%d-%d", &lo, &hi); k == 2 && n >= lo && n <= hi {
					return s
				}
			}
		}
	}
	t.Fatalf("nobody holds slot %d", n)
	return nil
}

func (c *Cluster) alive(t testing.TB) *Server {
	t.Helper()
	for _, s := range c.Servers {
		if s.runs() {
			return s
		}
	}
	t.Fatal("no server is alive")
	return nil
}

// StartSentinel runs a sentinel that watches a master as main, and decides alone.
func StartSentinel(t testing.TB, master *Server) *Server {
	t.Helper()
	s := &Server{dir: dir(t)}
	file := filepath.Join(s.dir, "sentinel.conf")
	text := fmt.Sprintf("sentinel monitor main 127.0.0.1 %d 1\nsentinel down-after-milliseconds main 500\nsentinel "+
		"failover-timeout main 2000\n", master.port)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s.sentinel = file
	s.start(t)
	return s
}

// StartReplica runs a replica of a server, and waits until it follows.
func StartReplica(t testing.TB, of *Server) *Server {
	t.Helper()
	s := Start(t, "--replicaof", "127.0.0.1 "+strconv.Itoa(of.port), "--repl-diskless-sync-delay", "0")
	for deadline := time.Now().Add(20 * time.Second); !strings.Contains(s.CLI(t, "info", "replication"),
		"master_link_status:up"); {
		if time.Now().After(deadline) {
			t.Fatal("the replica does not follow")
		}
		time.Sleep(50 * time.Millisecond)
	}
	return s
}
