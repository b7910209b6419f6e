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
