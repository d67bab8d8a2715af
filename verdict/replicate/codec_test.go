package replicate_test

import (
	"testing"
	"time"

	"antirobot/identity"
	"antirobot/verdict/replicate"
)

type record struct {
	subject identity.Subject
	prefix  identity.Prefix
	at, no  time.Time
	n       uint32
	score   float32
	name    string
	is      bool
}

func (r *record) code(c *replicate.Codec) {
	c.Subject(&r.subject)
	c.Prefix(&r.prefix)
	c.Time(&r.at)
	c.Time(&r.no)
	replicate.Uint(c, &r.n)
	c.Float(&r.score)
	c.Text(&r.name, 64)
	c.Bool(&r.is)
}

func fresh() *record {
	return &record{
		subject: identity.Subject{Kind: identity.KindI, ID: [16]byte{1, 15: 9}}, prefix: identity.Prefix{Bits: 120, Group: 7},
		at: time.Unix(1.8e9, 5), n: 1 << 31, score: 0.25, name: "pages", is: true,
	}
}

// TestRecordsCrossClocks: a record is read as it was written, with its times by the reader's clock.
func TestRecordsCrossClocks(t *testing.T) {
	w := replicate.Writer(nil, time.Hour)
	want := fresh()
	want.code(w)
	var got record
	r := replicate.Reader(w.Bytes(), 2*time.Hour)
	if got.code(r); !r.OK() {
		t.Fatal("malformed")
	}
	if !got.at.Equal(want.at.Add(-time.Hour)) || !got.no.IsZero() {
		t.Errorf("times %v, %v", got.at, got.no)
	}
	if got.at = want.at; got != *want {
		t.Errorf("%+v, want %+v", got, *want)
	}
}

func FuzzRecords(f *testing.F) {
	w := replicate.Writer(nil, 0)
	fresh().code(w)
	f.Add(w.Bytes())
	f.Add(replicate.Append(nil, 'x', w.Bytes()))
	f.Fuzz(func(t *testing.T, b []byte) {
		var got, again record
		r := replicate.Reader(b, 0)
		if got.code(r); r.OK() {
			w := replicate.Writer(nil, 0)
			got.code(w)
			if again.code(replicate.Reader(w.Bytes(), 0)); got != again {
				t.Errorf("%+v became %+v", got, again)
			}
		}
		replicate.Each(b, func(byte, []byte) bool { return true })
	})
}
