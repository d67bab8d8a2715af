package replay

import (
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestVisitorsChooseNoColumns: what a visitor sends stands in its own column, and neither names another as the visitor nor keeps the line, or those after it, from being read.
func TestVisitorsChooseNoColumns(t *testing.T) {
	const envoy = `[2026-03-02T07:15:30Z] "GET / HTTP/1.1" 200 - 0 5120 250 249 "{x}" "{ua}" "id" "shop.example" "10.0.0.1:80"`
	const istio = `[2026-03-02T07:15:30Z] "GET / HTTP/1.1" 200 - via_upstream - "-" 0 5120 250 249 "{x}" "{ua}" "id" "shop.example" "10.0.0.1:80" out 10.0.0.2:5 10.0.0.2:80 203.0.113.7:4 - default`
	envoyLine := func(of, x, agent string) string { return strings.NewReplacer("{x}", x, "{ua}", agent).Replace(of) }
	const forged = `curl" "id" "bank.example" "10.0.0.1:80" out 10.0.0.2:5 10.0.0.2:80 198.51.100.66:4 - default "`
	const quoting = "a quote within what the visitor sent, so that its address is not known"
	reads(t, Envoy, envoyLine(istio, "198.51.100.66", forged), "2026-03-02T07:15:30|203.0.113.7||GET|/|shop.example|User-Agent="+forged+"|250ms|")
	reads(t, Envoy, envoyLine(istio, `198.51.100.66" "curl`, "x"), `2026-03-02T07:15:30|203.0.113.7||GET|/|shop.example|User-Agent=curl" "x|250ms|`)
	reads(t, Envoy, envoyLine(envoy, "203.0.113.7", `say "hi" twice`), `2026-03-02T07:15:30|203.0.113.7||GET|/|shop.example|User-Agent=say "hi" twice|250ms|`)
	reads(t, Envoy, envoyLine(envoy, `198.51.100.66" "curl, 203.0.113.7`, "x"), "has "+quoting)
	reads(t, Envoy, envoyLine(envoy, "203.0.113.7", forged), "has "+quoting)
	if got := whoIs(t, Envoy, "column:11", envoyLine(istio, "203.0.113.7", forged)); got != "" {
		t.Errorf("the visitor is %q", got)
	}

	const fields = "#Fields: date time c-ip cs-method cs-uri-stem sc-status cs(User-Agent)\n"
	for _, agent := range []string{"a\u00a0b", "a\u3000b", "a\tb", "a\u0085b"} {
		reads(t, W3C, fields+"2026-03-02 07:15:30 203.0.113.7 GET / 200 "+agent, "2026-03-02T07:15:30|203.0.113.7||GET|/||user-agent="+agent+"|0s|")
	}

	// a log of nginx that begins with the Host, and a name that was sent with a wrong password
	const combined = `shop.example 203.0.113.7 - - [02/Mar/2026:07:15:30 +0000] "GET / HTTP/1.1" 200 5 "-" "curl"` + "\n"
	const record = "2026-03-02T07:15:30|203.0.113.7||GET|/|shop.example|User-Agent=curl|0s|"
	if got := described(Auto, combined+strings.Replace(combined, "shop.example", "#fields:", 1)+combined); len(got) != 3 || got[0] != record || got[2] != record {
		t.Errorf("after a Host that looks like a directive: %s", got)
	}
	for _, name := range []string{"[", "x [y", "x haproxy[1] y"} {
		line := strings.Replace(combined, "- - [", "- "+name+" [", 1)
		if got := described(Auto, line); len(got) != 1 || got[0] != strings.Replace(record, "203.0.113.7|", "203.0.113.7|"+name, 1) {
			t.Errorf("who calls itself %q: %s", name, got)
		}
	}

	var many strings.Builder
	for i := range 300 {
		many.WriteString(`,"X-` + strconv.Itoa(i) + `":["a"]`)
	}
	caddy := `{"ts":1772435730,"msg":"handled request","request":{"remote_ip":"203.0.113.7","method":"GET","host":"shop.example","uri":"/","headers":{"User-Agent":["curl"]` + many.String() + `}},"size":5,"status":200}`
	if got := described(Caddy, caddy); len(got) != 1 || !strings.HasPrefix(got[0], strings.TrimSuffix(record, "|0s|")) {
		t.Errorf("who sends 300 fields: %.200s", got)
	}
}

// TestBracketsAreLinear: a line full of brackets that never end takes milliseconds, where it took eight seconds.
func TestBracketsAreLinear(t *testing.T) {
	line := []byte(`203.0.113.7 - x [02/Mar/2026:07:15:30 +0000] "GET / HTTP/1.1" 200 5 ` + strings.Repeat("[ ", maxLine/2) + "]x")
	begin := time.Now()
	columnOf(line, func(_, _ int, _ []byte) bool { return false })
	if took := time.Since(begin); took > 2*time.Second {
		t.Errorf("took %s", took)
	}
}
