package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
)

const (
	listPageMax = 1000   // the most that the API gives in one page of a list
	pagesMax    = 10_000 // of one list, so that an API that never comes to an end ends a command
)

var (
	errSamePage     = errors.New("the list does not go on: a page names itself as the next one")
	errTooManyPages = fmt.Errorf("the list has more than %d pages; ask for less of it", pagesMax)
)

// readPages asks for one page of a list after another and hands each to take, until that names no next one. query is the first
// page's; the cursor of the others is put into it. What take returns as an error ends the reading.
func readPages[P any](ctx context.Context, c *apiClient, path string, query url.Values, take func(P) (next string, err error)) error {
	for range pagesMax {
		var page P
		if _, err := c.call(ctx, apiRequest{method: http.MethodGet, path: path, query: query}, &page); err != nil {
			return err
		}
		next, err := take(page)
		switch {
		case err != nil || next == "":
			return err
		case next == query.Get("cursor"):
			return errSamePage
		}
		query.Set("cursor", next)
	}
	return errTooManyPages
}
