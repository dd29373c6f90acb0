package review

import (
	"errors"
	"fmt"
	"slices"
)

// check reports the first thing in which a restored class contradicts the rules that made it.
func (c *Class) check() error {
	if !ClassName(c.Tenant).Valid() || !c.Name.Valid() {
		return errors.New("no tenant or no name")
	}
	if len(c.Versions) == 0 || len(c.Versions) > VersionsMax {
		return fmt.Errorf("%d versions", len(c.Versions))
	}
	for i, v := range c.Versions {
		if v.Number != uint64(i)+1 {
			return fmt.Errorf("version %d stands at place %d", v.Number, i+1)
		}
		if err := c.checkVersion(v); err != nil {
			return fmt.Errorf("version %d: %w", v.Number, err)
		}
	}
	return c.checkCurrent()
}

func (c *Class) checkVersion(v Version) error {
	base, _ := c.Version(v.BaseNumber)
	switch {
	case !v.State.valid():
		return fmt.Errorf("state %q", v.State)
	case v.Posture.Class != c.Name || !v.Posture.valid():
		return errors.New("posture is not valid")
	case v.Posture.Digest() != v.Digest:
		return errors.New("digest is not that of the posture")
	case v.BaseNumber >= v.Number || base.Digest != v.Base:
		return errors.New("base is not an earlier version")
	case len(v.File) == 0 || len(v.File) > FileBytesMax || !v.Author.valid() || !v.Source.valid() || !validRules(v.Warnings):
		return errors.New("file, author, source or warnings are not valid")
	case !slices.Contains(v.Required, v.Posture.Owner):
		return errors.New("owner need not sign")
	}
	return c.checkSignatures(v)
}

func (c *Class) checkSignatures(v Version) error {
	for _, s := range v.Signatures {
		if v.Author.includes(s.Signer) {
			return errors.New("signed by its author")
		}
		if !slices.Equal(s.Ticked, v.Warnings) {
			return errors.New("signed without its warnings")
		}
	}
	wasSigned := v.State == StateSigned || v.State == StateSuperseded || v.State == StateRetired
	if wasSigned != (len(v.Missing()) == 0) {
		return fmt.Errorf("%s with %d signatures missing", v.State, len(v.Missing()))
	}
	if wasSigned && v.Posture.Purpose != c.Purpose {
		return errors.New("purpose is not that of the name")
	}
	return nil
}

// checkCurrent holds the version signed last against the rest.
func (c *Class) checkCurrent() error {
	want := StateSigned
	if c.Retired {
		want = StateRetired
	}
	current, signed := c.Version(c.Current)
	switch {
	case signed && current.State != want:
		return fmt.Errorf("current version is %s", current.State)
	case !signed && (c.Current != 0 || c.Retired || c.Purpose != ""):
		return errors.New("current version does not exist")
	}
	if c.Successor != "" && (!signed || !groupText.accepts(string(c.Successor))) {
		return errors.New("owner was transferred of nothing, or to nobody")
	}
	for _, v := range c.Versions {
		if v.State == StateSigned && v.Number != c.Current {
			return fmt.Errorf("version %d is signed beside the current one", v.Number)
		}
	}
	return nil
}
