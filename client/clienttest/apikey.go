package clienttest

import "fmt"

// apiKey is one API key.
type apiKey struct {
	name    string
	lineage string // the first of its rotation, to which sessions belong
	revoked bool
}

const firstKey = "stn_clienttest_1"

// APIKey is the API key that every platform has, called "clienttest".
func (p *Platform) APIKey() string { return firstKey }

// NewAPIKey makes one more API key. Sessions of other keys do not exist for it.
func (p *Platform) NewAPIKey(name string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	secret := p.newSecret()
	p.keys[secret] = &apiKey{name: name, lineage: secret}
	return secret
}

// RotateAPIKey makes the successor of an API key, which has its sessions. Both work until the old one is revoked. An API key
// that the platform has not made fails the test.
func (p *Platform) RotateAPIKey(old string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	k := p.keys[old]
	if k == nil {
		p.t.Errorf("clienttest: there is no such API key to rotate")
		return ""
	}
	secret := p.newSecret()
	p.keys[secret] = &apiKey{name: k.name, lineage: k.lineage}
	return secret
}

// RevokeAPIKey ends an API key: from now on its requests are answered 401.
func (p *Platform) RevokeAPIKey(key string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if k := p.keys[key]; k != nil {
		k.revoked = true
	}
}

func (p *Platform) newSecret() string { return fmt.Sprintf("stn_clienttest_%d", len(p.keys)+1) }
