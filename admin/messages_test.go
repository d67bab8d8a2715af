package admin

import (
	"context"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"antirobot/message"
	"antirobot/message/rpc"
	"antirobot/store"
)

const listCall = `{"service":null,"method":"sf.domain.list","id":1,"params":[{"partner":null}]}`

// TestMessagesNeedNoToken: they are answered without it, but never to a web page, and nothing else is.
func TestMessagesNeedNoToken(t *testing.T) {
	g := startGateway(t)
	for _, path := range []string{"/api/json/", "/api/json"} {
		status, text, head := g.do("POST", path, listCall, "-Authorization", "")
		if status != 200 || !strings.Contains(text, `"messageAnalyzer"`) || head.Get("Content-Type") != "application/json; charset=utf-8" {
			t.Errorf("%s: %d %v %s", path, status, head, text)
		}
	}
	for _, kind := range []string{"text/json", "text/json; charset=utf-8", "application/json-rpc"} {
		if status, text, _ := g.do("POST", "/api/json/", listCall, "-Authorization", "", "Content-Type", kind); status != 200 {
			t.Errorf("%s: %d %s", kind, status, text)
		}
	}
	xml := `<?xml version="1.0"?><methodCall><methodName>sf.info.version</methodName><params/></methodCall>`
	if status, text, head := g.do("POST", "/api/xml/", xml, "-Authorization", "", "Content-Type", "text/xml"); status != 200 ||
		!strings.Contains(text, "0.1.0") || head.Get("Content-Type") != "text/xml; charset=utf-8" {
		t.Errorf("XML: %d %v %s", status, head, text)
	}
	g.refused(403, "origin_refused", "", "POST", "/api/json/", listCall, "-Authorization", "", "Origin", "http://evil.example")
	g.refused(403, "host_refused", "", "POST", "/api/xml/", xml, "-Authorization", "", "Host", "evil.example")
	g.refused(405, "method_refused", "", "GET", "/api/json/", "", "-Authorization", "")
	// what a form, a beacon or a service that fetches addresses can be made to send
	for _, kind := range []string{"text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "text/xml", "text/plain; application/json", ""} {
		g.refused(415, "content_type_refused", "", "POST", "/api/json/", listCall, "-Authorization", "", "Content-Type", kind)
	}
	for _, kind := range []string{"text/plain", "application/json", ""} {
		g.refused(415, "content_type_refused", "", "POST", "/api/xml/", xml, "-Authorization", "", "Content-Type", kind)
	}
	g.refused(401, "unauthorized", "", "GET", "/api/messages/usage", "", "-Authorization", "")
	g.refused(401, "unauthorized", "", "POST", "/api/json/more", listCall, "-Authorization", "")
}

// TestMessagesHaveABoundOfTheirOwn: a message longer than 1 MiB is refused in the protocol of messages.
func TestMessagesHaveABoundOfTheirOwn(t *testing.T) {
	g := startGateway(t)
	long := strings.Repeat(" ", 1<<20) + listCall
	if status, text, _ := g.do("POST", "/api/json/", long, "-Authorization", ""); status != 413 || !strings.Contains(text, "99000") {
		t.Errorf("a long message: %d %s", status, text)
	}
}

// withAPI gives a system its API.
func withAPI(s *message.System) Messages {
	server, err := rpc.New(message.DefaultConfig(), rpc.Deps{System: s, Log: zerolog.Nop(), Version: "0.1.0"})
	if err != nil {
		panic(err)
	}
	return struct {
		*message.System
		*rpc.Server
	}{s, server}
}

func TestMessagesAreClosedToOtherMachines(t *testing.T) {
	st := store.NewMemory(nil)
	defer st.Close()
	s, err := message.New(message.DefaultConfig(), message.Deps{Store: st, Log: zerolog.Nop()})
	if err == nil {
		err = s.Start(context.Background())
	}
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	start(t, DefaultConfig(), Deps{Messages: has{withAPI(s)}}).refused(403, "partner_keys_needed", "", "POST", "/api/json/", listCall)
	start(t, DefaultConfig(), Deps{}).refused(501, "not_available", "", "POST", "/api/xml/", "x")
	start(t, DefaultConfig(), Deps{Messages: has{}, MessagesOpen: true}).refused(503, "store_away", "", "POST", "/api/xml/", "x")
	start(t, DefaultConfig(), Deps{}).refused(501, "not_available", "", "GET", "/api/messages/usage", "")
}

func TestPartnersShowKeys(t *testing.T) {
	st := store.NewMemory(nil)
	defer st.Close()
	cfg := message.DefaultConfig()
	cfg.Authorisation, cfg.Partners[0].Secret = "keys", "a secret of ann's own"
	s, err := message.New(cfg, message.Deps{Store: st, Log: zerolog.Nop()})
	if err == nil {
		err = s.Start(context.Background())
	}
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	l := start(t, DefaultConfig(), Deps{Messages: has{withAPI(s)}, MessagesOpen: true})
	for _, c := range []struct{ auth, want string }{
		{"Bearer " + testToken, "2001"}, // the gateway's token is no partner's secret
		{"", "2001"},
		{"Basic ZGVmYXVsdDphIHNlY3JldCBvZiBib2Incw==", "2001"},
		{"Basic !", "2001"},
		{"Basic ZGVmYXVsdDphIHNlY3JldCBvZiBhbm4ncyBvd24=", `"properties"`},
	} {
		if status, text, _ := l.do("POST", "/api/json/", listCall, "Authorization", c.auth); status != 200 || !strings.Contains(text, c.want) {
			t.Errorf("%q: %d %s", c.auth, status, text)
		}
	}
}
