package demo

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
)

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
