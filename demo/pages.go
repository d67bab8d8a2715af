package demo

import (
	"encoding/json"
	"encoding/xml"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// articleNames are the articles; their texts are in the catalogues under article.NAME.title, .lead and .p1 to .p3.
var articleNames = [...]string{"lighthouse", "river", "bread"}

func (s *site) article(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	if !slices.Contains(articleNames[:], name) {
		s.missing(w, r)
		return
	}
	s.render(w, r, http.StatusOK, "article", name)
}

// maxQuery bounds a search in bytes.
const maxQuery = 200

type found struct {
	XMLName xml.Name `xml:"doc"`
	URL     string   `xml:"url"`
	Title   string   `xml:"title"`
	Passage string   `xml:"passage"`
}

// search finds the articles whose title or text contains the query, ignoring case.
func (s *site) search(lang, query string) []found {
	query = strings.ToLower(strings.TrimSpace(query))
	t := s.texts[lang]
	var out []found
	for _, name := range articleNames {
		key := "article." + name
		title := t.text(key + ".title")
		for _, part := range []string{".title", ".lead", ".p1", ".p2", ".p3"} {
			if text := t.text(key + part); query == "" || strings.Contains(strings.ToLower(text), query) {
				out = append(out, found{URL: "/articles/" + name, Title: title, Passage: passage(text)})
				break
			}
		}
	}
	return out
}

// passage cuts a text to about two lines, at a rune boundary.
func passage(s string) string {
	const most = 160
	if len(s) <= most {
		return s
	}
	cut := most
	for !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + "…"
}

func query(r *http.Request) string {
	q := r.URL.Query().Get("query")
	if len(q) > maxQuery {
		q = strings.ToValidUTF8(q[:maxQuery], "")
	}
	return q
}

func (s *site) showSearch(w http.ResponseWriter, r *http.Request) {
	q := query(r)
	var data struct {
		Query   string
		Results []found
	}
	data.Query = q
	if q != "" {
		data.Results = s.search(s.language(r), q)
	}
	s.render(w, r, http.StatusOK, "search", data)
}

// xmlSearch answers in the root element that partners parse, so that the same code reads an answer of the gateway in
// its place.
func (s *site) xmlSearch(w http.ResponseWriter, r *http.Request) {
	type results struct {
		Found int     `xml:"found"`
		Docs  []found `xml:"results>doc"`
	}
	docs := s.search(s.language(r), query(r))
	b, err := xml.MarshalIndent(struct {
		XMLName  xml.Name `xml:"yandexsearch"`
		Version  string   `xml:"version,attr"`
		Query    string   `xml:"request>query"`
		Response results  `xml:"response"`
	}{Version: "1.0", Query: strings.ToValidUTF8(query(r), "\uFFFD"), Response: results{len(docs), docs}}, "", " ")
	if err != nil {
		http.Error(w, "the answer could not be made", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/xml; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = w.Write(append([]byte(xml.Header), append(b, '\n')...))
}

// Size of the AJAX list.
const (
	listPages    = 20
	listPageSize = 5
)

// listItems answers GET /api/list?page=N. Any web page may read it: it contains nothing about the visitor.
func (s *site) listItems(w http.ResponseWriter, r *http.Request) {
	type item struct {
		ID    int    `json:"id"`
		Title string `json:"title"`
	}
	page, err := strconv.Atoi(r.URL.Query().Get("page"))
	if err != nil || page < 1 || page > listPages {
		page = 1
	}
	t := s.texts[s.language(r)]
	items := make([]item, listPageSize)
	for i := range items {
		id := (page-1)*listPageSize + i + 1
		items[i] = item{id, fmt.Sprintf("%s %d", t.text("list.item"), id)}
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	h.Set("Access-Control-Allow-Origin", "*")
	_ = json.NewEncoder(w).Encode(struct {
		Page  int    `json:"page"`
		Pages int    `json:"pages"`
		Items []item `json:"items"`
	}{page, listPages, items})
}

func (s *site) listPreflight(w http.ResponseWriter, _ *http.Request) {
	h := w.Header()
	h.Set("Access-Control-Allow-Origin", "*")
	h.Set("Access-Control-Allow-Methods", "GET")
	h.Set("Access-Control-Allow-Headers", "X-Requested-With")
	h.Set("Access-Control-Max-Age", "0")
	w.WriteHeader(http.StatusNoContent)
}
