package sim

// put lays the product of the page into the cart.
func (a *Agent) put() {
	if a.page().Kind == "item" {
		a.submit("POST", a.page().URL)
		return
	}
	a.call("POST", "/?wc-ajax=add_to_cart", "ajax")
}

// pay goes through the checkout.
func (a *Agent) pay() {
	a.click(Link{URL: "/cart/", Kind: "form"})
	a.look(a.r.logN(8*a.T.Slow, 0.6), 1)
	if a.r.p(0.3) {
		a.submit("POST", "/cart/")
		a.look(a.r.logN(4, 0.5), 1)
	}
	a.click(Link{URL: "/checkout/", Kind: "formcheckout"})
	for range a.r.n(1, 4) {
		a.look(a.r.logN(22*a.T.Slow, 0.6), 2)
		a.call("POST", "/?wc-ajax=update_order_review", "fetch")
	}
	a.look(a.r.logN(25*a.T.Slow, 0.7), 2.5)
	a.call("POST", "/?wc-ajax=checkout", "ajax")
	if a.r.p(0.12) { // card refused, once more
		a.look(a.r.logN(30, 0.6), 2)
		a.call("POST", "/?wc-ajax=checkout", "ajax")
	}
	n := a.r.n(20000, 29999)
	a.click(Link{URL: "/checkout/order-received/" + itoa(n) + "/?key=wc_order_" + word(4, n), Kind: "form"})
	a.S["cart"] = 0
	a.look(a.r.logN(12, 0.8), 1)
}

// buyer looks around and buys.
func buyer(a *Agent) {
	a.visits(a.r.u(0.5, 1), publicHours, func() {
		a.come()
		put := false
		for i := 0; i < 25 && (!put || !a.enough(i)); i++ {
			a.read(0.9)
			if (a.page().Kind == "item" && a.r.p(0.4)) || a.page().Kind == "list" && a.r.p(0.05) {
				a.put()
				put = true
				a.look(a.r.logN(3, 0.5), 1)
			}
			if a.r.p(0.25) && a.back() {
				continue
			}
			if !a.follow("item", "related", "next", "list") {
				break
			}
		}
		if put && a.r.p(0.85) {
			a.pay()
		}
	})
}

// abandoner fills the cart and goes away, comes back and looks at it.
func abandoner(a *Agent) {
	a.visits(a.r.u(0.8, 1.6), eveningHours, func() {
		if a.S["cart"] > 0 && a.r.p(0.6) {
			a.goTo("/cart/", external(a.r, "mail"))
			a.look(a.r.logN(15, 0.8), 1)
		} else {
			a.come()
		}
		for i := 0; !a.enough(i); i++ {
			a.read(0.8)
			if a.page().Kind == "item" && a.r.p(0.25) {
				a.put()
				a.read(0.3)
			}
			if !a.follow("item", "related", "list", "nav") {
				return
			}
		}
		if a.r.p(0.4) {
			a.click(Link{URL: "/cart/", Kind: "form"})
			a.look(a.r.logN(12, 0.8), 1)
			if a.S["cart"] > 0 {
				a.click(Link{URL: "/checkout/", Kind: "formcheckout"})
				a.look(a.r.logN(20, 0.9), 1)
			}
		}
	})
}

// bargain sorts by price and goes down the list.
func bargain(a *Agent) {
	a.visits(a.r.u(0.8, 2), eveningHours, func() {
		a.arrive("list")
		for range a.r.geo(6) {
			a.look(a.r.logN(2*a.T.Slow, 0.5), 1)
			a.follow("filter")
			a.read(0.8)
			for a.r.p(0.6) && a.follow("item") {
				a.read(0.5)
				a.back()
				a.look(a.r.logN(2, 0.5), a.page().depth+0.6)
			}
			if a.r.p(0.4) {
				a.follow("next")
			} else if !a.follow("list") {
				return
			}
		}
	})
}

// owner runs the shop from the back office all day.
func owner(a *Agent) {
	a.C = desktop(a.r)
	a.warm, a.icon = 15, true
	a.S["may"] = 1
	for d := range a.site.Days {
		a.begin(a.at(d, a.r.g(8.5, 0.8, 7)), func() {
			a.goTo("/wp-admin/", "")
			if a.page().Kind == "form" {
				a.look(a.r.logN(6, 0.4), 1)
				a.submit("POST", "/wp-login.php")
			}
			stop := a.now + int64(a.r.u(3, 9)*float64(hour))
			order := a.r.n(28000, 28900)
			for a.now < stop {
				a.look(a.r.logN(12*a.T.Slow, 0.8), 1)
				switch a.r.weighted([]float64{5, 4, 2, 1, 1}) {
				case 0: // orders, one after another
					a.click(Link{URL: "/wp-admin/admin.php?page=wc-orders", Kind: "form"})
					a.look(a.r.logN(8, 0.6), 2)
					order++
					a.click(Link{URL: "/wp-admin/admin.php?page=wc-orders&action=edit&id=" + itoa(order), Kind: "form"})
					a.look(a.r.logN(25*a.T.Slow, 0.7), 2)
					a.submit("POST", a.page().URL)
				case 1:
					a.click(Link{URL: "/wp-admin/post.php?post=" + itoa(3000+a.r.n(0, goods-1)) + "&action=edit", Kind: "form"})
					a.look(a.r.logN(120*a.T.Slow, 0.9), 3)
					a.submit("POST", "/wp-admin/post.php?post=1&action=edit")
				case 2:
					a.newTab(a.site.Item(a.r.n(0, goods-1)), "")
					a.read(0.6)
					a.closeTab()
				case 3:
					a.hide()
					a.wait(a.r.logN(900, 0.8)) // packing parcels
					a.tab.hidden = false
				default:
					a.click(Link{URL: "/wp-admin/edit.php?post_type=product", Kind: "form"})
				}
			}
		})
	}
}

// tracker asks after the parcel.
func tracker(a *Agent) {
	a.S["may"] = 1
	a.visits(a.r.u(1, 3), publicHours, func() {
		a.goTo("/my-account/orders/", external(a.r, "mail"))
		a.look(a.r.logN(6*a.T.Slow, 0.6), 1)
		if a.S["login"] == 0 {
			a.submit("POST", "/my-account/")
			a.look(a.r.logN(5, 0.5), 1)
			a.follow("nav")
		}
		a.read(0.5)
		if a.r.p(0.3) {
			a.reload()
			a.look(a.r.logN(4, 0.5), 1)
		}
	})
}

// cron is the shop's own job runner.
func cron(a *Agent) {
	a.asTool("WordPress/6.8.3; https://shop.teeundkram.test", anything)
	a.Addr = "127.0.0.1"
	for a.now = a.at(0, 0); a.now < a.end(); {
		a.ask(a.now, "POST", "/wp-cron.php?doing_wp_cron="+itoa(int(a.now/1000)), "doc", "", "")
		a.now += int64(a.r.exp(400)*1000) + 60000
	}
}

// scalper watches some products in a browser and puts them into the cart.
func scalper(a *Agent) {
	a.asBrowser(true)
	i := hn(goods, "rare", a.group)
	every := a.r.u(60, 240)
	a.visits(1, flatHours, func() {
		a.goTo(a.site.Item(i), "")
		for range a.r.n(20, 80) {
			a.look(a.fake(3, 0.3), 1)
			if a.r.p(0.04) {
				a.put()
				a.look(a.r.u(1, 2), 1)
				a.goTo("/checkout/", "")
			}
			a.wait(a.r.u(every*0.7, every*1.3))
			a.goTo(a.site.Item(i), "")
		}
	})
}

// carder tests cards with cheap orders.
func carder(a *Agent) {
	a.asTool(desktop(a.r).UA, "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8")
	a.visits(a.r.u(0.6, 1.5), flatHours, func() {
		u := a.site.Item(hn(goods, "cheap"))
		a.grab(u, "")
		_, a.now = a.ask(a.now+900, "POST", u, "doc", a.url(u), "")
		a.grab("/checkout/", a.url(u))
		for range a.r.n(5, 40) {
			_, a.now = a.ask(a.now+int64(a.r.u(1500, 6000)), "POST", "/?wc-ajax=checkout", "doc", a.url("/checkout/"), "")
		}
	})
}

// llmBuys lets a model buy something.
func llmBuys(a *Agent) {
	a.asModel()
	a.visits(a.r.u(0.5, 1.5), publicHours, func() {
		a.goTo(a.site.Home, "")
		a.glimpse()
		a.query(a.term())
		for range a.r.n(1, 5) {
			a.glimpse()
			if !a.follow("item") {
				break
			}
			a.glimpse()
			if a.r.p(0.4) {
				a.put()
				a.look(a.think(), 1)
				break
			}
			a.back()
		}
		if a.S["cart"] == 0 {
			return
		}
		a.goTo("/cart/", "")
		a.look(a.think(), 1)
		a.follow("formcheckout")
		for i := range a.r.n(5, 10) {
			a.look(a.think(), 1+float64(i)*0.2)
			if i == 3 {
				a.call("POST", "/?wc-ajax=update_order_review", "fetch")
			}
		}
		if a.r.p(0.5) {
			a.call("POST", "/?wc-ajax=checkout", "ajax")
			a.look(a.think(), 1)
		}
	})
}

func castShop() []role {
	return []role{
		people("buyer", 18, buyer), people("abandoner", 10, abandoner), people("bargain-hunter", 8, bargain), people("owner", 2, owner),
		people("parcel-tracker", 5, tracker), people("skimmer", 10, skimmer), people("deep-reader", 4, deepReader), people("comparer", 9, comparer),
		people("list-worker", 6, listWorker), people("one-page", 14, onePage), people("daily", 3, daily), people("bad-line", 5, badLine),
		people("private", 4, private), people("lean", 1, lean), people("screen-reader", 2, screenReader), people("keyboard", 2, keyboard),
		people("translated", 2, translated), people("old-device", 3, oldDevice), people("in-app", 7, inApp), people("vpn", 3, vpn),
		people("lunch", 3, lunch), people("sleepless", 2, sleepless), people("family", 2, family), people("watcher", 4, watcher),
		people("tab-hoarder", 2, hoarder), people("scattered", 3, scattered), people("seeker", 3, seeker), people("elder", 4, elder),
		people("prefetcher", 1, prefetcher), people("developer", 1, developer), people("windows", 1, windows),

		robots("wp-cron", 1, cron), robots("price-monitor", 5, priceMonitor), robots("scalper", 3, scalper), robots("carder", 2, carder),
		robots("crawler", 2, crawler), robots("ai-crawler", 3, aiCrawler), robots("seo-tool", 3, seoTool), robots("search-engine", 2, searchBot),
		robots("disguised-client", 2, disguised), robots("list-scraper", 2, listScraper), robots("form-spammer", 2, formSpam), robots("account-checker", 2, accountChecker),
		robots("vuln-scanner", 2, vulnScanner), robots("link-checker", 1, linkChecker), robots("uptime", 2, uptime), robots("api-scraper", 2, apiScraper),
		robots("preview", 2, preview), robots("mirror", 1, mirror), robots("inspector", 2, inspector), robots("image-taker", 1, imageTaker),
		robots("naive-fixed", 2, naive("fixed", false)), robots("naive-uniform", 2, naive("uniform", true)), robots("light-browser", 2, lightBrowser),
		robots("walker", 2, walker), robots("scroller", 2, scroller), robots("backtracker", 2, backtracker), robots("popular-walker", 3, popularWalker),
		robots("office-hours", 2, officeHours), robots("quiet-scraper", 2, quietScraper), robots("tab-opener", 2, tabOpener), robots("markov", 3, markov),
		robots("engager", 2, engager), robots("sold-visit", 3, soldVisit),
		robots("llm-buyer", 4, llmBuys), robots("llm-compare", 3, llmCompare), robots("llm-search", 2, llmSearch), robots("llm-extension", 2, llmExtension),
		robots("llm-vision", 2, llmVision), robots("llm-fetcher", 1, llmFetcher), robots("llm-cron", 2, llmCron), robots("llm-research", 2, llmResearch),
		robots("sticky-residential", 4, sticky), robots("rotating-residential", 6, rotating), robots("page-monitor", 4, monitorPage),
		robots("replay", 3, replay(0.15, false)), robots("replay-loose", 3, replay(0.3, true)), robots("render-service", 1, renderService),
	}
}
