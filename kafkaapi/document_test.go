package kafkaapi

import (
	"fmt"
	"os"
	"regexp"
	"testing"
)

func TestDocumentListsWhatIsServed(t *testing.T) {
	page, err := os.ReadFile("../docs/kafka.md")
	if err != nil {
		t.Fatal(err)
	}
	var listed, served string
	for _, m := range regexp.MustCompile(`(?m)^\| (\d+) \| (\w+) \| (\d+-\d+) \|`).FindAllStringSubmatch(string(page), -1) {
		listed += fmt.Sprintln(m[1], m[2], m[3])
	}
	for _, a := range apis {
		served += fmt.Sprintf("%d %s %d-%d\n", a.key, a.name, a.min, a.max)
	}
	if listed != served {
		t.Errorf("docs/kafka.md lists\n%s\nserved are\n%s", listed, served)
	}
}
