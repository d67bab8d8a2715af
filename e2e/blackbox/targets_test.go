package blackbox

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/rs/zerolog"

	"antirobot/proxy/h1"
	"antirobot/proxy/upstream"
	"antirobot/request"
	"antirobot/servertest"
)

// launcher starts a proxy in front of one service and returns the address on which it listens.
type launcher func(t *testing.T, serviceURL string) (addr string, stop func())

var ports = servertest.NewPorts(31900, 800) // those before are for package e2e

// awaitListener waits until somebody listens.
func awaitListener(t *testing.T, addr string, died <-chan struct{}, out fmt.Stringer) {
	t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if c, err := net.Dial("tcp", addr); err == nil {
			c.Close()
			return
		}
		select {
		case <-died:
			t.Fatalf("the proxy ended: %s", out)
		default:
		}
	}
	t.Fatalf("nobody listens at %s: %s", addr, out)
}

// run starts a process and returns how to stop it.
func run(t *testing.T, addr string, name string, args ...string) (stop func()) {
	t.Helper()
	out := &servertest.Log{}
	cmd := exec.Command(name, args...)
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	died := make(chan struct{})
	go func() { _ = cmd.Wait(); close(died) }()
	var once sync.Once
	stop = func() { once.Do(func() { end(t, cmd, died, out) }) }
	t.Cleanup(stop)
	awaitListener(t, addr, died, out)
	return stop
}

func end(t *testing.T, cmd *exec.Cmd, died <-chan struct{}, out fmt.Stringer) {
	t.Helper()
	_ = cmd.Process.Signal(os.Interrupt)
	select {
	case <-died:
	case <-time.After(patience):
		_ = cmd.Process.Kill()
		<-died
	}
	if s := out.String(); strings.Contains(s, "panic") || strings.Contains(s, "DATA RACE") {
		t.Errorf("the proxy complained: %s", clip(s))
	}
}

// gateway starts the product's binary as an operator without a configuration file would.
func gateway(bin string) launcher {
	return func(t *testing.T, serviceURL string) (string, func()) {
		addr := ports.Addr(t)
		return addr, run(t, addr, bin, "serve", "--listen", addr, "--admin", ports.Addr(t), "--upstream", serviceURL, "--data-dir", t.TempDir())
	}
}

const nginxConf = `
daemon off; worker_processes 1; pid %[1]s/nginx.pid; error_log %[1]s/error.log; %[4]s
events { worker_connections 2048; }
http {
	access_log off; server_tokens off; default_type ""; types {}
	client_body_temp_path %[1]s/body; proxy_temp_path %[1]s/proxy; fastcgi_temp_path %[1]s/f; uwsgi_temp_path %[1]s/u; scgi_temp_path %[1]s/s;
	large_client_header_buffers 8 64k; client_max_body_size 0; client_header_timeout 3s; lingering_timeout 1s;
	merge_slashes off; underscores_in_headers on; keepalive_timeout 60s;
	map $http_upgrade $up { default ""; ~*^websocket$ websocket; }
	map $up $conn { default ""; websocket upgrade; }
	upstream service { server %[3]s max_fails=0; keepalive 64; }
	server {
		listen %[2]s;
		location / {
			proxy_pass http://service;
			proxy_http_version 1.1; proxy_request_buffering off; proxy_buffering off; proxy_buffer_size 128k; proxy_buffers 8 128k;
			proxy_read_timeout 10s;
			proxy_set_header Host $http_host; proxy_set_header Connection $conn; proxy_set_header Upgrade $up; proxy_set_header HTTP2-Settings "";
			proxy_set_header X-Forwarded-For $remote_addr; proxy_set_header X-Real-IP $remote_addr; proxy_set_header X-Forwarded-Proto $scheme;
			proxy_set_header X-Request-Id $request_id; proxy_set_header Forwarded ""; proxy_set_header X-Forwarded-Host ""; proxy_set_header X-Forwarded-Port "";
			proxy_set_header X-Original-URI ""; proxy_set_header X-Original-URL ""; proxy_set_header X-Rewrite-URL ""; proxy_set_header X-Accel-Redirect ""; proxy_set_header X-Client-IP "";
			proxy_set_header X-Forwarded-Server ""; proxy_set_header X-Forwarded-Prefix ""; proxy_set_header X-Forwarded-Ssl ""; proxy_set_header X-Antirobot-Verdict "";
			proxy_set_header Proxy-Connection ""; proxy_set_header Keep-Alive ""; proxy_set_header TE "";
			proxy_pass_header Server; proxy_pass_header Date;
		}
	}
}
`

// nginx starts nginx as a careful operator would configure it.
func nginx(bin string) launcher {
	return func(t *testing.T, serviceURL string) (string, func()) {
		return startNginx(t, bin, nginxConf, serviceURL)
	}
}

// startNginx starts nginx with a configuration such as nginxConf.
func startNginx(t *testing.T, bin, text, serviceURL string) (addr string, stop func()) {
	t.Helper()
	dir, addr := t.TempDir(), ports.Addr(t)
	user := ""
	if os.Getuid() == 0 {
		user = "user root;"
	}
	conf := filepath.Join(dir, "nginx.conf")
	text = fmt.Sprintf(text, dir, addr, strings.TrimPrefix(serviceURL, "http://"), user)
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return addr, run(t, addr, bin, "-c", conf, "-p", dir)
}

// inProcess starts the gateway's own transport with a handler that forwards everything.
func inProcess(t *testing.T, serviceURL string) (string, func()) {
	ucfg := upstream.DefaultConfig()
	ucfg.URLs = []string{serviceURL}
	set := metrics.NewSet()
	g, err := upstream.New(ucfg, upstream.Deps{Log: zerolog.Nop(), Metrics: set})
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Start(context.Background()); err != nil {
		t.Fatal(err)
	}
	cfg := h1.DefaultConfig()
	log := &servertest.Log{}
	srv, err := h1.NewServer(cfg, h1.Deps{Handler: &forwarder{g: g}, Log: zerolog.New(log).Level(zerolog.WarnLevel), Metrics: set})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(l, h1.ListenerOptions{}) }()
	return l.Addr().String(), func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		_ = srv.Shutdown(ctx)
		if err := <-ended; !errors.Is(err, h1.ErrServerClosed) {
			t.Error(err)
		}
		_ = g.Close()
		if s := log.String(); strings.Contains(s, "panic") {
			t.Errorf("panics were logged: %s", clip(s))
		}
	}
}

// forwarder is the minimum that a gateway does.
type forwarder struct {
	g    *upstream.Group
	last atomic.Uint64
}

func (f *forwarder) ServeExchange(x *h1.Exchange) {
	peer := x.View.Peer.AppendTo(nil)
	_, err := x.Forward(f.g, &h1.ForwardOptions{
		SetFields: []request.Field{
			{Name: []byte("X-Forwarded-For"), Value: peer},
			{Name: []byte("X-Real-IP"), Value: peer},
			{Name: []byte("X-Forwarded-Proto"), Value: []byte("http")},
			{Name: []byte("X-Request-Id"), Value: strconv.AppendUint(nil, f.last.Add(1), 16)},
		},
		Drop: func(name []byte) bool {
			n := strings.ReplaceAll(strings.ToLower(string(name)), "_", "-")
			for _, p := range []string{"x-forwarded-", "forwarded", "x-antirobot-", "x-accel-", "x-original-", "x-rewrite-", "x-client-ip"} {
				if strings.HasPrefix(n, p) {
					return true
				}
			}
			return false
		},
	})
	if status := h1.Status(err); err != nil && status != 0 && !x.Answered() {
		_ = x.Reply(status, nil, nil)
	}
}
