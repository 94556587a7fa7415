package process

import (
	"fmt"
	"regexp"
	"strconv"
)

// Metric reads one value of the admin address's /metrics: the first with that name, and with the labels if they are
// part of it. A metric that is not there is an error.
func (b *Broker) Metric(name string) (float64, error) {
	page, err := b.Get("/metrics")
	if err != nil {
		return 0, err
	}
	m := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(name) + `(?:\{[^}]*\})? (\S+)$`).FindStringSubmatch(page)
	if m == nil {
		return 0, fmt.Errorf("/metrics has no %s", name)
	}
	return strconv.ParseFloat(m[1], 64)
}
