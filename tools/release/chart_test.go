package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"
)

const chartDir = "deploy/helm/antirobot"

// render returns the documents of the chart by kind and name, or why it can't be rendered.
func render(values map[string]any) (map[string]map[string]any, error) {
	c, err := loader.Load(chartDir)
	if err != nil {
		return nil, err
	}
	merged, err := chartutil.ToRenderValues(c, values, chartutil.ReleaseOptions{Name: "shop", Namespace: "web"}, chartutil.DefaultCapabilities)
	if err != nil {
		return nil, err
	}
	files, err := engine.Render(c, merged)
	if err != nil {
		return nil, err
	}
	docs := map[string]map[string]any{}
	for name, text := range files {
		if strings.HasSuffix(name, ".txt") {
			continue
		}
		dec := yaml.NewDecoder(strings.NewReader(text))
		for {
			var doc map[string]any
			if err := dec.Decode(&doc); err != nil {
				break
			}
			if doc != nil {
				docs[doc["kind"].(string)+" "+doc["metadata"].(map[string]any)["name"].(string)] = doc
			}
		}
	}
	return docs, nil
}

func dig(t *testing.T, doc any, path ...any) any {
	t.Helper()
	for _, p := range path {
		switch k := p.(type) {
		case string:
			doc = doc.(map[string]any)[k]
		case int:
			doc = doc.([]any)[k]
		}
		if doc == nil {
			t.Fatalf("there is no %v", path)
		}
	}
	return doc
}

// valuesOf reads a file of values.
func valuesOf(t *testing.T, file string) map[string]any {
	t.Helper()
	v, err := chartutil.ReadValuesFile(filepath.Join(chartDir, file))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// checkConfig runs check-config on the configuration that a chart makes.
func checkConfig(t *testing.T, bin string, docs map[string]map[string]any) {
	t.Helper()
	text := dig(t, docs["ConfigMap shop-antirobot"], "data", "antirobot.yaml").(string)
	dir := t.TempDir()
	for _, name := range []string{"secret", "password", "token"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(strings.Repeat("x", 32)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, mount := range []string{"antirobot-keys", "antirobot-store", "antirobot-admin"} {
		text = strings.ReplaceAll(text, "/run/secrets/"+mount, dir)
	}
	file := filepath.Join(dir, "antirobot.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(bin, "check-config", file)
	cmd.Env = []string{"HOME=/"}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("check-config: %s\n%s", out, text)
	}
}

// TestChart lints the chart and renders it for one gateway and for three; the configuration that it makes is good.
func TestChart(t *testing.T) {
	bin := built(t)
	for _, file := range []string{"values.yaml", "values-fleet.yaml", "values-roles.yaml"} {
		l := lint.All(chartDir, valuesOf(t, file), "web", true)
		for _, m := range l.Messages {
			if m.Severity >= support.WarningSev {
				t.Errorf("%s: %s", file, m)
			}
		}
	}
	docs, err := render(nil)
	if err != nil {
		t.Fatal(err)
	}
	var kinds []string
	for name := range docs {
		kinds = append(kinds, name)
	}
	slices.Sort(kinds)
	if got := strings.Join(kinds, ", "); got != "ConfigMap shop-antirobot, Service shop-antirobot, Service shop-antirobot-private, StatefulSet shop-antirobot" {
		t.Errorf("one gateway is %s", got)
	}
	checkConfig(t, bin, docs)
	pod := dig(t, docs["StatefulSet shop-antirobot"], "spec", "template", "spec")
	if dig(t, pod, "containers", 0, "securityContext", "readOnlyRootFilesystem") != true || dig(t, pod, "securityContext", "runAsNonRoot") != true {
		t.Error("the pod may do too much")
	}
	if dig(t, docs["StatefulSet shop-antirobot"], "spec", "volumeClaimTemplates", 0, "spec", "resources", "requests", "storage") != "5Gi" {
		t.Error("one gateway has no volume")
	}

	fleet := valuesOf(t, "values-fleet.yaml")
	fleet["serviceMonitor"] = map[string]any{"enabled": true, "tokenSecret": "antirobot-token"}
	fleet["adminTokenSecret"] = "antirobot-token"
	fleet["store"].(map[string]any)["passwordSecret"] = "valkey"
	if docs, err = render(fleet); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"PodDisruptionBudget shop-antirobot", "NetworkPolicy shop-antirobot", "ServiceMonitor shop-antirobot"} {
		if docs[want] == nil {
			t.Errorf("three gateways have no %s", want)
		}
	}
	checkConfig(t, bin, docs)
	if env := dig(t, docs["StatefulSet shop-antirobot"], "spec", "template", "spec", "containers", 0, "env", 1); dig(t, env, "name") != "ANTIROBOT_ADMIN_ADVERTISE" {
		t.Errorf("the gateways can't ask each other: %v", env)
	}
	ingress := dig(t, docs["NetworkPolicy shop-antirobot"], "spec", "ingress").([]any)
	if private := dig(t, ingress[1], "from").([]any); len(ingress) != 2 || len(private) != 2 || dig(t, private[1], "podSelector", "matchLabels", "app.kubernetes.io/instance") != "shop" {
		t.Errorf("the policy is %v", ingress)
	}
	if n := len(dig(t, docs["StatefulSet shop-antirobot"], "spec", "template", "spec", "volumes").([]any)); n != 5 {
		t.Errorf("%d volumes", n)
	}
	for name, values := range map[string]map[string]any{
		"more than one gateway needs store.url": {"replicas": 2},
		"meet in a shared store":                {"processors": map[string]any{"replicas": 1}},
		"need a Secret that wraps their keys":   {"store": map[string]any{"url": "redis://x"}},
		"is shorter than drainDelay and drain":  {"drain": "60s"},
		"replica":                               {"replica": 2},
	} {
		if _, err := render(values); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%v: %v", values, err)
		}
	}
}

// TestChartCheck renders gateways that a balancer asks: it alone reaches their ports.
func TestChartCheck(t *testing.T) {
	bin := built(t)
	values := valuesOf(t, "values-fleet.yaml")
	values["config"] = map[string]any{"check": map[string]any{"listen": []any{":9091"}, "grpc": []any{"0.0.0.0:9093"}, "allowed": []any{"10.0.0.0/8"}}}
	values["networkPolicy"] = map[string]any{"enabled": true, "checkFrom": []any{map[string]any{"podSelector": map[string]any{}}}}
	docs, err := render(values)
	if err != nil {
		t.Fatal(err)
	}
	checkConfig(t, bin, docs)
	rule := dig(t, docs["NetworkPolicy shop-antirobot"], "spec", "ingress", 2)
	if dig(t, rule, "ports", 0, "port") != 9091 || dig(t, rule, "ports", 1, "port") != 9093 || len(dig(t, rule, "from").([]any)) != 1 {
		t.Errorf("the balancer's rule is %v", rule)
	}
}

// TestChartRoles renders gateways and processors: visitors reach the gateways alone, Prometheus all of them.
func TestChartRoles(t *testing.T) {
	bin := built(t)
	docs, err := render(valuesOf(t, "values-roles.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	checkConfig(t, bin, docs)
	f := func(of, role string, replicas int) {
		t.Helper()
		set := docs["StatefulSet "+of]
		pod := dig(t, set, "spec", "template")
		args := dig(t, pod, "spec", "containers", 0, "args").([]any)
		if args[len(args)-2] != "--role" || args[len(args)-1] != role || dig(t, set, "spec", "replicas") != replicas {
			t.Errorf("%s: %v, %v pods", of, args, dig(t, set, "spec", "replicas"))
		}
		labels := dig(t, pod, "metadata", "labels").(map[string]any)
		matches := func(selector any) bool {
			for k, v := range selector.(map[string]any) {
				if labels[k] != v {
					return false
				}
			}
			return true
		}
		if !matches(dig(t, set, "spec", "selector", "matchLabels")) || !matches(dig(t, docs["Service "+of+"-private"], "spec", "selector")) ||
			!matches(dig(t, docs["PodDisruptionBudget "+of], "spec", "selector", "matchLabels")) || !matches(dig(t, docs["NetworkPolicy "+of], "spec", "podSelector", "matchLabels")) {
			t.Errorf("%s: not all that is for it finds it", of)
		}
		if visitors := matches(dig(t, docs["Service shop-antirobot"], "spec", "selector")); visitors != (role == "gateway") {
			t.Errorf("%s: visitors reach it: %v", of, visitors)
		}
	}
	f("shop-antirobot", "gateway", 3)
	f("shop-antirobot-processor", "processor", 2)
}
