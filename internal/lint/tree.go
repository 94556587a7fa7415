// Package lint holds the rules of this repository that compilers do not check; its tests run them.
package lint

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
)

// File is one text file of the repository.
type File struct {
	Path    string // slash-separated, from the root
	Content []byte
	// Go is the syntax tree of a Go file, nil for others. Positions are of Set.
	Go  *ast.File
	Set *token.FileSet
}

// skipped are folders that hold no source: version control, and what builds and brokers leave behind.
var skipped = map[string]bool{".git": true, "bin": true, "headpond-data": true, "node_modules": true}

// Read returns the text files below root. A Go file that does not parse is an error.
func Read(root string) ([]File, error) {
	var files []File
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if skipped[d.Name()] {
				return filepath.SkipDir
			}
			return nil
		}
		if !d.Type().IsRegular() {
			return nil
		}
		content, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if bytes.IndexByte(content[:min(len(content), 8000)], 0) >= 0 {
			return nil // binary
		}
		rel, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		f, err := Parse(filepath.ToSlash(rel), content)
		if err != nil {
			return err
		}
		files = append(files, f)
		return nil
	})
	return files, err
}

// Parse makes a File of its path and content.
func Parse(name string, content []byte) (File, error) {
	f := File{Path: name, Content: content}
	if strings.HasSuffix(name, ".go") && !strings.Contains(name, "testdata/") {
		f.Set = token.NewFileSet()
		var err error
		f.Go, err = parser.ParseFile(f.Set, name, content, parser.ParseComments)
		if err != nil {
			return File{}, err
		}
	}
	return f, nil
}

// Test says whether the file is compiled for tests only.
func (f File) Test() bool { return strings.HasSuffix(f.Path, "_test.go") }

// Package is the folder of the file: "" for the root.
func (f File) Package() string {
	if d := path.Dir(f.Path); d != "." {
		return d
	}
	return ""
}

// imports calls fn for each import of a Go file.
func (f File) imports(fn func(target, where string)) {
	if f.Go == nil {
		return
	}
	for _, i := range f.Go.Imports {
		target, err := strconv.Unquote(i.Path.Value)
		if err != nil {
			continue // the parser has checked it
		}
		fn(target, f.where(i.Pos()))
	}
}

func (f File) where(p token.Pos) string {
	return fmt.Sprintf("%s:%d", f.Path, f.Set.Position(p).Line)
}

// Format names the Go files that gofmt would change.
func Format(f File) []string {
	if f.Go == nil {
		return nil
	}
	want, err := format.Source(f.Content)
	if err != nil {
		return []string{f.Path + ": " + err.Error()}
	}
	if !bytes.Equal(want, f.Content) {
		return []string{f.Path + ": not as gofmt writes it"}
	}
	return nil
}
