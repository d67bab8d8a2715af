package demo

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Lesson is a text from which the demo's model learns what spam is.
type Lesson struct {
	Text string
	Spam bool
}

// Lessons returns what a model should know before anybody tries to spam the guest-book.
func Lessons() []Lesson {
	var all []Lesson
	for _, t := range []string{
		"Win money at our online casino, free spins and a bonus for new players", "Cheap pills without prescription, order online today",
		"Earn 500 dollars a day from home, no experience, click the link", "Best casino bonus, win the jackpot now",
		"Hot offers: cheap watches, replica bags, order now", "Get rich with crypto, guaranteed profit, write me in private",
		"Buy followers and likes, cheap and fast", "Loan without papers in five minutes, apply online",
		"Выиграй деньги в онлайн казино, бонус новым игрокам", "Заработок на дому без опыта, от 5000 в день, пишите в личку",
		"Дёшево таблетки без рецепта, закажи сейчас", "Казино дарит бонус, забери выигрыш по ссылке",
		"Быстрый кредит без справок онлайн", "Накрутка подписчиков и лайков, дёшево",
	} {
		all = append(all, Lesson{t, true})
	}
	for _, t := range []string{
		"What a lovely site, I liked the story about the lighthouse", "Hello from a rainy town, greetings to all readers",
		"The pictures of the river are beautiful, thank you", "We baked your bread yesterday and the children loved it",
		"I was here in summer and will come again", "Good luck with the project, it works well on my old phone",
		"Thank you for the recipe, it needs a little more salt", "Hello, just trying the guest-book",
		"Does the ferry to the lighthouse run on Sundays too?", "My grandmother baked such bread, the smell is the same",
		"There is a small mistake in the second picture, the bridge is older", "Best wishes to everybody who keeps this going",
		"How long did you wait for the light in that photograph?", "I read the story to my son and he asked for another one",
		"Какой хороший сайт, спасибо за рассказ о маяке", "Привет всем читателям из дождливого города",
		"Фотографии реки замечательные", "Испекли вчера ваш хлеб, детям понравилось",
		"А паром к маяку ходит по воскресеньям?", "Моя бабушка пекла такой же хлеб, запах тот же",
		"На второй фотографии небольшая ошибка, мост старше", "Всего доброго всем, кто это делает",
		"Прочитала рассказ сыну, попросил ещё один", "Сколько вы ждали такого света для этого снимка?",
		"Была здесь летом, приеду ещё", "Здравствуйте, просто пробую гостевую книгу",
	} {
		all = append(all, Lesson{t, false})
	}
	return all
}

type judged struct {
	RequestID string `json:"request-id"`
	At        time.Time
	Verdict   string
	Message   struct {
		Action, Decision, Error, Trace string
		Solved                         bool
		Score                          float64
		Tags                           []string
	}
}

// Steps are the lines of the trace.
func (j judged) Steps() []step {
	var out []step
	for line := range strings.Lines(strings.TrimSpace(j.Message.Trace)) {
		s := step{Line: strings.TrimSpace(line)}
		s.Fired = strings.Contains(s.Line, ": FALSE")
		s.Passed = strings.HasSuffix(s.Line, ": passed over")
		out = append(out, s)
	}
	return out
}

type step struct {
	Line          string
	Fired, Passed bool
}

type logEntry struct {
	ID      int64
	When    time.Time
	Tags    []string
	Message struct{ Text string }
}

type rulesView struct {
	Problem  string // key of a text
	Learnt   string // key of a text
	Messages []judged
	Entries  []logEntry
}

// showRules shows what the rules said about the last messages, line by line.
func (s *site) showRules(w http.ResponseWriter, r *http.Request) {
	v := s.ruled(r.Context())
	if m := r.URL.Query().Get("learnt"); m == "good" || m == "bad" || m == "again" || m == "failed" {
		v.Learnt = "rules.learnt_" + m
	}
	s.render(w, r, http.StatusOK, "rules", v)
}

// Bounds of the page.
const (
	shownJudged  = 20
	shownEntries = 10
)

func (s *site) ruled(ctx context.Context) (v rulesView) {
	var recent struct{ Messages []judged }
	var log struct{ Entries []logEntry }
	if s.api.call(ctx, http.MethodGet, "/api/messages/recent?limit="+strconv.Itoa(shownJudged), nil, &recent) != nil ||
		s.api.call(ctx, http.MethodGet, "/api/messages?limit="+strconv.Itoa(shownEntries), nil, &log) != nil {
		v.Problem = "rules.away"
	}
	v.Messages, v.Entries = recent.Messages, log.Entries
	return v
}

// teach lets the visitor label an entry of the log, as a moderator does.
func (s *site) teach(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, 4<<10)
	id, err := strconv.ParseInt(r.PostFormValue("id"), 10, 64)
	marker := r.PostFormValue("marker")
	if err != nil || id < 1 || marker != "good" && marker != "bad" {
		http.Error(w, "no such entry", http.StatusBadRequest)
		return
	}
	outcome := "failed"
	var told struct{ Learnt bool }
	target := "/api/messages/" + strconv.FormatInt(id, 10) + "/mark"
	if s.api.call(r.Context(), http.MethodPost, target, map[string]string{"marker": marker}, &told) == nil {
		outcome = "again"
		if told.Learnt {
			outcome = marker
		}
	}
	http.Redirect(w, r, "/guestbook/rules?"+url.Values{"learnt": {outcome}}.Encode(), http.StatusSeeOther)
}
