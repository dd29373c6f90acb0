package review

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"
)

// FileBytesMax bounds a class file.
const FileBytesMax = 64 << 10

// document reads the one document of a file, or reports why there is none and returns nil.
func (p *parser) document(data []byte) *yaml.Node {
	switch {
	case len(data) > FileBytesMax:
		p.errorAt(start, RuleFileTooLarge, "the file is over 64 KiB", "keep the posture here and its story elsewhere")
		return nil
	case !utf8.Valid(data):
		p.errorAt(start, RuleFileEncoding, "the file is not UTF-8", "save the file as UTF-8")
		return nil
	}
	if text := bytes.TrimLeft(data, " \t\r\n"); len(text) > 0 && text[0] == '{' && json.Valid(data) {
		return jsonTree(data)
	}
	return p.yamlTree(data)
}

func (p *parser) yamlTree(data []byte) *yaml.Node {
	loader, err := yaml.NewLoader(bytes.NewReader(data))
	if err != nil {
		p.syntax(err)
		return nil
	}
	var first, second yaml.Node
	switch err := loader.Load(&first); {
	case errors.Is(err, io.EOF):
		p.errorAt(start, RuleEmptyFile, "the file is empty", "write the fields of a class file, beginning with format: 1")
		return nil
	case err != nil:
		p.syntax(err)
		return nil
	}
	switch err := loader.Load(&second); {
	case err == nil:
		p.errorAt(positionOf(&second), RuleSeveralDocuments, "the file has more than one document",
			"keep one class to a file, and one document to a class")
	case !errors.Is(err, io.EOF):
		p.syntax(err)
	}
	if len(first.Content) == 0 {
		p.errorAt(start, RuleEmptyFile, "the file is empty", "write the fields of a class file, beginning with format: 1")
		return nil
	}
	return first.Content[0]
}

func (p *parser) syntax(err error) {
	at, message := start, "the file is neither YAML nor JSON"
	if le, ok := errors.AsType[*yaml.LoadError](err); ok {
		message = le.Message
		if le.Mark.Line > 0 {
			at = position{le.Mark.Line, max(le.Mark.Column, 1)}
		}
	}
	p.errorAt(at, RuleSyntax, message, "write plain YAML or JSON, one field to a line")
}

// structure reports, wherever it stands, whatever makes a document say more than it shows.
func (p *parser) structure(n *yaml.Node) {
	if n.Anchor != "" {
		p.errorAt(positionOf(n), RuleAnchor, "the anchor &"+n.Anchor+" is not allowed", "write the value out where it is meant")
	}
	if n.Kind == yaml.AliasNode {
		p.errorAt(positionOf(n), RuleAlias, "the alias *"+n.Value+" is not allowed", "write the value out where it is meant")
		return
	}
	if tagged(n) {
		p.errorAt(positionOf(n), RuleExplicitTag, "the tag "+shorten(n.Tag)+" is not allowed", "write the value without a tag")
	}
	if n.Kind == yaml.MappingNode {
		for i := 0; i < len(n.Content); i += 2 {
			if mergeKey(n.Content[i]) {
				p.errorAt(positionOf(n.Content[i]), RuleMergeKey, "the merge key << is not allowed", "write the fields out")
			}
		}
	}
	for _, c := range n.Content {
		p.structure(c)
	}
}

func tagged(n *yaml.Node) bool { return n.Style&yaml.TaggedStyle != 0 }

func mergeKey(n *yaml.Node) bool { return n.ShortTag() == "!!merge" }

// position is a place in the file. Lines and columns count from 1, columns in characters.
type position struct{ line, column int }

var start = position{1, 1}

func positionOf(n *yaml.Node) position { return position{max(n.Line, 1), max(n.Column, 1)} }

// jsonTree reads valid JSON into the tree that YAML would give. JSON has a reader of its own because YAML's knows neither
// surrogate pairs nor every white space of JSON.
func jsonTree(data []byte) *yaml.Node {
	r := jsonReader{data: data, decoder: json.NewDecoder(bytes.NewReader(data)), at: start}
	r.decoder.UseNumber()
	n, _ := r.value()
	return n
}

type jsonReader struct {
	data    []byte
	decoder *json.Decoder
	offset  int      // as far as at was counted
	at      position // of offset
}

// value reads one value, or the end of the list it stands in: then ok is false.
func (r *jsonReader) value() (n *yaml.Node, ok bool) {
	at := r.next()
	token, err := r.decoder.Token()
	if err != nil {
		return nil, false // not reached: the document was found valid
	}
	n = &yaml.Node{Kind: yaml.ScalarNode, Line: at.line, Column: at.column}
	switch t := token.(type) {
	case json.Delim:
		return r.list(n, t)
	case string:
		n.Tag, n.Value, n.Style = "!!str", t, yaml.DoubleQuotedStyle
	case json.Number:
		n.Tag, n.Value = "!!int", t.String()
		if strings.ContainsAny(n.Value, ".eE") {
			n.Tag = "!!float"
		}
	case bool:
		n.Tag, n.Value = "!!bool", map[bool]string{true: "true", false: "false"}[t]
	case nil:
		n.Tag, n.Value = "!!null", "null"
	}
	return n, true
}

func (r *jsonReader) list(n *yaml.Node, open json.Delim) (*yaml.Node, bool) {
	switch open {
	case '{':
		n.Kind, n.Tag = yaml.MappingNode, "!!map"
	case '[':
		n.Kind, n.Tag = yaml.SequenceNode, "!!seq"
	default:
		return nil, false
	}
	for {
		c, ok := r.value()
		if !ok {
			return n, true
		}
		n.Content = append(n.Content, c)
	}
}

// next is where the next token begins.
func (r *jsonReader) next() position {
	end := int(r.decoder.InputOffset())
	for end < len(r.data) && strings.IndexByte(" \t\r\n,:", r.data[end]) >= 0 {
		end++
	}
	for _, c := range string(r.data[r.offset:end]) {
		r.at.column++
		if c == '\n' {
			r.at = position{r.at.line + 1, 1}
		}
	}
	r.offset = end
	return r.at
}
