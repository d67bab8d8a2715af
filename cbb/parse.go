package cbb

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"

	"antirobot/identity"
	"antirobot/rules/texts"
)

// Errors of a list as a whole; each keeps the last good copy.
var (
	errTooLarge = errors.New("list is too large")
	errTooMany  = errors.New("list has more than max_entries entries")
	ErrTooWide  = errors.New("network is wider than /8 (IPv6: /16)")
	errGarbage  = errors.New("too many bad lines")
	errEmptied  = errors.New("list is empty and was not before; allow_empty permits it")
)

const (
	maxLine     = 4096    // bytes of one line
	maxReason   = 200     // bytes kept of a reason
	maxLabels   = 1 << 16 // distinct reasons (own lists: entries with their text) of one list
	keptBad     = 10      // bad lines that are reported individually
	toleratedBL = 3       // bad lines that never invalidate a list which has good ones
	maxDepth    = 32      // of JSON
	emptiedFrom = 10      // a list that had this many entries may not become empty
)

// BadLine is a line that is no entry.
type BadLine struct {
	Line int    `json:"line"` // from 1; in JSON the ordinal of the string
	Text string `json:"text"` // its beginning, made printable
	Err  string `json:"err"`
}

// parsed is the sorted content of one list. It is immutable once finished.
type parsed struct {
	v4       []listed[key4]
	v6       []listed[key6]
	subjects []labelledSubject
	lengths  lengths    // of v4 and v6
	texts    *texts.Set // of a list of texts, which has nothing else
	labels   []label    // what the label numbers mean; 0 is the list itself
	entries  int        // good lines
	bad      int
	badLines []BadLine
}

type label struct{ text, reason string }

// listed is a network of a list.
type listed[K key[K]] struct {
	addr  K
	label uint16
	bits  uint8
}

func compareListed[K key[K]](a, b listed[K]) int {
	return cmp.Or(a.addr.compare(b.addr), cmp.Compare(a.bits, b.bits))
}

func (n *listed[K]) prefix() netip.Prefix { return netip.PrefixFrom(n.addr.addr(), int(n.bits)) }

type labelledSubject struct {
	s     identity.Subject
	label uint16
}

func compareSubjects(a, b identity.Subject) int {
	return cmp.Or(cmp.Compare(a.Kind, b.Kind), bytes.Compare(a.ID[:], b.ID[:]))
}

type lengths struct{ v4, v6 [129]bool }

type limits struct {
	maxEntries  int
	maxBadShare float64
	minCount    int  // for lists with counts: entries with lower ones are left out
	allowWide   bool // networks wider than /8 and /16
	allowEmpty  bool
	named       bool // keep the text of each entry
	texts       bool // a list of texts
	of          texts.Kind
}

// Formats of a list.
const (
	formatAuto  = "auto"
	formatLines = "lines"
	formatJSON  = "json"

	formatCrowdSec = "crowdsec" // decisions of its local API
)

type parser struct {
	limits
	out    *parsed
	labels map[label]uint16
	lines  int // that are neither blank nor comments
	err    error
}

func newParser(l limits) *parser {
	p := &parser{limits: l, out: &parsed{labels: make([]label, 1)}, labels: map[label]uint16{{}: 0}}
	if l.texts {
		p.out.texts = texts.New(l.of)
	}
	return p
}

// read parses a whole list. prev is the number of entries in the last good copy.
func (p *parser) read(r io.Reader, format string, prev int) (*parsed, error) {
	br := bufio.NewReaderSize(r, 64<<10)
	if b, _ := br.Peek(3); len(b) == 3 && b[0] == 0xEF && b[1] == 0xBB && b[2] == 0xBF {
		_, _ = br.Discard(3)
	}
	if format == formatAuto || format == "" {
		format = detect(br)
	}
	var err error
	switch format {
	case formatCrowdSec:
		err = p.readDecisions(br)
	case formatJSON:
		err = p.readJSON(br)
	default:
		err = p.readLines(br)
	}
	if err == nil {
		err = p.err
	}
	if err != nil {
		return nil, err
	}
	return p.finish(prev)
}

func detect(br *bufio.Reader) string {
	b, _ := br.Peek(1024)
	b = bytes.TrimLeft(b, " \t\r\n")
	if len(b) > 0 && (b[0] == '{' || b[0] == '[') {
		return formatJSON
	}
	return formatLines
}

func (p *parser) readLines(br *bufio.Reader) error {
	for n := 1; ; n++ {
		b, err := br.ReadSlice('\n')
		if long := len(b); errors.Is(err, bufio.ErrBufferFull) {
			head := string(b[:64])
			for errors.Is(err, bufio.ErrBufferFull) {
				b, err = br.ReadSlice('\n')
				long += len(b)
			}
			p.lines++
			p.reject(n, head, fmt.Errorf("line of %d bytes, the limit is %d", long, maxLine))
		} else {
			p.line(n, b)
		}
		if p.err != nil {
			return p.err
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// line parses an entry, and after white space, a comma, '#' or ';' its reason.
func (p *parser) line(n int, b []byte) {
	b = bytes.TrimSpace(b)
	if p.texts {
		p.textLine(n, b)
		return
	}
	if len(b) == 0 || b[0] == '#' || b[0] == ';' || bytes.HasPrefix(b, []byte("create ")) {
		return
	}
	p.lines++
	if len(b) > maxLine {
		p.reject(n, string(b[:64]), fmt.Errorf("line of %d bytes, the limit is %d", len(b), maxLine))
		return
	}
	entry, reason, count := splitLine(b)
	if p.minCount > 0 && count >= 0 && count < p.minCount {
		return
	}
	if err := p.entry(entry, reason); err != nil {
		p.reject(n, string(b), err)
	}
}

// splitLine splits a line into its entry and its reason. count is the number in "address TAB number", or -1.
func splitLine(b []byte) (entry, reason string, count int) {
	if rest, ok := bytes.CutPrefix(b, []byte("add ")); ok { // ipset save: add NAME ENTRY
		if _, after, ok := bytes.Cut(rest, []byte{' '}); ok {
			b = bytes.TrimSpace(after)
		}
	}
	end := bytes.IndexAny(b, " \t,#;")
	if end > 0 && b[end] == '#' && b[end-1] == ':' && b[0] != ':' { // kind:#hash
		if next := bytes.IndexAny(b[end+1:], " \t,#;"); next >= 0 {
			end += 1 + next
		} else {
			end = -1
		}
	}
	if end < 0 {
		return string(b), "", -1
	}
	entry = string(b[:end])
	rest := bytes.TrimSpace(b[end:])
	if b[end] == '\t' {
		if c, err := strconv.Atoi(string(rest)); err == nil && c >= 0 {
			return entry, "count " + strconv.Itoa(c), c
		}
	}
	if len(rest) > 1 && rest[0] == '-' { // a range with blanks around the dash
		to := bytes.TrimSpace(rest[1:])
		cut := bytes.IndexAny(to, " \t,#;")
		if cut < 0 {
			cut = len(to)
		}
		if _, err := netip.ParseAddr(string(to[:cut])); err == nil {
			entry, rest = entry+"-"+string(to[:cut]), to[cut:]
		}
	}
	return entry, cleanReason(string(bytes.TrimLeft(rest, " \t,#;"))), -1
}

// cleanReason bounds a reason and makes it printable, for logs and pages.
func cleanReason(s string) string {
	s = printable(strings.TrimSpace(s))
	if len(s) > maxReason {
		s = strings.ToValidUTF8(s[:maxReason], "")
	}
	return s
}

func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7F || r >= 0x80 && !strconv.IsPrint(r) {
			return '\uFFFD'
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
}

func (p *parser) reject(n int, text string, err error) {
	p.out.bad++
	if len(p.out.badLines) < keptBad {
		if len(text) > 64 {
			text = text[:64]
		}
		p.out.badLines = append(p.out.badLines, BadLine{Line: n, Text: printable(text), Err: printable(err.Error())})
	}
}

// entry adds one entry. The error concerns this entry; errors of the whole list are left in p.err.
func (p *parser) entry(text, reason string) error {
	if p.texts {
		return p.text(text)
	}
	it, err := parseItem(text)
	if err != nil {
		return err
	}
	if p.out.entries >= p.maxEntries {
		p.err = errTooMany
		return nil
	}
	if !p.allowWide && it.wide() {
		p.err = fmt.Errorf("%q: %w", text, ErrTooWide)
		return nil
	}
	p.out.entries++
	lab := p.label(text, reason)
	if it.subject.Kind != identity.KindNone {
		p.out.subjects = append(p.out.subjects, labelledSubject{it.subject, lab})
		return nil
	}
	it.prefixes(func(pfx netip.Prefix) { p.add(pfx, lab) })
	return nil
}

func (p *parser) add(pfx netip.Prefix, lab uint16) {
	if pfx.Addr().Is4() {
		p.out.v4 = append(p.out.v4, listed[key4]{key4Of(pfx.Addr()), lab, uint8(pfx.Bits())})
		return
	}
	p.out.v6 = append(p.out.v6, listed[key6]{key6Of(pfx.Addr()), lab, uint8(pfx.Bits())})
}

// label returns the number of a (text, reason), 0 if there are more than numbers.
func (p *parser) label(text, reason string) uint16 {
	l := label{reason: reason}
	if p.named {
		l.text = text
	}
	if n, ok := p.labels[l]; ok {
		return n
	}
	if len(p.out.labels) == maxLabels {
		return 0
	}
	n := uint16(len(p.out.labels))
	p.out.labels = append(p.out.labels, l)
	p.labels[l] = n
	return n
}

// finish judges the list as a whole, sorts it and drops repetitions.
func (p *parser) finish(prev int) (*parsed, error) {
	o := p.out
	if o.bad > 0 && o.entries == 0 || o.bad > toleratedBL && float64(o.bad) > p.maxBadShare*float64(o.bad+o.entries) {
		return nil, fmt.Errorf(
			"%w: %d of %d; line %d: %s", errGarbage, o.bad, o.bad+o.entries, o.badLines[0].Line, o.badLines[0].Err,
		)
	}
	if o.entries == 0 && prev >= emptiedFrom && !p.allowEmpty {
		return nil, fmt.Errorf("%w: it had %d entries", errEmptied, prev)
	}
	o.v4, o.v6 = sorted(o.v4), sorted(o.v6)
	slices.SortStableFunc(o.subjects, func(a, b labelledSubject) int { return compareSubjects(a.s, b.s) })
	for i := range o.v4 {
		o.lengths.v4[o.v4[i].bits] = true
	}
	for i := range o.v6 {
		o.lengths.v6[o.v6[i].bits] = true
	}
	return o, nil
}

// sorted sorts networks and drops repetitions, of which the one with the lowest label stays.
func sorted[K key[K]](nets []listed[K]) []listed[K] {
	slices.SortFunc(
		nets, func(a, b listed[K]) int { return cmp.Or(compareListed(a, b), cmp.Compare(a.label, b.label)) },
	)
	return slices.Clip(slices.CompactFunc(nets, func(a, b listed[K]) bool { return compareListed(a, b) == 0 }))
}

// textLine parses an entry of a list of texts, and after a # with blanks around it a comment.
func (p *parser) textLine(n int, b []byte) {
	if n == 1 && len(b) > 0 && b[0] == '<' {
		p.err = errPage
		return
	}
	if i := bytes.Index(b, []byte(" # ")); i >= 0 {
		b = bytes.TrimSpace(b[:i])
	}
	if len(b) == 0 || b[0] == '#' {
		return
	}
	p.lines++
	if len(b) > maxLine {
		p.reject(n, string(b[:64]), fmt.Errorf("line of %d bytes, the limit is %d", len(b), maxLine))
		return
	}
	if err := p.text(string(b)); err != nil {
		p.reject(n, string(b), err)
	}
}

var errPage = errors.New("it begins with <, as pages do and texts do not")

// text adds one entry of a list of texts.
func (p *parser) text(entry string) error {
	if p.out.entries >= p.maxEntries {
		p.err = errTooMany
		return nil
	}
	if err := p.out.texts.Add(entry); err != nil {
		return err
	}
	p.out.entries++
	return nil
}

// readJSON collects entries from any JSON document: strings in arrays, and the members that publishers of crawler
// ranges use.
func (p *parser) readJSON(r io.Reader) error {
	type frame struct {
		object bool
		key    string
		onKey  bool // the next token is a key
	}
	dec := json.NewDecoder(r)
	var stack []frame
	n := 0
	for {
		tok, err := dec.Token()
		if err == io.EOF {
			if len(stack) > 0 || dec.InputOffset() == 0 {
				return fmt.Errorf("json: %w", io.ErrUnexpectedEOF)
			}
			return nil
		}
		if err != nil {
			return fmt.Errorf("json: %w", err)
		}
		var top *frame
		if len(stack) > 0 {
			top = &stack[len(stack)-1]
		}
		if s, ok := tok.(string); ok && top != nil && top.object && top.onKey {
			top.key, top.onKey = s, false
			continue
		}
		if d, ok := tok.(json.Delim); ok && (d == '}' || d == ']') {
			stack = stack[:len(stack)-1]
			continue
		}
		if top != nil {
			top.onKey = top.object // a value, or the beginning of one: a key follows
		}
		switch t := tok.(type) {
		case json.Delim:
			if len(stack) == maxDepth {
				return fmt.Errorf("json: nested deeper than %d", maxDepth)
			}
			stack = append(stack, frame{object: t == '{', onKey: t == '{'})
		case string:
			if top == nil || top.object && !namesNetwork(top.key) {
				continue
			}
			n++
			p.lines++
			if err := p.jsonEntry(t); err != nil {
				p.reject(n, t, err)
			}
			if p.err != nil {
				return p.err
			}
		}
	}
}

func (p *parser) jsonEntry(s string) error {
	if s = strings.TrimSpace(s); len(s) > maxLine {
		return fmt.Errorf("string of %d bytes, the limit is %d", len(s), maxLine)
	}
	return p.entry(s, "")
}

func namesNetwork(key string) bool {
	switch strings.ToLower(key) {
	case "ipv4prefix",
		"ipv6prefix",
		"ip_prefix",
		"ipv6_prefix",
		"prefix",
		"cidr",
		"network",
		"ip",
		"ipv4",
		"ipv6",
		"address":
		return true
	}
	return false
}

// readDecisions collects decisions of CrowdSec's local API (GET /v1/decisions), an array or null, about addresses and
// networks. The scenario is the reason; simulated ones are ignored.
func (p *parser) readDecisions(r io.Reader) error {
	dec := json.NewDecoder(r)
	tok, err := dec.Token()
	if err != nil {
		return fmt.Errorf("crowdsec: %w", unexpected(err))
	}
	if tok == nil {
		return nil
	}
	if tok != json.Delim('[') {
		return errors.New("crowdsec: no array of decisions")
	}
	for n := 1; dec.More(); n++ {
		var d struct {
			Scope     string `json:"scope"`
			Value     string `json:"value"`
			Scenario  string `json:"scenario"`
			Simulated bool   `json:"simulated"`
		}
		if err := dec.Decode(&d); err != nil {
			return fmt.Errorf("crowdsec: %w", unexpected(err))
		}
		if scope := strings.ToLower(d.Scope); d.Simulated || scope != "ip" && scope != "range" {
			continue
		}
		p.lines++
		err := fmt.Errorf("value of %d bytes, the limit is %d", len(d.Value), maxLine)
		if len(d.Value) <= maxLine {
			err = p.entry(d.Value, cleanReason(d.Scenario))
		}
		if err != nil {
			p.reject(n, d.Value[:min(len(d.Value), 64)], err)
		}
		if p.err != nil {
			return p.err
		}
	}
	if _, err := dec.Token(); err != nil {
		return fmt.Errorf("crowdsec: %w", unexpected(err))
	}
	return nil
}

func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

const maxKey = 4 << 10

// readKey reads a bouncer's key, each time it is sent, so that it can be changed.
func readKey(file string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", fmt.Errorf("key_file: %w", err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxKey+1))
	if err != nil {
		return "", fmt.Errorf("key_file: %w", err)
	}
	key := strings.TrimSpace(string(b))
	if key == "" || len(key) > maxKey || strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		return "", fmt.Errorf("key_file: %s holds no key of printable characters", file)
	}
	return key, nil
}

// has reports whether sub, or a network around addr, is in the list.
func (d *parsed) has(addr netip.Addr, sub identity.Subject) bool {
	if sub.Kind != identity.KindNone {
		_, ok := slices.BinarySearchFunc(
			d.subjects, sub, func(l labelledSubject, s identity.Subject) int { return compareSubjects(l.s, s) },
		)
		if ok {
			return true
		}
	}
	if !addr.IsValid() || addr.Is4() && len(d.v4) == 0 || addr.Is6() && len(d.v6) == 0 {
		return false
	}
	seen := &d.lengths.v6
	if addr.Is4() {
		seen = &d.lengths.v4
	}
	for bits := range addr.BitLen() + 1 {
		if !seen[bits] {
			continue
		}
		if _, ok := d.find(netip.PrefixFrom(addr, bits).Masked()); ok {
			return true
		}
	}
	return false
}

func (d *parsed) find(p netip.Prefix) (uint16, bool) {
	if p.Addr().Is4() {
		return labelOf(d.v4, listed[key4]{addr: key4Of(p.Addr()), bits: uint8(p.Bits())})
	}
	return labelOf(d.v6, listed[key6]{addr: key6Of(p.Addr()), bits: uint8(p.Bits())})
}

func labelOf[K key[K]](nets []listed[K], n listed[K]) (uint16, bool) {
	i, ok := slices.BinarySearchFunc(nets, n, compareListed)
	if !ok {
		return 0, false
	}
	return nets[i].label, true
}

// lines calls f with each entry that has a name: its text if that is kept, otherwise its network.
func (d *parsed) lines(base *Entry, f func(*Entry)) {
	named := make([]bool, len(d.labels)) // a range is many networks with one name
	one := func(n uint16, p netip.Prefix) {
		e := *base
		lab := d.labels[n]
		if lab.reason != "" {
			e.Reason = lab.reason
		}
		switch e.Text = lab.text; {
		case e.Text != "" && named[n]:
			return
		case e.Text != "":
			named[n] = true
		case !p.IsValid():
			return
		default:
			e.Text = textOf(p)
		}
		f(&e)
	}
	for i := range d.v4 {
		one(d.v4[i].label, d.v4[i].prefix())
	}
	for i := range d.v6 {
		one(d.v6[i].label, d.v6[i].prefix())
	}
	for _, s := range d.subjects {
		one(s.label, netip.Prefix{})
	}
}
