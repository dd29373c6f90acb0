package api

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/stanchion-locks/stanchion/client/wire"
)

// bodyTime is how long a request's body may take to arrive.
const bodyTime = 5 * time.Second

// readJSON reads a request's JSON body, whole, so that the connection is free to tell when the client goes away. The
// buffer is the caller's to release.
func readJSON(c echo.Context, bytesMax int) (*buffer, error) {
	if !isJSON(c.Request().Header.Get("Content-Type")) {
		return nil, wire.NewProblem(wire.CodeUnsupportedMediaType, "")
	}
	return readBody(c, bytesMax)
}

// readBody is readJSON of whatever type.
func readBody(c echo.Context, bytesMax int) (*buffer, error) {
	r := c.Request()
	if r.ContentLength > int64(bytesMax) {
		return nil, tooLarge(bytesMax)
	}
	deadline := http.NewResponseController(c.Response().Writer)
	bounded := deadline.SetReadDeadline(time.Now().Add(bodyTime)) == nil
	buf := newBuffer()
	if err := buf.fill(r.Body, bytesMax); err != nil {
		buf.release()
		// The deadline stays: it bounds what the server reads of the rest, which it does before it answers.
		c.Response().Header().Set("Connection", "close")
		return nil, err
	}
	if bounded {
		_ = deadline.SetReadDeadline(time.Time{}) // else what hangs from here on would be cancelled by it
	}
	return buf, nil
}

func isJSON(contentType string) bool {
	if contentType == typeJSON {
		return true
	}
	kind, params, err := mime.ParseMediaType(contentType)
	charset, named := params["charset"]
	return err == nil && kind == typeJSON && (!named || strings.EqualFold(charset, "utf-8"))
}

// fill reads r to its end, or to one byte past bytesMax.
func (b *buffer) fill(r io.Reader, bytesMax int) error {
	for {
		if len(b.b) == cap(b.b) {
			b.b = slices.Grow(b.b, len(b.b))
		}
		n, err := r.Read(b.b[len(b.b):cap(b.b)])
		b.b = b.b[:len(b.b)+n]
		switch {
		case len(b.b) > bytesMax:
			return tooLarge(bytesMax)
		case err == nil:
		case errors.Is(err, io.EOF):
			return nil
		case errors.Is(err, os.ErrDeadlineExceeded):
			return wire.NewProblem(wire.CodeRequestTimeout, fmt.Sprintf("A body is given %s.", bodyTime))
		default:
			return &badRequest{"", "the body ended early"}
		}
	}
}

func tooLarge(bytesMax int) *wire.Problem {
	return wire.NewProblem(wire.CodeTooLarge, fmt.Sprintf("This call takes at most %d bytes.", bytesMax))
}

// noBody refuses a request with a body where none is read.
func noBody(c echo.Context) error {
	return unless(c.Request().ContentLength == 0, "", "this call takes no body")
}

// noQuery refuses a request with query parameters where none is known.
func noQuery(c echo.Context) error {
	if c.Request().URL.RawQuery == "" {
		return nil
	}
	_, err := queryOf(c)
	return err
}

func nothingElse(c echo.Context) error {
	if err := noBody(c); err != nil {
		return err
	}
	return noQuery(c)
}

// queryOf reads the query strictly: well formed, and each of the known parameters at most once.
func queryOf(c echo.Context, known ...string) (url.Values, error) {
	q, err := url.ParseQuery(c.Request().URL.RawQuery)
	if err != nil {
		return nil, &badRequest{"", "the query is not well formed; percent-encode ; and % in values"}
	}
	for name, values := range q {
		switch {
		case !slices.Contains(known, name):
			return nil, &badRequest{clip(strings.ToValidUTF8(name, "\ufffd")), unknownParameter(known)}
		case len(values) > 1:
			return nil, &badRequest{name, "is given twice"}
		}
	}
	return q, nil
}

func unknownParameter(known []string) string {
	if len(known) == 0 {
		return "is no parameter of this call; it takes none"
	}
	return "is no parameter of this call; it takes " + strings.Join(known, ", ")
}
