package e2e

import (
	"bufio"
	"bytes"
	"crypto"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"antirobot/servertest"
)

// sender is a program that posts notices.
type sender struct {
	name string
	path string
	// fields are the lines of the head in the sender's order, without Host and Content-Length.
	fields func(host string, n int, body []byte) []string
	body   func(n int) string
}

const hookSecret = "secret of the hook"

func signedWith(hash crypto.Hash, text string) string {
	h := hmac.New(hash.New, []byte(hookSecret))
	h.Write([]byte(text))
	return hex.EncodeToString(h.Sum(nil))
}

// senders have the fields that the senders of these names document.
func senders(inbox *rsa.PrivateKey) []sender {
	return []sender{
		{
			name: "Stripe", path: "/hooks/stripe",
			body: func(n int) string {
				const event = `{"id":"evt_%024d","object":"event","type":"invoice.paid","data":{"object":{"id":"in_%d"}}}`
				return fmt.Sprintf(event, n, n)
			},
			fields: func(_ string, n int, body []byte) []string {
				at := 1700000000 + n
				mark := signedWith(crypto.SHA256, fmt.Sprintf("%d.%s", at, body))
				return []string{
					"Content-Type: application/json; charset=utf-8",
					"Cache-Control: no-cache",
					"User-Agent: Stripe/1.0 (+https://stripe.com/docs/webhooks)",
					"Accept: */*; q=0.5, application/xml",
					fmt.Sprintf("Stripe-Signature: t=%d,v1=%s,v0=%s", at, mark, signedWith(crypto.SHA256, "test")),
					"Connection: close",
				}
			},
		},
		{
			name: "GitHub", path: "/hooks/github",
			body: func(n int) string {
				const push = `{"ref":"refs/heads/main","after":"%040d","repository":{"full_name":"a/b"},"pusher":{"name":"a"}}`
				return fmt.Sprintf(push, n)
			},
			fields: func(_ string, n int, body []byte) []string {
				return []string{
					"User-Agent: GitHub-Hookshot/a1b2c3d",
					"Accept: */*",
					"Content-Type: application/json",
					fmt.Sprintf("X-GitHub-Delivery: 72d3162e-cc78-11e3-81ab-%012d", n),
					"X-GitHub-Event: push",
					"X-GitHub-Hook-ID: 292430182",
					"X-GitHub-Hook-Installation-Target-ID: 79929171",
					"X-GitHub-Hook-Installation-Target-Type: repository",
					"X-Hub-Signature: sha1=" + signedWith(crypto.SHA1, string(body)),
					"X-Hub-Signature-256: sha256=" + signedWith(crypto.SHA256, string(body)),
				}
			},
		},
		{
			name: "PayPal", path: "/ipn",
			body: func(n int) string {
				const notice = "mc_gross=19.95&protection_eligibility=Eligible&payer_id=LPLWNMTBWMFAY&payment_status=Completed" +
					"&charset=windows-1252&txn_id=%017d&txn_type=express_checkout&mc_currency=USD"
				return fmt.Sprintf(notice, n)
			},
			fields: func(string, int, []byte) []string {
				return []string{
					"Connection: close",
					"User-Agent: PayPal IPN ( https://www.paypal.com/ipn )",
					"Content-Type: application/x-www-form-urlencoded",
				}
			},
		},
		{
			name: "Telegram", path: "/bot/update",
			body: func(n int) string {
				const update = `{"update_id":%d,"message":{"message_id":%d,"from":{"id":1,"is_bot":false},"text":"hello"}}`
				return fmt.Sprintf(update, 10000+n, n)
			},
			fields: func(string, int, []byte) []string {
				return []string{
					"Content-Type: application/json",
					"Connection: keep-alive",
					"X-Telegram-Bot-Api-Secret-Token: secret",
					"Accept-Encoding: gzip, deflate",
				}
			},
		},
		{
			name: "a device", path: "/readings",
			body: func(n int) string { return fmt.Sprintf("sensor=7&t=%d.5", n) },
			fields: func(string, int, []byte) []string {
				return []string{
					"User-Agent: ESP8266HTTPClient",
					"Accept-Encoding: identity;q=1,chunked;q=0.1,*;q=0",
					"Connection: close",
					"Content-Type: application/x-www-form-urlencoded",
				}
			},
		},
		{
			name: "ActivityPub", path: "/inbox",
			body: func(n int) string {
				const note = `{"@context":"https://www.w3.org/ns/activitystreams","id":"https://social.example/%d",` +
					`"type":"Create","actor":"https://social.example/users/a","object":{"type":"Note","content":"hello"}}`
				return fmt.Sprintf(note, n)
			},
			fields: func(host string, n int, body []byte) []string {
				sum := sha256.Sum256(body)
				digest := "SHA-256=" + base64.StdEncoding.EncodeToString(sum[:])
				date := time.Unix(1700000000+int64(n), 0).UTC().Format(http.TimeFormat)
				text := sha256.Sum256([]byte(signedString(host, date, digest)))
				mark, err := rsa.SignPKCS1v15(rand.Reader, inbox, crypto.SHA256, text[:])
				if err != nil {
					panic(err)
				}
				return []string{
					"User-Agent: http.rb/5.1.1 (Mastodon/4.2.1; +https://social.example/)",
					"Date: " + date,
					"Accept-Encoding: gzip",
					"Digest: " + digest,
					"Content-Type: application/activity+json",
					`Signature: keyId="https://social.example/actor#main-key",algorithm="rsa-sha256",` +
						`headers="(request-target) host date digest content-type",` +
						`signature="` + base64.StdEncoding.EncodeToString(mark) + `"`,
					"Connection: Keep-Alive",
				}
			},
		},
	}
}

// signedString is the text that an ActivityPub server signs.
func signedString(host, date, digest string) string {
	const signed = "(request-target): post /inbox\nhost: %s\ndate: %s\ndigest: %s\ncontent-type: application/activity+json"
	return fmt.Sprintf(signed, host, date, digest)
}

// hooks is a service that takes notices and checks their signatures.
type hooks struct {
	inbox *rsa.PublicKey
	mu    sync.Mutex
	got   map[string]map[string]bool // path, body
	wrong []string
}

func (h *hooks) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err == nil {
		err = h.check(r, body)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if err != nil {
		h.wrong = append(h.wrong, err.Error())
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	if h.got[r.URL.Path] == nil {
		h.got[r.URL.Path] = map[string]bool{}
	}
	h.got[r.URL.Path][string(body)] = true
	if r.URL.Path == "/inbox" {
		w.WriteHeader(http.StatusAccepted)
	}
}

func (h *hooks) check(r *http.Request, body []byte) error {
	switch r.URL.Path {
	case "/hooks/stripe":
		mark := r.Header.Get("Stripe-Signature")
		if between(mark, "v1=", ",") != signedWith(crypto.SHA256, between(mark, "t=", ",")+"."+string(body)) {
			return fmt.Errorf("Stripe-Signature %q", mark)
		}
	case "/hooks/github":
		if mark := r.Header.Get("X-Hub-Signature-256"); mark != "sha256="+signedWith(crypto.SHA256, string(body)) {
			return fmt.Errorf("X-Hub-Signature-256 %q", mark)
		}
	case "/inbox":
		text := sha256.Sum256([]byte(signedString(r.Host, r.Header.Get("Date"), r.Header.Get("Digest"))))
		mark, err := base64.StdEncoding.DecodeString(between(r.Header.Get("Signature"), `signature="`, `"`))
		if err != nil {
			return err
		}
		return rsa.VerifyPKCS1v15(h.inbox, crypto.SHA256, text[:], mark)
	}
	return nil
}

// posts sends the notices first to last from an address of this machine. A sender without Connection: close keeps its
// connection.
func (s *sender) posts(t *testing.T, gateway, from string, first, last, perSecond int, answer func(*http.Response)) {
	t.Helper()
	host := strings.TrimPrefix(gateway, "http://")
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}, Timeout: patience}
	pace := time.NewTicker(time.Second / time.Duration(perSecond))
	defer pace.Stop()
	var c net.Conn
	var in *bufio.Reader
	defer func() {
		if c != nil {
			c.Close()
		}
	}()
	for n := first; n <= last; n++ {
		if c == nil {
			var err error
			if c, err = dialer.Dial("tcp", host); err != nil {
				t.Error(err)
				return
			}
			_ = c.SetDeadline(time.Now().Add(patience))
			in = bufio.NewReader(c)
		}
		body := s.body(n)
		head := fmt.Sprintf("POST %s HTTP/1.1\r\nHost: %s\r\nContent-Length: %d\r\n", s.path, host, len(body)) +
			strings.Join(s.fields(host, n, []byte(body)), "\r\n")
		fmt.Fprintf(c, "%s\r\n\r\n%s", head, body)
		r, err := http.ReadResponse(in, &http.Request{Method: http.MethodPost})
		if err != nil {
			t.Errorf("notice %d: %v", n, err)
			return
		}
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			t.Errorf("notice %d: %v", n, err)
		}
		r.Body.Close()
		answer(r)
		if r.Close || strings.Contains(head, "Connection: close") {
			c.Close()
			c = nil
		}
		<-pace.C
	}
}

// TestClientsSenders posts notices of payments, pushes, chats, devices and other servers, many a second. Each arrives.
// A sender that is stopped learns that, and sends the notice again later.
func TestClientsSenders(t *testing.T) {
	t.Parallel()
	inbox, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	service := &hooks{inbox: &inbox.PublicKey, got: map[string]map[string]bool{}}
	s := watchService(t, service)
	g := guarded(t, s.URL)
	all := senders(inbox)
	address := func(i int) string { return fmt.Sprintf("127.0.%d.1", 100+i) }
	const notices, perSecond, more = 160, 32, 100
	// every posts notices of all senders at once, and reports what is wrong with an answer once for each sender.
	every := func(first, last, perSecond int, wrong func(r *http.Response) []string) {
		t.Helper()
		var posting sync.WaitGroup
		for i := range all {
			posting.Go(func() {
				faults := map[string]int{}
				all[i].posts(t, g.url, address(i), first, last, perSecond, func(r *http.Response) {
					for _, fault := range wrong(r) {
						faults[fault]++
					}
				})
				for fault, times := range faults {
					t.Errorf("%s: %d times %s", all[i].name, times, fault)
				}
			})
		}
		posting.Wait()
	}
	arrives := func(r *http.Response) []string {
		if r.StatusCode/100 != 2 {
			return []string{r.Status}
		}
		return nil
	}
	every(1, notices, perSecond, arrives)
	for i := range all {
		if got := len(service.got[all[i].path]); got != notices {
			t.Errorf("%s: of %d notices %d arrived", all[i].name, notices, got)
		}
	}
	if len(service.wrong) > 0 {
		t.Errorf("the service refused %d: %.5q", len(service.wrong), service.wrong)
	}
	g.stoppedNone(t)
	// A sender is not charged for answers that it can't give.
	stopped := func(what string, status int) {
		t.Helper()
		s.take()
		every(notices+1, notices+more, 1000, func(r *http.Response) []string { return faultsOf(r, status) })
		if got := s.take(); len(got) > 0 {
			t.Errorf("%s: the service got %d requests", what, len(got))
		}
	}
	for i := range all {
		g.unban(address(i))
		g.ban("ip:"+address(i), "10m")
	}
	stopped("banned by hand", http.StatusForbidden)
	for i := range all {
		g.unban(address(i))
	}
	g.api("POST", "/api/attack", map[string]string{"for": "10m"})
	stopped("under attack", http.StatusTooManyRequests)
	g.api("DELETE", "/api/attack", nil)
	every(notices+1, notices+more, perSecond, arrives)
}

// TestClientsHourOfNotices replays the log of an hour with a notice a second.
func TestClientsHourOfNotices(t *testing.T) {
	t.Parallel()
	for _, agent := range []string{
		"Stripe/1.0 (+https://stripe.com/docs/webhooks)", "GitHub-Hookshot/a1b2c3d",
		"PayPal IPN ( https://www.paypal.com/ipn )", "-",
	} {
		var log bytes.Buffer
		first := time.Date(2026, 3, 2, 10, 0, 0, 0, time.UTC)
		for n := range 3600 {
			at := first.Add(time.Duration(n) * time.Second).Format("02/Jan/2006:15:04:05 -0700")
			fmt.Fprintf(&log, "198.51.100.7 - - [%s] \"POST /hooks HTTP/1.1\" 200 2 \"-\" %q\n", at, agent)
		}
		code, out := command(t, "replay", writeFile(t, "access.log", log.String()))
		if want := "0 of 3,600 requests would have been stopped"; code != 0 || !strings.Contains(out, want) {
			t.Errorf("%s: status %d, wanted %q:\n%s", agent, code, want, tail(out, 2000))
		}
	}
}

// TestClientsNewsboat reads twenty feeds of a site, and asks again and again whether they have changed.
func TestClientsNewsboat(t *testing.T) {
	t.Parallel()
	newsboat := servertest.Need(t, "newsboat")
	const feeds, reloads = 20, 5
	const feed = `<?xml version="1.0"?><rss version="2.0"><channel><title>%[1]s</title><link>http://%[2]s/</link>` +
		`<description>d</description><item><title>one</title><link>http://%[2]s%[1]s/1</link><guid>%[1]s-1</guid>` +
		`<pubDate>Mon, 02 Mar 2026 10:00:00 GMT</pubDate></item></channel></rss>`
	(&tool{
		service: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("ETag", `"1"`)
			if r.Header.Get("If-None-Match") != "" {
				w.WriteHeader(http.StatusNotModified)
				return
			}
			w.Header().Set("Content-Type", "application/rss+xml")
			fmt.Fprintf(w, feed, r.URL.Path, r.Host)
		}),
		work: func(t *testing.T, url, dir string, round int) (said string, err error) {
			var urls strings.Builder
			for i := range feeds {
				fmt.Fprintf(&urls, "%s/blog/%d/feed.xml\n", url, i)
			}
			write(t, filepath.Join(dir, "urls"), urls.String())
			write(t, filepath.Join(dir, "config"), "download-retries 1\nreload-threads 4\nerror-log \""+dir+"/errors\"\n")
			for range reloads {
				args := []string{"-C", "config", "-u", "urls", "-c", "cache.db", "-x", "reload", "print-unread"}
				out, failed := runTool(t, dir, nil, newsboat, args...)
				if said += out; failed != nil {
					return said, failed
				}
			}
			news := strings.Contains(said, fmt.Sprintf("%d unread articles", feeds))
			if news != (round == 1) {
				t.Errorf("it has all articles: %v\n%s", news, said)
			}
			errors, _ := os.ReadFile(filepath.Join(dir, "errors"))
			return said + string(errors), nil
		},
		done: func(t *testing.T, got []string) {
			if n := count(got, "GET /blog/"); n != reloads*feeds {
				t.Errorf("the service got %d requests", n)
			}
		},
	}).try(t)
}

// TestClientsMonitor: a monitor asks for the same few pages all the time.
func TestClientsMonitor(t *testing.T) {
	t.Parallel()
	s := watchService(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		fmt.Fprintf(w, "<!doctype html><title>%s</title><p>It works.", r.URL.Path)
	}))
	g := guarded(t, s.URL)
	peopleReadPages(t, g.url)
	s.take()
	at, f := overTCP(t, "HTTP/1.1", g.url, false), &fronts{t: t}
	const rounds = 200
	pace := time.NewTicker(10 * time.Millisecond)
	defer pace.Stop()
	for i := range rounds {
		for method, agent := range map[string]string{
			"GET":  "Mozilla/5.0+(compatible; UptimeRobot/2.0; http://www.uptimerobot.com/)",
			"HEAD": "check_http/v2.3.3 (monitoring-plugins 2.3.3)",
		} {
			path := []string{"/", "/shop", "/health"}[i%3]
			got, err := f.send(&at, "127.0.40.1", newRequest(t, method, path, "", "User-Agent", agent))
			if err != nil || got.StatusCode != 200 {
				t.Fatalf("%s %s, the %d. time: %v %d", method, path, i+1, err, got.StatusCode)
			}
		}
		<-pace.C
	}
	if got := s.take(); len(got) != 2*rounds {
		t.Errorf("the service got %d requests", len(got))
	}
	g.stoppedNone(t)
}
