//! The limits of gateways.

/// Bytes of a request's content that are asked for at a time. As much may stand in memory for each
/// request while the upstream server takes it more slowly than the client sends it.
pub const REQUEST_PIECE_BYTES: u64 = 32 * 1024;

/// Most bytes of a response's content that are handed on at a time.
pub const RESPONSE_PIECE_BYTES: usize = 64 * 1024;

/// Most names in the `Connection` fields of a request that is forwarded. Each field is compared
/// with each of them; clients send one or two.
pub const CONNECTION_OPTIONS_MAX: usize = 32;

/// How long an upstream server may be silent by default, in milliseconds: until the head of its
/// response is there, and between pieces of the content (`proxy_read_timeout` of nginx).
pub const UPSTREAM_TIMEOUT_MS: u64 = 60_000;

/// Bytes that are asked for from one side of a tunnel at a time.
pub const TUNNEL_PIECE_BYTES: u64 = 32 * 1024;

/// How long a tunnel may be silent in both directions, in milliseconds: an hour, as `timeout
/// tunnel` of HAProxy is in its examples. Chats wait for people.
pub const TUNNEL_IDLE_MS: u64 = 3_600_000;

/// How long a tunnel of which one side has ended may be silent, in milliseconds: half a minute, as
/// `timeout client-fin` of HAProxy is in its examples. The other side has been notified, and has
/// nothing to wait for: a WebSocket ends on both sides (RFC 6455 §7.1.1).
pub const TUNNEL_HALF_CLOSED_MS: u64 = 30_000;

/// How long the client of a tunnel may take none of the bytes that wait for it, in milliseconds: as
/// long as that of a response over HTTP/2
/// ([`WINDOW_STALL_MS`](pinion_engine::limits::WINDOW_STALL_MS)).
pub const TUNNEL_STALL_MS: u64 = pinion_engine::limits::WINDOW_STALL_MS;

/// How long a tunnel may take until the client's connection is switched, in milliseconds. It is
/// there in the same pass, unless the client has just left.
pub const TUNNEL_OPEN_MS: u64 = 10_000;

/// This bit is set in the tags of connections to processes of Python applications, and in no other
/// tags of a worker without one of a higher bit.
pub const PYTHON_TAG: u64 = 1 << 58;

/// This bit is set in the tags of connections to upstream servers, and in no other tags of a
/// worker.
pub const UPSTREAM_TAG: u64 = 1 << 61;

/// Most servers of one mount. Each request looks at all of them, and a bit stands for each that it
/// was sent to.
pub const UPSTREAMS_MAX: usize = 64;

/// How many of several servers one request is sent to by default when one fails after the other: as
/// with HAProxy, whose `retries` is 3. Each attempt is load for servers that are left.
pub const ATTEMPTS_MAX: u32 = 4;

/// How long one request may take to find a server that can be reached, by default, in milliseconds:
/// three servers that let a connection wait for [its
/// time](pinion_client::limits::CONNECT_TIMEOUT_MS), and half of the time that proxies in front of
/// this one wait for a response (`proxy_read_timeout` of nginx). `proxy_next_upstream_timeout` of
/// nginx and `lb_try_duration` of Caddy are the same limit.
pub const ATTEMPTS_TIMEOUT_MS: u64 = 30_000;

/// How many failed requests take one of several servers out by default. One alone (the default of
/// nginx) may be chance.
pub const MAX_FAILS: u32 = 3;

/// The time in which failed requests are counted, and for which a server is not used then, by
/// default, in milliseconds: that of nginx.
pub const FAIL_TIMEOUT_MS: u64 = 10_000;

/// How many health checks in a row have to fail until a server is not used, by default: `fall` of
/// HAProxy.
pub const HEALTH_FAILS: u32 = 3;

/// How many health checks in a row have to pass until a server is used again, by default: `rise` of
/// HAProxy.
pub const HEALTH_PASSES: u32 = 2;

/// The time between two health checks of a server by default, in milliseconds: that of nginx.
pub const HEALTH_INTERVAL_MS: u64 = 5_000;

/// How long a server may take for a health check by default, in milliseconds.
pub const HEALTH_TIMEOUT_MS: u64 = 5_000;

/// Most content of a health check's response that is read, in bytes. More says nothing.
pub const HEALTH_CONTENT_MAX_BYTES: u64 = 64 * 1024;

/// Most content of a request that is stored before an upstream server is asked, by default, in
/// bytes: `client_max_body_size` of nginx is 1 MiB, but uploads of photos are larger.
pub const STORED_UPLOAD_MAX_BYTES: u64 = 16 << 20;

/// Most bytes of stored uploads that stand in memory, of all workers together: the first 64 KiB of
/// 256 of them. Further ones are refused until some have ended.
pub const STORED_UPLOADS_MEMORY_MAX_BYTES: usize = 16 << 20;

/// This bit is set in the tags of streams of CGI scripts, and in no other tags of a worker. The bit
/// below is set in some of them.
pub const CGI_TAG: u64 = 1 << 60;

/// Most CGI scripts of one mount that run at the same time by default, of all workers together.
/// Each is a process, with tens of MiB if its interpreter is large; a request that waits costs far
/// less.
pub const CGI_RUNNING_MAX: usize = 32;

/// Most requests of one mount that wait until a CGI script may run. Further ones get status 503:
/// with scripts of 0.1 s and [`CGI_RUNNING_MAX`] of them the last one waits for about a second.
pub const CGI_QUEUE_MAX: usize = 256;

/// After how many seconds clients may repeat a request for which there was no time: most
/// applications have worked off a full queue by then.
pub const OVERLOAD_RETRY_SECONDS: u64 = 1;

/// How long a request waits until a CGI script may run, in milliseconds: half of the time that
/// proxies in front of this server wait for a response (`proxy_read_timeout` of nginx).
pub const CGI_QUEUE_TIMEOUT_MS: u64 = 30_000;

/// How long a CGI script may neither write output nor read content that is there for it, in
/// milliseconds, by default: `Timeout` of Apache httpd, and as long as an upstream server has.
pub const CGI_TIMEOUT_MS: u64 = UPSTREAM_TIMEOUT_MS;

/// How long a CGI script may run in all by default, in milliseconds: an hour. A download of a large
/// repository over a slow line ends within that; a script that never ends must not keep its place.
pub const CGI_TOTAL_TIMEOUT_MS: u64 = 3_600_000;

/// How long the end of a response waits for the end of the script after the end of its output, in
/// milliseconds. A process that is killed closes its output right before its parent hears of it,
/// and then the response is not complete: on a busy machine that takes some hundred milliseconds. A
/// script that closes its output and goes on is rare; its response ends so much later.
pub const CGI_EXIT_WAIT_MS: u64 = 1_000;

/// Most bytes of the first line of a script that are read to say why its interpreter is not found:
/// as many as Linux reads (BINPRM_BUF_SIZE).
pub const INTERPRETER_LINE_MAX_BYTES: usize = 256;

/// Most bytes of a malformed line of a script that a message shows: enough to recognise the program
/// that has written it.
pub const MALFORMED_LINE_SHOWN_BYTES: usize = 80;

/// Most local redirects (RFC 3875 §6.2.2) that a request follows: as Apache httpd
/// (`LimitInternalRecursion`). More are a circle.
pub const LOCAL_REDIRECTS_MAX: u32 = 10;

/// Most bytes of the output of a script after its response that are read and dropped at a time.
pub const DROPPED_PIECE_BYTES: usize = 64 * 1024;

/// Most bytes of the content of a response that are read and dropped because a file is sent in its
/// place. Most such responses have none, and a page about the download at most; an application that
/// sends more does not know that its content is dropped.
pub const DISCARDED_CONTENT_MAX_BYTES: u64 = 1 << 20;

/// How long an application may take for the end of such a response, in milliseconds: as long as it
/// may be silent by default. It may have something left to do, such as counting the download.
pub const DISCARDED_RESPONSE_TIMEOUT_MS: u64 = UPSTREAM_TIMEOUT_MS;
