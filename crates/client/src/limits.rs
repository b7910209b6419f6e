//! Every limit of outgoing connections, with its unit and its reason. The unit is the last part of
//! the name.

/// The longest host name as text without the trailing dot, in bytes (RFC 1035 §2.3.4).
pub const HOST_NAME_MAX_BYTES: usize = 253;

/// The longest label of a host name, in bytes (RFC 1035 §2.3.4).
pub const LABEL_MAX_BYTES: usize = 63;

/// The longest path of a Unix socket: `sun_path` is 108 bytes and ends in a zero (unix(7)).
pub const UNIX_PATH_MAX_BYTES: usize = 107;

/// The maximum number of addresses of one family that connections to one name try. Names with more
/// are those of large providers, where any address serves.
pub const ADDRESSES_PER_FAMILY_MAX: usize = 16;

/// The Connection Attempt Delay: the time after which the next address is tried while the last one
/// has not responded. RFC 8305 §5 recommends 250 ms.
pub const ATTEMPT_DELAY_MS: u64 = 250;

/// The Resolution Delay: how long IPv4 addresses wait for the IPv6 addresses of the same name. RFC
/// 8305 §3 recommends 50 ms.
pub const RESOLUTION_DELAY_MS: u64 = 50;

/// The longest time to open a connection, name resolution included. A client waits, and a lost SYN
/// is sent again after 1 s and 3 s (RFC 6298 §2), so this allows two losses.
pub const CONNECT_TIMEOUT_MS: u64 = 10_000;

/// The first wait for a Unix socket whose accept queue is full, in milliseconds. Each further one
/// is twice as long: a server takes connections out of its queue within a request, and no event
/// reports that.
pub const BUSY_SOCKET_RETRY_MS: u64 = 5;

/// The longest of these waits, in milliseconds: short enough for a client hardly to notice it.
pub const BUSY_SOCKET_RETRY_MAX_MS: u64 = 80;

/// The longest time that a connection waits for a Unix socket whose server is being started, in
/// milliseconds: a server that has ended is started again after a second at most, unless it ends
/// again and again.
pub const ABSENT_SOCKET_WAIT_MS: u64 = 5_000;

/// The longest time to look up a name, all name servers and search domains included. It is that of
/// a whole connection: the C library gives one server as long (resolv.conf(5): twice 5 s).
pub const LOOKUP_TIMEOUT_MS: u64 = 10_000;

/// The maximum number of names that wait for their addresses, so that a flood of different names
/// cannot fill the memory. A site uses fewer hosts.
pub const LOOKUPS_MAX: usize = 1024;

/// The maximum number of names that name servers are asked for at the same time; the others wait. A
/// name needs up to four sockets: two families, and two name servers that are asked in parallel.
pub const LOOKUPS_AT_ONCE_MAX: usize = 64;

/// The maximum number of callers that wait for names. Several may wait for the same name.
pub const LOOKUP_WAITERS_MAX: usize = 16_384;

/// The maximum number of names whose addresses are kept. An entry has at most 32 addresses of 17
/// bytes and its name twice, so the cache stays below 2 MiB.
pub const CACHED_NAMES_MAX: usize = 1024;

/// The longest time for which addresses are kept, regardless of their TTL: a host that has moved is
/// found within an hour.
pub const TTL_MAX_SECONDS: u32 = 3600;

/// The longest time for which the absence of a name is kept, regardless of its SOA record. RFC 2308
/// §5 allows up to three hours; operators who have just created a name do not want to wait so long.
pub const NEGATIVE_TTL_MAX_SECONDS: u32 = 300;

/// How long a failed lookup is kept (RFC 9520 §3.2: at least one second), also an absence without a
/// SOA record.
pub const FAILURE_TTL_SECONDS: u32 = 1;

/// The time after which resolv.conf and the hosts file are checked again, in milliseconds. Names
/// from the hosts file are kept so long, too.
pub const CONFIG_CHECK_MS: u64 = 5_000;

/// The maximum number of bytes that are read of resolv.conf and of the hosts file. Lists of blocked
/// advertisers have about 3 MiB.
pub const CONFIG_FILE_MAX_BYTES: u64 = 8 * 1024 * 1024;

/// The maximum number of name servers of resolv.conf that are used: `MAXNS` of the C library
/// (resolv.conf(5)).
pub const NAME_SERVERS_MAX: usize = 3;

/// The maximum number of search domains of resolv.conf that are used. Kubernetes allows as many.
pub const SEARCH_DOMAINS_MAX: usize = 32;

/// The maximum number of servers whose sessions are kept for resumption, for each set of TLS
/// settings. rustls keeps up to 8 tickets of each, with the certificates of the server; its own
/// default is 256.
pub const TLS_SESSIONS_MAX: usize = 64;

/// The maximum number of connections of a pool to one target with the same settings: as many as
/// Apache httpd with a process for each connection accepts by default (`MaxRequestWorkers`). A
/// further request waits.
pub const CONNECTIONS_PER_KEY_MAX: usize = 256;

/// The maximum number of requests that wait for a connection to one target: sixteen for each
/// connection. If a target is too slow for that, more requests are refused at once instead of after
/// their time.
pub const POOL_WAITERS_PER_KEY_MAX: usize = 16 * CONNECTIONS_PER_KEY_MAX;

/// The maximum memory of one worker's requests that have not ended, in bytes, besides the
/// connections and the bodies that they send: fields and URLs of waiting requests, and unread
/// responses. A usual request takes 3 KiB, so that some thousands may wait.
pub const REQUEST_MEMORY_MAX_BYTES: usize = 16 * 1024 * 1024;

/// The maximum memory of one worker's requests where memory is small, in bytes: enough for some
/// hundreds.
pub const REQUEST_MEMORY_SMALL_BYTES: usize = 512 * 1024;

/// The divisor of this memory for one site: a site may use this fraction, so that one with slow
/// servers leaves some to the others.
pub const REQUEST_MEMORY_SITE_DIVISOR: usize = 2;

/// The maximum number of responses of one worker that are in brotli at the same time. The decoder
/// of one needs at most 9.3 MiB
/// ([`STREAM_DECODER_MAX_BYTES`](pinion_brotli::STREAM_DECODER_MAX_BYTES)), that of gzip less than
/// 0.1 MiB; other responses are requested in gzip, which is hardly longer.
pub const BROTLI_DECODERS_MAX: usize = 4;

/// The time for which an unused connection is kept. Servers close theirs after 60 s (Pinion) or 75
/// s (nginx) by default, some after 5 s (Node.js, Apache httpd); then a request may need a second
/// attempt.
pub const POOL_IDLE_TIMEOUT_MS: u64 = 30_000;

/// Bytes of a response's content that wait for their reader. If there are more, the connection is
/// not read, so that the server has to wait (back-pressure).
pub const CONTENT_BUFFER_BYTES: usize = 64 * 1024;

/// Bytes that are read from a connection at a time. With [`CONTENT_BUFFER_BYTES`] and a head of 64
/// KiB it bounds the memory of an open request.
pub const READ_BYTES: u64 = 32 * 1024;

/// Bytes of decoded content that a response may have however short it is: a long run of blanks or
/// zeros is no attack.
pub const DECODED_FREE_BYTES: u64 = 8 * 1024 * 1024;

/// The maximum ratio of the decoded to the encoded content of a response. Logs and markup shrink
/// 20- to 100-fold; bombs of gzip reach 1030, those of brotli millions.
pub const DECODED_RATIO_MAX: u64 = 250;

/// Bytes of a response's content that are read and discarded so that its connection can serve
/// another request. For more of them a new connection is cheaper.
pub const DISCARDED_MAX_BYTES: usize = 64 * 1024;

/// The longest time for which the rest of such a response is discarded.
pub const DISCARD_TIMEOUT_MS: u64 = 1000;

/// The longest time without progress by default: until the head of the response has arrived, and
/// from then on from one piece of its content to the next.
pub const REQUEST_TIMEOUT_MS: u64 = 30_000;

/// The number of checks, within the time without progress, whether the server has taken more of the
/// request's content. So a client notices a stall at most an eighth of that time later, and a check
/// costs one system call.
pub const SEND_LOOKS: u64 = 8;

/// The maximum number of redirects that are followed by default. The Fetch Standard follows 20,
/// curl 50 and Go 10; a chain that has an end is shorter.
pub const REDIRECTS_MAX: u32 = 10;

/// The longest URL, in bytes. Servers accept 8 KiB to 32 KiB; RFC 9110 §4.1 asks for 8000.
pub const URL_MAX_BYTES: usize = 16 * 1024;

/// The maximum content of a response by default, decoded. A script may allow more.
pub const RESPONSE_MAX_BYTES: u64 = 16 * 1024 * 1024;

/// The largest content of a request that is copied after its head, to be written at once.
pub const COPIED_CONTENT_MAX_BYTES: usize = 16 * 1024;

/// Bytes of an application's error stream that are kept for the log: a few warnings with their
/// stack traces. Further text is dropped until these are taken.
pub const STDERR_KEPT_MAX_BYTES: usize = 4 * 1024;

/// Bytes of a request's content, given in pieces, that wait to be sent.
pub const REQUEST_BUFFER_BYTES: usize = 64 * 1024;

/// The divisor of forwarded requests for repetitions: this fraction may be repeated, 20 %, the
/// default of Envoy.
pub const RETRY_BUDGET_DIVISOR: u32 = 5;

/// Repetitions that are allowed before any request: after a server was restarted, each of the kept
/// connections to it is found closed.
pub const RETRY_BUDGET_FREE: u32 = 16;

/// The maximum number of repetitions that are saved up.
pub const RETRY_BUDGET_MAX: u32 = 256;
