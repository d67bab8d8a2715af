package captcha

// quarantineJSON is what a client is told if the rules quarantined its request.
type quarantineJSON struct {
	Type      string   `json:"type"`
	RequestID string   `json:"request-id"`
	Decision  string   `json:"decision,omitempty"`
	Tags      []string `json:"tags,omitempty"`
}

// Quarantined is the answer to a quarantined request: 409 with the rules' decision and tags as JSON, for scripts and
// services that decide themselves what happens to it. It names no rule: that would help spammers.
func (c *Captcha) Quarantined(q *Request, decision string, tags []string) Response {
	a := c.pages.own(q, 409, typeJSON, verdictBlocked)
	c.pages.cors(q, &a)
	a.Body = marshal(quarantineJSON{"quarantine", q.RequestID, decision, tags})
	return a
}
