// Programs of the Go world that tests run: every module with its version, also those that others
// need. Debian 12's Go (1.19) can build these versions. Hardly any is imported here, so `go mod tidy`
// would empty this file; `go get MODULE@VERSION` renews a line and `go.sum`.
module pinion.invalid/tests

go 1.19

require (
	github.com/redis/go-redis/v9 v9.17.3
	github.com/summerwind/h2spec v2.2.1+incompatible
)

require (
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/dgryski/go-rendezvous v0.0.0-20200823014737-9f7001d12a5f // indirect
	github.com/fatih/color v1.16.0 // indirect
	github.com/inconshreveable/mousetrap v1.1.0 // indirect
	github.com/mattn/go-colorable v0.1.13 // indirect
	github.com/mattn/go-isatty v0.0.20 // indirect
	github.com/spf13/cobra v1.8.1 // indirect
	github.com/spf13/pflag v1.0.5 // indirect
	golang.org/x/net v0.17.0 // indirect
	golang.org/x/sys v0.14.0 // indirect
	golang.org/x/text v0.13.0 // indirect
)
