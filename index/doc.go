// Package index keeps an [engine.Index] in a Pebble store: runs, partitions, objects and metadata under ordered keys, as
// docs/format/index.md describes. [NewMem] is the same in memory, and the reference that tests compare with.
//
// # What a commit does
//
// The sections of a commit take effect in this order, whatever their order in memory:
//
//  1. Log starts: a lower one than the partition has is ignored. Runs wholly below are dropped; so are leader epochs that
//     ended at or below it.
//  2. Added objects: each must be new, and each run must begin at or after the end of the partition's runs. A run wholly
//     below the partition's log start, or of a partition that the same commit drops, is not entered, and counts for
//     nothing in its object.
//  3. Producers replace those before.
//  4. Epochs: entries of the same or a later epoch, or at the same or a later offset, give way to the new one.
//  5. Dropped partitions vanish, whatever else the commit says of them.
//  6. Deleted objects vanish. One that is not there is ignored; one that still has live runs is an error.
//  7. Metadata.
//
// A commit that breaks a rule is [engine.ErrInvalid] and changes nothing.
//
// # Durability
//
// The truth is the commit log, so the store has no log of its own: what is applied stays in memory until Sync, or until
// enough has gathered, and is then written as one table. A crash leaves what was written: the state after some earlier
// commit, whole. Pebble's own log would bring nothing but ways to fail: a lost part in its middle goes unnoticed, and a
// write to it that fails ends the process.
package index
