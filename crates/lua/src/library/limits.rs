//! Limits of the libraries. A script meets them as errors that name them.

/// Levels of arrays and objects in JSON, both ways: far more than documents have, and far less than
/// the stack of a worker can hold. Most parsers elsewhere stop at about as many.
pub const JSON_DEPTH_MAX_LEVELS: usize = 128;

/// Bytes of a JSON text, both ways. A text is held in memory as a whole, and ten tables that hold
/// each other ten times over would be gigabytes of it.
pub const JSON_TEXT_MAX_BYTES: usize = 16 << 20;

/// Steps from the root that a message about a value names; deeper ones end in an ellipsis.
pub const JSON_PATH_MAX_STEPS: usize = 16;

/// Spaces or tabs of one level of indentation: more than eight are not readable.
pub const JSON_INDENT_MAX_BYTES: usize = 8;

/// Pairs of a query or form. Each costs a table entry of its own; forms have dozens.
pub const QUERY_PAIRS_MAX: usize = 1000;

/// Random bytes in one call: a thousand keys of 32 bytes, and too few to drain the generator in one
/// call.
pub const RANDOM_MAX_BYTES: usize = 32 << 10;

/// Bytes of a key for sealing and for HKDF: 128 bits, below which it can be found by trying.
pub const KEY_MIN_BYTES: usize = 16;

/// Bytes of a key for `blake3`: exactly the length of its keyed mode.
pub const BLAKE3_KEY_BYTES: usize = 32;

/// Bytes that HKDF can return: 255 times the length of its digest (RFC 5869 §2.3), here SHA-256.
pub const HKDF_OUTPUT_MAX_BYTES: usize = 255 * 32;

/// Bytes of a token. It travels in a field, and the whole head of a request has 16 KiB.
pub const TOKEN_MAX_BYTES: usize = 16 << 10;

/// Seconds by which the clocks of two machines may be apart and still be set: a day.
pub const LEEWAY_MAX_SECONDS: f64 = 86_400.0;

/// Bytes of a password. People type no more; longer ones are sent to keep a server busy.
pub const PASSWORD_MAX_BYTES: usize = 1024;

/// Steps of the request that a value of JSON costs, of any kind: reading a number takes some 160
/// ns, a step of a search a few.
pub const JSON_VALUE_STEPS: usize = 20;

/// Steps that a table costs in addition: making an empty one takes about a microsecond.
pub const JSON_TABLE_STEPS: usize = 200;
