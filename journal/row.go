package journal

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"math"
	"time"

	"antirobot/request"
	"antirobot/verdict"
)

// Keys: 'e', an ID in 16 bytes (which begins with its time) and the kind in one; 'd' and the same for the details, as
// JSON; 's', the day in two bytes, the hash of a subject in eight, ID and kind for the index of subjects; 'm', 'h', 't'
// and a Unix time in four bytes for the figures of a minute, an hour, a day; 'M', 'H', 'T' for the most blocked; 'z'
// for state.
const (
	spaceEntry   = 'e'
	spaceDetails = 'd'
	spaceSubject = 's'
	spaceMinute  = 'm'
	spaceHour    = 'h'
	spaceDay     = 't'
	spaceState   = 'z'

	spaceStoppedMinute = 'M'
	spaceStoppedHour   = 'H'
	spaceStoppedDay    = 'T'
)

// Kind is what an entry is about.
type Kind uint8

// The kinds of entries. Their numbers are stored.
const (
	KindRequest   Kind = iota // a request that was judged
	KindShown                 // a challenge was shown
	KindSolved                // and answered rightly
	KindFailed                // and answered wrongly
	KindAbandoned             // and not answered
	KindBan                   // a ban was made
	KindAct                   // an operator did something
)

var kindNames = [...]string{"request", "shown", "solved", "failed", "abandoned", "ban", "act"}

func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return "unknown"
}

const (
	flagPaid = 1 << iota
	flagWork
)

// row has the columns that a filter reads. Its texts are borrowed.
type row struct {
	id      request.ID
	kind    Kind
	verdict verdict.Verdict
	cause   verdict.Cause
	mode    verdict.Mode
	flags   uint8
	status  uint16
	took    uint32
	share   float32
	texts   [columns][]byte
}

// followed reports a captcha page whose challenged request has an entry of its own. The gateway's own pages are not
// enforced.
func (r *row) followed() bool { return r.kind == KindShown && r.mode == verdict.Observe }

const (
	colService = iota
	colMethod
	colPath
	colSubject
	colAddress
	colAgent
	colJA4
	colReason
	colBy    // the name of the operator's token
	colTrace // the ID of the trace, in 16 bytes
	columns
)

const (
	rowVersion = 1
	rowHead    = 16
	longest    = 1 << 10
)

// appendRow appends the stored form without ID and kind.
func appendRow(dst []byte, r *row) []byte {
	dst = append(dst, rowVersion, byte(r.verdict), byte(r.cause), byte(r.mode), r.flags, 0)
	dst = binary.BigEndian.AppendUint16(dst, r.status)
	dst = binary.BigEndian.AppendUint32(dst, r.took)
	dst = binary.BigEndian.AppendUint32(dst, math.Float32bits(r.share))
	for _, t := range r.texts {
		t = t[:min(len(t), longest)]
		dst = binary.AppendUvarint(dst, uint64(len(t)))
		dst = append(dst, t...)
	}
	return dst
}

var errRow = errors.New("an entry of the journal can't be read")

// read reads a stored row; its texts are those of val.
func (r *row) read(key, val []byte) error {
	if len(key) != 1+16+1 || len(val) < rowHead || val[0] != rowVersion {
		return errRow
	}
	r.id, r.kind = request.ID(key[1:17]), Kind(key[17])
	r.verdict, r.cause, r.mode, r.flags = verdict.Verdict(val[1]), verdict.Cause(val[2]), verdict.Mode(val[3]), val[4]
	r.status, r.took = binary.BigEndian.Uint16(val[6:]), binary.BigEndian.Uint32(val[8:])
	r.share = math.Float32frombits(binary.BigEndian.Uint32(val[12:]))
	val = val[rowHead:]
	for i := range r.texts {
		n, k := binary.Uvarint(val)
		if k <= 0 || n > uint64(len(val)-k) {
			return errRow
		}
		r.texts[i], val = val[k:k+int(n)], val[k+int(n):]
	}
	return nil
}

func (r *row) at() time.Time { return timeOf(r.id) }

func timeOf(id request.ID) time.Time {
	var ms [8]byte
	copy(ms[2:], id[:6])
	return time.UnixMilli(int64(binary.BigEndian.Uint64(ms[:]))).UTC() //nolint:gosec // 48 bits
}

func entryKey(space byte, id request.ID, k Kind) []byte {
	return append(append([]byte{space}, id[:]...), byte(k))
}

// timeKey is the least key of entries at a time.
func timeKey(space byte, at time.Time) []byte {
	var ms [8]byte
	binary.BigEndian.PutUint64(ms[:], uint64(max(at.UnixMilli(), 0)))
	return append([]byte{space}, ms[2:]...)
}

func subjectKey(dayNumber uint16, subject string) []byte {
	k := binary.BigEndian.AppendUint16([]byte{spaceSubject}, dayNumber)
	return binary.BigEndian.AppendUint64(k, request.Hash([]byte(subject)))
}

func dayOf(at time.Time) uint16 { return uint16(at.Unix() / 86400) } //nolint:gosec // until the year 2149

// Entry is an entry as JSON shows it.
type Entry struct {
	ID      string    `json:"id"`
	At      time.Time `json:"at"`
	Kind    string    `json:"kind"` // request, shown, solved, failed, abandoned, ban or act
	Service string    `json:"service,omitempty"`
	Mode    string    `json:"mode,omitempty"`
	Method  string    `json:"method,omitempty"`
	Path    string    `json:"path,omitempty"`
	Verdict string    `json:"verdict,omitempty"`
	Cause   string    `json:"cause,omitempty"`
	Paid    bool      `json:"paid,omitempty"`
	Subject string    `json:"subject,omitempty"`
	Address string    `json:"address,omitempty"`
	Agent   string    `json:"agent,omitempty"`
	JA4     string    `json:"ja4,omitempty"`
	Status  uint16    `json:"status,omitempty"`
	Seconds float64   `json:"seconds,omitempty"` // until the last byte of the answer
	Reason  string    `json:"reason,omitempty"`
	By      string    `json:"by,omitempty"`
	Trace   string    `json:"trace,omitempty"`   // of a request that is traced
	Share   float32   `json:"share,omitempty"`   // of the requests like it that are kept; absent: all
	Gateway string    `json:"gateway,omitempty"` // whose journal has it, where several were asked
}

func (r *row) entry() Entry {
	text := func(c int) string { return string(r.texts[c]) }
	e := Entry{
		ID: r.id.String(), At: r.at(), Kind: r.kind.String(), Service: text(colService), Method: text(colMethod),
		Path: text(colPath), Subject: text(colSubject), Address: text(colAddress), Agent: text(colAgent),
		JA4:     text(colJA4),
		Status:  r.status,
		Seconds: float64(r.took) / 1e6, Reason: text(colReason), By: text(colBy), Paid: r.flags&flagPaid != 0,
		Trace: hex.EncodeToString(r.texts[colTrace]),
	}
	if r.kind < KindBan {
		e.Verdict, e.Cause, e.Mode = r.verdict.String(), r.cause.String(), r.mode.String()
	}
	if r.share < 1 {
		e.Share = r.share
	}
	return e
}
