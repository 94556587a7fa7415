package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// clientFlags are those of every command that talks to a running broker.
type clientFlags struct {
	brokers *string
	timeout *time.Duration
	json    *bool
}

const brokersEnv = "HEADPOND_BROKERS"

func (p process) addClientFlags(fs *pflag.FlagSet) clientFlags {
	brokers := "127.0.0.1:9092"
	for _, e := range p.environ {
		if v, ok := strings.CutPrefix(e, brokersEnv+"="); ok && v != "" {
			brokers = v
		}
	}
	return clientFlags{
		brokers: fs.StringP("brokers", "b", brokers, "HOST:PORT of a broker, or several with commas; "+brokersEnv+" names them too"),
		timeout: fs.Duration("timeout", 30*time.Second, "how long to wait for answers"),
		json:    fs.Bool("json", false, "print JSON"),
	}
}

// with runs fn with a client of the broker, and says so when none answers.
func (f clientFlags) with(ctx context.Context, fn func(context.Context, *kadm.Client) error) error {
	if *f.timeout <= 0 {
		return usagef("timeout is %s and must be above zero", *f.timeout)
	}
	seeds := strings.Split(*f.brokers, ",")
	cl, err := kgo.NewClient(kgo.SeedBrokers(seeds...), kgo.RequestRetries(3), kgo.DialTimeout(5*time.Second),
		kgo.RetryTimeout(*f.timeout), kgo.ClientID("headpond"))
	if err != nil {
		return usagef("brokers %q: %w", *f.brokers, err)
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(ctx, *f.timeout)
	defer cancel()
	if err := cl.Ping(ctx); err != nil {
		return fmt.Errorf("no broker answers at %s (%w); start one with headpond serve, or name it with --brokers", *f.brokers, err)
	}
	err = fn(ctx, kadm.NewClient(cl))
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("no answer within %s: %w", *f.timeout, err)
	}
	return err
}

// refusal puts a broker's answer into words: its own text where it sent one.
func refusal(what string, err error, message string) error {
	if err == nil {
		return nil
	}
	if message != "" {
		return fmt.Errorf("%s: %s", what, message)
	}
	var ke *kerr.Error
	if errors.As(err, &ke) {
		return fmt.Errorf("%s: %s (%s)", what, strings.ToLower(strings.TrimSuffix(ke.Description, ".")), ke.Message)
	}
	return fmt.Errorf("%s: %w", what, err)
}

func printJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// pairs reads NAME=VALUE arguments.
func pairs(args []string) (names []string, values map[string]string, err error) {
	values = map[string]string{}
	for _, a := range args {
		name, value, found := strings.Cut(a, "=")
		if !found || name == "" {
			return nil, nil, usagef("config %q is not NAME=VALUE", a)
		}
		if _, twice := values[name]; twice {
			return nil, nil, usagef("config %s is there twice", name)
		}
		names = append(names, name)
		values[name] = value
	}
	return names, values, nil
}

func count(n int, what string) string {
	if n == 1 {
		return fmt.Sprintf("%d %s", n, what)
	}
	return fmt.Sprintf("%d %ss", n, what)
}
