package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"
	"time"
)

// listen binds an address that a setting names, and says what to do when it cannot. An address in use is waited for until
// exiting: that long a killed broker may have it.
func listen(ctx context.Context, exiting time.Time, address, setting string) (net.Listener, error) {
	l, err := untilFree(ctx, exiting, func() (net.Listener, error) { return net.Listen("tcp", address) },
		func(err error) bool { return errors.Is(err, syscall.EADDRINUSE) })
	if err == nil {
		return l, nil
	}
	why := err.Error()
	var dns *net.DNSError
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		why = fmt.Sprintf("another program listens there; choose another address with --%s HOST:PORT, or stop that program", setting)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		why = fmt.Sprintf("this machine does not have that address; choose one of its own with --%s HOST:PORT", setting)
	case errors.Is(err, syscall.EACCES):
		why = fmt.Sprintf("ports below 1024 need a privilege; choose a higher one with --%s HOST:PORT", setting)
	case errors.As(err, &dns):
		why = fmt.Sprintf("the host's name cannot be resolved; choose another address with --%s HOST:PORT", setting)
	}
	return nil, fmt.Errorf("cannot listen on %s: %s", address, why)
}
