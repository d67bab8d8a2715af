package outcomes

import (
	"fmt"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"antirobot/spravka"
)

var start = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

// TestNamesHideNoCampaign: who looks at challenges under thousands of names, and answers some of them wrongly, does
// not hide a campaign.
func TestNamesHideNoCampaign(t *testing.T) {
	y := New(time.Hour)
	net := func(n int) netip.Prefix { return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 1, byte(n), 0}), 24) }
	for n := range 3 * mostRows {
		more := Count{Shown: 1}
		if n%8 == 0 {
			more = Count{Tried: 1}
		}
		y.Count(
			start, &Who{Way: "page", Language: "en", Net: net(1), Agent: uint64(n + 100), Shape: uint64(n + 1)}, more,
		)
	}
	for range 40 {
		y.Count(start, &Who{Way: "page", Language: "en", Net: net(2), Agent: 7, Shape: 1 << 40}, Count{
			Shown: 1,
			Tried: 1, Solved: 1, Quick: 1,
		})
	}
	if !y.Machines(Campaign(net(2), 7), 30, start) {
		t.Error("the campaign is not seen")
	}
	if n := y.of(Shape(1<<40), start); n.Solved != 40 {
		t.Errorf("%d right answers of its shape", n.Solved)
	}
	all := int64(0)
	for _, n := range y.now[ofCampaign] {
		all += n.Shown + n.Tried
	}
	if n := len(y.now[ofCampaign]); n > mostRows+1 || all != 3*mostRows+80 {
		t.Errorf("%d rows, %d challenges", n, all)
	}
}

// TestPitfall12ChallengesAreBounded: beyond a bound, further networks are counted together.
func TestPitfall12ChallengesAreBounded(t *testing.T) {
	y := New(time.Hour)
	for n := range 3 * mostRows {
		net := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(n >> 8), byte(n), 0}), 24)
		y.Count(start, &Who{Way: "page", Language: "en", Net: net, Agent: 1}, Count{Shown: 1})
	}
	if n := len(y.now[ofNetwork]); n > mostRows+1 {
		t.Errorf("%d networks", n)
	}
	got := y.Challenges(start, 30)
	if len(got.Networks) != mostShown || got.Networks[0].Name != othersRow || got.Total.Shown != 3*mostRows {
		t.Errorf("%d networks, %+v, in all %+v", len(got.Networks), got.Networks[0], got.Total)
	}
	if strings.Contains(fmt.Sprint(got.MachinesSolve), othersRow) {
		t.Error("others are a network")
	}
}

// TestAskedAndAnsweredElsewhere: whoever is asked by one gateway and answers at another has not given up at either.
func TestAskedAndAnsweredElsewhere(t *testing.T) {
	one := Challenges{
		Total: Count{Shown: 3, Tried: 1, Solved: 1, GaveUp: 2},
		Ways:  []Row{{"page", Count{Shown: 3, Tried: 1, Solved: 1, GaveUp: 2}}},
	}
	two := Challenges{Total: Count{Tried: 1, Solved: 1}, Ways: []Row{{"page", Count{Tried: 1, Solved: 1}}}}
	want := Count{Shown: 3, Tried: 2, Solved: 2, GaveUp: 1}
	if got := Sum([]Challenges{one, two}); !reflect.DeepEqual(got.Total, want) || len(got.Ways) != 1 ||
		!reflect.DeepEqual(got.Ways[0].Count, want) {
		t.Errorf("%+v", got)
	}
}

// TestPitfall12ReturnsAreBounded: many passes that are never used take a bounded room, and a look-up of others
// allocates nothing.
func TestPitfall12ReturnsAreBounded(t *testing.T) {
	y := New(time.Hour)
	now := func() time.Time { return start }
	var last [16]byte
	for range 3 * awaitedMost {
		last = spravka.NewID()
		y.Earned(&last, &Who{Way: "page"}, start)
	}
	others := make([]spravka.Pass, 4)
	if n := testing.AllocsPerRun(100, func() { y.CameBack(others, now) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if y.CameBack([]spravka.Pass{{ID: last}}, now) != 1 || y.Challenges(start, 1).Total.CameBack != 1 {
		t.Error("the last is forgotten")
	}
}
