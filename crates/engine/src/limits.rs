//! Every limit of the engine, each with its unit and its reason. Limits of the protocols
//! themselves live in `pinion_http::limits`.

use pinion_http::h3::request::INPUT_MAX_BYTES;

/// Bytes of one lent input buffer and of one pooled output chunk. One request head at its limit
/// fits into one; sixteen pipelined small answers fit into one send.
pub const CHUNK_BYTES: usize = 16 * 1024;

/// Bytes of one connection's input that are used in a pass before others have their turn: heads of
/// any usual size. Of the smallest records, frames and requests that is more than a hundred.
pub const INPUT_TURN_BYTES: usize = 4 * 1024;

/// … and while they are content, most of them: as much as there is room for in a lent buffer. Bytes
/// of content cost little.
pub const CONTENT_TURN_BYTES: usize = CHUNK_BYTES;

/// Bytes up to which a body is copied behind its head instead of becoming a slice of its own: one
/// contiguous send costs less than an I/O vector until the copy shows (docs/decisions/0002).
pub const COPY_BODY_MAX_BYTES: u64 = 4 * 1024;

/// Bytes from which a range of an archive is large: what is queued before it leaves by a send of
/// its own, then the range, by `sendfile` where the backend has it. Below, the extra system call
/// costs more than it saves (docs/decisions/0005).
pub const LARGE_MIN_BYTES: u64 = 32 * 1024;

/// Bytes queued for one connection above which its further requests wait (back-pressure).
pub const OUTPUT_HIGH_WATER_BYTES: u64 = 256 * 1024;

/// Bytes queued for one connection below which its handler is told `Writable` again.
pub const OUTPUT_LOW_WATER_BYTES: u64 = 64 * 1024;

/// Bytes queued for one stream with which a [broadcast](crate::connections::Connections::broadcast)
/// cuts it instead of queueing more: a reader that is a whole high water behind will not catch up,
/// and what it has not read holds the messages of all others in memory.
pub const BROADCAST_QUEUE_MAX_BYTES: u64 = OUTPUT_HIGH_WATER_BYTES;

/// I/O vectors handed to the kernel in one send: what sixteen pipelined answers with a slice each
/// need, and far below IOV_MAX (1024).
pub const SEND_PARTS_MAX: usize = 32;

/// Bytes of input kept for one connection before no more is asked for: a head at its limit plus one
/// lent buffer that came with it.
pub const INPUT_BUFFER_MAX_BYTES: usize = 3 * CHUNK_BYTES;

/// Bytes of input kept for one connection at most. A multishot receive of io_uring goes on until
/// its cancel is heard, 32 buffers at a time; what it has brought by then was acknowledged to the
/// client and must not be lost. A flood of 20 000 pipelined requests needed more than 48 KiB.
pub const INPUT_OVERRUN_MAX_BYTES: usize = 512 * 1024;

/// Bytes of the content of one request over HTTP/2 that are kept until the application wants them:
/// all that the window of its stream lets through.
pub(crate) const UNREAD_MAX_BYTES: usize =
    pinion_http::h2::limits::STREAM_WINDOW_MAX_BYTES as usize;

/// Bytes of the heads of requests that handlers of one connection of HTTP/2 or HTTP/3 have not
/// finished responding to, as [`decoded_bytes`](pinion_http::request::RequestHead::decoded_bytes)
/// counts them: a handler keeps the head of its request, and with HPACK a few bytes are a head as
/// large as any. There is room for 97 requests with 20 fields of 2 KiB together. The next one gets
/// 431.
pub const OPEN_HEADS_MAX_BYTES: usize = 256 * 1024;

/// Bytes the first input buffer of a connection takes; most half-received heads fit.
pub const INPUT_BUFFER_MIN_BYTES: usize = 2 * 1024;

/// Connections accepted from a listener in one pass, before the worker looks at its others again.
/// Few: what all of them send comes in one pass as well, and the buffers it fills come back later.
pub const ACCEPTS_PER_PASS: u32 = 16;

/// Milliseconds without accepting after the system ran out of descriptors or memory, and until a
/// worker that has enough takes one client nevertheless.
pub const ACCEPT_PAUSE_MS: u64 = 100;

/// Milliseconds until a send is tried again that found no memory in the kernel: long enough to
/// cost nothing while it lasts, short enough for nobody to notice when it is over.
pub const ENOBUFS_RETRY_MS: u64 = 50;

/// A worker stops accepting above mean × 5/4 + this many connections. The number is small enough to
/// balance the load, and large enough that no worker of a quiet server stops accepting.
pub const ACCEPT_SLACK_CONNECTIONS: usize = 8;

/// Connections that a worker takes above that, one at a time, because the others may be held up:
/// enough for a pause of theirs, and few, because the table of every worker may have to hold them.
pub const ACCEPT_EXTRA_CONNECTIONS: usize = 256;

/// Bytes read and dropped after the last response of a connection. Many clients read nothing before
/// they have sent all: a reset would cost them the response (RFC 9112 §9.6).
pub const LINGER_MAX_BYTES: u64 = 256 * 1024 * 1024;

/// Milliseconds of that lingering, when all of the last request has come: some round trips.
pub const LINGER_MS: u64 = 2_000;

/// Milliseconds without a byte for which a connection lingers whose client has more of a request to
/// send: as long as the content of a request is waited for.
pub const LINGER_CONTENT_MS: u64 = BODY_TIMEOUT_MS;

/// Milliseconds for which a connection lingers in all, however much comes: 256 MiB at 7 Mbit/s.
pub const LINGER_MAX_MS: u64 = 300_000;

/// Connections may linger on one permit in so many; above that, the oldest of them is closed.
pub(crate) const LINGER_PERMIT_DIVISOR: usize = 4;

/// Bytes that a connection may have sent in all and still be closed at once behind its last answer,
/// if the client asked for that: about what goes out without waiting for the peer (RFC 6928: ten
/// segments). Of more, some may wait in the kernel when it is closed, and would be lost if the peer
/// sent anything at all.
pub const CLOSE_AT_ONCE_MAX_BYTES: u64 = 10 * 1400;

/// Bytes in frames of HTTP/2 that wait on a connection before content stays in the queues of its
/// streams, where what is more urgent can pass it: what keeps a fast path busy between two turns.
pub const FRAMED_MAX_BYTES: u64 = 128 * 1024;

/// Bytes queued for one stream of HTTP/2 above which its handler is asked to stop. Less than for a
/// whole connection, which may have a hundred of them.
pub const STREAM_HIGH_WATER_BYTES: u64 = 64 * 1024;

/// Bytes queued for one stream below which its handler is told `Writable` again.
pub const STREAM_LOW_WATER_BYTES: u64 = 16 * 1024;

/// Milliseconds within which a request head must arrive, counted from its first byte: until then it
/// holds a buffer.
pub const HEAD_TIMEOUT_MS: u64 = 10_000;

/// Milliseconds that a byte stream is kept on which neither side sends. Proxies of TCP keep one for
/// minutes, and applications that keep their streams alive send something more often.
pub const STREAM_IDLE_TIMEOUT_MS: u64 = 600_000;

/// Milliseconds within which a TLS handshake must be complete, counted from accept, with the header
/// of the PROXY protocol before it: until then the connection counts without being of use.
pub const HANDSHAKE_TIMEOUT_MS: u64 = 10_000;

/// Bytes that a client may need for its side of a handshake: some kilobytes with the largest key
/// exchange, and a chain of certificates if it has one. The library would keep 64 KiB.
pub const HANDSHAKE_MAX_BYTES: usize = 16 * 1024;

/// Content of a full record of TLS (RFC 8446 §5.1).
pub const RECORD_BYTES: usize = 16 * 1024;

/// Content that is encrypted at once, before it is sent: enough for a send to be worth its call,
/// and no more than the processor's caches hold.
pub const SEAL_MAX_BYTES: usize = 4 * RECORD_BYTES;

/// The longest record of TLS, its header included (RFC 5246 §6.2.3), and what is kept of one that
/// is not whole.
pub const TLS_RECORD_MAX_BYTES: usize = 5 + (16 + 2) * 1024;

/// Milliseconds for which an idle keep-alive connection stays open: it counts as a connection.
pub const IDLE_TIMEOUT_MS: u64 = 60_000;

/// Milliseconds without an acknowledged byte after which a send counts as stalled: the client is
/// gone. On a Unix socket the kernel counts in blocks of up to 36 KiB, so a connection is closed if
/// the peer takes longer than this for one block.
pub const SEND_STALL_MS: u64 = 30_000;

/// Milliseconds for a client of HTTP/2 to open a window for content that waits. Many open one of
/// 64 KiB when half of it is used up, or all of it: a reader of 1 KiB a second takes 64 seconds.
pub const WINDOW_STALL_MS: u64 = 90_000;

/// Milliseconds between two body bytes that a handler waits for.
pub const BODY_TIMEOUT_MS: u64 = 30_000;

/// Bytes the kernel may hold unsent per connection before it reports "not writable"
/// (TCP_NOTSENT_LOWAT). This bounds the memory of the kernel for each slow reader.
pub const NOTSENT_LOWAT_BYTES: u32 = 128 * 1024;

/// Connections in the queue of a listening socket; the kernel caps it by `net.core.somaxconn`.
pub const BACKLOG_CONNECTIONS: i32 = 4096;

/// Descriptors kept for archives, logs, listeners and pollers when the connection limit is derived
/// from RLIMIT_NOFILE.
pub const RESERVED_DESCRIPTORS: u64 = 64;

/// Milliseconds of one tick of the timer wheel: the precision of every deadline.
pub const TICK_MS: u64 = 16;

/// Output chunks a worker keeps for reuse; more are handed back to the allocator, so that memory
/// after a burst returns to the idle figure.
pub const SPARE_CHUNKS: usize = 64;

/// Bytes of an external file that are read, checked and sent at once: a few answers of the kernel
/// per megabyte, and a buffer of the worker that stays in its cache.
pub const EXTERNAL_READ_BYTES: usize = 64 * 1024;

/// Bytes of content from which compressing it on demand is worth an encoder: below, it saves a part
/// of one packet.
pub const ENCODE_MIN_BYTES: u64 = 1024;

/// Bytes of one piece of a mapping or a file that is compressed at once: a tenth of a second of
/// its worker. Large files are better sent as they are, or compressed when an archive is built.
pub const ENCODE_PIECE_MAX_BYTES: u64 = 4 * 1024 * 1024;

/// Answers that one worker compresses at a time; more go out as they are. With gzip all of them
/// take 13 MiB; an encoder works while content comes, so only streams keep one for long.
pub const ENCODERS_MAX: usize = 32;

/// Level of gzip, of 1 to 9: from here on more time gains next to nothing
/// (docs/decisions/0020).
pub(crate) const GZIP_LEVEL: u32 = 5;

/// Bits of gzip's window: all of them, because the window is the small part of an encoder.
pub(crate) const GZIP_WINDOW_BITS: u8 = 15;

/// Quality of brotli, of 0 to 11: the last whose time is that of an answer. The next takes 50 times
/// as long with this window, and three times with a larger one (docs/decisions/0020).
pub(crate) const BROTLI_QUALITY: u8 = 4;

/// Bits of brotli's window: 64 KiB, which holds most pages whole, and a block of the encoder, which
/// a smaller one would not make smaller.
pub(crate) const BROTLI_WINDOW_BITS: u8 = 16;

/// Bytes that an encoder of gzip takes at most; a test counts them.
pub const GZIP_ENCODER_BYTES: usize = 400 * 1024;

/// Bytes that an encoder of brotli takes at most; a test counts them.
pub const BROTLI_ENCODER_BYTES: usize = 2560 * 1024;

/// Bytes of one send at most. The kernel counts what a call has moved in 31 bits: it cuts a larger
/// `sendfile` off, and ends a larger send of the ring with an error.
pub const SEND_MAX_BYTES: usize = 1 << 30;

/// Bytes sent for one connection before the others of its worker have their turn.
pub const TURN_BYTES: usize = 1024 * 1024;

/// A worker keeps one byte in so many of its budget for buffers free, for those that get on.
pub(crate) const RESERVE_DIVISOR: usize = 8;

/// Bytes it keeps free at least: more than one connection can fill between two looks, with output
/// to its high water and an input buffer at its longest.
pub(crate) const RESERVE_MIN_BYTES: usize = 1024 * 1024;

/// Milliseconds without getting on after which a connection is among the first to give its buffers
/// up when they run low: several round trips around the world.
pub const RELIEF_STALL_MS: u64 = 1000;

/// Milliseconds without getting on after which any client loses a connection with a request in
/// progress when permits run short: longer than a network that changes takes to go on, and short
/// enough for newcomers to wait for it.
pub(crate) const RELIEF_LONG_STALL_MS: u64 = 5000;

/// One permit for a connection in so many, and at least one, is kept free for newcomers as long as
/// a connection is left that may be closed. A sixteenth outlasts a burst of newcomers, and is
/// little beside what idle clients may hold.
pub(crate) const PERMIT_RESERVE_DIVISOR: usize = 16;

/// One connection in so many of all that there may be is closed beyond what is needed, when permits
/// run short: a survey of all connections then costs each newcomer little.
pub(crate) const PERMIT_BATCH_DIVISOR: usize = 64;

/// Milliseconds before a worker that found too few connections to close looks again.
pub(crate) const PERMIT_RELIEF_PAUSE_MS: u64 = ACCEPT_PAUSE_MS;

/// Milliseconds by which a worker comes too late to a deadline when it must have been held up: no
/// pass takes so long, and no client notices so little.
pub(crate) const HELD_UP_MS: u64 = 1000;

/// Passes that bring nothing, after which nothing stands in the kernel any more. Two: an accept
/// over io_uring may need one to find out and one to tell.
pub(crate) const BACKLOG_QUIET_PASSES: u32 = 2;

/// Passes after which what still comes is new: more than every place can fill (a wait over epoll
/// brings 512 events), and a flood must not keep a server from stopping, nor deadlines from ending.
pub(crate) const BACKLOG_PASSES_MAX: u32 = 256;

/// Milliseconds for which a server that stops, and has all its places taken, takes clients as
/// places become free: some round trips, and short for a successor that wants the addresses.
pub(crate) const DRAIN_PLACES_MS: u64 = 1000;

/// Milliseconds that a client has to speak which had connected, and sent nothing, when a server
/// began to stop: enough for a request on its way, and short for a browser that connected ahead.
pub(crate) const DRAIN_NEWCOMER_MS: u64 = 1000;

/// Messages of other threads that wait for one worker at most; whoever posts more has it back. Each
/// is for an exchange that waits, or a datagram that came to another worker, so more of them mean
/// that the worker is behind.
pub const INBOX_MAX_MESSAGES: usize = 4096;

/// Messages that wait for one worker from which on no datagram joins them: anybody can send
/// datagrams, and what is lost of QUIC is sent again, while nobody repeats other messages.
pub(crate) const INBOX_DATAGRAMS_MAX: usize = INBOX_MAX_MESSAGES / 4;

/// Milliseconds before a worker that has died is started again, at most: it begins with
/// [`ACCEPT_PAUSE_MS`] and doubles with each worker that has not lived so long. More would keep
/// clients waiting; less would write more lines than anybody reads.
pub(crate) const RESTART_PAUSE_MAX_MS: u64 = 1_600;

/// Messages delivered before a worker looks at its connections again.
pub const MESSAGES_PER_PASS: usize = 256;

/// Bytes of a worker's stack: the deepest calls take some 50 KiB without optimisation.
pub const WORKER_STACK_BYTES: usize = 1024 * 1024;

/// Batches of datagrams that are received before a worker looks at its connections again.
pub(crate) const DATAGRAM_BATCHES_PER_PASS: usize = 8;

/// Handshakes of QUIC in progress on one worker from which on newcomers prove their address first:
/// more than a busy site has, and few enough for a flood of forged addresses to cost little, …
pub(crate) const QUIC_RETRY_HANDSHAKES: usize = 256;

/// … or fewer: on all workers together one in so many of the places for connections, so that who is
/// not there takes none from those who are.
pub(crate) const QUIC_UNPROVEN_DIVISOR: usize = 8;

/// Datagrams of handshakes that wait at most; when there are more, the first has its turn at once.
/// It is a burst of newcomers whose hello has two.
pub(crate) const QUIC_STEPS_MAX: usize = 64;

/// Datagrams, or runs of them, received in one call: they share its cost, and each has a buffer.
pub(crate) const DATAGRAM_BATCH: usize = 8;

/// Bytes of one receive buffer for datagrams: what the kernel puts together at most (GRO).
pub(crate) const DATAGRAM_MAX_BYTES: usize = 64 * 1024;

/// Bytes of the longest datagram that clients of QUIC are told to send: what Ethernet carries over
/// IPv4. No longer one is handed on between workers.
pub(crate) const QUIC_DATAGRAM_MAX_BYTES: u16 = 1472;

/// Bytes asked for as buffers of a UDP socket: some thousand datagrams, where the usual default
/// holds a hundred and loses the rest.
pub(crate) const UDP_BUFFER_BYTES: usize = 4 << 20;

/// Requests that one QUIC connection may have open: as many as over HTTP/2.
pub(crate) const QUIC_STREAMS: u16 = 128;

/// The request of a QUIC connection from which on the client is asked to make a new one: half of
/// what can be counted.
pub(crate) const QUIC_REQUESTS_MAX: u32 = u32::MAX / 2;

/// Streams of one direction that the peer may open: the control stream and two of QPACK (RFC 9114
/// §6.2), and some of kinds that nobody knows.
pub(crate) const QUIC_UNI_STREAMS: u32 = 8;

/// Bytes of a request's content on its way or not read yet, at most: what 480 Mbit/s carry in a
/// round trip of 100 ms. QUIC has one size for all streams, from the handshake on.
pub(crate) const QUIC_STREAM_WINDOW_BYTES: u32 = 6 * 1024 * 1024;

const _: () = assert!(QUIC_STREAM_WINDOW_BYTES as usize >= INPUT_MAX_BYTES);

/// Bytes on all streams of a connection together: as many as all of them have room for, so that no
/// stream takes room from another. QUIC announces what was read when it is an eighth of this
/// window; until then the client has seven eighths. What really waits is counted as memory.
pub(crate) const QUIC_CONNECTION_WINDOW_BYTES: u32 = {
    let streams = QUIC_STREAMS as u32 + QUIC_UNI_STREAMS;
    streams.checked_mul(QUIC_STREAM_WINDOW_BYTES).expect("32 bits").div_ceil(7) * 8
};

/// Bytes of a request's content that may wait unread when memory is short: as the default of
/// HTTP/2 is. Requests of which more waits are given up before any connection is closed.
pub(crate) const QUIC_UNREAD_MIN_BYTES: usize = 64 * 1024;

/// Bytes of a datagram around a frame of content, in what is counted as unread: headers, the tag
/// of the encryption and some acknowledgements.
pub(crate) const QUIC_FRAME_OVERHEAD_BYTES: usize = 64;

/// Bytes of a connection's unread content that may be missing from what is counted.
pub(crate) const QUIC_UNCOUNTED_BYTES: usize = 64 * 1024;

/// Bytes that a new connection of QUIC has on its way before anything is acknowledged, with CUBIC:
/// 32 datagrams, paced over a round trip. RFC 9002 §7.2 recommends 10; decision 0037 compares them.
pub(crate) const QUIC_CUBIC_WINDOW_BYTES: u64 = 32 * 1200;

/// The same with BBR, which takes longer to find the rate of the path when it begins with more.
pub(crate) const QUIC_BBR_WINDOW_BYTES: u64 = 10 * 1200;

/// Bytes given to QUIC that the client has not acknowledged, at most: what a fast path over half
/// the world holds. It is twice the congestion window if that is less, …
pub(crate) const QUIC_SEND_WINDOW_BYTES: u64 = 2 * 1024 * 1024;

/// … but no less than this, which is twice what a path begins with.
pub(crate) const QUIC_SEND_MIN_BYTES: u64 = 32 * 1024;

/// Bytes of a file that are read for QUIC at once, at least: what some acknowledgements make room
/// for.
pub(crate) const QUIC_READ_MIN_BYTES: u64 = 4 * 1024;

/// Bytes of an incremental answer that are given to QUIC before others have their turn: as many as
/// in a frame of HTTP/2.
pub(crate) const QUIC_TURN_BYTES: u64 = 16 * 1024;

/// How long a client that was told of the end may leave its last answer unacknowledged over QUIC,
/// or the PING in front of the end unanswered over HTTP/2, in milliseconds: it may be out of reach
/// for a moment, but a server that stops does not wait for one that is gone.
pub(crate) const LAST_MS: u64 = 3_000;

/// How long an open exchange may be quiet before QUIC shows the client that the server is still
/// there, in milliseconds: half of the shortest patience that is common, 30 seconds.
pub(crate) const QUIC_PING_MS: u64 = 15_000;

/// Bytes kept of a client that is not accepted yet: its first flight, with a large key exchange.
pub(crate) const QUIC_INCOMING_MAX_BYTES: u64 = 16 * 1024;

/// Seconds for which one key seals session tickets. What it sealed can be read by whoever gets hold
/// of it, where the key exchange of the resumption does not forbid it (TLS 1.2), so not for long.
pub(crate) const TICKET_KEY_SECONDS: u64 = 6 * 60 * 60;

/// Keys that tickets are opened with: the newest, and the one before, so that every ticket is good
/// for as long as one key seals.
pub(crate) const TICKET_KEYS_MAX: usize = 2;

/// Tickets that a client gets with a full handshake. Two: a browser opens more than one connection
/// and uses each ticket once.
pub(crate) const TLS13_TICKETS: usize = 2;
