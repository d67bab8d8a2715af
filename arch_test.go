package main

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// allowed is the import table of the design: a package imports only what stands after its name.
var allowed = map[string][]string{
	".":                 {"cmd"},
	"cmd":               {"admin", "alarm", "proxy/h1/hello", "proxy/h3", "cbb", "config", "config/pushed", "demo", "gateway", "identity", "identity/geo", "message", "message/queue", "proxy", "replay", "request", "rules", "rules/requestrules", "rules/sources", "spravka", "store", "verdict", "verdict/bans", "verdict/counter", "verdict/formula", "verdict/learn", "verdict/processor", "verdict/proof", "verdict/training", "verdict/words", "console", "journal", "terminal", "problem", "spelling", "duration"},
	"config/pushed":     {"store"},
	"config":            {"admin", "alarm", "captcha", "cbb", "identity", "identity/geo", "message", "proxy", "proxy/acme", "proxy/h1", "proxy/h1/hello", "proxy/h2", "proxy/traces", "proxy/upstream", "request", "rules", "rules/requestrules", "rules/sources", "spravka", "store/redisstore", "stream", "templates", "verdict", "verdict/counter", "verdict/formula", "verdict/processor", "verdict/label", "journal", "verdict/words", "problem", "spelling", "duration"},
	"gateway":           {"admin", "admin/peers", "alarm", "captcha", "captcha/outcomes", "cbb", "config", "config/pushed", "identity", "identity/geo", "message", "message/queue", "message/second", "message/rpc", "proxy", "proxy/acme", "proxy/h1", "proxy/h1/hello", "proxy/h2", "proxy/h3", "proxy/spoe", "proxy/extauthz", "proxy/traces", "proxy/upstream", "rules", "rules/requestrules", "rules/sources", "spravka", "store", "store/backlog", "store/pebblestore", "store/redisstore", "stream", "templates", "verdict", "verdict/bans", "verdict/counter", "verdict/formula", "verdict/learn", "verdict/processor", "verdict/label", "console", "journal", "terminal", "request", "problem"},
	"request":           {},
	"alarm":             {},
	"problem":           {},
	"spelling":          {},
	"duration":          {},
	"clienttls":         {},
	"spravka":           {"request", "store"},
	"store":             {"store/frames", "varint"},
	"store/frames":      {},
	"svg":               {},
	"terminal":          {},
	"store/storetest":   {"store"},
	"store/pebblestore": {"store"},
	"store/redisstore":  {"store", "clienttls"},
	"store/backlog":     {"store", "store/pebblestore", "varint"},
	"store/behind":      {},

	"store/redisstore/redistest": {"servertest"},

	"stream":            {"store/frames", "varint", "identity", "request", "store", "verdict", "verdict/client", "verdict/label"},
	"stream/streamtest": {"store", "stream"},

	"bounded":            {},
	"templates":          {},
	"journal":            {"identity", "request", "store/pebblestore", "verdict", "verdict/bans"},
	"console":            {"admin", "alarm", "captcha/outcomes", "journal", "request", "svg", "verdict", "verdict/bans", "verdict/words"},
	"identity":           {"bounded", "request", "spravka", "store"},
	"identity/geo":       {},
	"cbb":                {"bounded", "identity", "request", "store", "store/frames", "rules/texts"},
	"captcha":            {"bounded", "captcha/location", "captcha/media", "captcha/outcomes", "captcha/picture", "identity", "request", "spravka", "store", "templates", "problem"},
	"captcha/location":   {"request"},
	"captcha/media":      {},
	"captcha/picture":    {},
	"captcha/outcomes":   {"bounded", "spravka", "store"},
	"verdict":            {"verdict/quota", "bounded", "verdict/bans", "verdict/ledger", "verdict/replicate", "verdict/reputation", "store/behind", "identity", "cbb", "request", "spravka", "store", "rules", "verdict/client", "verdict/label"},
	"verdict/replicate":  {"identity"},
	"verdict/reputation": {"identity", "store", "store/behind", "verdict/replicate"},
	"verdict/ledger":     {"spravka", "store", "store/behind"},
	"verdict/bans":       {"verdict/replicate", "identity"},
	"verdict/client":     {"identity", "request"},
	"verdict/quota":      {"bounded", "identity"},
	"verdict/words":      {},
	"verdict/label":      {"store/behind", "verdict/replicate", "identity", "store"},
	"verdict/learn":      {"identity", "store"},
	"verdict/counter":    {"store"},
	"verdict/formula":    {"verdict/words", "spelling"},
	"verdict/proof":      {"request", "verdict/client"},
	"verdict/processor":  {"verdict/quota", "bounded", "identity", "request", "verdict", "verdict/bans", "verdict/client", "verdict/dwell", "verdict/formula", "rules", "verdict/browsers", "verdict/label", "verdict/learn", "verdict/cohorts", "verdict/proof", "verdict/tally", "verdict/training"},
	"verdict/browsers":   {"identity", "request", "verdict", "verdict/client", "verdict/tally"},
	"verdict/cohorts":    {"identity", "verdict", "verdict/client", "verdict/tally"},
	"verdict/tally":      {"identity"},
	"verdict/dwell":      {},
	"verdict/training":   {"identity", "verdict", "verdict/formula", "verdict/label"},
	"rules":              {"request", "rules/skeleton", "rules/texts", "spelling"},
	"rules/skeleton":     {},
	"rules/texts":        {"request", "rules/skeleton"},
	"rules/sources":      {"bounded", "identity", "store", "verdict/counter", "verdict/formula", "rules", "rules/texts"},
	"rules/requestrules": {"identity", "request", "store", "verdict", "rules", "rules/sources", "rules/texts"},
	"message":            {"store", "rules", "rules/skeleton", "rules/sources", "message/learn", "message/queue", "message/second", "problem"},
	"message/queue":      {"spravka", "store"},
	"message/second":     {"bounded"},
	"message/rpc":        {"message", "rules"},
	"message/inline":     {"message", "request", "rules"},
	"message/learn":      {"request", "rules", "rules/skeleton"},
	"varint":             {},
	// texts with labels, for tests
	"message/learn/corpus": {},

	"replay":          {"captcha", "cbb", "config", "gateway", "identity", "identity/geo", "proxy", "request", "rules/requestrules", "rules/sources", "spravka", "store", "stream", "svg", "verdict", "verdict/client", "verdict/counter", "verdict/formula", "verdict/processor", "verdict/training", "verdict/words"},
	"proxy":           {"bounded", "identity", "request", "verdict", "verdict/bans", "message", "message/queue", "message/second", "rules/texts", "message/inline", "rules", "captcha", "spravka", "templates", "proxy/h1", "proxy/h1/wire", "proxy/insert", "proxy/traces", "proxy/upstream", "verdict/label", "verdict/client", "problem"},
	"proxy/traces":    {"request"},
	"proxy/h1":        {"bounded", "proxy/connlimit", "request", "proxy/h1/hello", "proxy/h1/wire", "proxy/upstream", "proxy/socket"},
	"proxy/h1/hello":  {"request"},
	"proxy/h1/wire":   {"request"},
	"proxy/h2":        {"proxy/h1", "proxy/h2/xconnect", "proxy/streams"},
	"proxy/h3":        {"proxy/h1", "proxy/h1/hello", "proxy/streams"},
	"proxy/streams":   {"request", "proxy/h1", "proxy/h1/wire"},
	"proxy/insert":    {"request"},
	"proxy/asktest":   {"proxy/h1"},
	"proxy/spoe":      {"proxy/h1", "request"},
	"proxy/extauthz":  {"proxy/h1", "request"},
	"proxy/acme":      {"request", "proxy/h1", "store"},
	"proxy/upstream":  {"proxy/socket", "clienttls"},
	"proxy/socket":    {},
	"proxy/connlimit": {},
	"admin/peers":     {"spravka", "store"},
	"admin":           {"admin/peers", "alarm", "proxy/connlimit", "captcha/outcomes", "cbb", "config/pushed", "identity", "journal", "message", "message/queue", "message/rpc", "request", "rules", "spravka", "store", "templates", "verdict", "verdict/bans", "verdict/counter", "verdict/learn", "verdict/processor", "verdict/training", "verdict/label", "verdict/ledger", "verdict/words", "terminal", "spelling", "duration"},
	"demo":            {},
	"servertest":      {},
	"e2e":             {},
	"e2e/blackbox":    {"request", "proxy/h1", "proxy/upstream"},

	// it is initialized before the library that it speaks to, so it imports nothing
	"proxy/h2/xconnect": {},
}

// homes says where a library may be imported from; tests may use any.
var homes = map[string][]string{
	"github.com/valyala/fasthttp":      {"proxy/h1", "admin", "console"},
	"github.com/cockroachdb/pebble/v2": {"store/pebblestore"},
	"golang.org/x/net/http2":           {"proxy/h2"},
	"github.com/quic-go/quic-go":       {"proxy/h3"},
	"github.com/caddyserver/certmagic": {"proxy/acme"},
	"github.com/redis/rueidis":         {"store/redisstore"},
	"github.com/gorilla/securecookie":  {"spravka"},
	"github.com/dchest/captcha":        {"captcha"},
	"github.com/spf13/viper":           {"config"},
	"github.com/coocood/freecache":     {"identity", "cbb", "verdict/counter"},
	"github.com/kljensen/snowball":     {"message/learn"},
	"gonum.org/v1/gonum":               {"verdict/learn"},

	"github.com/coreos/go-oidc/v3": {"console"},
	"golang.org/x/oauth2":          {"console"},

	"github.com/oschwald/maxminddb-golang/v2": {"identity/geo"},
}

// TestArchImports parses every package and fails on an import that the table does not allow, on a package without a
// line in it, and on a library outside its home.
func TestArchImports(t *testing.T) {
	seen := map[string]bool{}
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && name != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" || d.Name() == "node_modules" || name == "tools" || name == "sim"): // modules of their own
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(name, ".go"):
			return nil
		}
		src, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, src, parser.ImportsOnly|parser.ParseComments)
		if err != nil {
			return err
		}
		pkg := filepath.ToSlash(filepath.Dir(name))
		seen[pkg] = true
		may, listed := allowed[pkg]
		if !listed {
			t.Errorf("%s: package %s has no line in the import table", name, pkg)
		}
		for _, spec := range file.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			checkImport(t, name, pkg, imported, may)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(seen) < 10 {
		t.Fatalf("saw only %d packages: the test does not look where the code is", len(seen))
	}
}

func checkImport(t *testing.T, file, pkg, imported string, may []string) {
	isTest := strings.HasSuffix(file, "_test.go")
	if own, ok := strings.CutPrefix(imported, "antirobot/"); ok {
		if isTest || allows(may, own) {
			return
		}
		t.Errorf("%s: %s may not import %s", file, pkg, own)
		return
	}
	for library, in := range homes {
		if (imported == library || strings.HasPrefix(imported, library+"/")) && !isTest && !slices.Contains(in, pkg) {
			t.Errorf("%s: %s belongs in %s", file, library, strings.Join(in, ", "))
		}
	}
}

func allows(may []string, own string) bool {
	for _, m := range may {
		if ok, _ := path.Match(m, own); ok {
			return true
		}
	}
	return false
}
