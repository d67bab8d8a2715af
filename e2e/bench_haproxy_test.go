package e2e

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"antirobot/servertest"
)

// BenchmarkBesideHAProxy compares what asking costs: the CPU time of one request in HAProxy and the gateway together, over
// Lua and HTTP and over SPOE, beside HAProxy alone.
func BenchmarkBesideHAProxy(b *testing.B) {
	pairs, requests := 1, 1000
	if v, err := strconv.Atoi(os.Getenv("BENCH_PAIRS")); err == nil && v > 0 {
		pairs, requests = v, 8000
	}
	service := startRole(b, "service", "")
	check, spoe := freePort(b), freePort(b)
	gateway := startGateway(b, "gateway", service.addr, fmt.Sprintf("log: {access: false}\ncheck: {listen: [%q], spoe: [%q]}\n", check, spoe))
	common := []string{deployGateway, check, deployService, service.addr}
	lua := writeFile(b, "antirobot.lua", deployed(b, "haproxy/antirobot.lua", deployGateway, check))
	engine := writeFile(b, "antirobot.spoe", deployed(b, "haproxy-spoe/antirobot.spoe"))
	ways := []process{
		balance(b, "HAProxy alone", deployed(b, "haproxy-spoe/haproxy.cfg", append([]string{
			"    filter spoe engine antirobot config /etc/haproxy/antirobot.spoe\n", "", "    http-request send-spoe-group antirobot check\n", "",
			"    http-request deny deny_status 503 unless { var(txn.antirobot.verdict) -m str human stop }\n", "", "127.0.0.1:9092", spoe,
		}, common...)...)),
		balance(b, "HAProxy with Lua, and the gateway", deployed(b, "haproxy/haproxy.cfg", append([]string{"/etc/haproxy/antirobot.lua", lua}, common...)...)),
		balance(b, "HAProxy with SPOE, and the gateway", deployed(b, "haproxy-spoe/haproxy.cfg", append([]string{
			"/etc/haproxy/antirobot.spoe", engine, "127.0.0.1:9092", spoe,
		}, common...)...)),
	}
	cookies := map[string]string{}
	for i := range ways {
		p := &ways[i]
		if i > 0 {
			p.pids = append(p.pids, gateway.pids...)
			cookies[p.name] = "Cookie: session=s3cr3t; " + browserCookie(b, p.addr) + "\r\n"
		}
		load(b, p.addr, 32, requests, cookies[p.name]) // warm up
	}
	per := map[string][]float64{}
	for i := range pairs {
		for k := range ways {
			p := ways[(i+k)%len(ways)]
			before := p.cpu(b)
			load(b, p.addr, 32, requests, cookies[p.name])
			per[p.name] = append(per[p.name], (p.cpu(b)-before)/float64(requests)*1e6)
		}
	}
	for range b.N { // the work is done above, in turns
	}
	b.ReportMetric(0, "ns/op")
	for _, p := range ways {
		fmt.Printf("  %-40s %6.1f µs CPU per request (median of %d × %d requests, 32 connections)\n", p.name, median(per[p.name]), pairs, requests)
	}
}

// balance runs HAProxy with a file of deploy/, on a free port.
func balance(b *testing.B, name, conf string) process {
	b.Helper()
	addr := freePort(b)
	file := writeFile(b, "haproxy.cfg", "global\n    nbthread 2\n"+strings.Replace(conf, "bind :80", "bind "+addr, 1))
	cmd := exec.Command(servertest.Need(b, "haproxy"), "-db", "-f", file)
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		if c, err := net.Dial("tcp", addr); err == nil {
			c.Close()
			break
		}
		if time.Now().After(end) {
			b.Fatalf("%s does not listen", name)
		}
	}
	return process{name: name, addr: addr, pids: []int{cmd.Process.Pid}}
}
