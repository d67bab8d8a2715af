package h1

import (
	"errors"

	"antirobot/proxy/upstream"
)

// Reasons why Forward or ReadBody failed. Test with errors.Is; Status returns the matching status.
var (
	errNoUpstream      = errors.New("no upstream")                               // none could be reached, or all are busy
	errUpstreamTimeout = errors.New("upstream did not answer in time")           // no head, or a body that stopped coming
	errUpstreamClosed  = errors.New("upstream closed the connection")            // before or within its answer
	errBadResponse     = errors.New("the upstream's response is not valid HTTP") // never forwarded
	ErrBodyTooLarge    = errors.New("request body too large")                    // beyond a limit
	errBodiesBusy      = errors.New("bodies hold too much memory")               // in total
	ErrBadBody         = errors.New("request body is no valid chunked")          // its framing is broken
	ErrBodyLate        = errors.New("request body is not there yet")
	errBodyTimeout     = errors.New("request body did not come in time") // read_timeout or min_body_rate
	ErrClientGone      = errors.New("client left")                       // nobody is left to answer
	errAnswered        = errors.New("request is answered already")       // Reply or Forward after an answer began
	errBadField        = errors.New("header field is not valid HTTP")    // given by the handler
)

// Status is the HTTP status that reports err to a client; 0 if there is nobody to tell or the answer has begun.
func Status(err error) int {
	for _, m := range []struct {
		err    error
		status int
	}{
		{ErrClientGone, 0},
		{errAnswered, 0},
		{ErrBodyTooLarge, 413},
		{errBodiesBusy, 503},
		{ErrBadBody, 400},
		{errBodyTimeout, 408},
		{errUpstreamTimeout, 504},
		{upstream.ErrBusy, 503},
		{errNoUpstream, 502},
		{errUpstreamClosed, 502},
		{errBadResponse, 502},
	} {
		if errors.Is(err, m.err) {
			return m.status
		}
	}
	return 500
}

// refusal is why a request is not served. It is an error without detail: the values are indexes of refusals.
type refusal uint8

const (
	badLine refusal = iota + 1
	badMethod
	badTarget
	badVersion
	badName
	badValue
	badFold
	badLineEnd
	badHost
	badHostCount
	badHostMismatch
	badLength
	badLengthCount
	badLengthEncoding
	badEncoding
	unknownEncoding
	encodingOn10
	connectRefused
	badExpect
	targetTooLong
	headTooLong
	tooManyFields
	headTimeout
	connectionField
	nRefusals
)

// refusals gives each its status and its name in the metrics.
var refusals = [nRefusals]struct {
	status int
	name   string
}{
	badLine:           {400, "request_line"},
	badMethod:         {400, "method"},
	badTarget:         {400, "target"},
	badVersion:        {505, "version"},
	badName:           {400, "field_name"},
	badValue:          {400, "field_value"},
	badFold:           {400, "obs_fold"},
	badLineEnd:        {400, "line_end"},
	badHost:           {400, "host"},
	badHostCount:      {400, "host_count"},
	badHostMismatch:   {400, "host_mismatch"},
	badLength:         {400, "content_length"},
	badLengthCount:    {400, "content_length_count"},
	badLengthEncoding: {400, "content_length_and_transfer_encoding"},
	badEncoding:       {400, "transfer_encoding"},
	unknownEncoding:   {501, "transfer_encoding_unknown"},
	encodingOn10:      {400, "transfer_encoding_on_1_0"},
	connectRefused:    {405, "connect"},
	badExpect:         {417, "expect"},
	targetTooLong:     {414, "target_too_long"},
	headTooLong:       {431, "header_too_long"},
	tooManyFields:     {431, "too_many_fields"},
	headTimeout:       {408, "header_timeout"},
	connectionField:   {400, "connection_field"},
}

func (r refusal) Error() string { return "refused: " + refusals[r].name }
