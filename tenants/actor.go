package tenants

import "cmp"

// ActorKind says what asked for a command.
type ActorKind uint8

// The kinds of actors. Numbers are part of the log format.
const (
	ActorPerson   ActorKind = iota + 1 // signed in through the identity provider
	ActorAPIKey                        // a program, with an API key
	ActorPlatform                      // a node itself: bootstrap, its local socket, reconciliation
)

// Actor is who asked for a command.
type Actor struct {
	_      struct{} `cbor:",toarray"`
	Kind   ActorKind
	Person Person   // of ActorPerson
	Key    APIKeyID // of ActorAPIKey
}

// Person is a human being as an identity provider knows it. Issuer and Subject say who; the e-mail address is for people.
type Person struct {
	_       struct{} `cbor:",toarray"`
	Issuer  string   // 1 .. SubjectBytesMax bytes
	Subject string   // 1 .. SubjectBytesMax bytes
	Email   string   // 0 .. SubjectBytesMax bytes
}

// PlatformMaker answers for the API keys that a node made by itself. No identity provider can have that issuer, which is
// no address.
var PlatformMaker = Person{Issuer: "stanchion", Subject: "platform"}

// ByPerson is the actor for a person.
func ByPerson(p Person) Actor { return Actor{Kind: ActorPerson, Person: p} }

// ByAPIKey is the actor for an API key.
func ByAPIKey(id APIKeyID) Actor { return Actor{Kind: ActorAPIKey, Key: id} }

// ByPlatform is the actor for a node that acts by itself.
func ByPlatform() Actor { return Actor{Kind: ActorPlatform} }

func (a Actor) valid() bool {
	switch a.Kind {
	case ActorPerson:
		return a.Person.valid() && a.Key == ""
	case ActorAPIKey:
		return a.Key.Valid() && a.Person == Person{}
	case ActorPlatform:
		return a == ByPlatform()
	}
	return false
}

func (p Person) valid() bool {
	return validLabel(p.Issuer, SubjectBytesMax) && validLabel(p.Subject, SubjectBytesMax) && validText(p.Email, SubjectBytesMax)
}

func (p Person) compare(other Person) int {
	return cmp.Or(cmp.Compare(p.Issuer, other.Issuer), cmp.Compare(p.Subject, other.Subject),
		cmp.Compare(p.Email, other.Email))
}
