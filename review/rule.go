package review

// RuleID names a rule of the class file. Ids are stable: scripts, suppressions and signatures refer to them.
type RuleID string

// The rules whose breach refuses a file.
const (
	RuleFileTooLarge       RuleID = "file-too-large"       // over FileBytesMax
	RuleFileEncoding       RuleID = "file-encoding"        // not UTF-8
	RuleSyntax             RuleID = "syntax"               // neither YAML nor JSON
	RuleEmptyFile          RuleID = "empty-file"           // no document
	RuleSeveralDocuments   RuleID = "several-documents"    // more than one document
	RuleNotMapping         RuleID = "not-a-mapping"        // not a list of fields
	RuleUnknownField       RuleID = "unknown-field"        // a field that no class file has
	RuleDuplicateField     RuleID = "duplicate-field"      // a field written twice
	RuleAnchor             RuleID = "anchor"               // &name
	RuleAlias              RuleID = "alias"                // *name
	RuleMergeKey           RuleID = "merge-key"            // <<
	RuleExplicitTag        RuleID = "explicit-tag"         // !!str and the like
	RuleMissingField       RuleID = "missing-field"        // a required field, or its value, is absent
	RuleWrongType          RuleID = "wrong-type"           // a list where text should be, and the like
	RuleUnknownFormat      RuleID = "unknown-format"       // format other than 1
	RuleBadName            RuleID = "bad-name"             // a class name of another form
	RuleBadOwner           RuleID = "bad-owner"            // an owner of another form
	RuleUnknownOwner       RuleID = "unknown-owner"        // not one of the tenant's owner groups
	RuleBadText            RuleID = "bad-text"             // blank, too long, or with hidden characters
	RuleUnknownValue       RuleID = "unknown-value"        // a value outside a closed list
	RuleBareNumber         RuleID = "bare-number"          // a duration without a unit
	RuleBadDuration        RuleID = "bad-duration"         // a duration of another form
	RuleOutOfRange         RuleID = "out-of-range"         // a number or duration outside its limits
	RuleBadDate            RuleID = "bad-date"             // not a day of the calendar
	RuleHeartbeatTooLong   RuleID = "heartbeat-too-long"   // over half the lease
	RuleCorrectnessOpen    RuleID = "correctness-open"     // correctness with quorum_loss: open
	RuleFencedWithoutGuard RuleID = "fenced-without-guard" // fenced, and nothing named that checks
	RuleRefuseWithLimits   RuleID = "refuse-with-limits"   // max_wait or max_waiters with mode: refuse
	RulePurposeChanged     RuleID = "purpose-changed"      // another purpose than the name has had
)

// The rules that warn; each must be ticked by whoever signs.
const (
	RuleOpenFenced      RuleID = "open-fenced"       // an open grant carries token zero, which the guard refuses
	RuleOpenDisabled    RuleID = "open-disabled"     // the platform does not allow open grants at present
	RuleAdvisoryNoDelay RuleID = "advisory-no-delay" // correctness without a guard and without a pause
	RuleLeaseShort      RuleID = "lease-short"       // a change of leader can outlast the lease
	RuleLeaseLong       RuleID = "lease-long"        // a waiter gives up before a dead holder's lease is over
	RuleReviewOverdue   RuleID = "review-overdue"    // review_by has passed
)

// valid reports whether r has the form of a rule id; a later version of the platform may know more rules than this one.
func (r RuleID) valid() bool { return ClassName(r).Valid() }
