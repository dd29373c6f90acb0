package platform

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stanchion-locks/stanchion/tenants"
)

func TestKeyUses_keepTheLastOfEachAndForgetWhatWasTaken(t *testing.T) {
	u := newKeyUses()
	u.note("bbbbbbbbbb", 100_000)
	u.note("aaaaaaaaaa", 100_000)
	u.note("aaaaaaaaaa", 100_000+keyUseStepMS)
	u.note("aaaaaaaaaa", 100_001+keyUseStepMS) // too soon to be worth a write
	u.note("bbbbbbbbbb", 50_000)
	want := []tenants.KeyUse{{Key: "aaaaaaaaaa", AtMS: 100_000 + keyUseStepMS}, {Key: "bbbbbbbbbb", AtMS: 100_000}}
	if got := u.take(); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := u.take(); len(got) != 0 {
		t.Errorf("taken again: got %v, want nothing", got)
	}
}

func TestKeyUses_areBounded(t *testing.T) {
	u := newKeyUses()
	for i := range keyUsesMax + 10 {
		u.note(tenants.APIKeyID(fmt.Sprintf("%010d", i)), 100_000)
	}
	if got := len(u.take()); got != keyUsesMax {
		t.Errorf("got %d, want %d", got, keyUsesMax)
	}
}

func TestTakeKeyUses_notesOnlyWhatCanBe(t *testing.T) {
	p := &Platform{uses: newKeyUses()}
	tell := func(body string) int {
		w := httptest.NewRecorder()
		p.takeKeyUses(w, httptest.NewRequest(http.MethodPost, keyUsePath, strings.NewReader(body)))
		return w.Code
	}
	if got := tell("no list"); got != http.StatusBadRequest {
		t.Errorf("no list: got %d, want 400", got)
	}
	tell(`[{"key":"no id","at_ms":100000},{"key":"aaaaaaaaaa","at_ms":-5},{"key":"bbbbbbbbbb","at_ms":99999999999999}]`)
	got := p.uses.take()
	if len(got) != 1 || got[0].Key != "bbbbbbbbbb" || got[0].AtMS > time.Now().UnixMilli() {
		t.Errorf("got %v, want the one that can be, and not in the future", got)
	}
}

func BenchmarkNoteKeyUse(b *testing.B) {
	u := newKeyUses()
	b.RunParallel(func(pb *testing.PB) {
		for at := int64(100_000); pb.Next(); at++ {
			u.note("aaaaaaaaaa", at)
		}
	})
}
