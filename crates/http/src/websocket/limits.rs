//! Every limit of WebSockets, unit last in the name, the reason beside the value.

/// Most bytes of a message of a client, as the application gets it. It is the limit of uvicorn, and
/// 16 times that of most other libraries: applications that send files in messages cut them before.
pub const MESSAGE_MAX_BYTES: u64 = 16 * 1024 * 1024;

/// Most bytes of a control frame after its head (RFC 6455 §5.5).
pub const CONTROL_MAX_BYTES: usize = 125;

/// Most bytes of the reason in a frame that closes: a control frame without its code.
pub const CLOSE_REASON_MAX_BYTES: usize = CONTROL_MAX_BYTES - size_of::<u16>();

/// Most bytes of a head: two, the longest length and the mask (RFC 6455 §5.2).
pub const FRAME_HEAD_MAX_BYTES: usize = 14;

/// Most bytes of a compressed message for each byte that it may become. Deflate makes content that
/// cannot be compressed longer by a thousandth, and a peer that sends it in small pieces by a few
/// bytes for each. Twice the length leaves enough for both, and bounds data that never produces
/// output.
pub const COMPRESSED_RATIO_MAX: u64 = 2;

/// Bytes of a compressed message that are free of [`COMPRESSED_RATIO_MAX`]: short messages also
/// have the ends of their blocks.
pub const COMPRESSED_FREE_BYTES: u64 = 1024;

/// Fewest bytes of a whole message that is compressed. Shorter ones gain less than a packet, and to
/// prepare the memory of a compressor costs more than to copy them.
pub const COMPRESSED_MIN_BYTES: usize = 512;

/// Level of deflate, of 1 to 9, for the messages of an application. Each begins without a history,
/// where higher levels gain little.
pub const DEFLATE_LEVEL: u32 = 3;

/// Bits of the largest window of deflate (RFC 7692 §7.1.2.1), which is used unless a client asks
/// for a smaller one.
pub const WINDOW_BITS_MAX: u8 = 15;

/// Bits of the smallest window that a client may ask for.
pub const WINDOW_BITS_MIN: u8 = 8;

/// Bits of the smallest window that the compressor has. A client that asks for a smaller one gets
/// messages that are not compressed.
pub const COMPRESSOR_WINDOW_BITS_MIN: u8 = 9;

/// Most messages of clients of one worker that are decompressed at a time. Each takes 48 KiB while
/// a part of it is missing, so this is 48 MiB. Complete messages take one for a moment only.
pub const DECOMPRESSORS_MAX: usize = 1024;

/// Most messages of applications of one worker that are compressed at a time. Each takes about 300
/// KiB while a part of it is missing. Beyond them messages are sent as they are.
pub const COMPRESSORS_MAX: usize = 64;

/// The number of idle compressors, and of idle decompressors, that a worker keeps: enough for
/// messages that come one after the other.
pub const KEPT_CODERS: usize = 2;

/// Bytes of a compressed message that are unmasked at a time. They are on the stack.
pub const UNMASKED_BYTES: usize = 4 * 1024;

/// Most bytes of content that become one frame when they are compressed, so that a long message
/// leaves while its rest is still compressed.
pub const COMPRESSED_PIECE_BYTES: usize = 64 * 1024;

/// Most parameters of one offer of an extension. `permessage-deflate` has four.
pub const OFFER_PARAMETERS_MAX: usize = 16;

/// Most subprotocols that a client may offer: those of applications are one to five.
pub const SUBPROTOCOLS_MAX: usize = 64;
