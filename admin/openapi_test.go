package admin

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"antirobot/alarm"
	"antirobot/captcha/outcomes"
	"antirobot/cbb"
	"antirobot/config/pushed"
	"antirobot/journal"
	"antirobot/message"
	"antirobot/message/queue"
	"antirobot/verdict"
	"antirobot/verdict/bans"
	"antirobot/verdict/processor"
)

// description is the API's description as the server answers it, held to the standard.
func description(t *testing.T, l *live) *openapi3.T {
	t.Helper()
	status, text, _ := l.do("GET", "/api/openapi.json", "")
	if status != 200 {
		t.Fatalf("%d %s", status, text)
	}
	doc, err := openapi3.NewLoader().LoadFromData([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if err := doc.Validate(t.Context(), openapi3.EnableMultiError()); err != nil {
		t.Fatal(err)
	}
	return doc
}

var argument = regexp.MustCompile(`\{\w+\}`)

// The description has every route with its method, its role and whether it takes a body, and nothing else.
func TestOpenAPIRoutes(t *testing.T) {
	l := start(t, DefaultConfig(), Deps{})
	doc := description(t, l)
	const open = Role(0)
	want := map[string]route{}
	routes := append(slices.Clone(l.srv.routes),
		route{method: "GET", path: "/healthz"}, route{method: "GET", path: "/readyz"}, route{method: "GET", path: "/metrics"})
	for _, r := range routes {
		want[r.method+" "+r.path] = r
	}
	for path, item := range doc.Paths.Map() {
		for method, op := range item.Operations() {
			name := method + " " + argument.ReplaceAllString(path, "{}")
			r, ok := want[name]
			if !ok {
				t.Errorf("%s is described and does not exist", name)
				continue
			}
			delete(want, name)
			if got := op.RequestBody != nil; got != r.body {
				t.Errorf("%s: a body is described: %v, taken: %v", name, got, r.body)
			}
			if got, role := roleOf(t, op), r.role.String(); r.role != open && got != role {
				t.Errorf("%s: the role %q is described, %s is needed", name, got, role)
			} else if r.role == open && len(*op.Security) != 2 {
				t.Errorf("%s can be called without a token, and that is not described", name)
			}
			if got := parametersOf(op); r.role != open && !slices.Equal(got, parametersTaken(&r)) {
				t.Errorf("%s: the parameters %q are described, %q are taken", name, got, parametersTaken(&r))
			}
			if op.Responses.Default() == nil {
				t.Errorf("%s: no error is described", name)
			}
		}
	}
	for name := range want {
		t.Errorf("%s is not described", name)
	}
}

func parametersOf(op *openapi3.Operation) (names []string) {
	for _, p := range op.Parameters {
		if p.Value.In == openapi3.ParameterInQuery {
			names = append(names, p.Value.Name)
		}
	}
	slices.Sort(names)
	return names
}

func parametersTaken(r *route) []string {
	names := r.takes()
	slices.Sort(names)
	return names
}

// roleOf returns the role in the last of the security requirements of an operation.
func roleOf(t *testing.T, op *openapi3.Operation) string {
	t.Helper()
	if op.Security == nil || len(*op.Security) == 0 {
		t.Fatalf("%s names no role", op.OperationID)
	}
	roles := (*op.Security)[len(*op.Security)-1]["token"]
	if len(roles) != 1 {
		t.Fatalf("%s names the roles %v", op.OperationID, roles)
	}
	return roles[0]
}

// What is described as JSON has the fields of the type that is encoded or decoded, and requires those that are never left out.
func TestOpenAPIFields(t *testing.T) {
	doc := description(t, start(t, DefaultConfig(), Deps{}))
	for name, v := range map[string]any{
		"Problem": problem{}, "Ban": bans.Story{}, "Decision": verdict.Story{}, "Refusal": verdict.Refusal{}, "Place": verdict.StoryPlace{},
		"Handshake": verdict.StoryHello{}, "DecisionEntry": verdict.StoryEntry{}, "Excess": verdict.StoryExcess{}, "Doubt": verdict.StoryDoubt{},
		"PassUsed": verdict.StoryPass{}, "Ruling": verdict.StoryRules{}, "RuleFired": verdict.StoryFired{}, "CountedAs": verdict.StoryCount{},
		"Lists": listsView{}, "ListSource": source{}, "ListEntry": entry{}, "ListBadLine": cbb.BadLine{}, "CrawlerStats": cbb.CrawlerStats{},
		"Label": LabelStory{}, "Allowance": Allowance{}, "Session": processor.SessionView{}, "SessionChallenges": processor.Challenges{},
		"SessionFactor": processor.FactorView{},
		"JournalPage":   journalPage{}, "JournalStory": toldBody{}, "JournalFigurePage": figuresBody{}, "GatewayState": GatewayState{}, "JournalEntry": journal.Entry{}, "JournalCount": journal.Count{}, "JournalFigures": journal.Figures{},
		"JournalTop": topBody{}, "JournalTopOf": topItems{}, "ErasedSubject": erased{},
		"Status": statusBody{}, "StatusElsewhere": statusOf{},

		"AttackState": AttackState{}, "Alarm": Alarm{}, "Webhook": alarm.HookState{},
		"PushState": PushState{}, "PushedVersion": pushed.Version{}, "PushedGateway": pushed.Node{}, "QueueItem": QueueItem{}, "HeaderField": queue.Field{},
		"MessageEntry": shownEntry{}, "ServiceStatus": ServiceStatus{}, "Upstream": Upstream{}, "StoreHealth": StoreHealth{}, "StreamHealth": StreamHealth{}, "ReadyCheck": Check{},
		"Challenges": Challenges{}, "ChallengeCount": outcomes.Count{}, "ChallengeRow": outcomes.Row{},
		"BanPage": listed[*bans.Story]{}, "ListPage": listed[entry]{}, "LabelPage": listed[LabelStory]{},
	} {
		s := doc.Components.Schemas[name].Value
		var fields, required []string
		eachField(reflect.TypeOf(v), func(name string, always bool) {
			fields = append(fields, name)
			if always {
				required = append(required, name)
			}
		})
		sameNames(t, name+": its fields", propertyNames(s), fields)
		sameNames(t, name+": its required fields", s.Required, required)
	}
	for name, v := range map[string]any{"CounterUpdate": updateItem{}, "CounterUnique": uniqueItem{}, "CounterQuery": queryItem{}} {
		var fields []string
		eachField(reflect.TypeOf(v), func(name string, _ bool) { fields = append(fields, name) })
		sameNames(t, name+": its fields", propertyNames(doc.Components.Schemas[name].Value), fields)
	}
	usage := doc.Components.Schemas["MessageUsage"].Value.Properties["usage"].Value.Items.Value
	var fields []string
	eachField(reflect.TypeOf(message.Usage{}), func(name string, _ bool) { fields = append(fields, name) })
	sameNames(t, "the usage of a partner", propertyNames(usage), fields)
}

func propertyNames(s *openapi3.Schema) (names []string) {
	for name := range s.Properties {
		names = append(names, name)
	}
	return names
}

// eachField calls f with the fields of a struct in JSON, those of embedded structs included.
func eachField(t reflect.Type, f func(name string, always bool)) {
	for i := range t.NumField() {
		field := t.Field(i)
		tag := field.Tag.Get("json")
		if field.Anonymous && tag == "" {
			inner := field.Type
			if inner.Kind() == reflect.Pointer {
				inner = inner.Elem()
			}
			eachField(inner, f)
			continue
		}
		name, options, _ := strings.Cut(tag, ",")
		if name != "-" && field.IsExported() {
			f(name, !strings.Contains(options, "omit"))
		}
	}
}

func sameNames(t *testing.T, what string, got, want []string) {
	t.Helper()
	got, want = slices.Clone(got), slices.Clone(want)
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("%s are described as %v, and are %v", what, got, want)
	}
}

// The codes of errors and the names of parameters are those that the code has.
func TestOpenAPINames(t *testing.T) {
	doc := description(t, start(t, DefaultConfig(), Deps{}))
	var src strings.Builder
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") || name == "profile.go" { // profiles are not described
			continue
		}
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		src.Write(text)
	}
	all := func(exprs ...string) (names []string) {
		for _, e := range exprs {
			for _, m := range regexp.MustCompile(e).FindAllStringSubmatch(src.String(), -1) {
				names = append(names, m[1])
			}
		}
		slices.Sort(names)
		return slices.Compact(names)
	}
	var codes []string
	for _, v := range doc.Components.Schemas["Problem"].Value.Properties["code"].Value.Enum {
		codes = append(codes, v.(string))
	}
	sameNames(t, "the codes of errors", codes, all(`Code: +"(\w+)"`, `\.Code(?:, \S+)? = "(\w+)"`))

	var params []string
	for _, item := range doc.Paths.Map() {
		for _, op := range item.Operations() {
			for _, p := range op.Parameters {
				if p.Value.In != openapi3.ParameterInPath {
					params = append(params, p.Value.Name)
				}
			}
		}
	}
	slices.Sort(params)
	sameNames(t, "the parameters", slices.Compact(params), all(`(?:QueryArgs\(\)|args)\.Peek\("(\w+)"\)`, `\btext\("(\w+)"\)`, `\{"(\w+)", &`))
}
