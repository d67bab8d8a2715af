package sim

import (
	"fmt"
	"net/url"
	"strings"
)

const goods = 640

func product(i int) string { return word(3, "good", i) + "-" + word(2, "kind", i%9) }

func productIndex() map[string]int {
	m := map[string]int{}
	for i := range goods {
		m[product(i)] = i
	}
	return m
}

func category(k int) string { return word(2, "shelf", k) }

func shopSite(uint64) *Site {
	idx := productIndex()
	s := &Site{
		Name: "shop", Host: "shop.teeundkram.test", TLS: true, Proto: "HTTP/2.0", Zone: 60, Days: 3,
		Start: date("2025-11-20T00:00:00+01:00"), Home: "/", Items: goods, Lists: 14,
		Login: "/wp-login.php", Feed: "/feed/", Hover: "spec", H3: true,
	}
	s.Item = func(i int) string { return "/product/" + product(i) + "/" }
	for i := range 40 {
		s.Terms = append(s.Terms, word(3, "good", i*7))
	}
	s.List = func(k, page int) string {
		u := "/product-category/" + category(k) + "/"
		if page > 1 {
			u += fmt.Sprintf("page/%d/", page)
		}
		return u
	}
	s.Search = func(q string) string { return "/?s=" + url.QueryEscape(q) + "&post_type=product" }
	s.API = func(i int) string { return fmt.Sprintf("/wp-json/wc/store/v1/products?per_page=10&page=%d", i%64+1) }
	s.serve = func(q *Req) *Resp { return serveShop(s, idx, q) }
	return s
}

// shopFrame is what every page of the shop loads; the cart is asked for when
// the tab does not know it yet.
func shopFrame(q *Req) []Part {
	parts := []Part{
		{URL: "/wp-includes/css/dist/block-library/style.min.css?ver=6.8.3", Kind: "style"},
		{URL: "/wp-content/plugins/woocommerce/assets/css/woocommerce.css?ver=10.2.2", Kind: "style"},
		{URL: "/wp-content/themes/storefront/style.css?ver=4.6.1", Kind: "style"},
		{URL: "/wp-includes/js/jquery/jquery.min.js?ver=3.7.1", Kind: "script"},
		{URL: "/wp-includes/js/jquery/jquery-migrate.min.js?ver=3.4.1", Kind: "script"},
		{URL: "/wp-content/plugins/woocommerce/assets/js/frontend/add-to-cart.min.js?ver=10.2.2", Kind: "script"},
		{URL: "/wp-content/plugins/woocommerce/assets/js/frontend/cart-fragments.min.js?ver=10.2.2", Kind: "script"},
		{URL: "/wp-content/uploads/2024/01/logo.png", Kind: "image"},
	}
	if q.Kind == "warm" || q.Kind == "spec" {
		return parts
	}
	if q.S["frag"] == 0 {
		q.S["frag"] = 1
		parts = append(parts, Part{URL: "/?wc-ajax=get_refreshed_fragments", Method: "POST", Kind: "ajax", After: 0.35, Script: true})
	}
	return parts
}

func shopMenu() []Link {
	out := links("nav", 0, 0, "/", "/shop/", "/cart/", "/my-account/", "/about/", "/shipping/")
	for k := range 8 {
		out = append(out, Link{URL: "/product-category/" + category(k) + "/", Kind: "list", Pos: 0.1, Pop: 0.6 - float64(k)*0.05})
	}
	return out
}

func photo(i, n int, size string) string {
	return fmt.Sprintf("/wp-content/uploads/2025/%02d/%s-%d-%s.jpg", 1+hn(10, "m", i), product(i), n, size)
}

func (r *Resp) good(i int, pos float64, kind string) {
	r.Links = append(r.Links, Link{URL: "/product/" + product(i) + "/", Kind: kind, Pos: pos, Pop: hf("pop", "good", i)},
		Link{URL: fmt.Sprintf("?add-to-cart=%d", 3000+i), Kind: "add", Pos: pos, Pop: 0.02})
	r.Parts = append(r.Parts, Part{URL: photo(i, 1, "324x324"), Kind: "image", Pos: pos})
}

func shopList(q *Req, kind, path, key string, page, total int) *Resp {
	r := &Resp{Type: html, Size: 17000 + hn(2500, q.URL), Think: 0.28, Kind: kind, Words: 130, Height: 4.2, Parts: shopFrame(q), Links: shopMenu()}
	pages := (total + 15) / 16
	if page > pages {
		return notFound(q)
	}
	for j := range min(16, total-(page-1)*16) {
		i := hn(goods, "shelf", key, q.Q.Get("orderby"), (page-1)*16+j)
		r.good(i, 0.8+float64(j/4)*0.8, "item")
	}
	if page < pages {
		r.Links = append(r.Links, Link{URL: fmt.Sprintf("%spage/%d/", path, page+1), Kind: "next", Pos: 4, Pop: 1})
	}
	if q.Q.Get("s") == "" {
		r.Links = append(r.Links, links("filter", 0.6, 0, path+"?orderby=price", path+"?orderby=popularity", path+"?orderby=date", path+"?min_price=0&max_price=20")...)
	}
	return r
}

func serveShop(s *Site, idx map[string]int, q *Req) *Resp {
	p := q.Path
	page := 1
	if before, after, ok := strings.Cut(p, "/page/"); ok {
		page, p = max(1, num(strings.Trim(after, "/"))), before+"/"
	}
	switch {
	case q.Q.Get("wc-ajax") != "":
		return shopAjax(q)
	case q.Q.Get("add-to-cart") != "" && q.Method == "GET":
		q.S["cart"]++
		return redirect(302, p)
	case q.Q.Get("s") != "":
		return shopList(q, "list", "/", q.Q.Get("s"), page, 3+hn(40, q.Q.Get("s")))
	case p == "/":
		r := shopList(q, "home", "/shop/", "home", 1, 16)
		r.Parts = append(r.Parts, Part{URL: "/wp-content/uploads/2025/10/hero.jpg", Kind: "image"})
		return r
	case p == "/shop/":
		return shopList(q, "list", p, "all", page, goods)
	case strings.HasPrefix(p, "/product-category/"):
		return shopList(q, "list", p, p, page, 20+hn(120, p))
	case strings.HasPrefix(p, "/product/"):
		i, ok := idx[strings.Trim(strings.TrimPrefix(p, "/product/"), "/")]
		if !ok {
			return notFound(q)
		}
		if !strings.HasSuffix(p, "/") {
			return redirect(301, p+"/")
		}
		return shopProduct(q, i)
	case p == "/about/" || p == "/shipping/":
		return &Resp{Type: html, Size: 8100, Think: 0.2, Kind: "text", Words: 380, Height: 3, Parts: shopFrame(q), Links: shopMenu()}
	case p == "/cart/":
		if q.Method == "POST" {
			return redirect(302, "/cart/")
		}
		r := &Resp{Type: html, Size: 9800, Think: 0.3, MaxAge: -1, Kind: "cart", Words: 70, Height: 1.6, Parts: shopFrame(q), Links: shopMenu()}
		r.Links = append(r.Links, Link{URL: "/checkout/", Kind: "formcheckout", Pos: 1, Pop: 2})
		return r
	case strings.HasPrefix(p, "/checkout/order-received/"):
		return &Resp{Type: html, Size: 8800, Think: 0.3, MaxAge: -1, Kind: "done", Words: 110, Height: 2, Parts: shopFrame(q), Links: shopMenu()}
	case p == "/checkout/":
		if q.S["cart"] == 0 {
			return redirect(302, "/cart/")
		}
		r := &Resp{Type: html, Size: 14100, Think: 0.4, MaxAge: -1, Kind: "form", Words: 150, Height: 2.5, Parts: shopFrame(q), Links: shopMenu()}
		r.Parts = append(r.Parts, Part{URL: "/wp-content/plugins/woocommerce/assets/js/frontend/checkout.min.js?ver=10.2.2", Kind: "script"},
			Part{URL: "/?wc-ajax=update_order_review", Method: "POST", Kind: "fetch", After: 0.6, Script: true})
		return r
	}
	return shopOther(s, q, p)
}

func shopProduct(q *Req, i int) *Resp {
	if q.Method == "POST" {
		q.S["cart"]++
		q.S["frag"] = 0
	}
	r := &Resp{Type: html, Size: 15000 + hn(4000, i), Think: 0.3, Kind: "item", Words: 120 + hn(260, "w", i), Height: 3.4, Parts: shopFrame(q), Links: shopMenu()}
	r.Parts = append(r.Parts, Part{URL: "/wp-content/plugins/woocommerce/assets/js/photoswipe/photoswipe.min.js?ver=4.1.1", Kind: "script"})
	for n := range 1 + hn(4, "photos", i) {
		size := "600x600"
		if n > 0 {
			size = "100x100"
		}
		r.Parts = append(r.Parts, Part{URL: photo(i, n+1, size), Kind: "image"})
	}
	for j := range 4 {
		r.good(hn(goods, "rel", i, j), 2.7, "related")
	}
	return r
}

func shopAjax(q *Req) *Resp {
	switch q.Q.Get("wc-ajax") {
	case "add_to_cart":
		q.S["cart"]++
	case "checkout":
		r := data(180)
		r.Think = 0.9
		return r
	}
	r := data(900 + 400*q.S["cart"])
	r.Think = 0.22
	return r
}

func shopOther(s *Site, q *Req, p string) *Resp {
	q.Path = p
	switch {
	case p == "/my-account/" || strings.HasPrefix(p, "/my-account/"):
		if q.Method == "POST" && q.S["may"] == 1 {
			q.S["login"] = 1
			return redirect(302, "/my-account/")
		}
		return &Resp{Type: html, Size: 7400, Think: 0.3, MaxAge: -1, Kind: "account", Words: 60, Height: 1.3, Parts: shopFrame(q), Links: append(shopMenu(), links("nav", 0.5, 0.1, "/my-account/orders/", "/my-account/edit-address/")...)}
	case p == "/wp-login.php":
		if q.Method == "POST" && q.S["may"] == 1 {
			q.S["login"] = 1
			return redirect(302, "/wp-admin/")
		}
		return &Resp{Type: html, Size: 3900, Think: 0.35, MaxAge: -1, Kind: "form", Words: 20, Height: 1, Parts: []Part{{URL: "/wp-admin/css/login.min.css?ver=6.8.3", Kind: "style"}}}
	case p == "/wp-admin/admin-ajax.php":
		if q.S["login"] == 0 {
			return &Resp{Status: 400, Type: html, Size: 1, MaxAge: -1}
		}
		return data(70)
	case strings.HasPrefix(p, "/wp-admin/css/"), strings.HasPrefix(p, "/wp-admin/load-styles"):
		return static(css, 60000, 31536000, true)
	case strings.HasPrefix(p, "/wp-admin/js/"), strings.HasPrefix(p, "/wp-admin/load-scripts"):
		return static(jsc, 150000, 31536000, true)
	case strings.HasPrefix(p, "/wp-admin/"):
		if q.S["login"] == 0 {
			return redirect(302, "/wp-login.php?redirect_to="+url.QueryEscape(s.origin()+p)+"&reauth=1")
		}
		if q.Method == "POST" {
			return redirect(302, q.URL)
		}
		beat := 60.0
		if strings.Contains(q.URL, "action=edit") {
			beat = 15
		}
		return &Resp{Type: html, Size: 32000, Think: 0.6, MaxAge: -1, Kind: "admin", Words: 200, Height: 3, Parts: []Part{
			{URL: "/wp-admin/load-styles.php?c=1&load=dashicons,admin-bar,common,forms&ver=6.8.3", Kind: "style"},
			{URL: "/wp-admin/load-scripts.php?c=1&load=jquery-core,utils,heartbeat&ver=6.8.3", Kind: "script"},
		}, Polls: []Poll{{URL: "/wp-admin/admin-ajax.php", Method: "POST", Kind: "ajax", Every: beat, Hidden: true}}}
	}
	return shopFile(s, q, p)
}

// shopFile answers what is the same for everybody.
func shopFile(s *Site, q *Req, p string) *Resp {
	switch {
	case p == "/wp-cron.php":
		return &Resp{Type: html, Size: 0, Think: 0.1}
	case p == "/xmlrpc.php":
		return &Resp{Status: 405, Type: text, Size: 42}
	case strings.HasPrefix(p, "/wp-json/"):
		return data(14000 + hn(8000, q.URL))
	case strings.HasPrefix(p, "/wp-content/uploads/"):
		typ, size := jpeg, 14000+hn(30000, p)
		if strings.Contains(p, "600x600") || strings.Contains(p, "hero") {
			size *= 3
		}
		if strings.HasSuffix(p, "png") {
			typ = png
		}
		return static(typ, size, 2592000, strings.HasSuffix(p, "png"))
	case strings.HasSuffix(p, ".css"):
		r := static(css, 9000+hn(30000, p), 2592000, true)
		if strings.Contains(p, "woocommerce.css") {
			r.Parts = []Part{{URL: "/wp-content/plugins/woocommerce/assets/fonts/WooCommerce.woff2", Kind: "font"}}
		}
		return r
	case strings.HasSuffix(p, ".js"):
		return static(jsc, 3000+hn(40000, p), 2592000, true)
	case strings.HasSuffix(p, ".woff2"):
		return static(woff, 15000, 2592000, true)
	case p == "/favicon.ico":
		return redirect(302, "/wp-content/uploads/2024/01/logo-32x32.png")
	case p == "/robots.txt":
		return &Resp{Type: text, Size: 180}
	case p == "/sitemap.xml":
		return redirect(301, "/wp-sitemap.xml")
	case p == "/wp-sitemap.xml", p == s.Feed, p == "/feed":
		return &Resp{Type: xml, Size: 9000}
	}
	return nil
}
