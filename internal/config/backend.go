package config

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/headpond/headpond/internal/size"
	"github.com/headpond/headpond/internal/topicconfig"
)

// DefaultCapacity is a file WAL's capacity when its URL names none.
const DefaultCapacity = 2 * size.GiB

// minCapacity leaves room for the reserve of a file WAL and a largest request beside it.
const minCapacity = 16 * size.MiB

// Backend is a parsed URL of a WAL or an object store.
type Backend struct {
	Scheme   string    // file or mem
	Path     string    // of a file backend
	Capacity size.Size // of a WAL
	Volatile bool      // of mem: objects: what a durable log gives them may be lost with the process
}

// String is the URL.
func (b Backend) String() string {
	s := b.Scheme + ":" + (&url.URL{Path: b.Path}).EscapedPath()
	if b.Capacity != 0 {
		s += "?capacity=" + b.Capacity.String()
	}
	if b.Volatile {
		s += "?volatile=true"
	}
	return s
}

// later are schemes of the design that no code here serves.
var later = map[string][]string{
	"wal":     {"zrs", "s3express", "azblob", "s3"},
	"objects": {"azblob", "s3", "minio"},
}

// ParseWAL parses the URL of a WAL: file:PATH?capacity=SIZE or mem:?capacity=SIZE.
func ParseWAL(s string) (Backend, error) { return parseBackend("wal", s, "capacity") }

// ParseObjects parses the URL of an object store: file:PATH or mem:?volatile=true.
func ParseObjects(s string) (Backend, error) { return parseBackend("objects", s, "volatile") }

func parseBackend(side, s, option string) (Backend, error) {
	scheme, _, found := strings.Cut(s, ":")
	if !found || strings.ContainsAny(scheme, "/.") || len(scheme) == 1 {
		return Backend{}, fmt.Errorf("%q is not a URL; a directory is written file:%s", s, s)
	}
	if slices.Contains(later[side], scheme) {
		return Backend{}, fmt.Errorf("%s is not built in yet; this version has file and mem", scheme)
	}
	if scheme != "file" && scheme != "mem" {
		near := topicconfig.Nearest(scheme, append([]string{"file", "mem"}, later[side]...))
		return Backend{}, fmt.Errorf("no backend is named %q%s; this version has file and mem", scheme, didYouMean(near))
	}
	u, err := url.Parse(s)
	if err != nil {
		// The library's text repeats the URL, which may hold a secret by mistake.
		return Backend{}, errors.New("is not a URL that can be read; escape special letters as %XX")
	}
	if u.User != nil || u.Fragment != "" {
		return Backend{}, errors.New("credentials and fragments have no place in a backend's URL")
	}
	b := Backend{Scheme: scheme}
	if b.Path, err = path(u); err != nil {
		return Backend{}, err
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return Backend{}, errors.New("its options cannot be read; write ?name=value&name=value")
	}
	for _, name := range slices.Sorted(maps.Keys(query)) {
		known := name == option && (name != "volatile" || scheme == "mem")
		if !known {
			return Backend{}, fmt.Errorf("%s: has no option %q%s", scheme, name, didYouMean(topicconfig.Nearest(name, []string{option})))
		}
		if len(query[name]) != 1 {
			return Backend{}, fmt.Errorf("option %s is there twice", name)
		}
		if err := b.option(name, query[name][0]); err != nil {
			return Backend{}, err
		}
	}
	if side == "wal" && b.Capacity == 0 {
		b.Capacity = DefaultCapacity
	}
	return b, nil
}

func (b *Backend) option(name, value string) error {
	switch name {
	case "capacity":
		n, err := size.Parse(value)
		if err != nil {
			return fmt.Errorf("option capacity: %w", err)
		}
		if n < minCapacity {
			return fmt.Errorf("option capacity is %s and must be at least %s", n, minCapacity)
		}
		b.Capacity = n
	case "volatile":
		v, err := parseBool(value)
		if err != nil {
			return fmt.Errorf("option volatile: %w", err)
		}
		b.Volatile = v
	}
	return nil
}

// path takes the path of file:relative, file:/absolute and file:///absolute.
func path(u *url.URL) (string, error) {
	p := u.Path
	if u.Opaque != "" {
		var err error
		if p, err = url.PathUnescape(u.Opaque); err != nil {
			return "", errors.New("its path cannot be read; escape special letters as %XX")
		}
	}
	switch {
	case u.Host != "":
		return "", fmt.Errorf("names the host %q; a path is written %s:%s%s or %s:///%s%s", u.Host, u.Scheme, u.Host, p, u.Scheme, u.Host, p)
	case u.Scheme == "mem" && p != "":
		return "", errors.New("mem: has no path")
	case u.Scheme == "file" && p == "":
		return "", errors.New("file: needs a path, as in file:///var/lib/headpond/wal")
	case strings.ContainsRune(p, 0):
		return "", errors.New("its path holds a zero byte")
	}
	return p, nil
}

func didYouMean(near string) string {
	if near == "" {
		return ""
	}
	return fmt.Sprintf(" (did you mean %s?)", near)
}
