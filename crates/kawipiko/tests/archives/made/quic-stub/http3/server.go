// Package http3 has the names of quic-go 0.29 that kawipiko mentions; its server never serves.
package http3

import (
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"time"

	"github.com/lucas-clemente/quic-go"
)

type Server struct {
	Handler    http.Handler
	TLSConfig  *tls.Config
	QuicConfig *quic.Config
}

func (*Server) Serve(net.PacketConn) error { return errors.New("no QUIC here") }

func (*Server) CloseGracefully(time.Duration) error { return nil }

func (*Server) Close() error { return nil }
