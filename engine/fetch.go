package engine

import "context"

// FetchResponse is the outcome of a fetch.
type FetchResponse struct {
	Results []FetchResult // in the request's order
	Bytes   int           // of all results together
}

// Release gives back the memory of the batches.
func (r *FetchResponse) Release() {}

// Fetch is described at [Service].
func (e *Engine) Fetch(ctx context.Context, r *FetchRequest) *FetchResponse { return nil }
