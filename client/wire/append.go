package wire

import (
	"strconv"
	"unicode/utf8"
)

// appendText appends a name, with its comma and colon, and the quoted text; an empty text is left out.
func appendText(b []byte, name, text string) []byte {
	if text == "" {
		return b
	}
	return appendString(append(b, name...), text)
}

func appendNumber(b []byte, name string, n uint64) []byte {
	return strconv.AppendUint(append(b, name...), n, 10)
}

func appendDuration(b []byte, name string, d Duration) []byte {
	b = append(append(b, name...), '"')
	return append(d.append(b), '"')
}

const hexDigits = "0123456789abcdef"

// appendString appends s as a JSON string. Bytes that are no UTF-8 become U+FFFD, as encoding/json has it; names that
// the API accepts have none.
func appendString(b []byte, s string) []byte {
	b = append(b, '"')
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		switch {
		case c == '"' || c == '\\':
			b = append(append(b, s[start:i]...), '\\', c)
		case c < 0x20:
			b = append(append(b, s[start:i]...), '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&0xf])
		case c < utf8.RuneSelf:
			i++
			continue
		default:
			r, size := utf8.DecodeRuneInString(s[i:])
			if r != utf8.RuneError || size > 1 {
				i += size
				continue
			}
			b = append(append(b, s[start:i]...), "\ufffd"...)
		}
		i++
		start = i
	}
	return append(append(b, s[start:]...), '"')
}
