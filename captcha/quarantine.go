package captcha

// quarantineJSON is what a client is told whose request the rules put into quarantine.
type quarantineJSON struct {
	Type      string   `json:"type"`
	RequestID string   `json:"request-id"`
	Decision  string   `json:"decision,omitempty"`
	Tags      []string `json:"tags,omitempty"`
}

// Quarantined is the answer to a request that rules put into quarantine: 409 with their decision and tags as JSON, for
// scripts and services that decide themselves what becomes of it. It names no rule: that would help spammers.
func (c *Captcha) Quarantined(q *Request, decision string, tags []string) Response {
	a := c.own(q, 409, typeJSON, verdictBlocked)
	c.cors(q, &a)
	a.Body = marshal(quarantineJSON{"quarantine", q.RequestID, decision, tags})
	return a
}
