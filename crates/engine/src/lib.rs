//! The engine: workers, their I/O backends, connections, timers and buffers.
//!
//! It gets listening sockets, settings and an application ([`app::App`]), and sends responses. It
//! knows the protocol machines of HTTP, and nothing of archives, sites or scripts.
//!
//! | File | Task |
//! |---|---|
//! | [`app`], [`exchange`], [`raw`] | the contract with an application: events and actions |
//! | [`address`] | the address of a message: an exchange or a stream of a connection |
//! | `stream_event` | events of exchanges and byte streams that no bytes of the peer cause |
//! | `gone` | the reasons why an exchange or a stream ends without the application |
//! | [`connections`] | the actions outside of the events of a connection |
//! | [`encode`] | compression of dynamic responses |
//! | [`server`] | threads, restart after a panic (`restart_pause`), graceful shutdown |
//! | [`worker`] | the loop of one worker: completions, deadlines, messages |
//! | [`clock`] | the two clocks that a worker reads once per pass |
//! | `driver` | the work on one connection; only its files call the application |
//! | `tls_io` | the input and output of a connection over TLS |
//! | `conn`, `side` | connections: a `link` (transport) and a protocol; the opening side |
//! | `conns` | the connections of one worker: a slab whose slots carry a generation |
//! | `deadline` | the condition that the deadline of a connection watches, and its time |
//! | `http1`, `http2`, `http3`, `multiplexed` | the protocols: their state and their responses |
//! | `byte_stream`, `linger` | the state of upgraded connections, and of those that end |
//! | `protocol` | the response of an exchange, independent of its protocol |
//! | `worker_core`, `worker_buffers` | the state that connections share, and its part for output |
//! | `input_buffer`, `output`, `tails` | kept input; output queues; ends of response heads |
//! | `send` | a piece of output, from the queue to the kernel |
//! | `pool`, `wheel`, `inbox` | a worker's buffers, timers, messages |
//! | `connection_permits`, `outgoing_permits`, `client_limit` | how many connections there may be |
//! | `permit_pressure`, `memory_pressure` | which connections close when either runs low |
//! | `enobufs_retry` | sends for which the kernel had no memory |
//! | `drain`, `ending`, `backlog` | the end of a worker |
//! | [`tls`] | encryption of connections, certificates, tickets |
//! | `tables` | growth of the tables that have an entry for each connection |
//! | [`quic`] | QUIC: datagrams, endpoints, connections |
//! | [`mapping`] | mapped archives and their generations |
//! | [`backend`] | the system interfaces: epoll, io_uring, and a seeded simulator |
//! | [`executable_memory_probe`] | whether code that was made at run time may run |
//! | [`release_memory`] | memory given back after a build |
//! | [`footprint`] | the maximum memory of the engine |
//! | `stepped` | a worker without a thread, for the simulator (feature `sim`) |
//! | [`stderr`] | lines for stderr that never block |
//! | [`remote`] | connections that the server opens: their addresses, and the reasons of failures |
//! | [`settings`] | settings of a server |
//! | `socket_options` | options of sockets that rustix does not have |
//! | [`listener`], [`signals`] | sockets and signals, made before any thread starts |
//! | [`service_manager`] | sockets and variables that a service manager passes |
//! | [`limits`] | every limit with its reason |
//!
//! This crate has `unsafe` code in `backend`, `mapping`, `residency`, `signals`, `listener`,
//! `service_manager`, `executable_memory`, and where a worker lends memory to its backend (`send`).

pub mod address;
pub mod app;
pub mod backend;
mod backlog;
mod byte_stream;
mod client_limit;
pub mod clock;
mod conn;
mod connection_permits;
pub mod connections;
mod conns;
mod deadline;
mod drain;
mod driver;
pub mod encode;
mod ending;
mod enobufs_retry;
pub mod exchange;
pub mod executable_memory_probe;
pub mod footprint;
mod gone;
mod http1;
mod http2;
mod http3;
mod inbox;
mod input_buffer;
pub mod limits;
mod linger;
mod link;
pub mod listener;
pub mod mapping;
mod memory_pressure;
mod multiplexed;
mod outgoing_permits;
mod output;
mod permit_pressure;
mod pool;
mod protocol;
pub mod quic;
pub mod raw;
pub mod release_memory;
pub mod remote;
mod restart_pause;
mod send;
pub mod server;
pub mod service_manager;
pub mod settings;
mod side;
pub mod signals;
mod socket_options;
pub mod stderr;
#[cfg(feature = "sim")]
pub mod stepped;
mod stream_event;
mod tables;
mod tails;
pub mod tls;
mod tls_io;
mod wheel;
pub mod worker;
mod worker_buffers;
mod worker_core;

pub use inbox::Poster;
