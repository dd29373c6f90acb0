package guard

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// Bounds of what is gathered between two reports.
const (
	locksMax      = 1024 // locks that are reported on
	rejectionsMax = 64   // different pairs of token and highest in one report
)

// lockName is a lock, as reports name it.
type lockName struct{ class, key string }

// pair is a stale token and the highest that had entered.
type pair struct{ token, highest uint64 }

// report is the body of a report. It is the wire's shape, which this package does not import, so that a resource's
// program carries nothing of the lock service; a test holds the two together.
type report struct {
	ReportID   string      `json:"report_id"`
	Class      string      `json:"class"`
	Key        string      `json:"key"`
	Checks     uint64      `json:"checks"`
	Rejections []rejection `json:"rejections"`
}

type rejection struct {
	Token   uint64    `json:"token"`
	Highest uint64    `json:"highest"`
	At      time.Time `json:"at"`
	Count   uint64    `json:"count"`
}

// tally counts the decisions about one lock.
type tally struct {
	checks     uint64
	rejections map[pair]*rejection
}

// Lost counts what no report said, because something was bounded or the service refused the report.
type Lost struct {
	Checks     uint64 // of locks beyond the bound, and of lost reports
	Rejections uint64 // beyond the bound of a report, and of lost reports
	Reports    uint64 // refused by the service, or not delivered when Run ended
}

func (l Lost) plus(other Lost) Lost {
	return Lost{l.Checks + other.Checks, l.Rejections + other.Rejections, l.Reports + other.Reports}
}

// tallies are the counts of all locks since they were taken last. Not safe for concurrent use.
type tallies map[lockName]*tally

// add counts one decision, and returns what had no room. stale is nil unless the decision was to refuse a stale token.
func (all tallies) add(lock lockName, stale *StaleError, at time.Time) Lost {
	t := all[lock]
	if t == nil {
		if len(all) >= locksMax {
			lost := Lost{Checks: 1}
			if stale != nil {
				lost.Rejections = 1
			}
			return lost
		}
		t = &tally{rejections: map[pair]*rejection{}}
		all[lock] = t
	}
	t.checks++
	if stale == nil {
		return Lost{}
	}
	p := pair{stale.Presented, stale.Highest}
	r := t.rejections[p]
	if r == nil {
		if len(t.rejections) >= rejectionsMax {
			return Lost{Rejections: 1}
		}
		r = &rejection{Token: p.token, Highest: p.highest}
		t.rejections[p] = r
	}
	r.At = at.UTC().Truncate(time.Millisecond)
	r.Count++
	return Lost{}
}

// reports are the tallies as reports without ids, in the order of their locks.
func (all tallies) reports() []report {
	locks := slices.SortedFunc(maps.Keys(all), func(a, b lockName) int {
		return cmp.Or(cmp.Compare(a.class, b.class), cmp.Compare(a.key, b.key))
	})
	reports := make([]report, 0, len(locks))
	for _, lock := range locks {
		t := all[lock]
		r := report{Class: lock.class, Key: lock.key, Checks: t.checks, Rejections: make([]rejection, 0, len(t.rejections))}
		for _, rejected := range t.rejections {
			r.Rejections = append(r.Rejections, *rejected)
		}
		slices.SortFunc(r.Rejections, func(a, b rejection) int {
			return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Token, b.Token), cmp.Compare(a.Highest, b.Highest))
		})
		reports = append(reports, r)
	}
	return reports
}

// lost is what a report said, once nobody will hear it.
func (r report) lost() Lost {
	lost := Lost{Checks: r.Checks, Reports: 1}
	for _, rejected := range r.Rejections {
		lost.Rejections += rejected.Count
	}
	return lost
}
