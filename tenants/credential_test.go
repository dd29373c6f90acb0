package tenants_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"regexp"
	"strings"
	"testing"

	"github.com/stanchion-locks/stanchion/tenants"
)

func TestCredential_formIsFixedForEver(t *testing.T) {
	const golden = "stn_wub6gnYaWX_KkegFOPmRvfataB9jYTQLjm5CqWuvPlSWQVzA7T4Y673wk9TK"
	if got := credential(t, 1).Reveal(); got != golden {
		t.Errorf("got %s, want %s", got, golden)
	}
	if c, err := tenants.ParseCredential(golden); err != nil || c.ID() != "wub6gnYaWX" {
		t.Errorf("parse: got %v, %v", c.ID(), err)
	}
}

func TestCredential_publishedPatternFindsEveryKey(t *testing.T) {
	pattern := regexp.MustCompile(tenants.APIKeyPattern)
	for seed := range uint64(500) {
		text := credential(t, seed).Reveal()
		if got := pattern.FindString("key=" + text + "\n"); got != text {
			t.Fatalf("got %q, want %q", got, text)
		}
	}
}

func TestParseCredential_refusesAnyChangedByte(t *testing.T) {
	text := credential(t, 2).Reveal()
	for i := range len(text) {
		for _, b := range []byte("aZ9_-\x00\xff") {
			changed := []byte(text)
			changed[i] = b
			_, err := tenants.ParseCredential(string(changed))
			if string(changed) != text && !errors.Is(err, tenants.ErrMalformedAPIKey) {
				t.Errorf("byte %d is %q: got %v, want ErrMalformedAPIKey", i, b, err)
			}
		}
	}
	for _, s := range []string{"", text[:len(text)-1], text + "0", " " + text, strings.ToLower(text)} {
		if _, err := tenants.ParseCredential(s); !errors.Is(err, tenants.ErrMalformedAPIKey) {
			t.Errorf("%q: got %v, want ErrMalformedAPIKey", s, err)
		}
	}
}

func TestCredential_secretShowsInNoFormat(t *testing.T) {
	c := credential(t, 3)
	secret := c.Reveal()[15:]
	var out bytes.Buffer
	type holder struct{ C tenants.Credential }
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%T %v"} {
		fmt.Fprintf(&out, verb+"\n", c)
		fmt.Fprintf(&out, verb+"\n", &c)
		fmt.Fprintf(&out, verb+"\n", holder{c})
	}
	slog.New(slog.NewJSONHandler(&out, nil)).Info("key", "key", c, "in", holder{c})
	slog.New(slog.NewTextHandler(&out, nil)).Info("key", "key", c, "in", holder{c})
	if err := json.NewEncoder(&out).Encode(holder{c}); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(&out, "%v %s", c.Hash(), c.Hash())
	for _, leak := range []string{secret, secret[:8], fmt.Sprintf("%x", secret)} {
		if strings.Contains(out.String(), leak) {
			t.Errorf("output holds %q:\n%s", leak, out.String())
		}
	}
	if want := "stn_" + string(c.ID()) + "_[redacted]"; !strings.Contains(out.String(), want) {
		t.Errorf("output does not hold %q:\n%s", want, out.String())
	}
	if got := (tenants.Credential{}).String(); got != "stn_[none]" {
		t.Errorf("zero credential: got %q", got)
	}
}

func TestGenerateCredential_drawsEachCharacterAlike(t *testing.T) {
	counts := map[rune]int{}
	source := &stream{seed: 4}
	const keys = 4000
	for range keys {
		c, err := tenants.GenerateCredential(source)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range c.Reveal()[15:58] {
			counts[r]++
		}
	}
	want := keys * 43 / 62
	if len(counts) != 62 {
		t.Fatalf("got %d characters, want 62", len(counts))
	}
	for r, n := range counts {
		if n < want*9/10 || n > want*11/10 {
			t.Errorf("%q: got %d, want about %d", r, n, want)
		}
	}
}

func TestGenerateCredential_failsWithItsSource(t *testing.T) {
	if c, err := tenants.GenerateCredential(io.LimitReader(&stream{}, 20)); err == nil {
		t.Errorf("got %v, want an error", c)
	}
}

func FuzzParseCredential(f *testing.F) {
	f.Add(credential(f, 5).Reveal())
	f.Add("stn__")
	f.Add("")
	f.Fuzz(func(t *testing.T, text string) {
		c, err := tenants.ParseCredential(text)
		switch {
		case err != nil && !errors.Is(err, tenants.ErrMalformedAPIKey):
			t.Errorf("got %v, want ErrMalformedAPIKey", err)
		case err == nil && (c.Reveal() != text || !c.ID().Valid() || !regexp.MustCompile(tenants.APIKeyPattern).MatchString(text)):
			t.Errorf("%q is accepted as %q", text, c.Reveal())
		}
	})
}
