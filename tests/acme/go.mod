// An authority for ACME and the names that it looks up, for the test of certbot in
// `cargo xtask test --long`. They need Go 1.24 or later. Nothing imports them, so `go mod tidy` would
// empty this file; `go get MODULE@VERSION` renews a line and `go.sum`.
module pinion.invalid/tests/acme

go 1.24.0

require github.com/letsencrypt/pebble/v2 v2.10.1

require (
	github.com/go-jose/go-jose/v4 v4.1.4 // indirect
	github.com/letsencrypt/challtestsrv v1.4.2 // indirect
	github.com/miekg/dns v1.1.62 // indirect
	golang.org/x/mod v0.24.0 // indirect
	golang.org/x/net v0.40.0 // indirect
	golang.org/x/sync v0.14.0 // indirect
	golang.org/x/sys v0.33.0 // indirect
	golang.org/x/tools v0.33.0 // indirect
)
