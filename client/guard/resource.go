package guard

import (
	"errors"
	"fmt"
	"unicode"
	"unicode/utf8"
)

// ResourceBytesMax bounds a resource's name. A lock's key is within it.
const ResourceBytesMax = 512

func checkResource(name string) error {
	switch {
	case name == "":
		return fmt.Errorf("%w: it is empty", ErrResource)
	case len(name) > ResourceBytesMax:
		return fmt.Errorf("%w: it has %d bytes of at most %d", ErrResource, len(name), ResourceBytesMax)
	case !utf8.ValidString(name):
		return fmt.Errorf("%w: %q is no UTF-8", ErrResource, name)
	}
	for _, r := range name {
		if unicode.IsControl(r) {
			return fmt.Errorf("%w: %q has a control character", ErrResource, name)
		}
	}
	return nil
}

// Reporting says for which lock a guard reports, and through whom. The zero value reports nothing.
type Reporting struct {
	Reporter *Reporter // nil: nothing is reported
	Class    string    // the lock class that protects the resources
	// Key gives the lock's key for a resource. Nil: resources are named by their keys.
	Key func(resource string) string
}

// observe counts a decision. It waits for nothing but a mutex and cannot fail.
func (r Reporting) observe(resource string, err error) {
	if r.Reporter == nil || !decided(err) {
		return
	}
	key := resource
	if r.Key != nil {
		key = r.Key(resource)
	}
	var stale *StaleError
	errors.As(err, &stale)
	r.Reporter.observe(lockName{r.Class, key}, stale)
}
