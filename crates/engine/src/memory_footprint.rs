//! The maximum memory of the engine besides mappings and the memory budget for buffers: the parts
//! that grow with workers and with connections, each in one place.

use std::net::SocketAddr;

use crate::backend::{epoll, uring};
use crate::connection_table;
use crate::inbox;
use crate::limits::{
    ACCEPT_EXTRA_CONNECTIONS, ACCEPT_SLACK_CONNECTIONS, CHUNK_BYTES, DATAGRAM_BATCH,
    DATAGRAM_MAX_BYTES, EXTERNAL_READ_BYTES, HANDSHAKE_MAX_BYTES, INBOX_DATAGRAMS_MAX,
    QUIC_DATAGRAM_MAX_BYTES, QUIC_STEPS_MAX, QUIC_UNCOUNTED_BYTES, SEAL_MAX_BYTES,
    TLS_RECORD_MAX_BYTES, WORKER_STACK_BYTES,
};
use crate::output_queue;
use crate::quic::endpoint;
use crate::server::Io;
use crate::timer_wheel;

/// Returns the bytes of one worker without connections, besides [`worker_mapped_bytes`].
pub const fn worker_bytes(io: Io) -> usize {
    let backend = match io {
        Io::Epoll => epoll::WORKER_BYTES,
        Io::Uring => uring::WORKER_BYTES,
    };
    // The buffers in which TLS decrypts and encrypts; the headers of the records come in addition.
    let tls = TLS_RECORD_MAX_BYTES + CHUNK_BYTES + SEAL_MAX_BYTES + 1024;
    // The buffer for compressed content, and one for a piece of a file before compression.
    let encoding = CHUNK_BYTES + EXTERNAL_READ_BYTES;
    let own = EXTERNAL_READ_BYTES + CHUNK_BYTES + inbox::WORKER_BYTES;
    own + encoding + backend + tls
}

/// Returns the bytes of one worker that are mapped directly and are in no heap: its stack, and the
/// memory that it lends to the kernel for input with io_uring, where each worker has this budget
/// for buffers.
pub const fn worker_mapped_bytes(io: Io, budget_bytes: usize) -> usize {
    WORKER_STACK_BYTES
        + match io {
            Io::Epoll => 0,
            Io::Uring => uring::lent_bytes(budget_bytes),
        }
}

/// Returns the bytes of one connection, besides its buffers: its slot, its queue, its deadline, its
/// entry in the backend.
pub const fn connection_bytes(io: Io) -> usize {
    let backend = match io {
        Io::Epoll => epoll::CONNECTION_BYTES,
        Io::Uring => uring::CONNECTION_BYTES,
    };
    connection_table::SLOT_BYTES + output_queue::QUEUE_BYTES + timer_wheel::NODE_BYTES + backend
}

/// Bytes of one connection of a proxy that sends the address of its client, besides those of every
/// connection: the address of the proxy itself.
pub const PROXY_ADDRESS_BYTES: usize = size_of::<Option<SocketAddr>>();

/// The maximum number of bytes of one connection's TLS, besides encrypted output, which counts as a
/// buffer: keys and state, an incomplete handshake or record, and the reply to a handshake. An idle
/// connection has an eighth of that.
pub const TLS_CONNECTION_BYTES: usize = {
    const STATE_BYTES: usize = 6 * 1024;
    const FLIGHT_BYTES: usize = 4 * 1024;
    assert!(HANDSHAKE_MAX_BYTES <= TLS_RECORD_MAX_BYTES);
    STATE_BYTES + TLS_RECORD_MAX_BYTES + FLIGHT_BYTES
};

/// The maximum number of bytes of one outgoing connection's TLS, as [`TLS_CONNECTION_BYTES`]: a
/// client also keeps the certificates of the server.
pub const TLS_OUTGOING_BYTES: usize = TLS_CONNECTION_BYTES + HANDSHAKE_MAX_BYTES;

/// The maximum number of bytes of one QUIC connection, besides queued output and unread input,
/// which count as buffers: keys and state of QUIC and HTTP/3.
pub const QUIC_CONNECTION_BYTES: usize = {
    const STATE_BYTES: usize = 40 * 1024;
    STATE_BYTES + QUIC_UNCOUNTED_BYTES
};

/// Bytes of one worker with QUIC: the receive buffers for datagrams, datagrams that came to another
/// worker, waiting in its inbox and taken out of it, and waiting datagrams of handshakes.
pub const QUIC_WORKER_BYTES: usize = {
    const PASSED_ON_BYTES: usize = QUIC_DATAGRAM_MAX_BYTES as usize + endpoint::DATAGRAM_BYTES;
    const KEPT: usize = 2 * INBOX_DATAGRAMS_MAX + QUIC_STEPS_MAX + 1;
    DATAGRAM_BATCH * DATAGRAM_MAX_BYTES + KEPT * PASSED_ON_BYTES
};

/// Bytes of one QUIC socket: the output that is being sent, and the output that the kernel had no
/// room for.
pub const QUIC_SOCKET_BYTES: usize = 2 * DATAGRAM_MAX_BYTES;

/// Returns the number of entries for connections in the tables of all workers. A table never
/// shrinks, and every worker may once have had as many as the balance allows it.
pub const fn table_places(connections: usize, workers: usize) -> usize {
    if workers == 1 {
        return connections;
    }
    let above = ACCEPT_SLACK_CONNECTIONS + ACCEPT_EXTRA_CONNECTIONS + 1;
    let balanced = connections + connections / 4 + workers * above;
    let unbalanced = connections * workers;
    if balanced < unbalanced { balanced } else { unbalanced }
}

/// The maximum number of bytes of an idle connection (docs/benchmarking.md, "Memory").
const IDLE_CONNECTION_MAX_BYTES: usize = 512;

// The message of a send in flight is no part of an idle connection.
const _: () = assert!(
    connection_bytes(Io::Epoll) <= IDLE_CONNECTION_MAX_BYTES
        && connection_bytes(Io::Uring) - uring::MESSAGE_BYTES <= IDLE_CONNECTION_MAX_BYTES
);
