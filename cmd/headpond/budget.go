package main

import (
	"github.com/headpond/headpond/internal/config"
	"github.com/headpond/headpond/internal/size"
)

// budget is how --memory is divided. Half is the engine's (recent batches, cached blocks, uploads, directories); an eighth
// each may be requests that are being handled and answers that are not yet written; the index gets a little; the rest is for
// connections, the log's frames, garbage that is not yet collected and the program itself.
type budget struct {
	engine     size.Size
	requests   size.Size
	fetches    size.Size
	indexCache size.Size
	indexTable size.Size
	frame      size.Size // the log holds two
}

func divide(cfg *config.Config) budget {
	m := cfg.Memory
	clamp := func(s, least, most size.Size) size.Size { return min(max(s, least), most) }
	return budget{
		engine:     max(m/2, 16*size.MiB),
		requests:   max(m/8, 4*size.MiB),
		fetches:    max(m/8, 4*size.MiB),
		indexCache: clamp(m/32, size.MiB, 64*size.MiB),
		indexTable: clamp(m/64, size.MiB, 8*size.MiB),
		frame:      clamp(m/128, 256*size.KiB, 4*size.MiB),
	}
}
