package e2e

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	cdbrowser "github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

// landed waits until the site's page is there, and fails if it is another one.
func landed(t *testing.T, ctx context.Context, what, at string) {
	t.Helper()
	var where string
	run(t, ctx, what, chromedp.WaitVisible(`//pre[contains(.,"site got")]`), chromedp.Location(&where))
	if where != at {
		t.Errorf("%s: landed on %s, wanted %s", what, where, at)
	}
}

// TestSolvedQuestionIsOver: after a right answer, also one that took less than a second, nobody sees the question again: not by going back
// to it, by reloading it, by its bare address, or in another tab that has it open, looked at or not.
func TestSolvedQuestionIsOver(t *testing.T) {
	t.Parallel()
	for _, settings := range []string{"", silentSettings} {
		g := configuredFront(t, site(t).URL, settings)
		g.ban("ip:127.0.0.1", "10m")
		one := shell(t)
		if settings == "" {
			two, three := tab(t, one), tab(t, one)
			for name, ctx := range map[string]context.Context{"two": two, "three": three} {
				run(t, ctx, "a further tab", page.BringToFront(), chromedp.Navigate(g.url+"/"+name+"?a=1#part"), chromedp.WaitVisible(field, chromedp.ByQuery))
			}
			run(t, one, "answer", page.BringToFront(), chromedp.Navigate(g.url+"/one"), chromedp.SendKeys(field, testAnswer+"\r", chromedp.ByQuery))
			landed(t, one, "the answer", g.url+"/one")
			landed(t, two, "the second tab", g.url+"/two?a=1#part")
			landed(t, three, "the third tab", g.url+"/three?a=1#part")
			run(t, one, "go back", chromedp.NavigateBack())
		} else {
			run(t, one, "be checked", chromedp.Navigate(g.url+"/one"))
		}
		landed(t, one, "back", g.url+"/one")
		question := visitor(t).get(g.url+"/asked", "Accept", "text/html").must(t, 302, "").Header.Get("Location")
		run(t, one, "the question of another tab", chromedp.Navigate(question))
		landed(t, one, "the question of another tab", g.url+"/asked")
		run(t, one, "the bare address", chromedp.Navigate(g.url+"/showcaptcha"))
		landed(t, one, "the bare address", g.url+"/")
	}
}

// TestDownloadBehindAQuestion: a file that comes in place of a page leaves the question's page where it is. The page thanks, says that the
// file is being saved, and has nothing left to press that would send a spent key; the file comes once.
func TestDownloadBehindAQuestion(t *testing.T) {
	t.Parallel()
	served := make(chan string, 100)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/write" {
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprint(w, `<!doctype html><title>Export</title><form method=post action=/file><input name=a value=b><button id=send>Send</button></form>`)
			return
		}
		served <- r.Method
		w.Header().Set("Content-Type", "text/csv")
		w.Header().Set("Content-Disposition", `attachment; filename="all.csv"`)
		fmt.Fprint(w, "a,b\n")
	}))
	t.Cleanup(s.Close)
	for name, settings := range map[string]string{"digits": "", "silent": silentSettings, "form": ""} {
		g := configuredFront(t, s.URL, settings)
		dir := t.TempDir()
		ctx := shell(t)
		run(t, ctx, "downloads are kept", cdbrowser.SetDownloadBehavior(cdbrowser.SetDownloadBehaviorBehaviorAllow).WithDownloadPath(dir))
		want := "GET"
		if name == "form" {
			want = "POST"
			run(t, ctx, "open", chromedp.Navigate(g.url+"/write"), chromedp.WaitVisible("#send", chromedp.ByQuery))
			g.ban("ip:127.0.0.1", "10m")
			run(t, ctx, "send", chromedp.Click("#send", chromedp.ByQuery), chromedp.WaitVisible(field, chromedp.ByQuery))
		} else {
			g.ban("ip:127.0.0.1", "10m")
			run(t, ctx, "open", chromedp.Navigate(g.url+"/file"))
		}
		if name != "silent" {
			run(t, ctx, "answer", chromedp.SendKeys(field, testAnswer+"\r", chromedp.ByQuery))
		}
		run(t, ctx, name+": the page says so", chromedp.WaitVisible(`//p[@role="status" and contains(.,"a file is being saved")]`))
		screen(t, ctx, "download-"+name)
		if n := value[int](t, ctx, `document.querySelectorAll('form, button, input').length`); n != 0 {
			t.Errorf("%s: %d controls are left", name, n)
		}
		checkAxe(t, ctx, axe(t), name)
		eventually(t, "the file is there", func() bool {
			b, err := os.ReadFile(filepath.Join(dir, "all.csv"))
			return err == nil && string(b) == "a,b\n"
		})
		if got := <-served; got != want || len(served) > 0 {
			t.Errorf("%s: the service served %s, and %d more", name, got, len(served))
		}
	}
}
