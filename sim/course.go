package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
)

// The other site: courses made of units of pages, three levels deep, with a glossary whose terms link to each other.
// Pages are long and of very different sizes, there are few pictures, and a few pages are read by most visitors.
const (
	courses   = 24
	units     = 8
	mostPages = 15
	terms     = 4000
)

func coursePlace() *place {
	return &place{
		entrance: courseEntrance, follow: courseFollow, links: courseLinks, item: termPath, items: terms, list: unitOf, parts: courseParts, size: courseSize,
	}
}

var (
	termPaths = pathsOf(terms, func(n int) string { return fmt.Sprintf("/term/%d", n+1) })
	unitPaths = pathsOf(courses*units, func(n int) string { return fmt.Sprintf("/course/%d/unit/%d", n%courses+1, n/courses+1) })
)

func termPath(n int) string { return termPaths()[n%terms] }

func unitOf(n int) string { return unitPaths()[n%(courses*units)] }

func pagesOf(unit string) int { return 4 + hashOf(unit)%(mostPages-3) }

// popular is a number below n, with low ones far more frequent: Zipf's law with an exponent of about one.
func popular(rng *rand.Rand, n int) int {
	return min(n-1, int(math.Exp(rng.Float64()*math.Log(float64(n+1))))-1)
}

func courseEntrance(rng *rand.Rand) string {
	switch rng.IntN(6) {
	case 0:
		return "/"
	case 1, 2:
		return unitOf(popular(rng, courses*units))
	default:
		return termPath(popular(rng, terms))
	}
}

// courseLinks are the links of a page: its parents, the pages before and after it, the terms that it mentions.
func courseLinks(dst []string, page string) []string {
	at := hashOf(page)
	name, _, _ := strings.Cut(page, "?")
	part := strings.Split(strings.Trim(name, "/"), "/")
	switch {
	case part[0] == "course" && len(part) >= 4:
		unit := "/" + strings.Join(part[:4], "/")
		var n int
		if len(part) == 6 {
			_, _ = fmt.Sscan(part[5], &n)
			dst = append(dst, unit)
		}
		most := pagesOf(unit)
		if len(part) == 4 {
			for i := range most {
				dst = append(dst, fmt.Sprintf("%s/page/%d", unit, i+1))
			}
		} else if n < most {
			dst = append(dst, fmt.Sprintf("%s/page/%d", unit, n+1))
		}
		if n > 1 {
			dst = append(dst, fmt.Sprintf("%s/page/%d", unit, n-1))
		}
		for i := range 2 + at%5 {
			dst = append(dst, termPath((at+i*i*97)%(1+terms/(1+i))))
		}
	case part[0] == "course" && len(part) == 2:
		for i := range units {
			dst = append(dst, fmt.Sprintf("%s/unit/%d", name, i+1))
		}
	case part[0] == "term":
		for i := range 3 + at%18 {
			dst = append(dst, termPath((at+i*131)%(1+terms/(1+i%7))))
		}
		dst = append(dst, unitOf(at))
	default:
		for i := range courses {
			dst = append(dst, fmt.Sprintf("/course/%d", i+1))
		}
	}
	return append(dst, "/")
}

func courseFollow(page string, rng *rand.Rand) string {
	var room [64]string
	list := courseLinks(room[:0], page)
	return list[rng.IntN(len(list))]
}

func courseParts(page string) []planned {
	list := []planned{{path: "/static/course.css", dest: destStyle}, {path: "/static/course.js", dest: destScript}}
	at := hashOf(page)
	for i := range at % 3 {
		list = append(list, planned{path: picturePath(at + i*7), dest: destImage})
	}
	return list
}

// courseSize is the size of a page: half of them are below 20 kB, one in twenty above 110.
func courseSize(page string) int {
	u := (float64(hashOf(page)%9973) + 0.5) / 9973
	return int(20000 * math.Pow(u/(1-u), 0.6))
}
