package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/stanchion-locks/stanchion/internal/control"
	"github.com/stanchion-locks/stanchion/tenants"
)

// operatorKeyLife is how long the first operator's API key works. It is for making others.
const operatorKeyLife = 30 * 24 * time.Hour

// createKey makes an API key and returns it; it is shown nowhere else.
func createKey(ctx context.Context, nodes adminClients, tenant tenants.TenantID, name string, life time.Duration, scopes ...string) (string, error) {
	parsed, err := tenants.ParseScopes(scopes...)
	if err != nil {
		return "", err
	}
	credential, err := tenants.GenerateCredential(rand.Reader)
	if err != nil {
		return "", err
	}
	now := time.Now()
	_, err = nodes.control(ctx, control.Entry{Tenants: tenants.CreateAPIKey{Tenant: tenant, Key: credential.ID(),
		Hash: credential.Hash(), Name: name, Scopes: parsed, ExpiresMS: now.Add(life).UnixMilli(), By: tenants.ByPlatform(),
		AtMS: now.UnixMilli()}})
	if err != nil {
		return "", fmt.Errorf("make API key %q: %w", name, err)
	}
	return credential.Reveal(), nil
}

// operatorKeyTime bounds one attempt at making the first operator's API key: the node may have lost its leadership.
const operatorKeyTime = 5 * time.Second

// printOperatorKey makes the first operator's API key of a new cluster and prints it, on whichever node leads the control
// group, unless there is one already. Should the leader change in between, the next one does it.
func printOperatorKey(ctx context.Context, socket string, out io.Writer) error {
	node := newAdminClient(socket)
	for pause(ctx, again) {
		o, err := node.operator(ctx)
		switch {
		case err != nil || !o.Begun:
		case o.Keys > 0:
			return nil
		case o.Leads:
			if key, err := firstOperatorKey(ctx, node); err == nil {
				return json.NewEncoder(out).Encode(map[string]string{"operator_api_key": key,
					"note": "shown once; it works for 30 days: make others with it"})
			}
		}
	}
	return nil
}

func firstOperatorKey(ctx context.Context, node adminClient) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, operatorKeyTime)
	defer cancel()
	return createKey(ctx, adminClients{node}, tenants.Platform, "first operator", operatorKeyLife, "platform:operator")
}
