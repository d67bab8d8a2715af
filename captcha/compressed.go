package captcha

import (
	"bytes"
	"compress/gzip"

	"antirobot/request"
)

// setPage makes body, a page, that of the answer: compressed, if the client takes that.
//
// A page has what its visitor's own URL or form says beside what is secret, and a length tells an eavesdropper which of the two repeat each
// other (BREACH). That takes many answers with one secret: here each answer has secrets of its own, a key and a sealed form that are
// encrypted anew with a nonce, and the rest is in the URL. Keep it so.
func (pg *pages) setPage(q *Request, a *Response, body []byte) {
	a.Body = body
	if !request.AcceptsCoding(q.View.Get("Accept-Encoding"), "gzip") {
		return
	}
	z, ok := pg.zippers.Get().(*gzip.Writer)
	if !ok {
		z, _ = gzip.NewWriterLevel(nil, gzip.BestSpeed) // the level is one
	}
	defer pg.zippers.Put(z)
	b := bytes.NewBuffer(make([]byte, 0, len(body)/2))
	z.Reset(b)
	if _, err := z.Write(body); err != nil || z.Close() != nil {
		return // it is sent as it is
	}
	a.Body = b.Bytes()
	a.add("Content-Encoding", "gzip")
}
