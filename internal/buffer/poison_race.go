//go:build race

package buffer

// poison overwrites released buffers in race builds, so that a use after the last Release shows as garbage.
const poison = true
