//! Every bound of the room.

/// Positions in a file have 32 bits, and a template of this size is no page any more.
pub const FILE_MAX_BYTES: usize = 1 << 20;

/// All files of one page, each counted as often as it is included: what a page of many small
/// includes may grow to before it is told from one that includes without end.
pub const PAGE_MAX_BYTES: usize = 4 << 20;

/// What each piece of a page counts beside its bytes: about what it takes while it is compiled.
pub const PIECE_BYTES: usize = 16;

/// Files below each other. What 80s promised; no page of people is as deep.
pub const INCLUDE_DEPTH_MAX: usize = 64;

/// Includes of one page altogether. Ten files that include each other ten times, in ten floors,
/// are ten thousand million includes of nothing.
pub const INCLUDES_MAX: usize = 10_000;

/// Statements, brackets and operators inside of each other. Lua itself stops at 200, of which what
/// we generate takes a few.
pub const NESTING_MAX: usize = 160;

/// Local variables of one function. Lua stops at 200, and the code of a piece of text has two.
pub const LOCALS_MAX: usize = 196;

/// Variables of outer functions that one function may use: LuaJIT's bound.
pub const UPVALUES_MAX: usize = 60;

/// Pieces of text and values that are appended at once. Each value is a variable meanwhile, of
/// which a function has 200.
pub const RUN_MAX_PIECES: usize = 16;

/// Template strings within each other in a script; nobody writes three.
pub const SCRIPT_NESTING_MAX: usize = 32;

/// Bytes of a name of HTML that are kept: all that mean something are shorter.
pub const NAME_MAX_BYTES: usize = 24;

/// Bytes of a reference at the end of a text that are kept for what follows. The longest name has
/// 31, and nobody writes as many zeros in front of a number.
pub const REFERENCE_MAX_BYTES: usize = 64;

/// Readings of a script that are followed at once, see `place::script`. Most of them meet again
/// soon; nobody writes as many that do not.
pub const SCRIPT_READINGS_MAX: usize = 8;

/// Characters of the source that an error quotes.
pub const QUOTE_MAX_CHARS: usize = 40;
