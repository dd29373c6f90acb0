package lockcore_test

import "testing"

// TestRevision_rules: a leader whose copy of the control log lags takes nothing back.
func TestRevision_rules(t *testing.T) {
	const put = "put-tenant acme keys=7 revision=5\n"
	const gone = "drop-tenant acme revision=5\n"
	checkRules(t, []rule{
		{"a put of the same revision", put, "put-tenant acme keys=8 revision=5", "done", false},
		{"a put of the next", put, "put-tenant acme keys=7 revision=6", "done", false},
		{"a put of the one before", put, "put-tenant acme keys=8 revision=4", "refused stale_version", true},
		{"a put of the one before raises no token base", put, "put-tenant acme base=99 revision=4", "refused stale_version", true},
		{"an invalid put of the one before", put, "put-tenant acme keys=0 revision=4", "refused invalid", true},
		{"the highest counts, not the last", put + "put-tenant acme revision=4", "put-tenant acme revision=4", "refused stale_version", true},
		{"a drop of the same revision", held + put, "drop-tenant acme revision=5", "done", false},
		{"a drop of the next", held + put, "drop-tenant acme revision=6", "done", false},
		{"a drop of the one before", put, "drop-tenant acme revision=4", "refused stale_version", true},
		{"a drop again, of the one before", held + gone, "drop-tenant acme revision=4", "refused stale_version", true},
		{"a drop again, of the next", held + gone, "drop-tenant acme revision=6", "done", false},
		{"a put of the one before, while it is being dropped", held + gone, "put-tenant acme revision=4", "refused stale_version", true},
		{"a put of the drop's, while it is being dropped", held + gone, "put-tenant acme revision=5", "refused busy", true},
		{"a put of a later one, while it is being dropped", held + gone, "put-tenant acme revision=6", "refused busy", true},
		{"a put of the one before the drop, once it is gone", gone, "put-tenant acme revision=4", "refused stale_version", true},
		{"a put of the drop's, once it is gone", gone, "put-tenant acme revision=5", "refused stale_version", true},
		{"a put of the next, once it is gone", gone, "put-tenant acme revision=6", "done", false},
		{"a put without a revision, once it is gone", "drop-tenant acme", "put-tenant acme", "refused stale_version", true},
		{"a put of the last drop's, gone with the last lease", held + gone + "drop-tenant acme revision=7\nrelease acme s1.1", "put-tenant acme revision=7", "refused stale_version", true},
		{"a drop of the one before, once it is gone", gone, "drop-tenant acme revision=4", "refused stale_version", true},
		{"a drop of the same, once it is gone", gone, "drop-tenant acme revision=5", "refused unknown", true},
		{"a drop of the one before, after it was made again", gone + "put-tenant acme revision=6", "drop-tenant acme revision=5", "refused stale_version", true},
		{"another tenant has its own", put, "put-tenant birch revision=1", "done", false},

		{"retire an older version", "put-class acme jobs version=3", "retire-class acme jobs version=2", "refused stale_version", true},
		{"retire the one in force", "put-class acme jobs version=3", "retire-class acme jobs version=3", "done", false},
		{"retire a version not seen here", "", "retire-class acme jobs version=4", "done", false},
		{"put what was retired unseen", "retire-class acme jobs version=4", "put-class acme jobs version=4", "refused stale_version", true},
		{"put what came after", "retire-class acme jobs version=4", "put-class acme jobs version=5", "done", false},
		{"retire again, an older one", "put-class acme jobs version=3\nretire-class acme jobs version=3", "retire-class acme jobs version=2", "refused stale_version", true},
		{"retire again, a later one", "retire-class acme jobs", "retire-class acme jobs version=2", "done", false},
		{"retire no version", "", "retire-class acme jobs version=0", "refused invalid", true},
	})
}
