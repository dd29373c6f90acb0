package wire

import "time"

// GuardReport is the body of POST /v1/guard/reports: what a guard has decided at one lock's resource since the report
// before. It is answered with 204. The server counts each report id once, so that a report may be sent again.
type GuardReport struct {
	// ReportID is the reporter's random 128-bit id in 32 lower-case hexadecimal digits, a dot, and a number that rises from
	// 1 over all reports of that reporter. A reporter sends n+1 only after n was answered.
	ReportID   string           `json:"report_id"`
	Class      string           `json:"class"`
	Key        string           `json:"key"`
	Checks     uint64           `json:"checks"`     // enters and checks that were decided, refused ones included
	Rejections []GuardRejection `json:"rejections"` // at most 64, each pair of token and highest once; none: []
}

// GuardRejection is a stale token that a guard refused, as often as Count says.
type GuardRejection struct {
	Token   uint64    `json:"token"`   // that was presented
	Highest uint64    `json:"highest"` // that had entered
	At      time.Time `json:"at"`      // the last time, on the guard's clock, UTC
	Count   uint64    `json:"count"`   // from 1
}
