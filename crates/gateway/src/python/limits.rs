//! The limits of requests that Python applications respond to.

/// Most requests that one process has at the same time beyond its threads: as many as a
/// [batch](pinion_http::python::limits::BATCH_REQUESTS_MAX) has.
pub(super) const BACKLOG_MAX: usize = 32;

/// Most requests that one process of an ASGI application has at the same time. Each costs the
/// process some ten KiB, mostly for its task, and most of so many are streams that wait.
pub const ASGI_REQUESTS_MAX: usize = 10_000;

/// An application whose requests take less on average is quick, in milliseconds: a request that
/// waits after [`BACKLOG_MAX`] others of it waits for less than a person notices.
pub(super) const QUICK_MS: u64 = 1;

/// The last request is this part of the moving average of the service time.
pub(super) const SERVICE_TIME_WEIGHT: u64 = 16;

/// Most requests of a mount that wait for a process: as many as a browser-like burst of some
/// hundred clients has. Further ones get status 503.
pub const WAITING_MAX: usize = 1024;

/// The time that a request waits for a process, in milliseconds: the same as for a CGI script.
pub(super) const QUEUE_TIMEOUT_MS: u64 = crate::limits::CGI_QUEUE_TIMEOUT_MS;

/// How long a connection to a process may take, in milliseconds. The socket is there before the
/// process, and its queue of new connections has room for all workers.
pub(super) const CONNECT_TIMEOUT_MS: u64 = 10_000;

/// Bytes of frames that are taken from a process at a time, before the clients have taken their
/// contents.
pub(super) const FRAME_PIECE_BYTES: u64 = 256 * 1024;

/// Bytes of content of a response that the client has taken, after which the process is allowed to
/// send as many more: a quarter of its initial allowance.
pub(super) const ROOM_STEP_BYTES: u32 = pinion_http::python::limits::INITIAL_ROOM_BYTES / 4;

/// Content up to this many bytes goes to the process with the request, once all of it is there.
pub(super) const WHOLE_CONTENT_MAX_BYTES: u64 =
    pinion_http::python::limits::BATCHED_CONTENT_MAX_BYTES as u64;

/// Bytes of content that a client is asked for before an ASGI application receives it. Most
/// requests have no more, and have sent it with their heads, so that it goes to the process with
/// them.
pub(super) const PREFETCHED_CONTENT_BYTES: u64 = WHOLE_CONTENT_MAX_BYTES;

/// Most bytes of content of a request that a process may want and has not got: content that comes
/// meanwhile waits in memory for the process to read it. The program of the processes wants 64 KiB
/// at a time.
pub(super) const WANTED_MAX_BYTES: u64 = 1024 * 1024;

/// Bytes of content of a request that a process gets at a time: as much as the program of the
/// processes wants. More waits until the connection to the process has room.
pub(super) const CONTENT_PIECE_BYTES: u64 = 64 * 1024;

/// After how many milliseconds without a sign of its client a WebSocket sends a ping, and after as
/// many again it is closed: as the servers of most ASGI applications do. Routers forget connections
/// that are silent for a minute.
pub(super) const WEBSOCKET_PING_MS: u64 = 20_000;

/// How long a client may take to close a WebSocket that the server has closed, in milliseconds.
/// Clients do so at once, after the frames that they were sending.
pub(super) const WEBSOCKET_CLOSE_MS: u64 = 10_000;

/// Files that a process has sent before the frames that name them were read: more than the requests
/// that it responds to between two reads.
pub(super) const UNCLAIMED_FILES_MAX: usize = 256;

/// One of so many descriptors that this server may have can be of a file that a process has sent,
/// for each worker: the others are for connections. Beyond that, processes read files themselves.
pub(super) const SENT_FILES_DIVISOR: u64 = 64;

/// After how many milliseconds a process gives requests back that it has not started: a person does
/// not notice them, and a process that is quick has executed its whole backlog.
pub(super) const START_MS: u64 = 20;

/// How long the event loop of a process that has a request over its time may take to answer, in
/// milliseconds: code that blocks it for a while has ended then. After that the process is stuck.
pub(super) const BLOCKED_MS: u64 = 10_000;

/// The number of processes a request is given to that end without starting it, before the client
/// gets status 502.
pub(super) const ATTEMPTS_MAX: u32 = 8;
