//! Limits of patterns, unit last in the name, the reason beside the value.

/// Most captures of a pattern: Lua's own limit.
pub const CAPTURES_MAX: usize = 32;

/// Most parts of a pattern that can be open at a time, as captures and repetitions are until the
/// pattern has matched: Lua's own limit. What a match remembers is bounded by it.
pub const DEPTH_MAX: u16 = 200;

/// Most bytes of a pattern. It takes up to 20 times as much when it is compiled, outside of what a
/// script may allocate; hand-written ones have some dozen bytes. Searching for a plain text of any
/// length is not meant.
pub const PATTERN_MAX_BYTES: usize = 64 * 1024;

/// Most patterns that are kept compiled in a VM: all that a site has, as a rule.
pub const KEPT_MAX_PATTERNS: usize = 256;

/// Most bytes of the patterns that are kept compiled, before they are compiled.
pub const KEPT_MAX_BYTES: usize = PATTERN_MAX_BYTES;

/// Most bytes of what `string.rep` and `string.gsub` make in one call, and of what encodes and
/// escapes, in `pinion.codec` and in pages, takes and makes. It exists twice while it is
/// handed over, once outside of what a script may allocate; content of pages is far smaller.
pub const RESULT_MAX_BYTES: usize = 16 * 1024 * 1024;

/// Bytes that are searched, compared or copied at the price of one step: what a vector register
/// takes in one go.
pub const STEP_BYTES: usize = 16;

/// Steps of one request when nobody has said how many. About 100 ms: one of a pattern
/// that backtracks took 2.5 to 8 ns where it was measured.
pub const DEFAULT_STEPS: u64 = 20_000_000;

/// Most bytes of a subject that is copied out of the VM to be searched: up to here that costs less
/// than to hold on to it there.
pub const SHORT_MAX_BYTES: usize = 512;
