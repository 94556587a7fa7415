package filewal

// SetFirstBytes makes a log begin with fewer segments than its capacity allows, so that a small one grows.
func (o *Options) SetFirstBytes(n int64) { o.firstBytes = n }
