package admin

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"antirobot/store"
	"antirobot/verdict/counter"
)

// What is counted can be read, by every way to ask for it.
func TestCountersCount(t *testing.T) {
	g := startGateway(t)
	var updated struct {
		Updated int
		Before  []uint64
	}
	var items []string
	for i := range 3000 { // a batch of thousands
		items = append(items, fmt.Sprintf(`{"prefix":"p%d","type":15,"text":"203.0.113.7","n":2}`, i%3))
	}
	body := `{"updates":[` + strings.Join(items, ",") + `],"queries":[{"prefix":"p1","type":15,"text":"203.0.113.7","unit":"1d"}]}`
	for _, before := range []uint64{0, 2000} {
		g.ok(&updated, "POST", "/api/counters/update", body)
		if updated.Updated != 3000 || len(updated.Before) != 1 || updated.Before[0] != before {
			t.Errorf("got %+v; want 3000 and %d from before", updated, before)
		}
	}
	sh, err := counter.Shingles(nil, []counter.Piece{{Type: 15, Text: "203.0.113.7"}})
	if err != nil {
		t.Fatal(err)
	}
	hex := fmt.Sprintf("%016x", sh[0].Hash)
	var read struct{ Counts []uint64 }
	g.ok(&read, "POST", "/api/counters/read", `{"prefix":"p0","queries":[
		{"type":15,"text":"203.0.113.7","unit":"1d"},{"type":15,"shingle":"`+hex+`","unit":"10m","last":2},
		{"prefix":"p1","type":15,"shingle":"`+hex+`","unit":"1d","last":15},{"prefix":"p3","type":15,"shingle":"`+hex+`","unit":"1d"},
		{"type":15,"shingle":"`+hex+`","unit":"1d","from":5,"to":4},{"type":16,"shingle":"`+hex+`","unit":"1d"}]}`)
	if fmt.Sprint(read.Counts) != "[4000 4000 4000 0 0 0]" {
		t.Errorf("counts are %v", read.Counts)
	}
	for range 2 {
		g.ok(&updated, "POST", "/api/counters/update?wait=durable", `{"prefix":"u","uniques":[
			{"type":31,"shingle":"`+hex+`","pair":{"type":30,"text":"a"}},{"type":31,"shingle":"`+hex+`","pair":{"type":30,"text":"b"}}]}`)
	}
	g.ok(&read, "POST", "/api/counters/read", `{"queries":[{"prefix":"u","type":31,"shingle":"`+hex+`","unit":"1d"}]}`)
	if fmt.Sprint(read.Counts) != "[2]" {
		t.Errorf("two pairs, each counted twice, give %v", read.Counts)
	}
}

func TestCountersNameTheItem(t *testing.T) {
	g := startGateway(t)
	const update, read = "/api/counters/update", "/api/counters/read"
	const good = `{"prefix":"p","type":15,"text":"203.0.113.7"}`
	for _, c := range []struct{ path, list, item, code, field string }{
		{update, "updates", `{"type":15,"text":"203.0.113.7"}`, "invalid_field", ".prefix"},
		{update, "updates", `{"prefix":"a b","type":15,"text":"203.0.113.7"}`, "invalid_field", ".prefix"},
		{update, "updates", `{"prefix":"p","text":"203.0.113.7"}`, "invalid_field", ".type"},
		{update, "updates", `{"prefix":"p","type":70000,"text":"x"}`, "invalid_field", ".type"},
		{update, "updates", `{"prefix":"p","type":15,"text":"x"}`, "invalid_field", ".text"},
		{update, "updates", `{"prefix":"p","type":15}`, "invalid_field", ".shingle"},
		{update, "updates", `{"prefix":"p","type":15,"shingle":"12"}`, "invalid_field", ".shingle"},
		{update, "updates", `{"prefix":"p","type":15,"shingle":"0000000000000001","text":"x"}`, "invalid_field", ".shingle"},
		{update, "updates", `{"prefix":"p","type":1,"text":"x","n":-1}`, "invalid_field", ".n"},
		{update, "updates", `{"prefix":"p","type":1,"text":"x","at":"now"}`, "invalid_field", ".at"},
		{update, "updates", `{"prefix":"p","type":1,"text":"x","at":"2020-01-01T00:00:00Z"}`, "invalid_field", ".at"},
		{update, "updates", `{"prefix":"p","type":1,"text":"x","at":"2100-01-01T00:00:00Z"}`, "invalid_field", ".at"},
		{update, "updates", `{"prefix":"p","type":1,"text":"x","count":1}`, "unknown_field", ".count"},
		{update, "updates", `7`, "invalid_field", ""},
		{update, "uniques", `{"prefix":"p","type":31,"text":"x"}`, "invalid_field", ".pair"},
		{update, "uniques", `{"prefix":"p","type":31,"text":"x","pair":{"type":30}}`, "invalid_field", ".pair.shingle"},
		{read, "queries", good, "invalid_field", ".unit"},
		{read, "queries", `{"prefix":"p","type":1,"text":"x","unit":"1h"}`, "invalid_field", ".unit"},
		{read, "queries", `{"prefix":"p","type":1,"text":"x","unit":"1d","last":16}`, "invalid_field", ".last"},
		{read, "queries", `{"prefix":"p","type":1,"text":"x","unit":"1d","last":0}`, "invalid_field", ".last"},
		{read, "queries", `{"prefix":"p","type":1,"text":"x","unit":"1d","last":1,"to":5}`, "invalid_field", ".last"},
		{read, "queries", `{"prefix":"p","type":1,"text":"x","unit":"1d","to":5}`, "invalid_field", ".from"},
		{read, "queries", `{"prefix":"p","type":1,"text":"x","unit":"10m","from":0,"to":145}`, "invalid_field", ".from"},
		{read, "queries", `{"key":"p_1"}`, "invalid_field", ".key"},
	} {
		first := good
		if c.list == "queries" {
			first = `{"prefix":"p","type":1,"text":"x","unit":"1d"}`
		}
		if c.list == "uniques" {
			first = `{"prefix":"p","type":31,"text":"x","pair":{"type":30,"text":"y"}}`
		}
		g.refused(400, c.code, c.list+"[1]"+c.field, "POST", c.path, `{"`+c.list+`":[`+first+`,`+c.item+`]}`)
	}
	g.refused(400, "invalid_field", "updates", "POST", update, `{}`)
	g.refused(400, "invalid_field", "wait", "POST", update+"?wait=always", `{"updates":[`+good+`]}`)
	g.refused(400, "invalid_field", "queries", "POST", read, `{}`)
	g.refused(400, "invalid_field", "queries", "POST", read, `{"queries":[`+strings.Repeat(`1,`, maxCounterItems)+`1]}`)
	g.refused(400, "unknown_field", "updates", "POST", read, `{"updates":[]}`)
	// Nothing of a refused call was counted.
	var counts struct{ Counts []uint64 }
	g.ok(&counts, "POST", read, `{"queries":[{"prefix":"p","type":15,"text":"203.0.113.7","unit":"1d"},{"prefix":"p","type":31,"text":"x","unit":"1d"}]}`)
	if fmt.Sprint(counts.Counts) != "[0 0]" {
		t.Errorf("refused calls counted: %v", counts.Counts)
	}
}

// failing is a counter whose store is away.
type failing struct{ err error }

func (f failing) Do(context.Context, *counter.Batch) error            { return f.err }
func (f failing) DoSafely(context.Context, *counter.Batch) error      { return f.err }
func (f failing) Read(context.Context, []uint64, []store.Query) error { return f.err }

func TestCountersWithoutAStore(t *testing.T) {
	const call = `{"queries":[{"prefix":"p","type":1,"text":"x","unit":"1d"}]}`
	l := start(t, DefaultConfig(), Deps{Counters: failing{errors.New("away")}})
	l.refused(503, "store_failed", "", "POST", "/api/counters/read", call)
	l.refused(503, "store_failed", "", "POST", "/api/counters/update", call)
	l = start(t, DefaultConfig(), Deps{Counters: failing{store.ErrPrefix}})
	l.refused(507, "full", "", "POST", "/api/counters/update", call)
	l = start(t, DefaultConfig(), Deps{})
	l.refused(501, "not_available", "", "POST", "/api/counters/read", call)
	l.refused(501, "not_available", "", "POST", "/api/counters/update", call)
}
