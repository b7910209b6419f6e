// Package quic has the names of quic-go 0.29 that kawipiko mentions, and does nothing.
package quic

import "time"

type VersionNumber uint32

const (
	Version1       VersionNumber = 1
	VersionDraft29 VersionNumber = 29
)

type Config struct {
	Versions                       []VersionNumber
	HandshakeIdleTimeout           time.Duration
	MaxIdleTimeout                 time.Duration
	MaxIncomingStreams             int64
	MaxIncomingUniStreams          int64
	InitialConnectionReceiveWindow uint64
	MaxConnectionReceiveWindow     uint64
	InitialStreamReceiveWindow     uint64
	MaxStreamReceiveWindow         uint64
	KeepAlivePeriod                time.Duration
}
