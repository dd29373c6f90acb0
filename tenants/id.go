package tenants

import (
	"unicode/utf8"
)

// TenantID is a tenant's slug: 1–63 lower-case letters, digits and hyphens. A slug is never reused for another tenant.
type TenantID string

// Platform stands where a tenant's slug would, on API keys of the platform's own operators. It names no tenant.
const Platform TenantID = ""

// Group names a group of people as the identity provider does: 1–255 bytes of UTF-8 without control characters,
// compared byte for byte.
type Group string

// PartitionID numbers a partition from 1. Zero is none.
type PartitionID uint32

const (
	// SlugBytesMax bounds a tenant's slug.
	SlugBytesMax = 63
	// GroupBytesMax bounds the name of a group.
	GroupBytesMax = 255
	// OwnerGroupsMax bounds the owner groups of a tenant.
	OwnerGroupsMax = 64
	// TenantsMax bounds the tenants of a cluster, dropped ones included.
	TenantsMax = 100_000
	// PartitionMax bounds the number of a partition.
	PartitionMax PartitionID = 1 << 16
	// TokenBaseMax bounds the base that a new tenant's tokens count from. It leaves half of the room below TokenLimit
	// to the counter.
	TokenBaseMax uint64 = 1 << 52
	// TokenLimit is above every fencing token: up to here JSON numbers keep all digits.
	TokenLimit uint64 = 1 << 53
	// NameBytesMax bounds the name of an API key.
	NameBytesMax = 128
	// NoteBytesMax bounds the reason that a person gives.
	NoteBytesMax = 1024
	// SubjectBytesMax bounds an identity provider's issuer and subject, and an e-mail address.
	SubjectBytesMax = 255

	timeMSMax = 253_402_300_799_999 // the end of the year 9999
)

// ValidSlug reports whether s may name a tenant.
func ValidSlug(s string) bool {
	if s == "" || len(s) > SlugBytesMax {
		return false
	}
	for i := range len(s) {
		if !isNameByte(s[i]) {
			return false
		}
	}
	return true
}

func isNameByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-'
}

// validText reports whether s is UTF-8 of at most bytesMax without control characters. Empty is valid.
func validText(s string, bytesMax int) bool {
	if len(s) > bytesMax || !utf8.ValidString(s) {
		return false
	}
	for _, r := range s {
		if r < 0x20 || r >= 0x7f && r < 0xa0 {
			return false
		}
	}
	return true
}

func validLabel(s string, bytesMax int) bool { return s != "" && validText(s, bytesMax) }

func validTime(ms int64) bool { return ms > 0 && ms <= timeMSMax }
