package main

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stanchion-locks/stanchion/client/wire"
)

func newClassTransferOwner() *cobra.Command {
	var o clientOptions
	var tenant string
	var body wire.TransferOwnerRequest
	transfer := &cobra.Command{
		Use:   "transfer-owner CLASS",
		Short: "Put another group in the place of an owner group that is gone (operators)",
		Long: `Put another group in the place of an owner group that is gone from the identity provider. It takes an operator's API key,
and the tenant must not have the old group as an owner group any more. Nothing that is in force changes and nothing is signed:
the new group must sign the next version. What is in review loses the signatures that it has.`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			for name, value := range map[string]string{"tenant": tenant, "from": body.From, "to": body.To, "reason": body.Reason} {
				if strings.TrimSpace(value) == "" {
					return fmt.Errorf("%w: --%s is missing", errUsage, name)
				}
			}
			api, err := o.client()
			if err != nil {
				return err
			}
			var class wire.Class
			path := "/v1/tenants/" + url.PathEscape(tenant) + "/classes/" + url.PathEscape(args[0]) + "/transfer-owner"
			_, err = api.call(c.Context(), apiRequest{method: http.MethodPost, path: path, body: body}, &class)
			switch {
			case err != nil:
				return fmt.Errorf("transfer class %s: %w", args[0], err)
			case o.json():
				return printJSON(c.OutOrStdout(), class)
			}
			_, err = fmt.Fprintf(c.OutOrStdout(), "%s: the next version is to be signed by %s\n", class.Class, visible(class.Owner))
			return err
		},
	}
	o.flags(transfer, true)
	f := transfer.Flags()
	f.StringVar(&tenant, "tenant", "", "the tenant (required)")
	f.StringVar(&body.From, "from", "", "the group that is gone (required)")
	f.StringVar(&body.To, "to", "", "one of the tenant's owner groups (required)")
	f.StringVar(&body.Reason, "reason", "", "why, for people (required)")
	return transfer
}
