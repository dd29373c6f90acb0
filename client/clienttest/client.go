package clienttest

import "github.com/stanchion-locks/stanchion/client"

// Options have a client speak to this platform and read its clock. Options that a test adds after them win, such as
// client.WithClock(clienttest.NewClock()) for a client on a machine of its own.
func (p *Platform) Options() []client.Option {
	return []client.Option{client.WithTransport(p.Transport()), client.WithClock(p.clock)}
}
