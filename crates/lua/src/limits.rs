//! Every limit of the runtime, unit last in the name, the reason beside the value.

/// How often the thread that watches the workers looks at them while scripts run: it decides how
/// far beyond its CPU a turn can go, and costs some microseconds each time.
pub const LOOK_MS: u64 = 10;

/// So many looks without anybody at work, and the watching thread sleeps until it is woken, which
/// costs a worker a system call.
pub const LOOKS_BEFORE_SLEEP: u32 = 20;

/// Most parameters of a pattern: deeper paths than this are no interface.
pub const PATTERN_PARAMETERS_MAX: usize = 16;

/// Most bytes of a pattern: more than any path that people write down.
pub const PATTERN_MAX_BYTES: usize = 1024;

/// Most routes of a site: what a program makes by mistake in a loop is more.
pub const ROUTES_MAX: usize = 16 * 1024;

/// Most pairs of a form or a query: forms that people fill in have tens.
pub const FORM_PAIRS_MAX: usize = 1000;

/// Most bytes of the fields of an answer: what browsers and proxies take.
pub const ANSWER_FIELDS_MAX_BYTES: usize = 16 * 1024;

/// What an answer may come to before its head goes out and it streams: pages are smaller, and until
/// then an error can still become a page that says so.
pub const ANSWER_BUFFER_BYTES: usize = 64 * 1024;

/// Pieces that a page writes before it is looked at how many bytes they are: few enough that they
/// are not much memory, so many that the look costs nothing.
pub const PAGE_PIECES: usize = 256;

/// CPU that a request may take. The others of its worker wait meanwhile, so this is the longest
/// that one script can hold up anybody.
pub const CPU_MAX_MS: u64 = 200;

/// CPU that a script may take to start.
pub const START_CPU_MAX_MS: u64 = 2_000;

/// Memory that a request may take, beside what the VM had before.
pub const MEMORY_MAX_BYTES: usize = 32 * 1024 * 1024;

/// Memory that one VM may take, for all its requests and what its script keeps.
pub const VM_MEMORY_MAX_BYTES: usize = 256 * 1024 * 1024;

/// How long a request may take in all, whatever it waits for.
pub const WALL_MAX_MS: u64 = 30_000;

/// Coroutines that are kept for the next request: as many as one pass answers at once, mostly.
pub const IDLE_COROUTINES_MAX: usize = 64;

/// CPU that the handler of errors may take, if less was left.
pub const FAILING_CPU_MAX_MS: u64 = 50;

/// Most bytes of content that a handler takes as one string.
pub const BODY_MAX_BYTES: u64 = 1024 * 1024;
