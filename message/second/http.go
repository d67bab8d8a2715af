package second

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"unicode"
)

type asked struct {
	Version int            `json:"version"`
	Service string         `json:"service"`
	Route   string         `json:"route"`
	Domain  string         `json:"domain"`
	Score   float64        `json:"score"`
	Message map[string]any `json:"message"`
}

type answered struct {
	Verdict string `json:"verdict"`
	Reason  string `json:"reason"`
}

const (
	maxAnswer = 64 << 10
	maxReason = 200
)

func (a *asker) askHTTP(ctx context.Context, q *Question) Opinion {
	in := asked{1, q.Service, q.Route, q.Domain, q.Score, make(map[string]any)}
	for _, name := range a.cfg.Send {
		if v, ok := q.Message[name]; ok {
			in.Message[name] = v
		}
	}
	body, err := json.Marshal(in)
	if err != nil {
		return Opinion{Why: err.Error()}
	}
	o, _ := a.once(ctx, sha256.Sum256(body), func(ctx context.Context) (Opinion, error) { return a.post(ctx, body) })
	return o
}

func (a *asker) post(ctx context.Context, body []byte) (Opinion, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, a.cfg.URL, bytes.NewReader(body))
	if err != nil {
		return Opinion{}, err
	}
	req.Header.Set("Content-Type", "application/json")
	if a.cfg.Token != "" {
		req.Header.Set("Authorization", "Bearer "+a.cfg.Token)
	}
	res, err := a.client.Do(req)
	if err != nil {
		return Opinion{}, err
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer+1))
	switch {
	case err != nil:
		return Opinion{}, err
	case res.StatusCode != http.StatusOK:
		return Opinion{}, fmt.Errorf("the answer is %s", res.Status)
	case len(answer) > maxAnswer:
		return Opinion{}, fmt.Errorf("the answer has more than %d bytes", maxAnswer)
	}
	return readAnswer(answer)
}

func readAnswer(answer []byte) (Opinion, error) {
	var out answered
	if err := json.Unmarshal(answer, &out); err != nil {
		return Opinion{}, fmt.Errorf("the answer is not JSON: %w", err)
	}
	reason := strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, out.Reason)
	if r := []rune(reason); len(r) > maxReason {
		reason = string(r[:maxReason])
	}
	for _, s := range [...]Says{Unsure, Good, Bad} {
		if out.Verdict == s.String() {
			return Opinion{Says: s, Why: reason}, nil
		}
	}
	return Opinion{}, fmt.Errorf("the verdict is %.20q, neither good, bad nor unsure", out.Verdict)
}
