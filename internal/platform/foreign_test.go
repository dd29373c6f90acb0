package platform_test

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
)

// byID are the calls that name a lease or a session, of which a session id is to be filled in. Whatever they do for an id
// that the tenant has never seen, they do for one of another tenant.
var byID = []struct{ method, path, body string }{
	{http.MethodGet, "/v1/leases/%s.1", ""},
	{http.MethodPost, "/v1/sessions/%s/heartbeat", `{"leases":[1]}`},
	{http.MethodDelete, "/v1/leases/%s.1?token=1", ""},
	{http.MethodDelete, "/v1/leases/%s.1", ""},
	{http.MethodGet, "/v1/leases/%s.1", ""},
	{http.MethodPut, "/v1/leases/%s.1", acquire{class: classLong, key: "k"}.body()},
	{http.MethodPut, "/v1/leases/%s.2", acquire{class: classLong, key: "other of SESSION"}.body()},
	{http.MethodDelete, "/v1/sessions/%s", ""},
	{http.MethodGet, "/v1/leases/%s.2", ""},
}

// varying is what differs between two answers that say the same.
var varying = regexp.MustCompile(`"(index|token|request_id|instance|use_within|contact_within)":("[^"]*"|[0-9]+)`)

func (r reply) saying(session string) string {
	text := strings.ReplaceAll(fmt.Sprintf("%d %s", r.status, r.body), session, "SESSION")
	return varying.ReplaceAllString(text, `"$1":…`)
}

func foreignIDsAnswerAsUnknown(t *testing.T, c *calm) {
	api := c.client(t, classLong)
	session := newSession()
	granted := api.take(t, session+".1", classLong, "k")

	foreign := &calm{cluster: c.cluster, tenant: c.tenant + "-foreign", partition: 1 + c.partition%partitions}
	outsider := foreign.client(t, classLong)
	unknown := newSession()
	for _, call := range byID {
		about := func(session string) string {
			body := strings.ReplaceAll(call.body, "SESSION", session)
			return outsider.ask(t, call.method, fmt.Sprintf(call.path, session), body).saying(session)
		}
		theirs, nobodys := about(session), about(unknown)
		if theirs != nobodys {
			t.Errorf("%s %s: another tenant's id is answered\n%s\nan unknown one\n%s", call.method, call.path, theirs, nobodys)
		}
	}
	c.untouched(t, api, session, granted)
}

// untouched holds a lease against the grant that it was.
func (c *calm) untouched(t testing.TB, api *client, session string, granted reply) {
	t.Helper()
	beat := api.heartbeat(t, session, 1)
	if len(beat.Held) != 1 || beat.Held[0].Token != granted.lease.Token {
		t.Errorf("the owner's heartbeat is answered %+v; want the lease held with token %d", beat, granted.lease.Token)
	}
}

func otherKeysIDsAnswerAsUnknown(t *testing.T, c *calm) {
	api := c.client(t, classLong)
	session := newSession()
	granted := api.take(t, session+".1", classLong, "k")
	other := newClient(t, c.cluster, c.createKey(t, c.tenant))
	notFound := other.look(t, newID())
	want := strings.TrimPrefix(notFound.saying("-"), "404 ")
	for _, call := range byID {
		r := other.ask(t, call.method, fmt.Sprintf(call.path, session), call.body)
		if got := strings.TrimPrefix(r.saying("-"), "404 "); got != want {
			t.Errorf("%s %s: another API key's id is answered\n%s\nwant\n%s", call.method, call.path, got, want)
		}
	}
	c.untouched(t, api, session, granted)
}
