//go:build !race

// Days and hundreds of passes in one goroutine, in which the race detector finds nothing, and takes ten times as long.

package captcha

import (
	"fmt"
	"strconv"
	"testing"
	"time"
)

// TestOfficesPayLittle: where the site knows many visitors, many more passes are allowed, of greater worth.
func TestOfficesPayLittle(t *testing.T) {
	worth := func(known int) (units uint32, waits int) {
		e := newEnv(t, nil)
		e.knows(company{known, known})
		for range 40 {
			if e.wait() > 0 {
				waits++
				continue
			}
			units += e.solve().Pass.Allowance
			e.pass(time.Second)
		}
		return units, waits
	}
	if units, waits := worth(32); waits != 0 || units < 450 {
		t.Errorf("an office of 32: %d waited, %d documents", waits, units)
	}
	if units, waits := worth(0); waits == 0 || units > 400 {
		t.Errorf("strangers: %d waited, %d documents", waits, units)
	}
}

// TestNetworksPay: who rotates the addresses of a network gets no more than some households, and with few addresses no
// less than one; where many established visitors are, strangers of the network pay next to nothing.
func TestNetworksPay(t *testing.T) {
	for _, n := range []struct {
		name        string
		at          func(n int) string
		known       int
		least, most uint32
	}{
		{"a /24", func(n int) string { return "203.0.113." + strconv.Itoa(n) }, 0, 2000, 3000},
		{"a /56", func(n int) string { return fmt.Sprintf("2001:db8:1:%x::1", n) }, 0, 500, 800},
		{"a /48", func(n int) string { return fmt.Sprintf("2001:db8:1:%x::1", n<<8) }, 0, 1000, 1600},
		{"a /32", func(n int) string { return fmt.Sprintf("2001:db8:%x:1::1", n) }, 0, 2000, 3000},
		{"a carrier's /24", func(n int) string { return "203.0.113." + strconv.Itoa(n) }, 4000, 15_000, 20_000},
	} {
		e := newEnv(t, nil)
		e.knows(company{0, n.known})
		var units uint32
		for i := range 200 {
			at := from(n.at(i + 1))
			if e.wait(at) == 0 {
				units += e.solve(at).Pass.Allowance
			}
			e.pass(time.Second)
		}
		if units < n.least || units > n.most {
			t.Errorf("%s: %d documents by 200 addresses", n.name, units)
		}
	}
}

// TestMachinesPayTogether: a solver that is faster than anybody types gets little from many networks; people who solve
// at the same time don't pay for it.
func TestMachinesPayTogether(t *testing.T) {
	e := newEnv(t, nil)
	var quick, slow uint32
	for n := range 60 {
		quick += e.solveIn(time.Second, from(fmt.Sprintf("198.51.%d.7", n))).Pass.Allowance
		slow += e.solve(from(fmt.Sprintf("203.0.%d.7", n))).Pass.Allowance
	}
	if slow != 60*100 || quick > 800 || quick < 600 {
		t.Errorf("quick answers got %d documents, those of people %d", quick, slow)
	}
}

// TestSolverOfADay: what a robot that reads every picture instantly earns from one address, on its first day and after.
func TestSolverOfADay(t *testing.T) {
	e := newEnv(t, nil)
	for day, most := range []int{800, 500, 500} {
		units, passes := 0, 0
		for range 24 * 60 * 2 {
			for e.wait() == 0 {
				units += int(e.solve().Pass.Allowance)
				passes++
			}
			e.pass(30 * time.Second)
		}
		t.Logf("day %d: %d documents by %d passes", day+1, units, passes)
		if units > most || units < 200 { // somebody else there would find a way, too
			t.Errorf("day %d: one address earned %d documents", day+1, units)
		}
	}
}
