package wire

// ForceReleaseRequest is the body of POST /v1/locks/force-release: end somebody's hold.
type ForceReleaseRequest struct {
	Class  string `json:"class"`
	Key    string `json:"key"`
	Token  uint64 `json:"token"`         // of the hold to end, so that nobody ends one that they did not look at
	Reason string `json:"reason"`        // for the audit: 1–1,024 bytes of UTF-8 without control characters
	Now    bool   `json:"now,omitempty"` // do not wait for the holder's release or the lease's end
}

// ForceRelease answers POST /v1/locks/force-release.
type ForceRelease struct {
	Class string `json:"class"`
	Key   string `json:"key"`
	Token uint64 `json:"token"` // of the hold
	State State  `json:"state"` // ending: the holder is told, and the key is not granted yet; ended
	Now   bool   `json:"now"`   // as asked
	What  string `json:"what"`  // what happens next, in words
}
