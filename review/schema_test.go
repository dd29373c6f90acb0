package review

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

func compileSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(SchemaJSON))
	if err != nil {
		t.Fatalf("read schema: %v", err)
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource("class.json", doc); err != nil {
		t.Fatalf("add schema: %v", err)
	}
	s, err := c.Compile("class.json")
	if err != nil {
		t.Fatalf("compile schema: %v", err)
	}
	return s
}

// both judges one JSON text by the schema and by Parse.
func both(t *testing.T, s *jsonschema.Schema, text string) (schema, parser error) {
	t.Helper()
	v, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		t.Fatalf("sample %s: %v", text, err)
	}
	_, fs := Parse("sample.json", []byte(text), Options{})
	return s.Validate(v), fs.Err()
}

// sample is a good class file with one field set, removed (value "") or set inside wait ("wait.mode").
func sample(t *testing.T, path, value string) string {
	t.Helper()
	fields := map[string]json.RawMessage{
		"format": json.RawMessage(`1`), "class": json.RawMessage(`"c"`), "resource": json.RawMessage(`"r"`),
		"owner": json.RawMessage(`"group:g"`), "purpose": json.RawMessage(`"efficiency"`),
		"enforcement": json.RawMessage(`"advisory"`), "quorum_loss": json.RawMessage(`"closed"`),
		"lease": json.RawMessage(`"1h"`),
	}
	name, inner, nested := strings.Cut(path, ".")
	switch {
	case nested:
		fields[name] = json.RawMessage(fmt.Sprintf(`{%q:%s}`, inner, value))
	case value == "":
		delete(fields, name)
	default:
		fields[name] = json.RawMessage(value)
	}
	b, err := json.Marshal(fields)
	if err != nil {
		t.Fatalf("sample %s=%s: %v", path, value, err)
	}
	return string(b)
}

func TestSchema_agreesWithParseOnEverythingThatASchemaCanSay(t *testing.T) {
	s := compileSchema(t)
	quoted := func(values ...string) []string {
		for i, v := range values {
			b, _ := json.Marshal(v)
			values[i] = string(b)
		}
		return values
	}
	odd := []string{`null`, `true`, `[]`, `{}`, `"x"`, `""`, `12`, `1.5`, `-1`, `"10s"`}
	texts := quoted("a", " ", "\u00a0", "a\nb", "a\tb", "\u202ea", "a\u200bb", "a\x00", "é", "\u3000a", "a\u2028b", "a\ufffdb",
		strings.Repeat("é", 512), strings.Repeat("x", 513), strings.Repeat("x", 1000), strings.Repeat("x", 1001),
		strings.Repeat("x", 2000), strings.Repeat("x", 2001))
	var durations []string
	for _, n := range []string{"0", "00", "1", "01", "2", "9", "10", "11", "24", "25", "29", "30", "31", "59", "60", "61", "99", "100",
		"599", "600", "999", "1000", "1001", "1439", "1440", "1441", "1799", "1800", "1801", "3599", "3600", "3601", "9999", "10000",
		"10001", "59999", "60000", "60001", "86399", "86400", "86401", "599999", "600000", "600001", "999999", "1799999", "1800000",
		"1800001", "3599999", "3600000", "3600001", "35999999", "36000000", "36000001", "86399999", "86400000", "86400001",
		"35999999999", "36000000000", "36000000001", "-1", "1.5", "1e3", ""} {
		for _, unit := range []string{"ms", "s", "m", "h", "", "d", "S"} {
			durations = append(durations, quoted(n+unit)...)
		}
	}
	durations = append(durations, quoted("unlimited", "Unlimited", " 10s", "10s\n", "1m30s")...)
	samples := map[string][]string{
		"format": {"", `1`, `2`, `"1"`}, "class": quoted("a", "-", "a-1", "A", "a_b", "a\n", strings.Repeat("a", 63), strings.Repeat("a", 64)),
		"purpose": {"", `"correctness"`, `"efficiency"`, `"Correctness"`}, "enforcement": {"", `"fenced"`, `"advisory"`},
		"quorum_loss": {"", `"open"`, `"closed"`}, "resource": texts, "guard": texts, "description": texts,
		"owner": append(quoted("", "g", "group:", "group: g", "group:g ", "group:g h", "group:\u00a0", "group:é", "Group:g", "group:g\n",
			"group:"+strings.Repeat("é", 200), "group:"+strings.Repeat("é", 201)), ""),
		"lease": {`"1s"`, `"999ms"`}, "heartbeat": durations, "lock_delay": durations, "max_hold": durations,
		"review_by": quoted("2027-06-30", "2028-02-29", "2027-02-29", "2027-6-3", "2027-13-01", "0000-01-01", "x"),
		"wait":      {`{}`, `{"mode":"refuse","max_wait":"1s"}`, `{"mode":"refuse","max_waiters":1}`, `{"mode":"queue","max_waiters":1}`, `{"x":1}`},
		"wait.mode": {`"queue"`, `"refuse"`, `"spin"`}, "wait.max_wait": durations,
		"wait.max_waiters": {`0`, `1`, `100000`, `100001`, `-1`, `99999999999999999999`}, "unknown": {`1`}, "Class": {`"c"`},
	}
	var accepted, refused int
	for path, values := range samples {
		for _, value := range append(values, odd...) {
			text := sample(t, path, value)
			schema, parser := both(t, s, text)
			if (schema == nil) != (parser == nil) {
				t.Errorf("%.60s: %.120s\nschema: %v\nparser: %v", path, text, schema, parser)
			}
			if parser == nil {
				accepted++
			} else {
				refused++
			}
		}
	}
	for _, value := range durations { // of the lease, without a heartbeat
		text := sample(t, "lease", value)
		if schema, parser := both(t, s, text); (schema == nil) != (parser == nil) {
			t.Errorf("%s\nschema: %v\nparser: %v", text, schema, parser)
		}
	}
	if accepted < 150 || refused < 1000 {
		t.Errorf("samples are one-sided: %d accepted, %d refused", accepted, refused)
	}
}

func TestSchema_agreesOnCombinations(t *testing.T) {
	s := compileSchema(t)
	for _, purpose := range []string{"correctness", "efficiency"} {
		for _, enforcement := range []string{"fenced", "advisory"} {
			for _, loss := range []string{"open", "closed"} {
				for _, guard := range []string{"", `,"guard":"g"`} {
					text := fmt.Sprintf(`{"format":1,"class":"c","resource":"r","owner":"group:g","purpose":%q,"enforcement":%q,"quorum_loss":%q%s}`,
						purpose, enforcement, loss, guard)
					want := !(purpose == "correctness" && loss == "open") && !(enforcement == "fenced" && guard == "")
					if schema, parser := both(t, s, text); (schema == nil) != want || (parser == nil) != want {
						t.Errorf("%s: want accepted %t\nschema: %v\nparser: %v", text, want, schema, parser)
					}
				}
			}
		}
	}
}

// These rules are beyond a schema. Parse alone knows them; the list shows that there are no others of the kind.
func TestSchema_leavesTheseToParse(t *testing.T) {
	s := compileSchema(t)
	for _, text := range []string{
		strings.Replace(sample(t, "heartbeat", `"30m"`), `"1h"`, `"59m"`, 1),
		sample(t, "format", `1.0`),
		sample(t, "wait.max_waiters", `1e3`),
		strings.Replace(sample(t, "", "0"), `"":0,`, `"class":"c",`, 1),
	} {
		v, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		_, fs := Parse("sample.json", []byte(text), Options{})
		if s.Validate(v) != nil || fs.Err() == nil {
			t.Errorf("%s\nschema: %v\nparser: %v", text, s.Validate(v), fs.Err())
		}
	}
}

func TestSchema_acceptsTheGoldenFiles(t *testing.T) {
	s := compileSchema(t)
	text := string(read(t, filepath.Join("testdata", "classes", "report-refresh.json")))
	if schema, parser := both(t, s, text); schema != nil || parser != nil {
		t.Errorf("schema: %v\nparser: %v", schema, parser)
	}
}
