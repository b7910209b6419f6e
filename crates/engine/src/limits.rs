//! Every limit of the engine, each with its unit and its reason. The limits of the protocols
//! themselves live in `pinion_http::limits`.

use pinion_http::h3::request_stream::INPUT_MAX_BYTES;

/// Bytes of one lent input buffer and of one pooled output chunk. One request head of the maximum
/// size fits into one, and sixteen pipelined small responses fit into one send.
pub const CHUNK_BYTES: usize = 16 * 1024;

/// Bytes of one connection's input that are processed in one pass before the other connections have
/// their turn. Heads of any usual size fit. Of the smallest records, frames and requests, this is
/// more than a hundred.
pub const INPUT_TURN_BYTES: usize = 4 * 1024;

/// Bytes of one connection's input that are processed in one pass while most of them are content:
/// as many as a lent buffer has room for. Bytes of content cost little.
pub const CONTENT_TURN_BYTES: usize = CHUNK_BYTES;

/// The largest body, in bytes, that is copied after its head instead of becoming a slice of its
/// own: one contiguous send costs less than an I/O vector until the copy shows
/// (docs/decisions/0002).
pub const COPY_BODY_MAX_BYTES: u64 = 4 * 1024;

/// Bytes from which a range of an archive is large. The bytes queued in front of a large range
/// leave by a send of their own; then the range leaves by `sendfile` where the backend has it.
/// Below this size, the extra system call costs more than it saves (docs/decisions/0005).
pub const LARGE_MIN_BYTES: u64 = 32 * 1024;

/// Bytes queued for one connection above which its further requests wait (back-pressure).
pub const OUTPUT_HIGH_WATER_BYTES: u64 = 256 * 1024;

/// Bytes queued for one connection below which its handler gets the event `Writable` again.
pub const OUTPUT_LOW_WATER_BYTES: u64 = 64 * 1024;

/// Bytes queued for one stream at which a
/// [broadcast](crate::connection_actions::Connections::broadcast) closes it instead of queueing
/// more. A reader that is a whole high water behind will not catch up, and its unread messages keep
/// those of all others in memory.
pub const BROADCAST_QUEUE_MAX_BYTES: u64 = OUTPUT_HIGH_WATER_BYTES;

/// I/O vectors handed to the kernel in one send: enough for sixteen pipelined responses with a
/// slice each, and far below IOV_MAX (1024).
pub const SEND_PARTS_MAX: usize = 32;

/// Bytes of kept input at which a connection stops receiving: more than a request head of the
/// maximum size, so that each head can be completed.
pub const INPUT_HIGH_WATER_BYTES: usize = 3 * CHUNK_BYTES / 2;

/// The maximum number of bytes of input kept for one connection. A multishot receive of io_uring
/// goes on until its cancellation takes effect, 32 buffers at a time. The bytes that it has brought
/// by then were acknowledged to the client and must not be lost. A flood of 20 000 pipelined
/// requests needed more than 48 KiB.
pub const INPUT_OVERRUN_MAX_BYTES: usize = 512 * 1024;

/// Bytes of the content of one HTTP/2 request that are kept until the application wants them: all
/// that the flow-control window of its stream lets through.
pub(crate) const UNREAD_MAX_BYTES: usize =
    pinion_http::h2::limits::STREAM_WINDOW_MAX_BYTES as usize;

/// Bytes of request heads, as
/// [`decoded_bytes`](pinion_http::request_head::RequestHead::decoded_bytes) counts them, for which
/// the handlers of one HTTP/2 or HTTP/3 connection have not finished their responses. A handler
/// keeps the head of its request, and with HPACK a few bytes encode a head of any size. There is
/// room for 97 requests with 20 fields of 2 KiB together. The next request gets 431.
pub const OPEN_HEADS_MAX_BYTES: usize = 256 * 1024;

/// Bytes that the first input buffer of a connection takes; most half-received heads fit.
pub const INPUT_BUFFER_MIN_BYTES: usize = 2 * 1024;

/// Connections accepted from a listener in one pass, before the worker looks at its others again.
/// The number is small because the input of all of them comes in one pass as well, and the buffers
/// that it fills come back later.
pub const ACCEPTS_PER_PASS: u32 = 16;

/// Milliseconds without accepting after the system ran out of descriptors or memory, and until a
/// worker that has enough connections takes one client nevertheless.
pub const ACCEPT_PAUSE_MS: u64 = 100;

/// Milliseconds until a send that found no memory in the kernel is tried again: long enough to cost
/// nothing while the shortage lasts, short enough for its end to be used without a noticeable
/// delay.
pub const ENOBUFS_RETRY_MS: u64 = 50;

/// Connections above mean × 5/4 at which a worker stops accepting. The number is small enough to
/// balance the load, and large enough that no worker of a quiet server stops accepting.
pub const ACCEPT_SLACK_CONNECTIONS: usize = 8;

/// Connections that a worker takes above that limit, one at a time, because the other workers may
/// be held up. They are enough for a pause of the others, and few, because the table of every
/// worker may have to hold them.
pub const ACCEPT_EXTRA_CONNECTIONS: usize = 256;

/// Bytes read and dropped after the last response of a connection. Many clients read nothing before
/// they have sent all, and a reset would cost them the response (RFC 9112 §9.6).
pub const LINGER_MAX_BYTES: u64 = 256 * 1024 * 1024;

/// Milliseconds for which a connection lingers if its last request has come in full: some round
/// trips.
pub const LINGER_MS: u64 = 2_000;

/// Milliseconds without a byte for which a connection lingers if its client has more of a request
/// to send: as long as the server waits for the content of a request.
pub const LINGER_CONTENT_MS: u64 = BODY_TIMEOUT_MS;

/// Milliseconds for which a connection lingers in total, however much arrives: 256 MiB at 7 Mbit/s.
pub const LINGER_MAX_MS: u64 = 300_000;

/// Divisor of the connection permits: connections may linger on this fraction of them. Above that,
/// the oldest lingering connection is closed.
pub(crate) const LINGER_PERMIT_DIVISOR: usize = 4;

/// Bytes that a connection may have sent in total and still be closed at once after its last
/// response, if the client asked for that: about the amount that leaves without waiting for the
/// peer (RFC 6928: ten segments). If more were sent, some may wait in the kernel at the close, and
/// would be lost if the peer sent anything at all.
pub const CLOSE_AT_ONCE_MAX_BYTES: u64 = 10 * 1400;

/// Bytes of HTTP/2 frames that wait on a connection before content stays in the queues of its
/// streams, where more urgent content can pass it: enough to keep a fast path busy between two
/// turns.
pub const FRAMED_MAX_BYTES: u64 = 128 * 1024;

/// Bytes queued for one HTTP/2 stream above which its handler is asked to stop. The limit is lower
/// than that of a whole connection, which may have a hundred streams.
pub const STREAM_HIGH_WATER_BYTES: u64 = 64 * 1024;

/// Bytes queued for one stream below which its handler gets the event `Writable` again.
pub const STREAM_LOW_WATER_BYTES: u64 = 16 * 1024;

/// Milliseconds within which a request head must arrive, counted from its first byte: until then it
/// occupies a buffer.
pub const HEAD_TIMEOUT_MS: u64 = 10_000;

/// Milliseconds after which a byte stream is closed if neither side sends. TCP proxies keep one for
/// minutes, and applications that keep their streams alive send more often.
pub const STREAM_IDLE_TIMEOUT_MS: u64 = 600_000;

/// Milliseconds within which a TLS handshake, with the PROXY protocol header in front of it, must
/// be complete, counted from accept: until then the connection counts without being of use.
pub const HANDSHAKE_TIMEOUT_MS: u64 = 10_000;

/// Bytes that a client may need for its side of a handshake: some kilobytes with the largest key
/// exchange, and a certificate chain if it has one. The TLS library would keep 64 KiB.
pub const HANDSHAKE_MAX_BYTES: usize = 16 * 1024;

/// Bytes of the content of a full TLS record (RFC 8446 §5.1).
pub const RECORD_BYTES: usize = 16 * 1024;

/// Bytes of content that are encrypted at once before they are sent: enough for a send to be worth
/// its system call, and no more than the processor's caches hold.
pub const SEAL_MAX_BYTES: usize = 4 * RECORD_BYTES;

/// Bytes of the longest TLS record, with its header (RFC 5246 §6.2.3), and of the buffer for an
/// incomplete one.
pub const TLS_RECORD_MAX_BYTES: usize = 5 + (16 + 2) * 1024;

/// Milliseconds for which an idle keep-alive connection stays open. While open, it counts as a
/// connection.
pub const IDLE_TIMEOUT_MS: u64 = 60_000;

/// Milliseconds without an acknowledged byte after which a send counts as stalled and the client as
/// gone. On a Unix socket the kernel counts in blocks of up to 36 KiB, so a connection is closed if
/// the peer takes longer than this for one block.
pub const SEND_STALL_MS: u64 = 30_000;

/// Milliseconds within which an HTTP/2 client must open a flow-control window for waiting content.
/// Many clients open one of 64 KiB when half or all of it is used up: a reader of 1 KiB a second
/// takes 64 seconds.
pub const WINDOW_STALL_MS: u64 = 90_000;

/// Milliseconds between two bytes of a body that a handler waits for.
pub const BODY_TIMEOUT_MS: u64 = 30_000;

/// Bytes that the kernel may hold unsent per connection before it reports "not writable"
/// (TCP_NOTSENT_LOWAT). This bounds the kernel memory of each slow reader.
pub const NOTSENT_LOWAT_BYTES: u32 = 128 * 1024;

/// Connections in the queue of a listening socket; the kernel caps it by `net.core.somaxconn`.
pub const BACKLOG_CONNECTIONS: i32 = 4096;

/// Descriptors kept for archives, logs, listeners and pollers when the connection limit is derived
/// from RLIMIT_NOFILE.
pub const RESERVED_DESCRIPTORS: u64 = 64;

/// Milliseconds of one tick of the timer wheel: the precision of every deadline.
pub const TICK_MS: u64 = 16;

/// Output chunks that a worker keeps for reuse. More are handed back to the allocator, so that
/// memory after a burst returns to the idle figure.
pub const SPARE_CHUNKS: usize = 64;

/// Bytes of an external file that are read, checked and sent at once: a few system calls per
/// megabyte, and a buffer of the worker that stays in its cache.
pub const EXTERNAL_READ_BYTES: usize = 64 * 1024;

/// Bytes of content from which on-demand compression is worth an encoder: below, it saves a part of
/// one packet.
pub const ENCODE_MIN_BYTES: u64 = 1024;

/// Bytes of one piece of a mapping or a file that is compressed at once, which occupies its worker
/// for a tenth of a second. Large files are better sent as they are, or compressed when an archive
/// is built.
pub const ENCODE_PIECE_MAX_BYTES: u64 = 4 * 1024 * 1024;

/// Responses that one worker compresses at a time; more leave uncompressed. With gzip all encoders
/// take 13 MiB. An encoder works while content comes, so only streams keep one for long.
pub const ENCODERS_MAX: usize = 32;

/// The level of gzip, from 1 to 9: above this one, more time gains next to nothing
/// (docs/decisions/0020).
pub(crate) const GZIP_LEVEL: u32 = 5;

/// Bits of gzip's window: the maximum, because the window is the small part of an encoder.
pub(crate) const GZIP_WINDOW_BITS: u8 = 15;

/// The quality of brotli, from 0 to 11: the highest whose time is acceptable for a response. The
/// next takes 50 times as long with this window, and three times as long with a larger one
/// (docs/decisions/0020).
pub(crate) const BROTLI_QUALITY: u8 = 4;

/// Bits of brotli's window: 64 KiB, which holds most pages as a whole, and a block of the encoder,
/// which a smaller window would not make smaller.
pub(crate) const BROTLI_WINDOW_BITS: u8 = 16;

/// The maximum number of bytes that a gzip encoder takes; a test counts them.
pub const GZIP_ENCODER_BYTES: usize = 400 * 1024;

/// The maximum number of bytes that a brotli encoder takes; a test counts them.
pub const BROTLI_ENCODER_BYTES: usize = 2560 * 1024;

/// The maximum number of bytes of one send. The kernel counts the bytes that a call has moved in 31
/// bits: it cuts a larger `sendfile` off, and ends a larger send of the ring with an error.
pub const SEND_MAX_BYTES: usize = 1 << 30;

/// Bytes sent for one connection before the other connections of its worker have their turn.
pub const TURN_BYTES: usize = 1024 * 1024;

/// Divisor of a worker's memory budget for buffers: this fraction of it is kept free for
/// connections that make progress.
pub(crate) const RESERVE_DIVISOR: usize = 8;

/// The minimum number of bytes that a worker keeps free: more than one connection can fill between
/// two checks, with output to its high water and an input buffer of the maximum length.
pub(crate) const RESERVE_MIN_BYTES: usize = 1024 * 1024;

/// Milliseconds without progress after which a connection is among the first to lose its buffers
/// when they run low: several round trips around the world.
pub const RELIEF_STALL_MS: u64 = 1000;

/// Milliseconds without progress after which any client loses a connection with a request in
/// progress when permits run short: longer than a client needs to go on after it has changed
/// networks, and short enough for newcomers to wait for it.
pub(crate) const RELIEF_LONG_STALL_MS: u64 = 5000;

/// Divisor of the connection permits: this fraction of them, and at least one, is kept free for
/// newcomers as long as a connection is left that may be closed. A sixteenth outlasts a burst of
/// newcomers, and is little compared with the share that idle clients may hold.
pub(crate) const PERMIT_RESERVE_DIVISOR: usize = 16;

/// Divisor of the maximum number of connections: this fraction of it is closed beyond the need when
/// permits run short, so that a survey of all connections costs each newcomer little.
pub(crate) const PERMIT_BATCH_DIVISOR: usize = 64;

/// Milliseconds after which a worker that found too few connections to close looks again.
pub(crate) const PERMIT_RELIEF_PAUSE_MS: u64 = ACCEPT_PAUSE_MS;

/// Milliseconds by which a worker comes too late to a deadline if it must have been held up: no
/// pass takes so long, and no client notices a shorter delay.
pub(crate) const HELD_UP_MS: u64 = 1000;

/// Passes without a result after which nothing is left in the kernel's queues. There are two,
/// because an accept over io_uring may need one to find out and one to report.
pub(crate) const BACKLOG_QUIET_PASSES: u32 = 2;

/// Passes after which all that still arrives is new: more than all permits can fill (a wait over
/// epoll brings 512 events). The limit exists because a flood must not keep a server from stopping,
/// nor deadlines from expiring.
pub(crate) const BACKLOG_PASSES_MAX: u32 = 256;

/// Milliseconds for which a server that stops with all its connection permits taken accepts clients
/// as permits become free: some round trips, and short for a successor that wants the addresses.
pub(crate) const DRAIN_PLACES_MS: u64 = 1000;

/// Milliseconds that a client has to send its request if it had connected, and sent nothing, when
/// the server began to stop: enough for a request on its way, and short for a browser that
/// connected ahead.
pub(crate) const DRAIN_NEWCOMER_MS: u64 = 1000;

/// The maximum number of messages of other threads that wait for one worker; a further message goes
/// back to its sender. Each is for an exchange that waits, or a datagram that came to another
/// worker, so more of them mean that the worker is behind.
pub const INBOX_MAX_MESSAGES: usize = 4096;

/// The number of waiting messages of one worker at which no further datagram is added. Anybody can
/// send datagrams, and QUIC retransmits lost ones, while other messages are not repeated.
pub(crate) const INBOX_DATAGRAMS_MAX: usize = INBOX_MAX_MESSAGES / 4;

/// The maximum number of milliseconds until a worker that has died is started again. The pause
/// begins with [`ACCEPT_PAUSE_MS`] and doubles with each worker that has not lived for this
/// maximum. A longer pause would keep clients waiting; a shorter one would write more log lines
/// than are read.
pub(crate) const RESTART_PAUSE_MAX_MS: u64 = 1_600;

/// Messages delivered before a worker looks at its connections again.
pub const MESSAGES_PER_PASS: usize = 256;

/// Bytes of a worker's stack: the deepest calls take some 50 KiB without optimisation.
pub const WORKER_STACK_BYTES: usize = 1024 * 1024;

/// Batches of datagrams that are received before a worker looks at its connections again.
pub(crate) const DATAGRAM_BATCHES_PER_PASS: usize = 8;

/// The number of QUIC handshakes in progress on one worker at which newcomers have to prove their
/// address first: more than a busy site has, and few enough for a flood of forged addresses to cost
/// little.
pub(crate) const QUIC_RETRY_HANDSHAKES: usize = 256;

/// Divisor of the connection permits for handshakes with unproven addresses on all workers
/// together: they take no more than this fraction, so that forged clients take no permits from real
/// ones.
pub(crate) const QUIC_UNPROVEN_DIVISOR: usize = 8;

/// The maximum number of handshake datagrams that wait. When there are more, the first has its turn
/// at once. The limit is a burst of newcomers whose ClientHello has two datagrams.
pub(crate) const QUIC_STEPS_MAX: usize = 64;

/// Datagrams, or runs of them, received in one call: they share its cost, and each has a buffer.
pub(crate) const DATAGRAM_BATCH: usize = 8;

/// Bytes of one receive buffer for datagrams: the most that the kernel coalesces (GRO).
pub(crate) const DATAGRAM_MAX_BYTES: usize = 64 * 1024;

/// Bytes of the longest datagram that QUIC clients are asked to send: the most that Ethernet
/// carries over IPv4. No longer datagram is handed on between workers.
pub(crate) const QUIC_DATAGRAM_MAX_BYTES: u16 = 1472;

/// Bytes requested as buffers of a UDP socket: some thousand datagrams, where the usual default
/// holds a hundred and loses the rest.
pub(crate) const UDP_BUFFER_BYTES: usize = 4 << 20;

/// Requests that one QUIC connection may have open: as many as over HTTP/2.
pub(crate) const QUIC_STREAMS: u16 = 128;

/// The number of the request of a QUIC connection at which the client is asked to open a new
/// connection: half of the range of the counter.
pub(crate) const QUIC_REQUESTS_MAX: u32 = u32::MAX / 2;

/// Unidirectional streams that the peer may open: the control stream and two of QPACK (RFC 9114
/// §6.2), and some of unknown types.
pub(crate) const QUIC_UNI_STREAMS: u32 = 8;

/// The maximum number of bytes of a request's content that are on their way or unread: as many as
/// 480 Mbit/s carry in a round trip of 100 ms. QUIC has one size for all streams, from the
/// handshake on.
pub(crate) const QUIC_STREAM_WINDOW_BYTES: u32 = 6 * 1024 * 1024;

const _: () = assert!(QUIC_STREAM_WINDOW_BYTES as usize >= INPUT_MAX_BYTES);

/// Bytes of flow-control window on all streams of a connection together: as many as all of them
/// have room for, so that no stream takes room from another. QUIC announces read bytes when they
/// are an eighth of this window; until then the client has seven eighths. The bytes that really
/// wait are counted as memory.
pub(crate) const QUIC_CONNECTION_WINDOW_BYTES: u32 = {
    let streams = QUIC_STREAMS as u32 + QUIC_UNI_STREAMS;
    streams.checked_mul(QUIC_STREAM_WINDOW_BYTES).expect("32 bits").div_ceil(7) * 8
};

/// Bytes of a request's content that may wait unread when memory is short: as many as the default
/// of HTTP/2. Requests with more unread bytes are ended before any connection is closed.
pub(crate) const QUIC_UNREAD_MIN_BYTES: usize = 64 * 1024;

/// Bytes added for each content frame to the count of unread bytes: headers, the encryption tag and
/// some acknowledgements of the datagram around it.
pub(crate) const QUIC_FRAME_OVERHEAD_BYTES: usize = 64;

/// Bytes of a connection's unread content that may be missing from the count.
pub(crate) const QUIC_UNCOUNTED_BYTES: usize = 64 * 1024;

/// Bytes that a new QUIC connection with CUBIC has on its way before anything is acknowledged: 32
/// datagrams, paced over a round trip. RFC 9002 §7.2 recommends 10; decision 0037 compares them.
pub(crate) const QUIC_CUBIC_WINDOW_BYTES: u64 = 32 * 1200;

/// Bytes that a new QUIC connection with BBR has on its way before anything is acknowledged. BBR
/// takes longer to find the rate of the path when it begins with more.
pub(crate) const QUIC_BBR_WINDOW_BYTES: u64 = 10 * 1200;

/// The maximum number of bytes given to QUIC that the client has not acknowledged: as many as a
/// fast path over half the world holds. If twice the congestion window is less, that is the limit.
pub(crate) const QUIC_SEND_WINDOW_BYTES: u64 = 2 * 1024 * 1024;

/// The lower bound, in bytes, of the limit of unacknowledged bytes: twice the initial window of a
/// path.
pub(crate) const QUIC_SEND_MIN_BYTES: u64 = 32 * 1024;

/// The minimum number of bytes of a file that are read for QUIC at once: as many as some
/// acknowledgements make room for.
pub(crate) const QUIC_READ_MIN_BYTES: u64 = 4 * 1024;

/// Bytes of an incremental response that are given to QUIC before others have their turn: as many
/// as in a frame of HTTP/2.
pub(crate) const QUIC_TURN_BYTES: u64 = 16 * 1024;

/// Milliseconds for which a client that was informed of the end of the connection may leave its
/// last response unacknowledged over QUIC, or the PING in front of the end unanswered over HTTP/2.
/// The client may be out of reach for a moment, but a server that stops does not wait for one that
/// is gone.
pub(crate) const LAST_MS: u64 = 3_000;

/// Milliseconds for which an open exchange may be quiet before a QUIC PING shows the client that
/// the server is still there: half of the shortest common client timeout, 30 seconds.
pub(crate) const QUIC_PING_MS: u64 = 15_000;

/// Bytes kept of a client that is not accepted yet: its first flight, with a large key exchange.
pub(crate) const QUIC_INCOMING_MAX_BYTES: u64 = 16 * 1024;

/// Seconds for which one key seals session tickets. A leaked key opens the sessions that it sealed
/// if the key exchange of the resumption does not prevent it (TLS 1.2), so the time is short.
pub(crate) const TICKET_KEY_SECONDS: u64 = 6 * 60 * 60;

/// The number of keys that open tickets: the newest and the one before, so that every ticket is
/// valid for at least as long as one key seals.
pub(crate) const TICKET_KEYS_MAX: usize = 2;

/// Tickets that a client gets with a full handshake. There are two because a browser opens more
/// than one connection and uses each ticket once.
pub(crate) const TLS13_TICKETS: usize = 2;
