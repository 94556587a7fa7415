package engine

import "context"

// housekeep does what is done now and then: retention, and the deletion of objects that nothing refers to.
func (s *session) housekeep(ctx context.Context) { <-ctx.Done() }
