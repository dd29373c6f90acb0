package wire_test

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stanchion-locks/stanchion/client/wire"
)

func TestShown_plainTextIsShownAsItIs(t *testing.T) {
	for _, text := range []string{"2026-06", "host-a:4711", "/v9/", "%2Fv9%2F", "a/b", "a+b", "@:#?%&", "a;b=c", "été", "ß", "鍵", "🔒", "<b>"} {
		if got := wire.Shown(text); got != text {
			t.Errorf("%q is shown as %s; want it as it is", text, got)
		}
	}
}

func TestShown_quotesWhatWouldDeceiveOrDisappear(t *testing.T) {
	for text, want := range map[string]string{
		"":                          `""`,
		"a b":                       `"a b"`,
		" a":                        `" a"`,
		`"quoted"`:                  `"\"quoted\""`,
		`back\slash`:                `"back\\slash"`,
		"\x1b[2Jgone":               `"\x1b[2Jgone"`,
		"a\tb\nc":                   `"a\tb\nc"`,
		"\u202eabc":                 `"\u202eabc"`,
		"a\u2066b":                  `"a\u2066b"`,
		"a\u200bb":                  `"a\u200bb"`,
		"a\u00a0b":                  `"a\u00a0b"`,
		"\u2028":                    `"\u2028"`,
		"\ufeff":                    `"\ufeff"`,
		"🔒\ufe0f":                   `"🔒\ufe0f"`,
		"\u0301e":                   `"\u0301e"`,
		"مفتاح":                     `"\u0645\u0641\u062a\u0627\u062d"`,
		"key of \u05d0":             `"key of \u05d0"`,
		"\xff":                      `"\xff"`,
		"\x9b31m":                   `"\x9b31m"`,
		"\u009b31m":                 `"\u009b31m"`,
		"it's":                      `"it's"`,
		strings.Repeat("\u0000", 2): `"\x00\x00"`,
	} {
		if got := wire.Shown(text); got != want {
			t.Errorf("%q is shown as %s; want %s", text, got, want)
		}
	}
}

// FuzzShown holds that no text is shown with what moves a cursor or turns a line, and that no two are shown alike: what is
// shown says what the text was.
func FuzzShown(f *testing.F) {
	for _, seed := range []string{"a", "\x1b[2J", `\x1b`, "\u202e", "\ufffd", "\xff", `"`, "é"} {
		f.Add(seed, `"`+seed+`"`)
	}
	f.Fuzz(func(t *testing.T, text, other string) {
		shown := wire.Shown(text)
		if !utf8.ValidString(shown) {
			t.Fatalf("%q is shown as %q, which is no UTF-8", text, shown)
		}
		for _, r := range shown {
			if unicode.Is(unicode.C, r) || unicode.Is(unicode.Zl, r) || unicode.Is(unicode.Zp, r) {
				t.Fatalf("%q is shown as %q", text, shown)
			}
		}
		if text != other && shown == wire.Shown(other) {
			t.Fatalf("%q and %q are both shown as %s", text, other, shown)
		}
	})
}
