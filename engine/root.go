package engine

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// rootPrefix begins the names of root objects: root/ and a number of 20 digits. Each is created if absent, so of two brokers that
// would bind one prefix, or register two logs, one wins. The one with the greatest number counts (docs/format/root.md).
const rootPrefix = "root/"

// root binds an object prefix to one cluster and registers its log.
type root struct {
	Cluster ID
	WAL     ID
	URL     string // of the log, without credentials
	Epoch   uint64 // an owner epoch of the log that has been; an opening at or below it is of an old copy
	number  uint64
}

type rootValue struct {
	Version int    `json:"version"`
	Cluster string `json:"cluster"`
	WAL     string `json:"wal"`
	URL     string `json:"url"`
	Epoch   uint64 `json:"epoch"`
}

const rootVersion = 1

func rootName(n uint64) string { return fmt.Sprintf("%s%020d", rootPrefix, n) }

func (r root) encode() []byte {
	b, err := json.Marshal(rootValue{Version: rootVersion, Cluster: hex.EncodeToString(r.Cluster[:]), WAL: hex.EncodeToString(r.WAL[:]), URL: r.URL, Epoch: r.Epoch})
	if err != nil {
		panic(fmt.Sprintf("root: %v", err)) // strings and integers always encode
	}
	return append(b, '\n')
}

func decodeRoot(name string, b []byte) (root, error) {
	var v rootValue
	if err := json.Unmarshal(b, &v); err != nil {
		return root{}, &CorruptError{Where: name, Offset: -1, Reason: "not a root object", Err: err}
	}
	if v.Version != rootVersion {
		return root{}, fmt.Errorf("%w: %s has version %d, and this program knows %d", ErrInvalid, name, v.Version, rootVersion)
	}
	r := root{URL: v.URL, Epoch: v.Epoch}
	if !decodeID(&r.Cluster, v.Cluster) || !decodeID(&r.WAL, v.WAL) {
		return root{}, &CorruptError{Where: name, Offset: -1, Reason: fmt.Sprintf("cluster %q, log %q", v.Cluster, v.WAL)}
	}
	return r, nil
}

func decodeID(id *ID, s string) bool {
	b, err := hex.DecodeString(s)
	return err == nil && copy(id[:], b) == len(id) && len(b) == len(id)
}

// readRoot returns the newest root, or ErrNotFound where there is none.
func (c *storeClient) readRoot(ctx context.Context) (root, error) {
	objects, err := c.list(ctx, rootPrefix, nil)
	if err != nil {
		return root{}, err
	}
	var newest uint64
	found := false
	for _, o := range objects {
		n, err := strconv.ParseUint(strings.TrimPrefix(o.Name, rootPrefix), 10, 64)
		if err != nil {
			return root{}, fmt.Errorf("%w: object %s is no root object of ours", ErrInvalid, o.Name)
		}
		newest, found = max(newest, n), true
	}
	if !found {
		return root{}, fmt.Errorf("root: %w", ErrNotFound)
	}
	name := rootName(newest)
	b, err := c.get(ctx, name, 0, -1)
	if err != nil {
		return root{}, err
	}
	defer b.Release()
	r, err := decodeRoot(name, b.Bytes())
	r.number = newest
	return r, err
}

// createRoot makes root number n. ErrInvalid says that another broker did so first.
func (c *storeClient) createRoot(ctx context.Context, n uint64, r root) error {
	err := c.create(ctx, rootName(n), r.encode())
	if errors.Is(err, ErrExists) {
		return fmt.Errorf("%w: another broker registered itself in the same place at the same time: %w", ErrInvalid, err)
	}
	return err
}

// register makes sure that the prefix is this cluster's and that this opening of the log is registered. It is called before the
// session's first put: a start alone needs no store.
func (e *Engine) register(ctx context.Context, info WALInfo) error {
	r, err := e.store.readRoot(ctx)
	switch {
	case isNotFound(err):
		return fmt.Errorf("%w: %s holds no root object any more", ErrInvalid, e.o.Store.Info().URL)
	case err != nil:
		return err
	case r.Cluster != e.cluster:
		return fmt.Errorf("%w: the objects in %s belong to cluster %x, and this broker to %x", ErrInvalid, e.o.Store.Info().URL, r.Cluster, e.cluster)
	case r.WAL != info.ID:
		return fmt.Errorf("%w: %s has the log %x registered as %q, and this broker's is %x", ErrFenced, e.o.Store.Info().URL, r.WAL, r.URL, info.ID)
	case r.Epoch > info.Epoch:
		return fmt.Errorf("%w: owner epoch %d of the log is registered in %s, and this is epoch %d", ErrFenced, r.Epoch, e.o.Store.Info().URL, info.Epoch)
	case r.Epoch == info.Epoch && r.URL == info.URL:
		return nil
	}
	return e.store.createRoot(ctx, r.number+1, root{Cluster: e.cluster, WAL: info.ID, URL: info.URL, Epoch: info.Epoch})
}
