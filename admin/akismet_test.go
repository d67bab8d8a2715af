package admin

import (
	"context"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"antirobot/message"
	"antirobot/message/rpc"
	"antirobot/servertest"
	"antirobot/store"
)

const akismetKey = "0123456789ab"

// startAkismet is a listener that plugins may ask, known as gate.example too.
func startAkismet(t *testing.T) (*live, *message.System) {
	t.Helper()
	st := store.NewMemory(nil)
	cfg := message.DefaultConfig()
	cfg.Akismet.Key = akismetKey
	s, err := message.New(cfg, message.Deps{Store: st, Log: zerolog.Nop()})
	if err == nil {
		err = s.Start(context.Background())
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = s.Close(), st.Close() })
	server, err := rpc.New(cfg, rpc.Deps{System: s, Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	own := DefaultConfig()
	own.URL = "https://gate.example"
	l := start(t, own, Deps{Messages: has{struct {
		*message.System
		*rpc.Server
	}{s, server}}, MessagesOpen: true, MaxMessage: 1 << 20})
	return l, s
}

func TestAkismet(t *testing.T) {
	l, s := startAkismet(t)
	d, _ := s.Domain("default", "")
	if err := s.SetRules(context.Background(), d, "messageAnalyzer", `do lengthCheck(maxLength=40) mark long if long stop as BLOCK
do regexpCheck(regexp="(?s).*casino") mark clean if clean stop as OK stop as SPAM`); err != nil {
		t.Fatal(err)
	}
	ask := func(call, host string, form url.Values, want, tip string) {
		t.Helper()
		status, body, head := l.do("POST", "/1.1/"+call, form.Encode(), "-Authorization", "", "Content-Type", "application/x-www-form-urlencoded", "Host", host)
		if body != want || status != 200 || head.Get("X-Akismet-Pro-Tip") != tip {
			t.Errorf("%s %v: %d %q %v, want %q", call, form, status, body, head, want)
		}
	}
	comment := func(more ...string) url.Values {
		v := url.Values{"api_key": {akismetKey}, "blog": {"https://a.example"}, "user_ip": {"192.0.2.1"}, "comment_content": {"see you"}}
		for i := 0; i < len(more); i += 2 {
			v.Set(more[i], more[i+1])
		}
		return v
	}
	ask("verify-key", "gate.example", url.Values{"key": {akismetKey}, "blog": {"https://a.example"}}, "valid", "")
	ask("verify-key", "gate.example", url.Values{"key": {"0123456789ac"}, "blog": {"https://a.example"}}, "invalid", "")
	ask("comment-check", "gate.example", comment(), "false", "")
	ask("comment-check", "gate.example", comment("comment_content", "best casino"), "true", "")
	ask("comment-check", "gate.example", comment("comment_author_url", "http://casino.example"), "true", "")
	ask("comment-check", "gate.example", comment("comment_content", strings.Repeat("long ", 20)), "true", "discard")
	ask("comment-check", "gate.example", comment("comment_content", "casino", "user_role", "administrator"), "false", "")
	ask("comment-check", "gate.example", comment("comment_author", "viagra-test-123"), "true", "")
	ask("comment-check", "gate.example", comment("comment_content", "\xea\xe0\xe7\xe8\xed\xee casino", "blog_charset", "windows-1251"), "true", "")
	ask("comment-check", "gate.example", comment("api_key", "no such key!"), "invalid", "")
	ask("comment-check", "gate.example", comment("user_ip", ""), "Missing required field: user_ip.", "")
	byHost := comment()
	byHost.Del("api_key")
	ask("comment-check", akismetKey+".gate.example", byHost, "false", "")
	ask("submit-spam", "gate.example", comment("comment_content", "cheap pills"), "Thanks for making the web a better place.", "")
	ask("submit-ham", "gate.example", comment(), "Thanks for making the web a better place.", "")
	l.refused(403, "host_refused", "", "POST", "/1.1/verify-key", "", "Host", akismetKey+".evil.example")
	l.refused(403, "host_refused", "", "GET", "/api/status", "", "Host", akismetKey+".gate.example")
	l.refused(405, "method_refused", "", "GET", "/1.1/verify-key", "", "-Authorization", "")
	if status, body, head := l.do("POST", "/1.1/comment-check", comment("user_ip", "x").Encode(), "Content-Type", "application/x-www-form-urlencoded"); status != 500 || body != "error" || head.Get("X-Akismet-Debug-Help") != "1005: user_ip is not an address" {
		t.Errorf("a bad address: %d %s %v", status, body, head)
	}
}

const perlClient = `use Net::Akismet;
my $a = Net::Akismet->new(KEY => $ARGV[0], URL => 'http://blog.example/', SERVICE_HOST => 'gate.example') or die 'key';
my %c = (USER_IP => '192.0.2.7', COMMENT_USER_AGENT => 'Mozilla/5.0', COMMENT_AUTHOR => 'Ann');
print $a->check(%c, COMMENT_CONTENT => 'lunch?'), ' ', $a->check(%c, COMMENT_CONTENT => 'casino!'), ' ';
print $a->spam(%c, COMMENT_CONTENT => 'casino!') ? 1 : 0, $a->ham(%c, COMMENT_CONTENT => 'lunch?') ? 1 : 0, ' ';
print defined(Net::Akismet->new(KEY => 'wrong', URL => 'http://blog.example/', SERVICE_HOST => 'gate.example')) ? 1 : 0;`

const nodeClient = `const dns = require('dns'), port = process.argv[2]
const lookup = dns.lookup // KEY.gate.example is here
dns.lookup = (host, options, done) => lookup('127.0.0.1', options, done)
const { AkismetClient } = require(process.argv[1] + '/akismet-api')
const blog = 'http://blog.example/', host = 'gate.example:' + port, protocol = 'http'
const a = new AkismetClient({ key: process.argv[3], blog, host, protocol })
const c = { ip: '192.0.2.7', useragent: 'Mozilla/5.0', name: 'Ann' }
;(async () => {
  if (!await a.verifyKey()) throw new Error('key')
  const checks = [await a.checkSpam({ ...c, content: 'lunch?' }), await a.checkSpam({ ...c, content: 'casino!' })]
  await a.submitSpam({ ...c, content: 'casino!' })
  await a.submitHam({ ...c, content: 'lunch?' }) // they throw if it was refused
  const wrong = await new AkismetClient({ key: 'wrong', blog, host, protocol }).verifyKey()
  process.stdout.write(checks.join(' ') + ' 11 ' + Number(wrong))
})()`

// TestAkismetClients: libraries that plugins use work after a change of the host name alone.
func TestAkismetClients(t *testing.T) {
	l, s := startAkismet(t)
	d, _ := s.Domain("default", "")
	if err := s.SetRules(context.Background(), d, "messageAnalyzer", `do regexpCheck(regexp="(?s).*casino") mark clean if clean stop as OK stop as SPAM`); err != nil {
		t.Fatal(err)
	}
	_, port, _ := strings.Cut(l.addr, ":")
	for name, client := range map[string]func(t *testing.T) *exec.Cmd{
		"Net::Akismet": func(t *testing.T) *exec.Cmd {
			if exec.Command("perl", "-MNet::Akismet", "-e", "1").Run() != nil {
				servertest.Lack(t, "Net::Akismet", "make deps")
			}
			perl := exec.Command("perl", "-e", perlClient, akismetKey)
			perl.Env = append(os.Environ(), "http_proxy=http://"+l.addr, "no_proxy=", "PERL_LWP_ENV_PROXY=1")
			return perl
		},
		"akismet-api": func(t *testing.T) *exec.Cmd {
			modules := filepath.Dir(servertest.Module(t, "akismet-api"))
			return exec.Command("node", "-e", nodeClient, modules, port, akismetKey)
		},
	} {
		t.Run(name, func(t *testing.T) {
			if out, err := client(t).CombinedOutput(); err != nil || string(out) != "false true 11 0" {
				t.Errorf("%v, %q", err, out)
			}
		})
	}
}
