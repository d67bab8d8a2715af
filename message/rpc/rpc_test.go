package rpc

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"antirobot/message"
	"antirobot/rules"
)

// TestAPI is a row for every method and every way in which it fails. want is the result, or the code and a part of the
// message.
func TestAPI(t *testing.T) {
	s, _ := newSystem(t, family())
	setRules(t, s, "blog", "do ruleFalse() mark a stop as BLOG")
	for _, c := range []struct{ name, method, params, want string }{
		{"version", "sf.info.version", `{}`, `{"version":"1.2.3"}`},
		{"version with a partner", "sf.info.version", `{"partner":null}`, `{"version":"1.2.3"}`},
		{"version without parameters", "sf.info.version", ``, `{"version":"1.2.3"}`},
		{"version, unknown parameter", "sf.info.version", `{"x":1}`, `1004: there is no parameter "x"`},

		{"list", "sf.domain.list", `{"partner":null}`, `{"properties":["answer","disk","greeting","messageAnalyzer","messageDomain","messageLog","model","old","storage"]}`},
		{"list is of the own ones", "sf.domain.list", `{"partner":null,"domain":"forum"}`, `{"properties":["greeting","messageAnalyzer","storage"]}`},
		{"list of nothing", "sf.domain.list", `{"partner":null,"domain":"blog"}`, `{"properties":["messageAnalyzer"]}`},
		{"children", "sf.domain.children", `{"partner":null}`, `{"children":["blog","forum"]}`},
		{"no children", "sf.domain.children", `{"partner":null,"domain":"forum"}`, `{"children":[]}`},
		{"path", "sf.domain.children", `{"partner":null,"domain":"blog/comments"}`, `{"children":[]}`},
		{"path of empty parts", "sf.domain.children", `{"partner":null,"domain":"//blog///comments/"}`, `{"children":[]}`},
		{"root by the empty path", "sf.domain.children", `{"partner":null,"domain":""}`, `{"children":["blog","forum"]}`},
		{"root by slashes", "sf.domain.children", `{"partner":null,"domain":"///"}`, `{"children":["blog","forum"]}`},
		{"root by null", "sf.domain.children", `{"partner":null,"domain":null}`, `{"children":["blog","forum"]}`},
		{"no such path", "sf.domain.children", `{"partner":null,"domain":"blog/no"}`, `2002: there is no domain "blog/no"`},
		{"no way up", "sf.domain.children", `{"partner":null,"domain":"blog/../forum"}`, `2002: `},
		{"dot is not a path", "sf.domain.children", `{"partner":null,"domain":"."}`, `2002: `},
		{"path of a wrong type", "sf.domain.children", `{"partner":null,"domain":5}`, `1005: the parameter domain is a whole number`},

		{"get a number", "sf.domain.get", `{"partner":null,"name":"answer"}`, `{"classname":"int","interfaces":[],"repr":"42"}`},
		{"get a string", "sf.domain.get", `{"partner":null,"name":"greeting"}`, `{"classname":"str","interfaces":[],"repr":"\"hi\""}`},
		{"get inherits", "sf.domain.get", `{"partner":null,"domain":"blog/comments","name":"greeting"}`, `{"classname":"str","interfaces":[],"repr":"\"hi\""}`},
		{"get overrides", "sf.domain.get", `{"partner":null,"domain":"forum","name":"greeting"}`, `{"classname":"str","interfaces":[],"repr":"\"hello\""}`},
		{"get a storage", "sf.domain.get", `{"partner":null,"name":"storage"}`, `{"classname":"DomainMemoryStorage","interfaces":["IExpirableStorage","IUnreliableStorage","IDomainBindable"],"repr":"<DomainMemoryStorage storage>"}`},
		{"get a model", "sf.domain.get", `{"partner":null,"name":"model"}`, `{"classname":"BayesModel","interfaces":["IModel","IDomainBindable"],"repr":"<BayesModel model>"}`},
		{"get a log", "sf.domain.get", `{"partner":null,"name":"messageLog"}`, `{"classname":"MessageLog","interfaces":["IMessageLog","IDomainBindable"],"repr":"<MessageLog messageLog>"}`},
		{"get a firewall", "sf.domain.get", `{"partner":null,"name":"messageAnalyzer"}`, `{"classname":"Firewall","interfaces":["IFirewall","IDomainBindable"],"repr":"<Firewall messageAnalyzer>"}`},
		{"get the message domain", "sf.domain.get", `{"partner":null,"name":"messageDomain"}`, `{"classname":"MessageDomain","interfaces":["IMessageDomain","IDomainBindable"],"repr":"<MessageDomain text:Text, from:UniqueInt, ip:IP>"}`},
		{"get nothing", "sf.domain.get", `{"partner":null,"name":"no"}`, `2003: the domain has no property "no"`},
		{"get without a name", "sf.domain.get", `{"partner":null}`, `1001: the parameter name is missing`},

		{"input", "sf.message.input", `{"partner":null,"message":{"text":"x"}}`, `{"result":"UNKNOWN"}`},
		{"input below", "sf.message.input", `{"partner":null,"domain":"blog/comments","message":{"text":"x","age":5}}`, `{"result":"BLOG"}`},
		{"input, rules of the config", "sf.message.input", `{"partner":null,"domain":"forum","message":{"text":"x"}}`, `{"result":"FORUM"}`},
		{"input, no attributes", "sf.message.input", `{"partner":null,"message":{}}`, `{"result":"UNKNOWN"}`},
		{"debug", "sf.message.input", `{"partner":null,"domain":"blog","message":{},"debug":true}`, `{"log":"line 1: do ruleFalse() mark a: FALSE, marked\nline 1: stop as BLOG\n","result":"BLOG"}`},
		{"debug false", "sf.message.input", `{"partner":null,"domain":"blog","message":{},"debug":false}`, `{"result":"BLOG"}`},
		{"debug of a wrong type", "sf.message.input", `{"partner":null,"message":{},"debug":"yes"}`, `1005: the parameter debug is a text`},
		{"message missing", "sf.message.input", `{"partner":null}`, `1001: the parameter message is missing`},
		{"message of a wrong type", "sf.message.input", `{"partner":null,"message":"x"}`, `1005: the parameter message is a text`},
		{"message null", "sf.message.input", `{"partner":null,"message":null}`, `1005: `},
		{"unknown attribute", "sf.message.input", `{"partner":null,"message":{"text":"x","title":"y"}}`, `2003: messages of this domain have no attribute "title"`},
		{"text from a number", "sf.message.input", `{"partner":null,"message":{"text":1212}}`, `1005: attribute text: a whole number is not a text`},
		{"text null", "sf.message.input", `{"partner":null,"message":{"text":null}}`, `1005: `},
		{"text list", "sf.message.input", `{"partner":null,"message":{"text":["x"]}}`, `1005: `},
		{"number from a text", "sf.message.input", `{"partner":null,"message":{"from":"1212"}}`, `1005: attribute from: a text is not a whole number`},
		{"number from a fraction", "sf.message.input", `{"partner":null,"message":{"from":12.5}}`, `1005: `},
		{"number from a boolean", "sf.message.input", `{"partner":null,"message":{"from":true}}`, `1005: `},
		{"number too big", "sf.message.input", `{"partner":null,"message":{"from":99999999999999999999}}`, `1005: `},
		{"negative number", "sf.message.input", `{"partner":null,"domain":"blog/comments","message":{"age":-5}}`, `{"result":"BLOG"}`},
		{"address", "sf.message.input", `{"partner":null,"message":{"ip":"10.0.0.1"}}`, `{"result":"UNKNOWN"}`},
		{"IPv6", "sf.message.input", `{"partner":null,"message":{"ip":"2001:db8::1"}}`, `{"result":"UNKNOWN"}`},
		{"address that is none", "sf.message.input", `{"partner":null,"message":{"ip":"10.0.0.256"}}`, `1005: `},
		{"address from a number", "sf.message.input", `{"partner":null,"message":{"ip":10}}`, `1005: `},

		{"partner missing", "sf.message.input", `{"message":{}}`, `1001: the parameter partner is missing`},
		{"partner not null", "sf.message.input", `{"partner":"me","message":{}}`, `2001: not authorised`},
		{"partner struct", "sf.domain.list", `{"partner":{"name":"default","secret":""}}`, `2001: not authorised`},
		{"unknown parameter", "sf.domain.list", `{"partner":null,"depth":1}`, `1004: there is no parameter "depth"`},
		{"unknown before missing", "sf.domain.get", `{"partner":null,"depth":1}`, `1004: `},
		{"unknown command", "sf.domain.drop", `{"partner":null}`, `1002: there is no command "sf.domain.drop"`},
		{"empty command", "", `{}`, `1002: `},

		{"rules.get", "sf.message.firewall.rules.get", `{"partner":null,"domain":"blog","firewall":"messageAnalyzer"}`, `{"rules":"do ruleFalse() mark a stop as BLOG"}`},
		{"rules.get of none", "sf.message.firewall.rules.get", `{"partner":null,"firewall":"messageAnalyzer"}`, `{"rules":""}`},
		{"rules.get without", "sf.message.firewall.rules.get", `{"partner":null}`, `1001: the parameter firewall is missing`},
		{"rules.get of no property", "sf.message.firewall.rules.get", `{"partner":null,"firewall":"no"}`, `2003: `},
		{"rules.get of a model", "sf.message.firewall.rules.get", `{"partner":null,"firewall":"model"}`, `2007: the property "model" is not a firewall`},
		{"rules.set of a model", "sf.message.firewall.rules.set", `{"partner":null,"firewall":"model","rules":"stop as X"}`, `2007: `},
		{"rules.set empty", "sf.message.firewall.rules.set", `{"partner":null,"firewall":"messageAnalyzer","rules":""}`, `2008: line 1, column 1: there is no rule`},
		{"rules.set wrong", "sf.message.firewall.rules.set", `{"partner":null,"firewall":"messageAnalyzer","rules":"stop SPAM"}`, `2008: line 1, column 6: expected "as", found "SPAM"`},
		{"rules.set unknown rule", "sf.message.firewall.rules.set", `{"partner":null,"domain":"forum","firewall":"messageAnalyzer","rules":"do lenghtCheck()"}`, `2008: line 1, column 4: there is no rule lenghtCheck; did you mean lengthCheck?`},
		{"rules.set look-ahead", "sf.message.firewall.rules.set", `{"partner":null,"firewall":"messageAnalyzer","rules":"do regexpCheck(regexp=\"a(?=b)\")"}`, `2008: line 1, column 25: regexp: look-ahead`},
		{"rules.set counters that are not there", "sf.message.firewall.rules.set", `{"partner":null,"firewall":"messageAnalyzer","rules":"do counterCheck(type=1, limit=1)"}`, `2008: line 1, column 4: counterCheck can't be used here`},
		{"rules.set keeps the old ones", "sf.message.firewall.rules.get", `{"partner":null,"domain":"forum","firewall":"messageAnalyzer"}`, `{"rules":"stop as FORUM"}`},
		{"rules.set without", "sf.message.firewall.rules.set", `{"partner":null,"firewall":"messageAnalyzer"}`, `1001: the parameter rules is missing`},
		{"rules.set of a number", "sf.message.firewall.rules.set", `{"partner":null,"firewall":"messageAnalyzer","rules":5}`, `1005: `},
		{"rules.check", "sf.message.firewall.rules.check", `{"partner":null,"firewall":"messageAnalyzer","rules":"stop as X"}`, `{}`},
		{"rules.check says what rules.set does", "sf.message.firewall.rules.check", `{"partner":null,"firewall":"messageAnalyzer","rules":"do noSuchRule(x=1)"}`, `2008: line 1, column 4: there is no rule noSuchRule`},
		{"rules.check warns", "sf.message.firewall.rules.check", `{"partner":null,"firewall":"messageAnalyzer","rules":"if spma stop as X do lengthCheck(attribute=\"txt\")"}`, `{"warnings":["line 1, column 4: no rule above sets the tag spma","line 1, column 44: there is no attribute txt"]}`},
		{"rules.check wrong", "sf.message.firewall.rules.check", `{"partner":null,"firewall":"messageAnalyzer","rules":"\n stop SPAM"}`, `2008: line 2, column 7`},
		{"rules.check empty", "sf.message.firewall.rules.check", `{"partner":null,"firewall":"messageAnalyzer","rules":" "}`, `2008: `},
		{"rules.check of no firewall", "sf.message.firewall.rules.check", `{"partner":null,"firewall":"answer","rules":"stop as X"}`, `2007: `},

		{"fetch nothing", "sf.message.log.fetch", `{"partner":null,"log":"messageLog"}`, `{"entries":[]}`},
		{"fetch of no property", "sf.message.log.fetch", `{"partner":null,"log":"no"}`, `2003: `},
		{"fetch of no log", "sf.message.log.fetch", `{"partner":null,"log":"storage"}`, `2009: the property "storage" is not a message log`},
		{"fetch without", "sf.message.log.fetch", `{"partner":null}`, `1001: the parameter log is missing`},
		{"fetch with a text", "sf.message.log.fetch", `{"partner":null,"log":"messageLog","first":"x"}`, `1005: `},
		{"fetch with a fraction of an id", "sf.message.log.fetch", `{"partner":null,"log":"messageLog","firstID":1.5}`, `1005: `},
		{"fetch with all", "sf.message.log.fetch", `{"partner":null,"log":"messageLog","first":1,"last":1700000999.5,"firstID":1}`, `{"entries":[]}`},

		{"classify", "sf.model.classify", `{"partner":null,"model":"model","message":{"text":"unknown words"}}`, knowsTooLittle},
		{"classify of no model", "sf.model.classify", `{"partner":null,"model":"storage","message":{"text":"x"}}`, `2005: the property "storage" is not a model`},
		{"classify of no property", "sf.model.classify", `{"partner":null,"model":"no","message":{"text":"x"}}`, `2003: `},
		{"classify without the text", "sf.model.classify", `{"partner":null,"model":"model","message":{"from":5}}`, `2006: the message has no attribute "text"`},
		{"classify another attribute", "sf.model.classify", `{"partner":null,"domain":"blog/comments","model":"model","message":{"title":"x"},"text_attribute":"title"}`, knowsTooLittle},
		{"classify a number", "sf.model.classify", `{"partner":null,"model":"model","message":{"from":5},"text_attribute":"from"}`, `1005: `},
		{"classify, unknown attribute", "sf.model.classify", `{"partner":null,"model":"model","message":{"x":5}}`, `2003: `},
		{"train", "sf.model.train", `{"partner":null,"model":"model","message":{"text":"hello friend"},"marker":"good"}`, `{}`},
		{"train with an unknown marker", "sf.model.train", `{"partner":null,"model":"model","message":{"text":"x"},"marker":"ham"}`, `1005: the marker "ham" is neither "good" nor "bad"`},
		{"rules that train with an unknown marker", "sf.message.firewall.rules.set", `{"partner":null,"firewall":"messageAnalyzer","rules":"do modelTrain(marker=\"ham\")"}`, `2008: line 1, column 4: modelTrain: the marker "ham" is neither "good" nor "bad"`},
		{"train without a marker", "sf.model.train", `{"partner":null,"model":"model","message":{"text":"x"}}`, `1001: the parameter marker is missing`},
		{"train of no model", "sf.model.train", `{"partner":null,"model":"messageLog","message":{"text":"x"},"marker":"bad"}`, `2005: `},
		{"train without the text", "sf.model.train", `{"partner":null,"model":"model","message":{},"marker":"bad"}`, `2006: `},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := jsonCall(t, s, c.method, c.params)
			if strings.HasPrefix(c.want, "{") && got != c.want || !strings.HasPrefix(got, c.want) {
				t.Errorf("%s %s\n got %s\nwant %s", c.method, c.params, got, c.want)
			}
			if fromXML := xmlCall(t, s, c.method, c.params); fromXML != got {
				t.Errorf("XML-RPC answers differently\n got %s\nwant %s", fromXML, got)
			}
		})
	}
}

// xmlCall sends the same request over XML-RPC.
func xmlCall(t *testing.T, s *world, method, params string) string {
	t.Helper()
	body := []byte("<?xml version='1.0'?>\n<methodCall>\n<methodName>" + method + "</methodName>\n<params>\n")
	if params != "" {
		v, err := parseJSON([]byte(params))
		if err != nil {
			t.Fatal(err)
		}
		body = append(appendXML(append(body, "<param>\n"...), v), "</param>"...)
	}
	body = append(body, "</params></methodCall>"...)
	status, contentType, answer := s.Serve(context.Background(), XML, body, Auth{})
	if status != 200 || contentType != "text/xml; charset=utf-8" {
		t.Fatalf("status %d, %s", status, contentType)
	}
	return readResponse(t, answer)
}

// readResponse reads a methodResponse with the request's reader and returns it as jsonCall does.
func readResponse(t *testing.T, answer []byte) string {
	t.Helper()
	text := string(answer)
	fault := strings.Contains(text, "<methodResponse><fault>")
	text = strings.Replace(text, "<methodResponse>", "<methodCall><methodName>x</methodName>", 1)
	text = strings.Replace(text, "</methodResponse>", "</methodCall>", 1)
	if fault {
		text = strings.Replace(text, "<fault>", "<params><param>", 1)
		text = strings.Replace(text, "</fault>", "</param></params>", 1)
	}
	req, err := decodeXML([]byte(text))
	if err != nil {
		t.Fatalf("%s: %v", answer, err)
	}
	if fault {
		code, _ := req.params["faultCode"].(int64)
		message, _ := req.params["faultString"].(string)
		return outcome(t, encodeJSON(request{}, nil, rules.Faultf(int(code), "%s", message)))
	}
	return outcome(t, encodeJSON(request{}, req.params, nil))
}

// TestEnvelope is what stands around a JSON request.
func TestEnvelope(t *testing.T) {
	s, _ := newSystem(t, message.DefaultConfig())
	f := func(body, want string) {
		t.Helper()
		status, _, answer := s.Serve(context.Background(), JSON, []byte(body), Auth{})
		if got := string(answer); status != 200 || !strings.HasPrefix(got, want) {
			t.Errorf("%s\n got %s\nwant %s", body, got, want)
		}
	}
	f(`{"service":null,"method":"sf.info.version","id":11,"params":[{}]}`, `{"result":{"version":"1.2.3"},"id":11}`)
	f(`{"method":"sf.info.version","id":"a<b","params":[{}]}`, `{"result":{"version":"1.2.3"},"id":"a<b"}`)
	f(`{"method":"sf.info.version"}`, `{"result":{"version":"1.2.3"},"id":null}`)
	f(`{"method":"sf.info.version","params":[]}`, `{"result":{"version":"1.2.3"},"id":null}`)
	f(`{"method":"sf.info.version","id":1,"params":{}}`, `{"result":{"version":"1.2.3"},"id":1}`)
	f(`{"method":"sf.info.version","id":1,"params":{"x":1}}`, `{"error":{"origin":"Fault","code":1004`)
	f(`{"method":"sf.info.version","id":1,"params":5}`, `{"error":{"origin":"Fault","code":1005,"message":"params is a whole number, not a list"},"id":1}`)
	f(`{"jsonrpc":"2.0","method":"sf.info.version","id":1,"params":{}}`, `{"jsonrpc":"2.0","result":{"version":"1.2.3"},"id":1}`)
	f(` [{"method":"sf.info.version","id":1},{"jsonrpc":"2.0","method":"sf.info.version"},5,{"method":"no","id":"z"}]`,
		`[{"result":{"version":"1.2.3"},"id":1},{"error":{"origin":"Fault","code":99000,"message":"the request is a whole number, not a struct"},"id":null},{"error":{"origin":"Fault","code":1002,"message":"there is no command \"no\""},"id":"z"}]`)
	f(`[`+strings.Repeat(`{},`, 1000)+`{}]`, `{"error":{"origin":"Fault","code":99000,"message":"the batch has 1001 requests, more than 1000"},"id":null}`)
	f(`{"method":"sf.info.version","id":1,"params":[{},{}]}`, `{"error":{"origin":"Fault","code":1005`)
	f(`{"method":"sf.info.version","id":1,"params":[5]}`, `{"error":{"origin":"Fault","code":1005`)
	f(`{"method":5,"id":1}`, `{"error":{"origin":"Fault","code":1002`)
	f(`{"id":1}`, `{"error":{"origin":"Fault","code":1002`)
	f(`{"Method":"sf.info.version","id":1}`, `{"error":{"origin":"Fault","code":1002`)
	f(`[]`, `{"error":{"origin":"Fault","code":99000`)
	f(``, `{"error":{"origin":"Fault","code":99000`)
	f(`{`, `{"error":{"origin":"Fault","code":99000`)
	f(`{"method":"sf.info.version"} x`, `{"error":{"origin":"Fault","code":99000`)
	f("{\"method\":\"\xff\"}", `{"error":{"origin":"Fault","code":99000,"message":"the request is not JSON: the text is not UTF-8"},"id":null}`)
	f(strings.Repeat(`[`, 100), `{"error":{"origin":"Fault","code":99000`)
	f(`{"method":"sf.info.version","params":[{"a":[`+strings.Repeat(`0,`, 30_000)+`0]}]}`, `{"error":{"origin":"Fault","code":99000`)
	status, _, _ := s.Serve(context.Background(), JSON, make([]byte, 2<<20), Auth{})
	if status != 413 {
		t.Errorf("a huge request: %d", status)
	}
}

func TestMulticall(t *testing.T) {
	s, _ := newSystem(t, message.DefaultConfig())
	call := func(name, params string) string {
		return `<value><struct><member><name>methodName</name><value>` + name + `</value></member><member><name>params</name><value><array><data>` + params + `</data></array></value></member></struct></value>`
	}
	body := `<methodCall><methodName>system.multicall</methodName><params><param><value><array><data>` + call("sf.info.version", "") +
		call("sf.no", "") + call("sf.info.version", "<value>x</value>") + `<value>5</value></data></array></value></param></params></methodCall>`
	_, _, answer := s.Serve(context.Background(), XML, []byte(body), Auth{})
	got := string(answer)
	if !strings.Contains(got, "<array><data><value><struct><member><name>version</name>") || strings.Count(got, "faultCode") != 3 || strings.Contains(got, "<fault>") {
		t.Errorf("%s", got)
	}
	_, _, answer = s.Serve(context.Background(), XML, []byte(`<methodCall><methodName>system.multicall</methodName></methodCall>`), Auth{})
	if !strings.Contains(string(answer), "takes one list") {
		t.Errorf("%s", answer)
	}
}

// TestXMLRefused is XML that is no XML-RPC, or hostile.
func TestXMLRefused(t *testing.T) {
	s, _ := newSystem(t, message.DefaultConfig())
	call := func(params string) string {
		return `<methodCall><methodName>sf.info.version</methodName><params>` + params + `</params></methodCall>`
	}
	for _, body := range []string{
		``, `x`, `<a/>`, `<methodCall>`, `<methodCall></methodCall>`,
		`<!DOCTYPE x [<!ENTITY a "b">]>` + call(``),
		`<!DOCTYPE x SYSTEM "http://127.0.0.1/x">` + call(``),
		call(`<param><value><string>&a;</string></value></param>`),
		`<?xml version="1.0" encoding="windows-1251"?>` + call(``),
		`<?php x ?>` + call(``),
		call(`<param><value><int>x</int></value></param>`),
		call(`<param><value><boolean>2</boolean></value></param>`),
		call(`<param><value><double>nan</double></value></param>`),
		call(`<param><value><base64>*</base64></value></param>`),
		call(`<param><value><thing>1</thing></value></param>`),
		call(`<param><value><struct><member><name>a</name></member></struct></value></param>`),
		call(`<param><value><int>1</i4></value></param>`),
		call(`<param>text<value><int>1</int></value></param>`),
		call(`<param><value>x<int>1</int></value></param>`),
		call(``) + `<more/>`,
		call(strings.Repeat(`<param><value><array><data>`, 1) + strings.Repeat(`<value><array><data>`, 200)),
		call(strings.Repeat(`<param><value>x</value></param>`, 30_000)),
		"<methodCall><methodName>\xff</methodName></methodCall>",
	} {
		_, _, answer := s.Serve(context.Background(), XML, []byte(body), Auth{})
		if !strings.Contains(string(answer), "<int>99000</int>") {
			t.Errorf("%.100s: %s", body, answer)
		}
	}
	for _, body := range []string{
		`<methodCall><methodName> sf.info.version </methodName></methodCall>`,
		`<?xml version="1.0" encoding="utf-8"?><!-- c --> <methodCall> <methodName>sf.info.version</methodName> <params/> </methodCall> `,
		call(`<param><value><struct></struct></value></param>`),
		call(`<param><value><struct/></value></param>`),
		call(`<param> <value> <struct> <member> <name>partner</name> <value> <nil/> </value> </member> </struct> </value> </param>`),
		call(`<param><value><struct><member><name>partner</name><value><ex:nil xmlns:ex="e"/></value></member></struct></value></param>`),
	} {
		_, _, answer := s.Serve(context.Background(), XML, []byte(body), Auth{})
		if !strings.Contains(string(answer), "<name>version</name><value><string>1.2.3</string>") {
			t.Errorf("%s: %s", body, answer)
		}
	}
}

func TestXMLTexts(t *testing.T) {
	s, _ := newSystem(t, message.DefaultConfig())
	setRules(t, s, "", "do messageLogPut() do attributeCheck(attribute=\"text\", value=\"a <b> & \\\"c\\\" й\") mark no if no stop as NO stop as YES")
	for _, value := range []string{
		`<string>a &lt;b&gt; &amp; &quot;c&quot; &#1081;</string>`,
		`  a &lt;b> &amp; "c" й  `,
		`<string><![CDATA[a <b> & "c" й]]></string>`,
	} {
		body := `<methodCall><methodName>sf.message.input</methodName><params><param><value><struct><member><name>partner</name><value><nil/></value></member>` +
			`<member><name>message</name><value><struct><member><name>text</name><value>` + value + `</value></member></struct></value></member></struct></value></param></params></methodCall>`
		_, _, answer := s.Serve(context.Background(), XML, []byte(body), Auth{})
		if !strings.Contains(string(answer), "<string>YES</string>") {
			t.Errorf("%s: %s", value, answer)
		}
	}
	_, _, answer := s.Serve(context.Background(), XML, []byte(`<methodCall><methodName>sf.message.log.fetch</methodName><params><param><value><struct><member><name>partner</name><value><nil/></value></member><member><name>log</name><value>messageLog</value></member></struct></value></param></params></methodCall>`), Auth{})
	if n := strings.Count(string(answer), "a &lt;b&gt; &amp; &#34;c&#34; й"); n != 3 {
		t.Errorf("%d texts in %s", n, answer)
	}
	if got := string(appendXML(nil, "a\x00\r\n\x1f")); got != "<value><string>a\ufffd&#xD;&#xA;\ufffd</string></value>" {
		t.Errorf("escaped %q", got)
	}
}

func TestResultFieldMissing(t *testing.T) {
	s, _ := newSystem(t, message.DefaultConfig())
	s.methods["sf.broken"] = &method{open: true, result: []string{"x"}, run: func(*call, context.Context) (map[string]any, error) { return map[string]any{}, nil }}
	s.methods["sf.panics"] = &method{open: true, run: func(*call, context.Context) (map[string]any, error) { panic("oh") }}
	if got := jsonCall(t, s, "sf.broken", `{}`); !strings.HasPrefix(got, "99002: ") {
		t.Error(got)
	}
	if got := jsonCall(t, s, "sf.panics", `{}`); got != "99000: unexpected error" {
		t.Error(got)
	}
}

// FuzzJSON and FuzzXML check that nothing panics and that every answer can be read.
func FuzzJSON(f *testing.F) {
	s, _ := newSystem(f, family())
	f.Add([]byte(`{"service":null,"method":"sf.message.input","id":1,"params":[{"partner":null,"message":{"text":"x","from":1,"ip":"::1"},"debug":true}]}`))
	f.Add([]byte(`{"method":"sf.message.log.fetch","params":[{"partner":null,"log":"messageLog","first":1e300,"last":-5,"firstID":9}]}`))
	f.Add([]byte(`{"method":"sf.model.classify","params":[{"partner":null,"model":"old","message":{"text":"\ud800 x"}}]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		_, _, answer := s.Serve(context.Background(), JSON, body, Auth{})
		if !json.Valid(answer) {
			t.Fatalf("%q: %q", body, answer)
		}
	})
}

func FuzzXML(f *testing.F) {
	s, _ := newSystem(f, family())
	f.Add([]byte(`<?xml version="1.0"?><methodCall><methodName>sf.message.input</methodName><params><param><value><struct><member><name>partner</name><value><nil/></value></member><member><name>message</name><value><struct><member><name>text</name><value>a</value></member></struct></value></member></struct></value></param></params></methodCall>`))
	f.Add([]byte(`<methodCall><methodName>x</methodName><params><param><value><array><data><value><double>1.5</double></value><value><base64>YQ==</base64></value></data></array></value></param></params></methodCall>`))
	f.Fuzz(func(t *testing.T, body []byte) {
		_, _, answer := s.Serve(context.Background(), XML, body, Auth{})
		readResponse(t, answer)
	})
}
