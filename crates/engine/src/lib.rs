//! The engine: workers, their I/O backends, connections, timers and buffers.
//!
//! It gets listening sockets, settings and an application ([`app::App`]), and sends responses. It
//! knows the protocol machines of HTTP, and nothing of archives, sites or scripts.
//!
//! | File | Task |
//! |---|---|
//! | [`app`], [`exchange`], [`byte_stream_handle`] | events and actions of the application |
//! | [`exchange_address`] | the address of a message: an exchange or a stream of a connection |
//! | `stream_event` | events of exchanges and byte streams that no bytes of the peer cause |
//! | `end_reason` | the reasons why an exchange or a stream ends without the application |
//! | [`connection_actions`] | the actions outside of the events of a connection |
//! | [`response_compression`] | compression of dynamic responses |
//! | [`server`] | threads, restart after a panic (`restart_pause`), graceful shutdown |
//! | [`worker`] | the loop of one worker: completions, deadlines, messages |
//! | [`clock`] | the two clocks that a worker reads once per pass |
//! | `driver` | the work on one connection; only its files call the application |
//! | `tls_io` | the input and output of a connection over TLS |
//! | `connection` | a connection: a `transport_link` and a protocol |
//! | `connection_direction` | whether a client or the server opened a connection |
//! | `connection_table` | the connections of one worker: a slab whose slots carry a generation |
//! | `deadline` | the deadline of a connection: its kind and its time |
//! | `http1`, `http2`, `http3`, `multiplexed` | the protocols: their state and their responses |
//! | `byte_stream`, `linger` | the state of upgraded connections, and of those that end |
//! | `protocol_dispatch` | the response of an exchange, independent of its protocol |
//! | `worker_core`, `worker_buffers` | the state that connections share, and its part for output |
//! | `input_buffer`, `output_queue` | kept input; output queues |
//! | `response_head_tails` | the ends of response heads |
//! | `send` | a piece of output, from the queue to the kernel |
//! | `buffer_pool`, `timer_wheel`, `inbox` | a worker's buffers, timers, messages |
//! | `connection_permits`, `outgoing_permits` | how many connections there may be |
//! | `client_connection_limit` | how many connections one client may have |
//! | `permit_pressure`, `memory_pressure` | which connections close when either runs low |
//! | `enobufs_retry` | sends for which the kernel had no memory |
//! | `drain`, `drain_state`, `event_backlog` | the end of a worker |
//! | [`tls`] | encryption of connections, certificates, tickets |
//! | `table_capacity` | growth of the tables that have an entry for each connection |
//! | [`quic`] | QUIC: datagrams, endpoints, connections |
//! | [`file_mapping`] | mapped archives and their generations |
//! | [`backend`] | the system interfaces: epoll, io_uring, and a seeded simulator |
//! | [`executable_memory_probe`] | whether code that was made at run time may run |
//! | [`release_memory`] | memory given back after a build |
//! | [`memory_footprint`] | the maximum memory of the engine |
//! | `stepped_worker` | a worker without a thread, for the simulator (feature `sim`) |
//! | [`stderr`] | lines for stderr that never block |
//! | [`outgoing_connect`] | addresses of connections that the server opens; failures |
//! | [`settings`] | settings of a server |
//! | `socket_options` | options of sockets that rustix does not have |
//! | [`listener`], [`signals`] | sockets and signals, made before any thread starts |
//! | [`service_manager`] | sockets and variables that a service manager passes |
//! | [`limits`] | every limit with its reason |
//!
//! This crate has `unsafe` code in `backend`, `file_mapping`, `release_memory`, `signals`,
//! `service_manager`, `socket_options`, `executable_memory_probe`, and where a worker lends memory
//! to its backend (`send`).

pub mod app;
pub mod backend;
mod buffer_pool;
mod byte_stream;
pub mod byte_stream_handle;
mod client_connection_limit;
pub mod clock;
mod connection;
pub mod connection_actions;
mod connection_direction;
mod connection_permits;
mod connection_table;
mod deadline;
mod drain;
mod drain_state;
mod driver;
mod end_reason;
mod enobufs_retry;
mod event_backlog;
pub mod exchange;
pub mod exchange_address;
pub mod executable_memory_probe;
pub mod file_mapping;
mod http1;
mod http2;
mod http3;
mod inbox;
mod input_buffer;
pub mod limits;
mod linger;
pub mod listener;
pub mod memory_footprint;
mod memory_pressure;
mod multiplexed;
pub mod outgoing_connect;
mod outgoing_permits;
mod output_queue;
mod permit_pressure;
mod protocol_dispatch;
pub mod quic;
pub mod release_memory;
pub mod response_compression;
mod response_head_tails;
mod restart_pause;
mod send;
pub mod server;
pub mod service_manager;
pub mod settings;
pub mod signals;
mod socket_options;
pub mod stderr;
#[cfg(feature = "sim")]
pub mod stepped_worker;
mod stream_event;
mod table_capacity;
mod timer_wheel;
pub mod tls;
mod tls_io;
mod transport_link;
pub mod worker;
mod worker_buffers;
mod worker_core;

pub use inbox::Poster;
