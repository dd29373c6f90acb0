package main

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/stanchion-locks/stanchion/client/wire"
)

func jsonResponse(t *testing.T, body any) *http.Response {
	t.Helper()
	w := httptest.NewRecorder()
	answerJSON(t, w, http.StatusOK, body)
	return w.Result()
}

// classPages answers pages of classes; next gives the cursor that follows a page's own.
func classPages(t *testing.T, asked *atomic.Int32, next func(cursor string) string) *apiClient {
	t.Helper()
	o := fakeAPI(t, func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		cursor := r.URL.Query().Get("cursor")
		answerJSON(t, w, http.StatusOK, wire.ClassList{Classes: []wire.Class{{Class: "c" + cursor}}, NextCursor: next(cursor)})
	})
	api, err := o.client()
	if err != nil {
		t.Fatal(err)
	}
	return api
}

func TestReadPages_readsOneAfterAnotherToTheLast(t *testing.T) {
	var asked atomic.Int32
	api := classPages(t, &asked, func(cursor string) string {
		if cursor == "2" {
			return ""
		}
		n, _ := strconv.Atoi(cursor) // none is 0
		return strconv.Itoa(n + 1)
	})
	all, err := allClasses(t.Context(), api)
	if err != nil || len(all) != 3 || all[0].Class != "c" || all[2].Class != "c2" || asked.Load() != 3 {
		t.Errorf("got %+v, %v after %d requests; want the classes of three pages in order", all, err, asked.Load())
	}
}

// TestReadPages_endsWithAListThatDoesNot: a page that names itself, and one that always names another.
func TestReadPages_endsWithAListThatDoesNot(t *testing.T) {
	var asked atomic.Int32
	api := classPages(t, &asked, func(string) string { return "x" })
	if _, err := allClasses(t.Context(), api); !errors.Is(err, errSamePage) || asked.Load() != 2 {
		t.Errorf("got %v after %d requests; want %v after 2", err, asked.Load(), errSamePage)
	}
	endless := 0
	api.http = &http.Client{Transport: answering(func() (*http.Response, error) {
		endless++
		return jsonResponse(t, wire.ClassList{NextCursor: strconv.Itoa(endless)}), nil
	})}
	if _, err := allClasses(t.Context(), api); !errors.Is(err, errTooManyPages) || endless != pagesMax {
		t.Errorf("got %v after %d requests; want %v after %d", err, endless, errTooManyPages, pagesMax)
	}
}

func TestReadPages_endsWhenItsReaderFails(t *testing.T) {
	var asked atomic.Int32
	api := classPages(t, &asked, func(string) string { return "x" })
	want := errors.New("the disk is full")
	err := readPages(t.Context(), api, "/v1/classes", url.Values{}, func(wire.ClassList) (string, error) { return "x", want })
	if !errors.Is(err, want) || asked.Load() != 1 {
		t.Errorf("got %v after %d requests; want %v after 1", err, asked.Load(), want)
	}
}
