//! Limits of patterns: each name ends with its unit, and each value has its reason beside it.

/// Most captures of a pattern: Lua's own limit.
pub const CAPTURES_MAX: usize = 32;

/// Most parts of a pattern that can be open at a time, as captures and repetitions are until the
/// pattern has matched: Lua's own limit. It bounds the memory of a match.
pub const DEPTH_MAX: u16 = 200;

/// Most bytes of a pattern. Its compiled form needs as much as 20 times that, outside of the memory
/// that limits the script; hand-written patterns have some dozen bytes. The limit is not made for
/// searches for a plain text of any length.
pub const PATTERN_MAX_BYTES: usize = 64 * 1024;

/// Most patterns that are kept compiled in a VM: all that a site has, as a rule.
pub const KEPT_MAX_PATTERNS: usize = 256;

/// Most bytes of the patterns that are kept compiled, before they are compiled.
pub const KEPT_MAX_BYTES: usize = PATTERN_MAX_BYTES;

/// Most bytes that `string.rep` and `string.gsub` return in one call, and that functions of
/// `pinion.codec` and pages encode, escape and return. The text exists twice while Lua receives it,
/// once outside of the memory that limits the script; content of pages is far smaller.
pub const RESULT_MAX_BYTES: usize = 16 * 1024 * 1024;

/// Bytes that are searched, compared or copied at the price of one step: the size of a vector
/// register.
pub const STEP_BYTES: usize = 16;

/// Default number of steps of one request. About 100 ms: one step of a pattern that backtracks took
/// 2.5 to 8 ns where it was measured.
pub const DEFAULT_STEPS: u64 = 20_000_000;

/// Most bytes of a subject that is copied out of the VM for its search: up to here the copy costs
/// less than a reference to the string in the VM.
pub const SHORT_MAX_BYTES: usize = 512;
