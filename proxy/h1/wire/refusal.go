package wire

import "errors"

// ErrBadResponse wraps why an answer is ambiguous or malformed.
var ErrBadResponse = errors.New("the upstream's response is not valid HTTP")

// Refusal is why a request is not served, numbered below Refusals. HeadTimeout and ConnectionField come from the
// fronts.
type Refusal uint8

// The refusals.
const (
	BadLine Refusal = iota + 1
	BadMethod
	BadTarget
	badVersion
	BadName
	BadValue
	badFold
	badLineEnd
	badHost
	badHostCount
	badHostMismatch
	BadLength
	badLengthCount
	badLengthEncoding
	badEncoding
	unknownEncoding
	encodingOn10
	ConnectRefused
	badExpect
	TargetTooLong
	HeadTooLong
	TooManyFields
	HeadTimeout
	ConnectionField
	Refusals
)

var refusals = [Refusals]struct {
	status int
	name   string
}{
	BadLine:           {400, "request_line"},
	BadMethod:         {400, "method"},
	BadTarget:         {400, "target"},
	badVersion:        {505, "version"},
	BadName:           {400, "field_name"},
	BadValue:          {400, "field_value"},
	badFold:           {400, "obs_fold"},
	badLineEnd:        {400, "line_end"},
	badHost:           {400, "host"},
	badHostCount:      {400, "host_count"},
	badHostMismatch:   {400, "host_mismatch"},
	BadLength:         {400, "content_length"},
	badLengthCount:    {400, "content_length_count"},
	badLengthEncoding: {400, "content_length_and_transfer_encoding"},
	badEncoding:       {400, "transfer_encoding"},
	unknownEncoding:   {501, "transfer_encoding_unknown"},
	encodingOn10:      {400, "transfer_encoding_on_1_0"},
	ConnectRefused:    {405, "connect"},
	badExpect:         {417, "expect"},
	TargetTooLong:     {414, "target_too_long"},
	HeadTooLong:       {431, "header_too_long"},
	TooManyFields:     {431, "too_many_fields"},
	HeadTimeout:       {408, "header_timeout"},
	ConnectionField:   {400, "connection_field"},
}

// Error implements error.
func (r Refusal) Error() string { return "refused: " + refusals[r].name }

// Status is its HTTP status.
func (r Refusal) Status() int { return refusals[r].status }

// Name is its name in metrics.
func (r Refusal) Name() string { return refusals[r].name }
