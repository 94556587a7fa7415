package engine

// Topic is one incarnation of a topic. It is immutable: a change makes a new one.
type Topic struct {
	Name       string
	ID         ID // differs between incarnations of one name
	Partitions int32
	Config     map[string]string // what was set, by Kafka's names; never nil
	Internal   bool
	Rev        uint64 // revision of its metadata, for changes that must not overwrite another's
}

// TopicChange is what a topic is created or changed to.
type TopicChange struct {
	Partitions int32             // at least 1, and at least what there are
	Config     map[string]string // replaces what was set
	Internal   bool              // at creation only
}
