//! Every limit of outgoing connections, unit last in the name, the reason in the comment.

/// Longest host name as text without the trailing dot (RFC 1035 §2.3.4).
pub const HOST_NAME_MAX_BYTES: usize = 253;

/// Longest label of a host name (RFC 1035 §2.3.4).
pub const LABEL_MAX_BYTES: usize = 63;

/// Longest path of a Unix socket: `sun_path` is 108 bytes and ends in a zero (unix(7)).
pub const UNIX_PATH_MAX_BYTES: usize = 107;

/// Most addresses of one family that connections to one name try. Names with more are those of
/// large providers, where any address serves.
pub const ADDRESSES_PER_FAMILY_MAX: usize = 16;

/// Connection Attempt Delay: the time after which the next address is tried while the last one has
/// not answered. RFC 8305 §5 recommends 250 ms.
pub const ATTEMPT_DELAY_MS: u64 = 250;

/// Resolution Delay: how long IPv4 addresses wait for the IPv6 addresses of the same name. RFC 8305
/// §3 recommends 50 ms.
pub const RESOLUTION_DELAY_MS: u64 = 50;

/// Longest time to open a connection, name resolution included. A client waits, and a SYN that was
/// lost is sent again after 1 s and 3 s (RFC 6298 §2), so this allows two losses.
pub const CONNECT_TIMEOUT_MS: u64 = 10_000;

/// The first wait for a Unix socket whose queue of new connections is full, in milliseconds. Each
/// further one is twice as long: a server takes connections out of its queue within a request, and
/// nothing says when.
pub const BUSY_SOCKET_RETRY_MS: u64 = 5;

/// The longest of these waits, in milliseconds: as long as a client hardly notices.
pub const BUSY_SOCKET_RETRY_MAX_MS: u64 = 80;

/// The longest time that a connection waits for a Unix socket whose server is being started, in
/// milliseconds: a server that has ended is started again after a second at most, unless it ends
/// again and again.
pub const ABSENT_SOCKET_WAIT_MS: u64 = 5_000;

/// Longest time to look up a name, all name servers and search domains included. It is that of a
/// whole connection: the C library gives one server as long (resolv.conf(5): twice 5 s).
pub const LOOKUP_TIMEOUT_MS: u64 = 10_000;

/// Most names that wait for their addresses, so that a flood of different names cannot fill the
/// memory. A site talks to fewer hosts.
pub const LOOKUPS_MAX: usize = 1024;

/// Most names that name servers are asked for at the same time; the others wait. A name needs up to
/// four sockets: two families, and two name servers that are asked in parallel.
pub const LOOKUPS_AT_ONCE_MAX: usize = 64;

/// Most callers that wait for names. Several may wait for the same name.
pub const LOOKUP_WAITERS_MAX: usize = 16_384;

/// Most names whose addresses are kept. An entry has at most 32 addresses of 17 bytes and its name
/// twice, so the cache stays below 2 MiB.
pub const CACHED_NAMES_MAX: usize = 1024;

/// Longest time for which addresses are kept, whatever their TTL is: a host that has moved is found
/// within an hour.
pub const TTL_MAX_SECONDS: u32 = 3600;

/// Longest time for which the absence of a name is kept, whatever its SOA record says. RFC 2308 §5
/// allows up to three hours; operators who have just created a name do not want to wait so long.
pub const NEGATIVE_TTL_MAX_SECONDS: u32 = 300;

/// How long a failed lookup is kept (RFC 9520 §3.2: at least one second), also an absence without a
/// SOA record.
pub const FAILURE_TTL_SECONDS: u32 = 1;

/// Time after which resolv.conf and the hosts file are looked at again, in milliseconds. Names from
/// the hosts file are kept so long, too.
pub const CONFIG_CHECK_MS: u64 = 5_000;

/// Most bytes that are read of resolv.conf and of the hosts file. Lists of blocked advertisers have
/// about 3 MiB.
pub const CONFIG_FILE_MAX_BYTES: u64 = 8 * 1024 * 1024;

/// Most name servers of resolv.conf that are used: `MAXNS` of the C library (resolv.conf(5)).
pub const NAME_SERVERS_MAX: usize = 3;

/// Most search domains of resolv.conf that are used. Kubernetes allows as many.
pub const SEARCH_DOMAINS_MAX: usize = 32;

/// Most servers of which sessions are kept for resumption, for each set of TLS settings. rustls
/// keeps up to 8 tickets of each, with the certificates of the server; its own default is 256.
pub const TLS_SESSIONS_MAX: usize = 64;

/// Most connections of a pool to one target with the same settings: what Apache httpd with a
/// process for each connection accepts by default (`MaxRequestWorkers`). A further request waits.
pub const CONNECTIONS_PER_KEY_MAX: usize = 256;

/// Most requests that wait for a connection to one target: sixteen for each connection. If a target
/// is too slow for that, more requests are refused at once instead of after their time.
pub const POOL_WAITERS_PER_KEY_MAX: usize = 16 * CONNECTIONS_PER_KEY_MAX;

/// Most memory of the requests of one worker that have not ended, in bytes, beside the connections
/// and the bodies that they send: fields and URLs of those that wait, and responses that have come
/// and were not read. A usual request takes 3 KiB, so that some thousands may wait.
pub const REQUEST_MEMORY_MAX_BYTES: usize = 16 * 1024 * 1024;

/// The same where memory is small: for some hundreds.
pub const REQUEST_MEMORY_SMALL_BYTES: usize = 512 * 1024;

/// One site may have one part in so many of this memory, so that a site whose servers are slow
/// leaves some to the others.
pub const REQUEST_MEMORY_SITE_DIVISOR: usize = 2;

/// Most responses of one worker that are in brotli at the same time. The decoder of one takes up to
/// 9.3 MiB ([`STREAM_DECODER_MAX_BYTES`](pinion_brotli::STREAM_DECODER_MAX_BYTES)), that of gzip
/// less than 0.1 MiB; the content of the others is asked for in gzip, which is hardly longer.
pub const BROTLI_DECODERS_MAX: usize = 4;

/// How long an unused connection is kept. Servers close theirs after 60 s (Pinion) or 75 s (nginx)
/// by default, some after 5 s (Node.js, Apache httpd); then a request may need a second attempt.
pub const POOL_IDLE_TIMEOUT_MS: u64 = 30_000;

/// Content of a response that waits for its reader. When there is more, nothing is read from the
/// connection, so that the server has to wait (back-pressure).
pub const CONTENT_BUFFER_BYTES: usize = 64 * 1024;

/// Bytes that are read from a connection at a time. With [`CONTENT_BUFFER_BYTES`] and a head of 64
/// KiB it bounds what an open request takes.
pub const READ_BYTES: u64 = 32 * 1024;

/// Decoded content that a response may have however short it is: a long run of blanks or zeros is
/// no attack.
pub const DECODED_FREE_BYTES: u64 = 8 * 1024 * 1024;

/// How many times as long as its encoded form the content of a response may be. Logs and markup
/// shrink 20- to 100-fold; bombs of gzip reach 1030, those of brotli millions.
pub const DECODED_RATIO_MAX: u64 = 250;

/// Content of a response that is read and thrown away so that its connection can serve another
/// request. For more of it a new connection is cheaper.
pub const DISCARDED_MAX_BYTES: usize = 64 * 1024;

/// Longest time that what is left of such a response may take.
pub const DISCARD_TIMEOUT_MS: u64 = 1000;

/// Longest time without progress by default: until the head of the response is there, and from then
/// on from one piece of its content to the next.
pub const REQUEST_TIMEOUT_MS: u64 = 30_000;

/// How many times within its time without progress a client looks whether the server has taken more
/// of the request's content. So it notices at most an eighth of that time later, and a look costs
/// one system call.
pub const SEND_LOOKS: u64 = 8;

/// Most redirects that are followed by default. The Fetch Standard follows 20, curl 50 and Go 10; a
/// chain that has an end is shorter.
pub const REDIRECTS_MAX: u32 = 10;

/// Longest URL, in bytes. Servers accept 8 KiB to 32 KiB; RFC 9110 §4.1 asks for 8000.
pub const URL_MAX_BYTES: usize = 16 * 1024;

/// Most content of a response by default, decoded. A script may ask for more.
pub const RESPONSE_MAX_BYTES: u64 = 16 * 1024 * 1024;

/// Content of a request up to which it is put behind its head, to be written at once.
pub const COPIED_CONTENT_MAX_BYTES: usize = 16 * 1024;

/// Bytes of the error stream of an application that are kept for the log: a few warnings with the
/// traces of their calls. What comes beyond that before they are taken is dropped.
pub const STDERR_KEPT_MAX_BYTES: usize = 4 * 1024;

/// Content of a request, given in pieces, that waits to be sent.
pub const REQUEST_BUFFER_BYTES: usize = 64 * 1024;

/// One in so many requests that a proxy forwards may be repeated: 20 %, the default of Envoy.
pub const RETRY_BUDGET_DIVISOR: u32 = 5;

/// Repetitions that are there before any request: after a server was restarted, each of the
/// connections that are kept to it is found closed.
pub const RETRY_BUDGET_FREE: u32 = 16;

/// Most repetitions that are saved up.
pub const RETRY_BUDGET_MAX: u32 = 256;
