package demo

import (
	"encoding/json"
	"encoding/xml"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestList(t *testing.T) {
	site := newSite(Options{})
	var a struct {
		Page, Pages int
		Items       []struct {
			ID    int
			Title string
		}
	}
	w := get(t, site, "/api/list?page=3")
	if err := json.Unmarshal(w.Body.Bytes(), &a); err != nil || a.Page != 3 || len(a.Items) != 5 || a.Items[0].ID != 11 {
		t.Errorf("%v %s", err, w.Body)
	}
	for _, page := range []string{"0", "-1", "999", "x", ""} {
		if w := get(t, site, "/api/list?page="+page); w.Code != 200 || !strings.Contains(w.Body.String(), `"page":1,`) {
			t.Errorf("page %q: %d %s", page, w.Code, w.Body)
		}
	}
	r := httptest.NewRequest("OPTIONS", "/api/list", nil)
	r.Header.Set("Origin", "http://other.example")
	r.Header.Set("Sec-Fetch-Site", "cross-site")
	pre := httptest.NewRecorder()
	site.ServeHTTP(pre, r)
	if pre.Code != 204 || pre.Header().Get("Access-Control-Allow-Origin") != "*" {
		t.Errorf("preflight: %d %v", pre.Code, pre.Header())
	}
}

func TestXMLSearch(t *testing.T) {
	site := newSite(Options{})
	type answer struct {
		XMLName  xml.Name `xml:"yandexsearch"`
		Version  string   `xml:"version,attr"`
		Query    string   `xml:"request>query"`
		Response struct {
			Found int `xml:"found"`
			Docs  []struct {
				URL     string `xml:"url"`
				Title   string `xml:"title"`
				Passage string `xml:"passage"`
			} `xml:"results>doc"`
		} `xml:"response"`
	}
	f := func(query, lang string, found int, says string) {
		t.Helper()
		r := httptest.NewRequest("GET", "/xmlsearch", nil)
		r.URL.RawQuery = "query=" + query
		r.Header.Set("Accept-Language", lang)
		w := httptest.NewRecorder()
		site.ServeHTTP(w, r)
		var a answer
		if err := xml.Unmarshal(w.Body.Bytes(), &a); err != nil {
			t.Fatalf("%s: %v in %s", query, err, w.Body)
		}
		if a.Version != "1.0" || a.Response.Found != found || len(a.Response.Docs) != found || a.Query != says {
			t.Errorf("%s: %+v", query, a)
		}
	}
	f("RIVER", "en", 1, "RIVER")
	f("%D1%80%D0%B5%D0%BA%D0%B0", "ru", 1, "река")
	f("", "en", 3, "")
	f("no+such+word", "en", 0, "no such word")
	f("%3C%2Fquery%3E%26%22", "en", 0, `</query>&"`)
	f("%ff%fe", "en", 0, "\uFFFD") // adjoining bad bytes become one
	f("a%00b", "en", 0, "a\uFFFDb")
}
