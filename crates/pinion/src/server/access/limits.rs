//! Every limit of access control, unit last in the name, the reason beside the value.

/// Tables `[[site.access]]` of one site: which of them cover a path is a set in one word. A site
/// has a handful of parts.
pub(crate) const RULES_MAX: usize = 64;

/// MiB of a password file: ten thousand users, at some 80 bytes each.
pub(crate) const PASSWORD_FILE_MAX_MIB: u64 = 1;

/// Users of a password file: those of a large company.
pub(crate) const USERS_MAX: usize = 10_000;

/// Bytes of the name of a user: the limit of mail addresses (RFC 5321 §4.5.3.1).
pub(crate) const USER_MAX_BYTES: usize = 254;

/// Bytes of a line of a password file: a name and a hash with the longest salt.
pub(crate) const LINE_MAX_BYTES: usize = 1024;

/// The cost of a bcrypt hash, as the logarithm of its rounds: 15 takes two seconds of a core, and
/// each step twice as long.
pub(crate) const BCRYPT_COST_MAX: u32 = 15;

/// The cost of a bcrypt hash below which a file gets a warning: OWASP's least (Password Storage
/// Cheat Sheet), while that of `htpasswd -B` is 5.
pub(crate) const BCRYPT_COST_ADVISED: u32 = 10;

/// The time for which a verified password is not verified again.
pub(crate) const CREDENTIAL_CACHE_MS: u64 = 60_000;

/// Passwords that were verified lately, of all sites: users that are active at once.
pub(crate) const CREDENTIALS_MAX: usize = 4096;

/// Bytes that each of them takes: a digest, the time and a key, in a table half of which is free.
pub(crate) const CREDENTIAL_BYTES: usize = 100;

/// Wrong passwords that one client may send at once.
pub(crate) const FAILURES_AT_ONCE: u64 = 20;

/// After that number, one more may come in so many seconds.
pub(crate) const FAILURE_SECONDS: u64 = 5;

/// Wrong passwords that all clients on Unix sockets together may send at once, beside
/// [`FAILURES_AT_ONCE`] for each user that they name: those of ten clients with an address. A
/// client invents as many names as it likes, so the limit of a name alone limits no client.
pub(crate) const UNIX_FAILURES_AT_ONCE: u64 = 200;

/// After that number, so many more may come in a second: those of ten clients again.
pub(crate) const UNIX_FAILURES_PER_SECOND: u64 = 2;

/// Passwords that are being verified or wait for a thread, of all workers: at 60 ms each and two
/// threads they take three seconds.
pub(crate) const VERIFICATIONS_MAX: usize = 100;

/// Verifications of one client in one worker: a browser needs one, and one that needs more leaves
/// room for others.
pub(crate) const CLIENT_VERIFICATIONS_MAX: usize = 4;

/// The part of [`VERIFICATIONS_MAX`] for all clients on Unix sockets together: with a quarter of
/// them they delay clients with an address by less than a second.
pub(crate) const UNIX_VERIFICATIONS_MAX: usize = VERIFICATIONS_MAX / 4;

/// Requests of one worker that wait for the verification of their password.
pub(crate) const WAITING_MAX: usize = 1024;

/// Waiting requests of one client: all streams of a connection of HTTP/2, when its password has
/// just to be verified again.
pub(crate) const CLIENT_WAITING_MAX: usize = 128;

/// Bytes of the heads of these requests: heads have a KiB as a rule, and 16 KiB at most.
pub(crate) const WAITING_MAX_BYTES: usize = 4 << 20;

/// The part of [`WAITING_MAX`] for all clients on Unix sockets together: a quarter, as above.
pub(crate) const UNIX_WAITING_MAX: usize = WAITING_MAX / 4;

/// The part of [`WAITING_MAX_BYTES`] for all clients on Unix sockets together: a quarter, as above.
pub(crate) const UNIX_WAITING_MAX_BYTES: usize = WAITING_MAX_BYTES / 4;

/// The time that a request waits for its password to be verified; then it gets status 503.
pub(crate) const VERIFICATION_MAX_MS: u64 = 30_000;

/// One client may have one in so many connections to other servers as WebSockets and other tunnels,
/// unless the operator says how many: each of them holds a connection for as long as the client
/// likes, and four clients are needed then to take all.
pub(crate) const TUNNELS_DIVISOR: u64 = 4;

/// Tunnels that one client may have at least: two pages of one browser.
pub(crate) const TUNNELS_MIN: u64 = 2;

/// Seconds after which a client may try again that has too many tunnels: people close pages.
pub(crate) const TUNNEL_RETRY_SECONDS: u64 = 10;

/// Seconds after which a client may try again that was refused because too much waits.
pub(crate) const RETRY_SECONDS: u64 = 2;

/// Clients whose rate of requests is known at once, of all sites: 1 MiB. Clients beyond this number
/// share the rates of the least busy ones.
pub(crate) const RATE_CLIENTS_MAX: usize = 1 << 16;

/// Clients whose wrong passwords are known at once: 256 KiB.
pub(crate) const FAILING_CLIENTS_MAX: usize = 1 << 14;
