package e2e

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"antirobot/servertest"
)

// TestUnitIsHardened: the unit of the packages has the exposure that docs/operating.md promises, and its configuration is good.
func TestUnitIsHardened(t *testing.T) {
	t.Parallel()
	out, err := exec.Command(servertest.Need(t, "systemd-analyze"), "security", "--offline=true", "../deploy/package/antirobot.service").CombinedOutput()
	if err != nil && len(out) == 0 {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`Overall exposure level for antirobot\.service: ([0-9.]+)`).FindSubmatch(out)
	if m == nil {
		t.Fatalf("no level in\n%s", out)
	}
	if level, err := strconv.ParseFloat(string(m[1]), 64); err != nil || level > 2 {
		t.Errorf("exposure level %s\n%s", m[1], out)
	}
	bin, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	check := exec.Command(bin, "check-config", "../deploy/package/antirobot.yaml")
	check.Env = []string{"HOME=/"}
	if said, err := check.CombinedOutput(); err != nil || strings.Contains(string(said), "warning") {
		t.Errorf("of the packages' configuration it says %s", said)
	}
}

// TestPrometheusRules: what is shipped for Prometheus means what it says, and what a gateway shows is in its format.
func TestPrometheusRules(t *testing.T) {
	t.Parallel()
	tool := servertest.Need(t, "promtool", "../.bin/promtool")
	for _, args := range [][]string{{"check", "rules", "rules.yaml"}, {"test", "rules", "rules_test.yaml"}} {
		cmd := exec.Command(tool, args...)
		cmd.Dir = "../deploy/prometheus"
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	g := serve(t, site(t).URL)
	visitor(t).get(g.url + "/")
	check := exec.Command(tool, "check", "metrics")
	check.Stdin = bytes.NewReader(g.api("GET", "/metrics", nil))
	out, err := check.CombinedOutput()
	if bytes.Contains(out, []byte("no help text")) || bytes.Contains(out, []byte("error while linting")) { // it has more to say of style
		t.Errorf("promtool check metrics: %v\n%s", err, out)
	}
}

// TestCompose checks what the files of deploy/compose set in the gateways' environment, and the balancer's file.
func TestCompose(t *testing.T) {
	t.Parallel()
	bin, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	secret := writeFile(t, "secret", strings.Repeat("x", 32))
	for file, gateways := range map[string][]string{
		"compose.yaml": {"antirobot"}, "fleet.yaml": {"gateway-a", "gateway-b", "gateway-c"}, "roles.yaml": {"gateway-a", "gateway-b", "gateway-c", "processor-a", "processor-b"},
	} {
		doc := document(t, deployed(t, "compose/"+file))
		for _, name := range gateways {
			cmd := exec.Command(bin, "check-config")
			cmd.Dir = t.TempDir()
			variables := at(t, doc, "services", name, "environment").(map[string]any)
			for k, v := range variables {
				value := strings.NewReplacer("${MODE:-observe}", "observe", "/run/secrets/antirobot", secret).Replace(fmt.Sprint(v))
				cmd.Env = append(cmd.Env, k+"="+value)
			}
			out, err := cmd.CombinedOutput()
			if err != nil || strings.Contains(string(out), "belongs to no key") || strings.Count(string(out), " is set by ANTIROBOT_") != len(variables) {
				t.Errorf("%s of %s: %v\n%s", name, file, err, out)
			}
			if role, _, named := strings.Cut(name, "-"); file == "roles.yaml" && (!named || variables["ANTIROBOT_ROLE"] != role) {
				t.Errorf("%s of %s has the role %v", name, file, variables["ANTIROBOT_ROLE"])
			}
			if at(t, doc, "services", name, "read_only") != true {
				t.Errorf("%s of %s may write", name, file)
			}
		}
	}
	conf, err := filepath.Abs("../deploy/compose/haproxy.cfg")
	if err != nil {
		t.Fatal(err)
	}
	check := exec.Command(servertest.Need(t, "haproxy"), "-c", "-f", conf)
	check.Env = os.Environ()
	if out, err := check.CombinedOutput(); err != nil {
		t.Errorf("haproxy.cfg: %v\n%s", err, out)
	}
}
