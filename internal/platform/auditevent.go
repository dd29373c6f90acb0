package platform

import (
	"strconv"
	"strings"

	"github.com/stanchion-locks/stanchion/audit"
	"github.com/stanchion-locks/stanchion/internal/control"
)

// controlRows are an entry's events as the audit keeps them.
func controlRows(events []control.Event) []audit.Event {
	rows := make([]audit.Event, 0, len(events))
	for _, e := range events {
		rows = append(rows, controlAudit(e))
	}
	return rows
}

// controlAudit is an event of the control log as the audit keeps it.
func controlAudit(e control.Event) audit.Event {
	out := audit.Event{Kind: e.Kind, Tenant: string(e.Tenant), Class: string(e.Class), Token: e.Token, Version: e.Version,
		Reason: e.Reason, APIKey: string(e.APIKey), By: e.By, Note: e.Note, AtMS: e.AtMS}
	out.Detail = details(
		detail{"digest", string(e.Digest)}, detail{"key_name", e.KeyName}, detail{"successor", string(e.Successor)},
		detail{"command", e.Command}, detail{"field", e.Field})
	return out
}

// detail is one fact about an event that has no column of its own.
type detail struct{ name, value string }

// details writes facts as name=value, quoted where the value would not be read back.
func details(all ...detail) string {
	var b strings.Builder
	for _, d := range all {
		if d.value == "" {
			continue
		}
		if b.Len() > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(d.name)
		b.WriteByte('=')
		if strings.ContainsAny(d.value, " \"=") {
			b.WriteString(strconv.Quote(d.value))
		} else {
			b.WriteString(d.value)
		}
	}
	return b.String()
}
