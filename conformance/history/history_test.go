package history

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var part = Partition{Topic: "t", Num: 3}

func id(n uint64) ID { return MakeID(1, n) }

// good is a history without an anomaly: four records, one refused, one of unknown outcome that is not there, and one of
// unknown outcome that is; read live and, later, completely.
func good() []Event {
	events := []Event{}
	for n := range uint64(6) {
		events = append(events, Event{Kind: Sending, ID: id(n), Partition: part, Digest: uint32(n)})
	}
	events = append(events,
		Event{Kind: Acked, ID: id(0), Offset: 0, At: 10},
		Event{Kind: Acked, ID: id(1), Offset: 1, At: 11},
		Event{Kind: Refused, ID: id(2)},
		Event{Kind: Watermark, Asked: 12, At: 13, Partition: part, From: 0, To: 2},
		Event{Kind: Read, Session: 1, Partition: part, Offset: 0, ID: id(0), Digest: 0},
		Event{Kind: Read, Session: 1, Partition: part, Offset: 1, ID: id(1), Digest: 1},
		Event{Kind: Progress, Session: 1, Partition: part, At: 14, To: 2},
		Event{Kind: Unknown, ID: id(3)},
		Event{Kind: Unknown, ID: id(4)},
		Event{Kind: Acked, ID: id(5), Offset: 3, At: 20},
		Event{Kind: Watermark, Asked: 21, At: 22, Partition: part, From: 0, To: 4},
	)
	for offset, n := range []uint64{0, 1, 4, 5} {
		events = append(events, Event{Kind: Read, Session: 2, Partition: part, Offset: int64(offset), ID: id(n), Digest: uint32(n)})
	}
	return append(events, Event{Kind: Complete, Session: 2, Asked: 30, Partition: part, From: 0, To: 4})
}

func check(events []Event) Report {
	c := NewChecker()
	for _, e := range events {
		c.Add(e)
	}
	return c.Report()
}

func TestAGoodHistoryHasNoAnomaly(t *testing.T) {
	if r := check(good()); !r.OK() || r.Sent != 6 || r.Acked != 3 || r.Read != 6 {
		t.Fatal(r)
	}
}

// edit returns the good history with one thing changed: fn gets each event and returns what stands in its place.
func edit(fn func(Event) []Event) []Event {
	var out []Event
	for _, e := range good() {
		out = append(out, fn(e)...)
	}
	return out
}

func insertBeforeComplete(more ...Event) []Event {
	return edit(func(e Event) []Event {
		if e.Kind == Complete {
			return append(slices.Clone(more), e)
		}
		return []Event{e}
	})
}

// finalRead changes the complete reading, which is session 2.
func finalRead(fn func(Event) []Event) []Event {
	return edit(func(e Event) []Event {
		if e.Kind == Read && e.Session == 2 {
			return fn(e)
		}
		return []Event{e}
	})
}

func TestEachWayToBeWrongIsNamed(t *testing.T) {
	at := func(offset int64, change func(*Event)) []Event {
		return finalRead(func(e Event) []Event {
			if e.Offset == offset {
				change(&e)
			}
			return []Event{e}
		})
	}
	outcomeOf := func(n uint64, change func(*Event)) []Event {
		return edit(func(e Event) []Event {
			if e.ID == id(n) && (e.Kind == Acked || e.Kind == Refused || e.Kind == Unknown) {
				change(&e)
			}
			return []Event{e}
		})
	}
	cases := []struct {
		name   string
		events []Event
		want   []AnomalyKind
	}{
		{"the last acknowledged record is missing", edit(func(e Event) []Event {
			switch {
			case e.Kind == Read && e.Offset == 3, e.Kind == Watermark && e.Asked == 21:
				return nil
			case e.Kind == Complete:
				e.To = 3
			}
			return []Event{e}
		}), []AnomalyKind{Lost, Fell}},
		{"an acknowledged record is replaced by one of unknown outcome", at(3, func(e *Event) { e.ID, e.Digest = id(3), 3 }), []AnomalyKind{Lost, Reordered}},
		{"everything is gone", edit(func(e Event) []Event {
			switch {
			case e.Kind == Read, e.Kind == Progress, e.Kind == Watermark:
				return nil
			case e.Kind == Complete:
				e.To = 0
			}
			return []Event{e}
		}), []AnomalyKind{Lost, Fell}},
		{"a record that nobody sent", at(2, func(e *Event) { e.ID = MakeID(9, 1) }), []AnomalyKind{Phantom}},
		{"a refused record appears", at(2, func(e *Event) { e.ID, e.Digest = id(2), 2 }), []AnomalyKind{Phantom}},
		{"a record of another partition", edit(func(e Event) []Event {
			if e.Kind == Sending && e.ID == id(4) {
				e.Partition.Num = 4
			}
			return []Event{e}
		}), []AnomalyKind{Phantom}},
		{"other bytes than sent", at(2, func(e *Event) { e.Digest = 99 }), []AnomalyKind{Altered}},
		{"a record is there twice", insertBeforeComplete(
			Event{Kind: Read, Session: 2, Partition: part, Offset: 4, ID: id(5), Digest: 5}), []AnomalyKind{Duplicate}},
		{"an older record comes later", insertBeforeComplete(
			Event{Kind: Read, Session: 2, Partition: part, Offset: 4, ID: id(3), Digest: 3}), []AnomalyKind{Reordered}},
		{"an offset has another value later", at(1, func(e *Event) { e.ID, e.Digest = id(3), 3 }), []AnomalyKind{TwoValues}},
		{"an offset has other bytes later", at(1, func(e *Event) { e.Digest = 77 }), []AnomalyKind{TwoValues}},
		{"the producer was told another offset", outcomeOf(5, func(e *Event) { e.Offset = 2 }), []AnomalyKind{WrongOffset}},
		{"a reading skips an offset", finalRead(func(e Event) []Event {
			if e.Offset == 2 {
				return nil
			}
			return []Event{e}
		}), []AnomalyKind{Gap}},
		{"a reading starts late", edit(func(e Event) []Event {
			if e.Kind == Read && e.Offset == 0 {
				return nil
			}
			return []Event{e}
		}), []AnomalyKind{Gap, Lost}},
		{"a reading ends early", finalRead(func(e Event) []Event {
			if e.Offset == 3 {
				return nil
			}
			return []Event{e}
		}), []AnomalyKind{Gap, Lost}},
		{"a reading comes back with nothing", finalRead(func(Event) []Event { return nil }), []AnomalyKind{Gap, Lost}},
		{"a reader is sent back", insertBeforeComplete(
			Event{Kind: Read, Session: 2, Partition: part, Offset: 1, ID: id(1), Digest: 1}), []AnomalyKind{WentBack}},
		{"the watermark falls between two questions", insertBeforeComplete(
			Event{Kind: Watermark, Asked: 23, At: 24, Partition: part, To: 3}), []AnomalyKind{Fell}},
		{"the watermark falls below what was read", insertBeforeComplete(
			Event{Kind: Progress, Session: 1, Partition: part, At: 28, To: 7}), []AnomalyKind{Fell}},
		{"the watermark is below an acknowledged record", edit(func(e Event) []Event {
			if e.Kind == Watermark && e.Asked == 12 {
				e.To = 1
			}
			return []Event{e}
		}), []AnomalyKind{Fell}},
		{"the log start falls", insertBeforeComplete(
			Event{Kind: Watermark, Asked: 23, At: 24, Partition: part, From: 1, To: 4},
			Event{Kind: Watermark, Asked: 25, At: 26, Partition: part, From: 0, To: 4}), []AnomalyKind{StartFell}},
		{"a record is sent twice", append(good(), Event{Kind: Sending, ID: id(0), Partition: part}), []AnomalyKind{Inconsistent}},
		{"an outcome without a sending", append(good(), Event{Kind: Unknown, ID: MakeID(7, 7)}), []AnomalyKind{Inconsistent}},
		{"two outcomes", append(good(), Event{Kind: Refused, ID: id(3)}), []AnomalyKind{Inconsistent}},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			r := check(tc.events)
			var got []AnomalyKind
			for kind := range r.Count {
				got = append(got, kind)
			}
			slices.Sort(got)
			slices.Sort(tc.want)
			if !slices.Equal(got, tc.want) {
				t.Fatalf("named %q, want %q\n%s", got, tc.want, r)
			}
		})
	}
}

func TestOverlappingQuestionsMayBeAnsweredInEitherOrder(t *testing.T) {
	r := check(insertBeforeComplete(
		Event{Kind: Watermark, Asked: 23, At: 27, Partition: part, To: 6},
		Event{Kind: Watermark, Asked: 24, At: 26, Partition: part, To: 5},
		Event{Kind: Watermark, Asked: 20, At: 22, Partition: part, To: 4}))
	if r.Count[Fell] != 1 { // the complete reading of 4 comes after the watermark of 6
		t.Fatal(r)
	}
}

func TestRecordsBelowTheLogStartAreNotLost(t *testing.T) {
	r := check(edit(func(e Event) []Event {
		switch {
		case e.Kind == Read && e.Offset < 2, e.Kind == Progress:
			return nil
		case e.Kind == Complete:
			e.From = 2
		}
		return []Event{e}
	}))
	if !r.OK() {
		t.Fatal(r)
	}
}

func TestLogsMayBeAddedInAnyOrder(t *testing.T) {
	var producer, reader []Event
	for _, e := range good() {
		if e.Kind == Sending || e.Kind == Acked || e.Kind == Refused || e.Kind == Unknown {
			producer = append(producer, e)
		} else {
			reader = append(reader, e)
		}
	}
	if r := check(append(reader, producer...)); !r.OK() {
		t.Fatal(r)
	}
}

func TestEveryEventSurvivesItsLog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	l, err := Create(path, NewClock())
	if err != nil {
		t.Fatal(err)
	}
	want := good()
	if err := l.Append(want[:4]...); err != nil {
		t.Fatal(err)
	}
	if err := l.Append(want[4:]...); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	// Cut anywhere, what is left is a prefix of the events.
	for cut := range len(data) + 1 {
		var got []Event
		if err := Scan(bytes.NewReader(data[:cut]), func(e Event) { got = append(got, e) }); err != nil {
			t.Fatalf("cut at %d: %v", cut, err)
		}
		if len(got) != bytes.Count(data[:cut], []byte("\n")) || !slices.Equal(got, want[:len(got)]) {
			t.Fatalf("cut at %d: got %v", cut, got)
		}
	}
	r, err := CheckFiles(path)
	if err != nil || !r.OK() {
		t.Fatal(r, err)
	}
	if _, err := Create(path, NewClock()); err == nil {
		t.Fatal("a log was made over another")
	}
}

func TestAGrowingHistoryIsJudgedAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	l, err := Create(path, NewClock())
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	f := NewFollower()
	for _, e := range good() {
		if err := l.Append(e); err != nil {
			t.Fatal(err)
		}
		if r, err := f.Check(path); err != nil || !r.OK() {
			t.Fatal(r, err)
		}
	}
	if err := l.Append(Event{Kind: Read, Session: 2, Partition: part, Offset: 4, ID: id(5), Digest: 5}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if r, err := f.Check(path); err != nil || r.Count[Duplicate] != 1 || len(r.Count) != 1 {
			t.Fatal(r, err)
		}
	}
}

func TestADamagedLogIsAnErrorThatNamesTheLine(t *testing.T) {
	for _, line := range []string{"", "X 1", "A 1 2", "A 1 2 3 4", "A 1 2 x", "S 1 t 99999999999 0", "R 1 t 0 0 1 zz"} {
		err := Scan(strings.NewReader("U 1\n"+line+"\n"), func(Event) {})
		if err == nil || !strings.Contains(err.Error(), "line 2") {
			t.Errorf("%q: %v", line, err)
		}
	}
}

// TestAgainstAModel builds random correct histories, which must pass, and removes one acknowledged record from the final
// reading of each, which must be named.
func TestAgainstAModel(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	for range 200 {
		events, acked := randomHistory(rng)
		if r := check(events); !r.OK() {
			t.Fatalf("correct history: %s", r)
		}
		if len(acked) == 0 {
			continue
		}
		victim := acked[rng.IntN(len(acked))]
		broken := slices.DeleteFunc(events, func(e Event) bool { return e.Kind == Read && e.ID == victim })
		if r := check(broken); r.Count[Lost] == 0 && r.Count[Gap] == 0 {
			t.Fatalf("%s removed: %s", victim, r)
		}
	}
}

func randomHistory(rng *rand.Rand) (events []Event, acked []ID) {
	now := int64(0)
	logs := map[Partition][]Event{}
	for n := range uint64(rng.IntN(200)) {
		now++
		e := Event{ID: MakeID(uint32(n%3), n/3), Partition: Partition{"m", int32(rng.IntN(4))}, Digest: rng.Uint32()}
		e.Kind = Sending
		events = append(events, e)
		log := logs[e.Partition]
		switch rng.IntN(5) {
		case 0: // unknown, not there
			events = append(events, Event{Kind: Unknown, ID: e.ID})
			continue
		case 1: // unknown, there
			events = append(events, Event{Kind: Unknown, ID: e.ID})
		default:
			events = append(events, Event{Kind: Acked, ID: e.ID, Offset: int64(len(log)), At: now})
			acked = append(acked, e.ID)
		}
		e.Kind, e.Offset, e.Session = Read, int64(len(log)), 1
		logs[e.Partition] = append(log, e)
		if rng.IntN(10) == 0 {
			events = append(events, Event{Kind: Watermark, Asked: now, At: now, Partition: e.Partition, To: int64(len(log)) + 1})
		}
	}
	for p, log := range logs {
		events = append(events, log...)
		events = append(events, Event{Kind: Complete, Session: 1, Asked: now + 1, Partition: p, To: int64(len(log))})
	}
	return events, acked
}

func BenchmarkCheck(b *testing.B) {
	var events []Event
	for n := range uint64(100_000) {
		events = append(events, Event{Kind: Sending, ID: id(n), Partition: part}, Event{Kind: Acked, ID: id(n), Offset: int64(n)},
			Event{Kind: Read, Session: 1, Partition: part, Offset: int64(n), ID: id(n)})
	}
	for b.Loop() {
		if r := check(events); !r.OK() {
			b.Fatal(fmt.Sprint(r))
		}
	}
}
