package tenants_test

import (
	"testing"

	"github.com/stanchion-locks/stanchion/tenants"
)

func uses(atMS int64, keys ...tenants.APIKeyID) tenants.RecordKeyUses {
	c := tenants.RecordKeyUses{AtMS: atMS}
	for _, k := range keys {
		c.Uses = append(c.Uses, tenants.KeyUse{Key: k, AtMS: atMS})
	}
	return c
}

func (w *world) lastUsed(key tenants.APIKeyID) int64 {
	k, _ := w.state.APIKey("acme", key)
	return k.LastUsedMS
}

func TestRecordKeyUses_keepsWhatIsNewerByAStep(t *testing.T) {
	w := newWorld(t)
	key := w.key(1, "locks:*")
	later := nowMS + tenants.UseStepMS
	for _, c := range []struct {
		name           string
		atMS, useMS    int64
		want           int64
		newsBeforehand bool
	}{
		{"the first", nowMS, nowMS, nowMS, true},
		{"the same again", nowMS, nowMS, nowMS, false},
		{"just below the step", later - 1, later - 1, nowMS, false},
		{"at the step", later, later, later, true},
		{"an older one", later, nowMS, later, false},
		{"one ahead of the command's clock", later + tenants.UseStepMS, later + 99*dayMS, later + tenants.UseStepMS, true},
	} {
		if got := w.state.UseIsNews(key, min(c.useMS, c.atMS)); got != c.newsBeforehand {
			t.Errorf("%s: news: got %v, want %v", c.name, got, c.newsBeforehand)
		}
		record := uses(c.atMS, key)
		record.Uses[0].AtMS = c.useMS
		if events := w.ok(record); len(events) != 0 {
			t.Errorf("%s: got events %+v, want none", c.name, events)
		}
		if got := w.lastUsed(key); got != c.want {
			t.Errorf("%s: last use: got %d, want %d", c.name, got, c.want)
		}
	}
	if _, err := tenants.DecodeState(w.bytes()); err != nil {
		t.Errorf("restore: %v", err)
	}
	w.ok(w.rotate(key, 2))
	if got := w.lastUsed(credential(t, 2).ID()); got != 0 {
		t.Errorf("the successor was last used at %d; want never", got)
	}
}

func TestRecordKeyUses_passesOverUnknownKeys(t *testing.T) {
	w := newWorld(t)
	w.unchanged(uses(nowMS, credential(t, 9).ID()))
	if w.state.UseIsNews(credential(t, 9).ID(), nowMS) {
		t.Error("the use of an unknown API key is news")
	}
}

func TestRecordKeyUses_refusesWhatIsOutOfForm(t *testing.T) {
	w := newWorld(t)
	a, b := credential(t, 1).ID(), credential(t, 2).ID()
	if a > b {
		a, b = b, a
	}
	long := uses(nowMS)
	long.Uses = make([]tenants.KeyUse, tenants.KeyUsesMax+1)
	for name, c := range map[string]tenants.RecordKeyUses{"none": uses(nowMS), "out of order": uses(nowMS, b, a), "twice": uses(nowMS, a, a),
		"no id": uses(nowMS, "x"), "no time": {Uses: []tenants.KeyUse{{Key: a}}, AtMS: nowMS}, "too many": long} {
		if r := w.refused(c, tenants.RefusedInvalid); r.Field != "uses" {
			t.Errorf("%s: got field %q, want uses", name, r.Field)
		}
	}
	w.unchanged(uses(nowMS, a, b))
}
