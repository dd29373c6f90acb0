package review

import _ "embed" // the schema is part of the binary

// SchemaJSON is the JSON Schema (2020-12) of a class file, for editors and other tools. It knows every rule that such a
// schema can express; [Parse] knows them all, and decides. Callers must not modify it.
//
//go:embed schema/class.json
var SchemaJSON []byte
