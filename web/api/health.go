package api

import (
	_ "embed" // the API's description is part of the binary
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/stanchion-locks/stanchion/client/wire"
	"github.com/stanchion-locks/stanchion/review"
	"github.com/stanchion-locks/stanchion/tenants"
)

// OpenAPI is the API's description, OpenAPI 3.1 in JSON. Callers must not modify it.
//
//go:embed openapi.json
var OpenAPI []byte

// alive is GET /healthz: the process answers, whatever the state of its parts.
func (a *API) alive(c echo.Context, _ tenants.Principal) error {
	return c.JSONBlob(http.StatusOK, []byte(`{"status":"alive"}`+"\n"))
}

// ready is GET /readyz: whether this node should be sent requests, and if not, which part is missing and why.
func (a *API) ready(c echo.Context, _ tenants.Principal) error {
	parts := append([]wire.Part{a.readyToServe()}, a.platform.Ready()...)
	for _, part := range parts {
		if !part.Ready {
			p := wire.NewProblem(wire.CodeNotReady, part.Part+": "+part.Why)
			p.Parts = parts
			return p
		}
	}
	return c.JSON(http.StatusOK, wire.Readiness{Ready: true, Parts: parts})
}

func (a *API) readyToServe() wire.Part {
	if a.stopping.Err() != nil {
		return wire.Part{Part: "api", Why: "the node is shutting down"}
	}
	return wire.Part{Part: "api", Ready: true}
}

func openAPI(c echo.Context, _ tenants.Principal) error {
	return c.Blob(http.StatusOK, typeJSON, OpenAPI)
}

func classSchema(c echo.Context, _ tenants.Principal) error {
	return c.Blob(http.StatusOK, "application/schema+json", review.SchemaJSON)
}
