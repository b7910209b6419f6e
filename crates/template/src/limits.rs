//! Every limit of the crate.

/// Most bytes of a file. Positions in a file have 32 bits, and a template of this size is no page
/// any more.
pub const FILE_MAX_BYTES: usize = 1 << 20;

/// Most bytes of all files of one page, each counted as often as it is included: the most that a
/// page of many small includes may grow to before it counts as an endless include.
pub const PAGE_MAX_BYTES: usize = 4 << 20;

/// The size that each piece of a page counts beside its bytes: about the memory that it takes
/// during compilation.
pub const PIECE_BYTES: usize = 16;

/// Most files included in each other. 80s promised this depth; no page that people write is as
/// deep.
pub const INCLUDE_DEPTH_MAX: usize = 64;

/// Includes of one page in all. Ten files that include each other ten times, in ten levels, are ten
/// thousand million includes of empty text.
pub const INCLUDES_MAX: usize = 10_000;

/// Most statements, brackets and operators nested in each other. Lua itself stops at 200, of which
/// the generated code takes a few.
pub const NESTING_MAX: usize = 160;

/// Local variables of one function. Lua stops at 200, and the code of a piece of text has two.
pub const LOCALS_MAX: usize = 196;

/// Variables of outer functions that one function may use: LuaJIT's bound.
pub const UPVALUES_MAX: usize = 60;

/// Pieces of text and values that are appended at once. Each value is a variable meanwhile, of
/// which a function has 200.
pub const RUN_MAX_PIECES: usize = 16;

/// Template strings nested in each other in a script; people do not write three.
pub const SCRIPT_NESTING_MAX: usize = 32;

/// Bytes of a name of HTML that are kept: all names with a meaning are shorter.
pub const NAME_MAX_BYTES: usize = 24;

/// Bytes of a reference at the end of a text that are kept for the following text. The longest name
/// has 31, and people do not write as many zeros before a number.
pub const REFERENCE_MAX_BYTES: usize = 64;

/// Readings of a script that are followed at once, see `escaping::script`. Most of them meet again
/// soon; scripts do not have as many that differ.
pub const SCRIPT_READINGS_MAX: usize = 8;

/// Characters of the source that an error quotes.
pub const QUOTE_MAX_CHARS: usize = 40;
