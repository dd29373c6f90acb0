package guard

import (
	"fmt"
	"strconv"
)

// TokenMax is the highest fencing token, 2^53-1: every JSON number up to it is exact. The lowest is 1.
const TokenMax = 1<<53 - 1

// ParseToken reads a fencing token in its one spelling: decimal digits without sign, space or leading zero. Anything else,
// zero included, is ErrNoToken.
func ParseToken(text string) (uint64, error) {
	if text == "" {
		return 0, &tokenError{missing: true, why: "no token was presented"}
	}
	if len(text) > len("9007199254740991") || !digitsOnly(text) {
		return 0, &tokenError{why: "the token is not a decimal number of 1 to 16 digits"}
	}
	if text[0] == '0' {
		return 0, &tokenError{why: "the token is zero or begins with one"}
	}
	token, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, &tokenError{why: "the token is not a number"}
	}
	if err := checkToken(token); err != nil {
		return 0, err
	}
	return token, nil
}

func digitsOnly(text string) bool {
	for i := range len(text) {
		if text[i] < '0' || text[i] > '9' {
			return false
		}
	}
	return true
}

// checkToken refuses what no protected grant carries.
func checkToken(token uint64) error {
	switch {
	case token == 0:
		return &tokenError{why: "the token is zero, which only an unprotected grant carries"}
	case token > TokenMax:
		return &tokenError{why: fmt.Sprintf("the token %d is above 2^53-1", token)}
	}
	return nil
}
