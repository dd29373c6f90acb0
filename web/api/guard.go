package api

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/stanchion-locks/stanchion/client/wire"
	"github.com/stanchion-locks/stanchion/lockcore"
	"github.com/stanchion-locks/stanchion/lockcore/leader"
	"github.com/stanchion-locks/stanchion/tenants"
)

// reportGuard is POST /v1/guard/reports: what a guard has checked and refused. A report that was counted before is answered
// the same.
func (a *API) reportGuard(c echo.Context, p tenants.Principal) error {
	if err := noQuery(c); err != nil {
		return err
	}
	body, err := readJSON(c, bodyBytesMax)
	if err != nil {
		return err
	}
	defer body.release()
	report, err := decodeGuardReport(body.b)
	if err != nil {
		return err
	}
	report.Tenant, report.APIKey = lockcore.TenantID(p.Tenant), string(p.KeyID)
	return a.atLeader(c, report.Tenant, 0, body.b, func(ctx context.Context, here Locks) error {
		result, err := here.Command(ctx, report)
		switch {
		case err != nil:
			return err
		case result.Outcome == lockcore.Done:
			return c.NoContent(http.StatusNoContent)
		case result.Reason == lockcore.RefusedUnknown:
			return wire.NewProblem(wire.CodeNotFound, "No version of the class has ever been in force.")
		case result.Reason == lockcore.RefusedStaleEpoch:
			return leader.ErrNotLeader
		}
		return fmt.Errorf("count a guard's report: refused: %s", result.Reason)
	})
}

var (
	guardFields     = []string{"report_id", "class", "key", "checks", "rejections"}
	rejectionFields = []string{"token", "highest", "at", "count"}
)

const (
	reportIDRule = "must be 32 lower-case hexadecimal digits, not all zero, a dot, and a number from 1 to 2^53-1"
	checksRule   = "must be a whole number from 0 to 2^53-1"
)

var rejectionsRule = fmt.Sprintf("must be a list of at most %d objects, each with a token below highest, "+
	"highest and count from 1 to 2^53-1, and the time in RFC 3339", lockcore.RejectionsMax)

// decodeGuardReport reads a report, all but who reports.
func decodeGuardReport(body []byte) (lockcore.ReportGuard, error) {
	var r lockcore.ReportGuard
	given := make([]bool, len(guardFields))
	s := scanner{data: body}
	err := s.object(guardFields, func(field int) error {
		given[field] = true
		return decodeGuardField(&s, &r, field)
	})
	if err != nil {
		return lockcore.ReportGuard{}, err
	}
	for field, rule := range []string{reportIDRule, classRule, keyRule, checksRule, rejectionsRule} {
		if !given[field] {
			return lockcore.ReportGuard{}, &badRequest{guardFields[field], "is missing; it " + rule}
		}
	}
	return r, nil
}

func decodeGuardField(s *scanner, r *lockcore.ReportGuard, field int) error {
	switch name := guardFields[field]; name {
	case "report_id":
		text, err := s.text()
		id, wrong := lockcore.ParseLeaseID(text) // the same form: who, a dot, and which
		r.Reporter, r.Sequence = lockcore.ReporterID(id.Session), id.Sequence
		return unless(err == nil && wrong == nil && r.Reporter != (lockcore.ReporterID{}), name, reportIDRule)
	case "class":
		text, err := s.text()
		r.Class = lockcore.ClassName(text)
		return unless(err == nil && lockcore.ValidName(text), name, classRule)
	case "key":
		text, err := s.text()
		r.Key = lockcore.Key(text)
		return unless(err == nil && lockcore.ValidKey(text), name, keyRule)
	case "checks":
		n, ok := s.count()
		r.Checks = n
		return unless(ok, name, checksRule)
	default: // rejections
		list, ok := s.rejections()
		r.Rejections = list
		return unless(ok, name, rejectionsRule)
	}
}

// count reads a whole number from 0 to 2^53-1.
func (s *scanner) count() (uint64, bool) {
	s.space()
	if s.at < len(s.data) && s.data[s.at] == '0' {
		s.at++
		return 0, true // a digit behind it is no comma, and fails there
	}
	n, ok := s.whole()
	return n, ok && n <= lockcore.CountMax
}

// rejections reads a list of rejections.
func (s *scanner) rejections() ([]lockcore.Rejection, bool) {
	if !s.take('[') {
		return nil, false
	}
	if s.take(']') {
		return nil, true
	}
	var list []lockcore.Rejection
	for len(list) < lockcore.RejectionsMax {
		r, ok := s.rejection()
		if !ok {
			return nil, false
		}
		list = append(list, r)
		if s.take(']') {
			return list, true
		}
		if !s.take(',') {
			return nil, false
		}
	}
	return nil, false
}

func (s *scanner) rejection() (lockcore.Rejection, bool) {
	var r lockcore.Rejection
	given := 0
	err := s.fields(rejectionFields, func(field int) error {
		given++
		return unless(s.rejectionField(&r, field), "rejections", rejectionsRule)
	})
	return r, err == nil && given == len(rejectionFields) && r.Token < r.Highest && r.Count > 0
}

func (s *scanner) rejectionField(r *lockcore.Rejection, field int) bool {
	switch rejectionFields[field] {
	case "token":
		n, ok := s.count()
		r.Token = lockcore.Token(n)
		return ok
	case "highest":
		n, ok := s.count()
		r.Highest = lockcore.Token(n)
		return ok
	case "count":
		n, ok := s.count()
		r.Count = n
		return ok
	default: // at
		text, err := s.text()
		at, wrong := time.Parse(time.RFC3339, text)
		r.AtMS = at.UnixMilli()
		return err == nil && wrong == nil && r.AtMS >= 0
	}
}
