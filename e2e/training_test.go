package e2e

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"antirobot/servertest"
)

// tenCommands are the commands of docs/detection.md that lead from nothing to a trained shadow.
func tenCommands(t *testing.T) []string {
	t.Helper()
	doc, err := os.ReadFile("../docs/detection.md")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile("(?s)### From nothing to a shadow.*?```sh\n(.*?)```").FindSubmatch(doc)
	if m == nil {
		t.Fatal("docs/detection.md has no commands")
	}
	lines := strings.Split(strings.TrimSpace(string(m[1])), "\n")
	if len(lines) != 10 {
		t.Fatalf("%d commands", len(lines))
	}
	return lines
}

// customersSite is a shop that knows its customers, by the cookie that they are given.
func customersSite(t *testing.T) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		if r.URL.Path == "/account" {
			w.Header().Set("X-Antirobot-Label", "customer")
		}
		fmt.Fprintf(w, "<p>%s", r.URL.Path)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// TestTenCommands: an operator goes from nothing to a shadow as docs/detection.md says, with labels of every origin.
func TestTenCommands(t *testing.T) {
	t.Parallel()
	bin, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	tools, err := filepath.Abs("../tools/train.py")
	if err != nil {
		t.Fatal(err)
	}
	python := servertest.Python(t, "xgboost")
	commands, dir := tenCommands(t), t.TempDir()
	var g *gateway
	run := func(line string) string {
		t.Helper()
		line = strings.NewReplacer("http://127.0.0.1:3000", customersSite(t), "tools/train.py", python+" "+tools).Replace(line)
		cmd := exec.Command("sh", "-c", line)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "PATH="+filepath.Dir(bin)+":"+os.Getenv("PATH"))
		if g != nil {
			cmd.Args[2] = strings.ReplaceAll(line, "http://127.0.0.1:8079", g.admin)
			cmd.Env = append(cmd.Env, "ANTIROBOT_ADMIN_LISTEN="+strings.TrimPrefix(g.admin, "http://"), "ANTIROBOT_DATA_DIR="+g.dir, "no_proxy=*")
		}
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		if err := cmd.Run(); err != nil {
			t.Fatalf("%s: %v\n%s", line, err, out.String())
		}
		return out.String()
	}
	run(commands[0])
	file := filepath.Join(dir, "antirobot.yaml")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	// Strangers have addresses of their own here, and a customer's cookie counts at once.
	write(t, file, "identity: {trusted_proxies: [127.0.0.1]}\ndefaults: {cookies: {i_min_age: 0s}}\n"+string(text))
	run(commands[1])
	if commands[2] != "antirobot serve --config antirobot.yaml &" {
		t.Fatal(commands[2])
	}
	g = start(t, "serve", "--config", file)
	people := trainingVisitors(t, g)
	write(t, filepath.Join(dir, "customers.csv"), "subject,label\nip:203.0.113.99,human\n")
	eventually(t, "labels of the service", func() bool { // a cookie of this second is too young
		for _, p := range people {
			p.get(g.url + "/account")
		}
		return strings.Count(run("antirobot label list"), "customer") == len(people)
	})
	run(commands[3])
	if list := run("antirobot label list"); !strings.Contains(list, "ip:198.51.100.7") || !strings.Contains(list, "copies prices") {
		t.Errorf("the labels: %s", list)
	}
	eventually(t, "labelled rows", func() bool { // the log is written every few seconds
		for _, p := range people {
			p.get(g.url + "/account")
		}
		run(commands[4])
		rows, err := os.ReadFile(filepath.Join(dir, "labelled.csv"))
		return err == nil && strings.Count(string(rows), ",honeypot,") >= 8 && strings.Count(string(rows), ",customer,") >= len(people) && strings.Contains(string(rows), ",own,")
	})
	if out := run(commands[5]); !strings.Contains(out, "ROC AUC") || !strings.Contains(out, "average precision") {
		t.Errorf("train: %s", out)
	}
	if out := run(commands[6]); !strings.Contains(out, "honeypot") || !strings.Contains(out, "own") {
		t.Errorf("eval: %s", out)
	}
	if out := run("antirobot learn show"); !strings.Contains(out, "not yet") {
		t.Errorf("learn show: %s", out)
	}
	run(commands[7])
	_ = g.cmd.Process.Signal(syscall.SIGHUP)
	eventually(t, "the shadow", func() bool {
		return strings.Contains(run(commands[9]), `antirobot_formula_info{role="shadow",version="xgboost-`)
	})
	if out := run("antirobot label remove ip:198.51.100.7"); !strings.Contains(out, "has no label any more") {
		t.Errorf("remove: %s", out)
	}
}

// trainingVisitors sends people whom the service knows, robots that run into a honeypot, and a person without cookies;
// it returns the people whom the service knows.
func trainingVisitors(t *testing.T, g *gateway) (people []*client) {
	t.Helper()
	const each = 8
	for n := range each {
		robot, person := from(t, fmt.Sprintf("198.51.100.%d", n)), from(t, fmt.Sprintf("203.0.113.%d", n))
		for k := range 4 {
			robot.get(fmt.Sprintf("%s/item/%d?page=%d", g.url, k, k), "User-Agent", "curl/8.1")
			if r := person.get(fmt.Sprintf("%s/p/%d", g.url, k%2)); r.StatusCode != 200 {
				t.Fatalf("%d in mode observe", r.StatusCode)
			}
		}
		robot.get(g.url+"/trap/prices", "User-Agent", "curl/8.1").must(t, 200, "/trap/prices")
		if r := person.get(g.url + "/account"); r.Header.Get("X-Antirobot-Label") != "" {
			t.Error("a visitor sees what the service says of it")
		}
		people = append(people, person)
	}
	for k := range 4 {
		v := from(t, "203.0.113.99")
		v.get(fmt.Sprintf("%s/p/%d", g.url, k%2))
	}
	eventually(t, "factors", func() bool { return g.metric("antirobot_training_vectors_total") >= 4*each })
	return people
}
