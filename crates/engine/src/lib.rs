//! The engine: workers, their I/O backends, connections, timers and buffers.
//!
//! In come listening sockets, settings and an application ([`app::App`]); out go answers. The
//! engine knows HTTP's wire machines and nothing of archives, sites or scripts.
//!
//! | file | what it holds |
//! |---|---|
//! | [`app`], [`exchange`], [`raw`] | the contract: events in, actions out |
//! | [`encode`] | content made on demand, compressed as it goes out |
//! | [`server`] | threads, restart after a panic, draining |
//! | `restart_pause` | how long a worker that has died stays away |
//! | [`worker`] | the loop of one worker: completions, deadlines, back-pressure |
//! | `service` | what a worker does with one connection |
//! | `sealed` | … over TLS |
//! | `preface` | how a connection begins: what the peer speaks |
//! | `http1` | HTTP/1 on one connection |
//! | `core`, `conn`, `stash`, `output` | a worker's connections, input that waits, send queues |
//! | `handover` | one piece of output, from the queue to the kernel |
//! | `pool`, `wheel`, `inbox` | a worker's buffers, timers, messages |
//! | `places` | as many connections as the server may hold, shared by its workers |
//! | `relief` | who gives buffers up when they run low |
//! | `shortage` | sends that found no memory in the kernel |
//! | `drain` | how a worker ends |
//! | `backlog` | what stands in the kernel when a worker ends, or was held up |
//! | [`tls`] | what stands between a connection and its protocol when it is encrypted |
//! | `tables` | how what grows with connections grows |
//! | [`quic`] | QUIC: datagrams, endpoints, connections |
//! | [`mapping`] | mapped archives and their generations |
//! | [`backend`] | the system interfaces: epoll, io_uring, and a seeded simulator |
//! | [`executable_memory`] | whether code that was made at run time may run |
//! | [`residency`] | memory given back after a build |
//! | [`footprint`] | what all of it takes at most |
//! | `stepped` | a worker without a thread, for the simulator (feature `sim`) |
//! | [`stderr`] | lines that nobody has to read |
//! | [`settings`] | what a server can be told |
//! | [`listener`], [`signals`] | sockets and signals, made before any thread starts |
//! | [`limits`] | every limit with its reason |
//!
//! This is the room with `unsafe` code, in `backend`, `mapping`, `residency`, `signals`, and where
//! a worker lends memory to its backend (`handover`); that of Lua has some in one file.

pub mod address;
pub mod app;
pub mod backend;
mod backlog;
mod byte_stream;
mod client_limit;
pub mod clock;
mod conn;
mod connection_permits;
mod core;
mod deadline;
mod drain;
pub mod encode;
mod ending;
pub mod exchange;
pub mod executable_memory;
pub mod footprint;
mod gone;
mod handover;
mod http1;
mod http2;
mod http3;
mod inbox;
pub mod limits;
mod linger;
mod link;
pub mod listener;
mod many;
pub mod mapping;
mod notice;
mod output;
mod permit_pressure;
mod pool;
mod protocol;
pub mod quic;
pub mod raw;
mod relief;
pub mod residency;
mod restart_pause;
mod sealed;
pub mod server;
mod service;
pub mod settings;
mod shortage;
pub mod signals;
mod stash;
pub mod stderr;
#[cfg(feature = "sim")]
pub mod stepped;
mod tables;
pub mod tls;
mod wheel;
pub mod worker;

pub use inbox::Poster;
