package streams

import (
	"net/http"
	"net/textproto"
	"strconv"
	"sync"
	"time"

	"antirobot/proxy/h1"
	"antirobot/proxy/h1/wire"
	"antirobot/request"
)

func (s *stream) Reply(status int, fields []request.Field, body []byte) error {
	if s.head.WebSocket && status < 300 {
		status = http.StatusBadRequest // a page is no WebSocket
	}
	s.addFields(fields)
	if status != http.StatusNoContent && status != http.StatusNotModified {
		s.header["Content-Length"] = []string{strconv.Itoa(len(body))}
	} else {
		body = nil
	}
	s.begun(status)
	if len(body) == 0 || s.r.Method == http.MethodHead {
		return s.werr
	}
	return s.Write(body, false)
}

func (s *stream) refuse(status int) {
	fields, body := s.front.Refuse(status, &request.View{At: time.Now(), Method: s.head.Method, Fields: s.head.Fields})
	_ = s.Reply(status, fields, body)
}

// addFields adds fields to the answer's header, and suppresses the library's own.
func (s *stream) addFields(fields []request.Field) {
	for i := range fields {
		f := &fields[i]
		switch name := textproto.CanonicalMIMEHeaderKey(string(f.Name)); name {
		case "Connection", "Content-Length", "Transfer-Encoding", "Trailer", "Keep-Alive", "Proxy-Connection",
			"Upgrade",
			"Sec-Websocket-Accept":
			// Framing is the library's; the WebSocket proof is hop by hop.
		default:
			s.header[name] = append(s.header[name], string(f.Value))
			s.written += int64(len(f.Name) + len(f.Value))
		}
	}
	if _, ok := s.header["Content-Type"]; !ok {
		s.header["Content-Type"] = nil
	}
}

// begun buffers the head of the final answer until Flush.
func (s *stream) begun(status int) {
	s.w.WriteHeader(status)
	s.unflushed = true
}

func (s *stream) Answer(a *h1.Answer) error {
	fields, length := a.AppendFields(s.fields[:0])
	s.fields = fields
	if a.Status() == http.StatusSwitchingProtocols {
		s.addFields(fields)
		s.begun(http.StatusOK) // RFC 8441 section 5, RFC 9220
		return s.Flush()
	}
	if a.Status() < 200 {
		return s.interim(a.Status(), fields)
	}
	s.addFields(fields)
	if _, ok := s.header["Date"]; !ok {
		s.header["Date"] = nil // the service gave none
	}
	if length >= 0 {
		s.header["Content-Length"] = []string{strconv.FormatInt(length, 10)}
	}
	s.begun(a.Status())
	if length < 0 && s.http3() && s.r.Method == http.MethodHead {
		return s.Flush() // http3.Server would announce a length of 0
	}
	return s.werr
}

func (s *stream) interim(status int, fields []request.Field) error {
	if status == http.StatusContinue {
		return nil
	}
	closing := s.header["Connection"]
	delete(s.header, "Connection")
	s.addFields(fields)
	s.sendInterim(status)
	clear(s.header)
	if closing != nil {
		s.header["Connection"] = closing
	}
	return s.werr
}

func (s *stream) sendInterim(status int) {
	s.limit.begin(s.w, s.front.Config().WriteTimeout)
	s.w.WriteHeader(status)
	s.limit.end()
}

func (s *stream) Write(p []byte, _ bool) error {
	if s.werr != nil {
		return s.werr
	}
	s.unflushed = true
	s.limit.begin(s.w, s.front.Config().WriteTimeout)
	n, err := s.w.Write(p)
	s.limit.end()
	s.written += int64(n)
	return s.wrote(err)
}

func (s *stream) Flush() error {
	if !s.unflushed || s.werr != nil {
		return s.werr
	}
	s.unflushed = false
	s.limit.begin(s.w, s.front.Config().WriteTimeout)
	err := s.w.FlushError()
	s.limit.end()
	return s.wrote(err)
}

func (s *stream) wrote(err error) error {
	if err != nil {
		s.werr = h1.ErrClientGone
		s.cut = true
		s.left.Store(true)
	}
	return s.werr
}

func (s *stream) LastChunk(t wire.Trailers) {
	t.Each(func(name, value []byte) {
		key := http.TrailerPrefix + string(name)
		s.header[key] = append(s.header[key], string(value))
	})
}

// End implements h1.Client. The handler's return ends the stream.
func (s *stream) End() error { return s.werr }

// writeLimit bounds each write to a stream. http2.Server's deadline continues after the write, and would reset a silent
// stream.
type writeLimit struct {
	mu    sync.Mutex
	w     writer
	by    time.Time // deadline of the write; zero: none
	armed bool      // timer is running
	timer *time.Timer
}

// begin precedes a write, which resets the stream after timeout.
func (l *writeLimit) begin(w writer, timeout time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.w, l.by = w, time.Now().Add(timeout)
	if l.armed {
		return
	}
	l.armed = true
	if l.timer == nil {
		l.timer = time.AfterFunc(timeout, l.expire)
		return
	}
	l.timer.Reset(timeout)
}

func (l *writeLimit) end() {
	l.mu.Lock()
	l.w, l.by = nil, time.Time{}
	l.mu.Unlock()
}

func (l *writeLimit) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.w != nil {
		_ = l.w.SetWriteDeadline(past)
	}
}

// expire checks the write, which may have begun after the timer was set.
func (l *writeLimit) expire() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.armed = false
	if l.w == nil {
		return
	}
	if left := time.Until(l.by); left > 0 {
		l.armed = true
		l.timer.Reset(left)
		return
	}
	_ = l.w.SetWriteDeadline(past)
}
