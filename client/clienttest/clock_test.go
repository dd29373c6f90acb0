package clienttest_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stanchion-locks/stanchion/client/clienttest"
	"github.com/stanchion-locks/stanchion/client/deadline"
)

// passed is what each clock saw pass.
func passed(c *clienttest.Clock, since deadline.Reading) deadline.Reading {
	now := c.Read()
	return deadline.Reading{Boot: now.Boot - since.Boot, Monotonic: now.Monotonic - since.Monotonic,
		Raw: now.Raw - since.Raw, Wall: now.Wall - since.Wall}
}

func TestClock_movesOneByOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := clienttest.NewClock()
		mustEqual(t, "wall clock", time.Unix(0, int64(c.Read().Wall)).UTC(), time.Now().UTC())
		const s = time.Second
		for _, step := range []struct {
			what string
			do   func()
			want deadline.Reading
		}{
			{"running", func() { pass(s) }, deadline.Reading{Boot: s, Monotonic: s, Raw: s, Wall: s}},
			{"stepped", func() { c.Step(clienttest.Wall, -3*s) }, deadline.Reading{Wall: -3 * s}},
			{"suspended", func() { c.Suspend(5 * s) }, deadline.Reading{Boot: 5 * s, Wall: 5 * s}},
			{"frozen", func() { c.Freeze(clienttest.Raw); pass(s) }, deadline.Reading{Boot: s, Monotonic: s, Wall: s}},
			{"stepped while frozen", func() { c.Step(clienttest.Raw, 2*s) }, deadline.Reading{Raw: 2 * s}},
			{"all frozen", func() { c.Freeze(); pass(s) }, deadline.Reading{}},
			{"thawed", func() { c.Thaw(); pass(s) }, deadline.Reading{Boot: s, Monotonic: s, Raw: s, Wall: s}},
		} {
			before := c.Read()
			step.do()
			mustEqual(t, step.what, passed(c, before), step.want)
		}
	})
}
