package api

import (
	"mime"
	"net/url"
	"strconv"
	"strings"
)

// auditFormat is the form in which events are answered.
type auditFormat uint8

const (
	formatJSON   auditFormat = iota // a page
	formatNDJSON                    // a stream, an event on each line
	formatCSV                       // a stream, an event in each record
)

const (
	typeNDJSON = "application/x-ndjson"
	typeCSV    = "text/csv; charset=utf-8; header=present"
)

var formatByName = map[string]auditFormat{"json": formatJSON, "ndjson": formatNDJSON, "csv": formatCSV}

// auditFormatOf is the form that the query names, or else the one that the Accept header likes best. What the header likes
// and is not made here counts for nothing, and without anything else the answer is JSON.
func auditFormatOf(params url.Values, accept string) (auditFormat, bool) {
	if params.Has("format") {
		format, ok := formatByName[params.Get("format")]
		return format, ok
	}
	return acceptedFormat(accept), true
}

func acceptedFormat(accept string) auditFormat {
	best, liked := formatJSON, 0.0
	for item := range strings.SplitSeq(accept, ",") {
		kind, params, err := mime.ParseMediaType(item)
		if err != nil {
			continue
		}
		q := 1.0
		if text, weighed := params["q"]; weighed {
			if q, err = strconv.ParseFloat(text, 64); err != nil {
				continue
			}
		}
		format, made := formatOfType(kind)
		if made && q > liked {
			best, liked = format, q
		}
	}
	return best
}

func formatOfType(kind string) (auditFormat, bool) {
	switch kind {
	case typeJSON, "application/*", "*/*":
		return formatJSON, true
	case typeNDJSON, "application/ndjson", "application/jsonl":
		return formatNDJSON, true
	case "text/csv":
		return formatCSV, true
	}
	return formatJSON, false
}
