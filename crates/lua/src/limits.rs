//! Every limit of the runtime: the name of a quantity ends with its unit, and each value has its
//! reason beside it.

/// The interval at which the watching thread looks at the workers while scripts run. It decides how
/// far a turn can exceed its CPU; each look costs some microseconds.
pub const LOOK_MS: u64 = 10;

/// The number of looks without a busy worker after which the watching thread sleeps until it is
/// woken, which costs a worker a system call.
pub const LOOKS_BEFORE_SLEEP: u32 = 20;

/// Most parameters of a pattern: no sensible interface has deeper paths.
pub const PATTERN_PARAMETERS_MAX: usize = 16;

/// Most bytes of a pattern: more than any path that people write down.
pub const PATTERN_MAX_BYTES: usize = 1024;

/// Most routes of a site: only a program that loops by mistake registers more.
pub const ROUTES_MAX: usize = 16 * 1024;

/// Most pairs of a form or a query: forms that people fill in have tens.
pub const FORM_PAIRS_MAX: usize = 1000;

/// Most bytes of the fields of a response: browsers and proxies accept so many.
pub const RESPONSE_FIELDS_MAX_BYTES: usize = 16 * 1024;

/// The number of pieces up to which a response has few of them: LuaJIT joins so few as fast as any
/// other method.
pub const FEW_PIECES: usize = 16;

/// The number of pieces that memory is reserved for in advance where the previous response had as
/// many: a page of some hundred values, in 4 KiB.
pub const MANY_PIECES: usize = 512;

/// Most bytes of a response that are buffered before its head is sent and it streams. Pages are
/// smaller, and until then an error can still become an error page.
pub const RESPONSE_BUFFER_BYTES: usize = 64 * 1024;

/// The number of pieces after which the bytes that a page has written are counted: few enough that
/// they are not much memory, so many that the count costs nothing.
pub const PAGE_PIECES: usize = 256;

/// CPU that a request may take. The other requests of its worker wait meanwhile, so this is the
/// longest time for which one script can block them.
pub const CPU_MAX_MS: u64 = 200;

/// CPU that a script may take to start.
pub const START_CPU_MAX_MS: u64 = 2_000;

/// Memory that a request may take, in addition to the memory that the VM used before it.
pub const MEMORY_MAX_BYTES: usize = 32 * 1024 * 1024;

/// The collector of a VM begins when the VM has allocated this fraction of the memory of a request:
/// all allocations until its end are garbage too, and are collected at the end of the next cycle.
pub const GARBAGE_SHARE: usize = 4;

/// Steps in which the collector of a large VM goes through all of it. LuaJIT takes a step with
/// every allocation, however large that is: so many texts of 32 KiB are as much as
/// [`GARBAGE_SHARE`] allows.
pub const COLLECTION_STEPS: usize = 256;

/// Most bytes of source that a script compiles by `load`. The source is outside of the memory of
/// the VM, and no hook runs during its compilation, which takes some ten milliseconds for so many
/// bytes.
pub const SOURCE_MAX_BYTES: usize = 1024 * 1024;

/// Most coroutines nested in each other: each takes some of the stack of its worker.
pub const COROUTINES_DEPTH_MAX: u32 = 100;

/// Most bytes of its thread's stack that a script may take by functions of C that call functions of
/// the script: a quarter of a worker's stack, because another such call may just begin, and the
/// frames below the script take some.
pub const SCRIPT_STACK_MAX_BYTES: usize = 256 * 1024;

/// Most messages of one turn of a script. They are outside of the memory of its VM until the turn
/// is over.
pub const SENT_MAX: usize = 1000;
/// Most bytes of the messages of one turn, see [`SENT_MAX`].
pub const SENT_MAX_BYTES: usize = 4 * 1024 * 1024;

/// Most bytes of all messages of all workers that wait to be delivered: the messages of a few turns
/// of many scripts, and little beside the memory of a VM. Without this limit, the largest values
/// could wait in every place for a piece of work.
pub const MESSAGES_MAX_BYTES: usize = 64 * 1024 * 1024;

/// Memory that one VM may take, for all its requests and the values that its script keeps.
pub const VM_MEMORY_MAX_BYTES: usize = 256 * 1024 * 1024;

/// Memory of one VM where the machine has very little: a site with some pages, and two requests at
/// once that take all they may. The library and the pages of the guestbook take 1.5 MiB of it.
pub const SMALL_VM_BYTES: usize = 6 * 1024 * 1024;

/// One byte in so many is the allocator's overhead beyond the bytes that the VM counts, because
/// values of a VM are small. 0.31 were measured of functions and of texts of four bytes, 0.07 of
/// coroutines (`little_memory.rs`).
pub const VM_ALLOCATOR_OVERHEAD_DIVISOR: usize = 3;

/// Where a VM has less than [`VM_MEMORY_MAX_BYTES`], a request may take one part in so many of it.
pub const REQUESTS_PER_VM: usize = 4;

/// Memory that a request may take however small its VM is: a page and the values that it shows, or
/// a body of [`BODY_MAX_BYTES`] and something to do with it.
pub const REQUEST_MEMORY_MIN_BYTES: usize = 2 * 1024 * 1024;

/// Most bytes that a script keeps across reloads in one worker where memory is very small: half of
/// the largest value.
pub const SMALL_KEPT_BYTES: usize = PLAIN_MAX_BYTES / 2;

/// Most bytes of content that one worker keeps where memory is very small: one body of
/// [`BODY_MAX_BYTES`], the reserve of small ones, and something between.
pub const SMALL_CONTENT_BYTES: usize = BODY_MAX_BYTES as usize / 2 * 3;

const _: () = assert!(
    SMALL_CONTENT_BYTES - SMALL_CONTENT_BYTES / CONTENT_RESERVE_DIVISOR > BODY_MAX_BYTES as usize
);

/// Most bytes that wait with jobs, and most bytes of messages, where memory is very small: one
/// value of [`PLAIN_MAX_BYTES`].
pub const SMALL_WAITING_BYTES: usize = PLAIN_MAX_BYTES;

/// No further job begins while so many bytes of results of jobs have not been taken, where memory
/// is very small: the results of a page that reads some files.
pub const SMALL_RESULTS_BYTES: usize = 512 * 1024;

/// The longest time that a request may take in all, including its waits.
pub const WALL_MAX_MS: u64 = 30_000;

/// The number of milliseconds that means no limit of time: a hundred years, of which nanoseconds
/// fit into 64 bits too.
pub const ENDLESS_MS: u64 = 100 * 365 * 86_400 * 1000;

/// Coroutines that are kept for the next request: as many as the responses of one pass, mostly.
pub const IDLE_COROUTINES_MAX: usize = 64;

/// CPU that the error handler may take if less was left.
pub const FAILING_CPU_MAX_MS: u64 = 50;

/// Most bytes of content that a handler takes as one string, unless it asks for more.
pub const BODY_MAX_BYTES: u64 = 1024 * 1024;

/// CPU that background work may take. A pass over some data is more than a request should do,
/// and the requests of its worker wait for each turn of it.
pub const BACKGROUND_CPU_MAX_MS: u64 = 1_000;

/// The longest time that background work may take in all: longer work is a job for `every`.
pub const BACKGROUND_WALL_MAX_MS: u64 = 600_000;

/// Most tasks in one VM, requests that are being answered among them: about as many as a worker has
/// connections. Each has a coroutine of about a KiB, and an entry in a table outside of the memory
/// of the VM.
pub const TASKS_MAX: usize = 20_000;

/// Most tasks in one VM where memory is very small: four for each connection that there may be.
pub const SMALL_TASKS_MAX: usize = 1024;

/// Background tasks are at most this fraction of the tasks of a VM, so that requests
/// find room.
pub const BACKGROUND_DIVISOR: usize = 2;

/// Most background tasks in one VM.
pub const BACKGROUND_MAX: usize = TASKS_MAX / BACKGROUND_DIVISOR;

/// Most pieces of work that one request, one run of a schedule, or one message may start. The
/// pieces that these pieces start count too, so that a tree of them cannot use up all there are.
pub const SPAWNED_MAX: u32 = 1_000;

/// Most schedules of a script: only a program that loops by mistake registers more.
pub const SCHEDULES_MAX: usize = 256;

/// Shortest time between two runs of a schedule: more frequent work belongs into a loop.
pub const SCHEDULE_MIN_MS: u64 = 10;

/// Most seconds by which the clock of the machine may be set back so that no time of a schedule
/// comes twice: changes of summer time by hand are less. A larger step means that the clock was
/// wrong, and that schedules begin anew with it.
pub const CLOCK_BACK_MAX_S: i64 = 3 * 3600;

/// Most bytes of a value that is copied out of a VM, its names and texts together.
pub const PLAIN_MAX_BYTES: usize = 1024 * 1024;

/// Overhead of an allocator, in bytes, for a text or a table of such a value: its header, and the
/// rest up to the next size.
pub const PLAIN_PIECE_BYTES: usize = 32;

/// Most tables within each other of such a value.
pub const PLAIN_MAX_DEPTH: u32 = 32;

/// Most channels that a script listens to.
pub const CHANNELS_MAX: usize = 1024;

/// Most values that a script keeps across reloads in one worker.
pub const KEPT_MAX: usize = 1024;

/// Most VMs of earlier scripts of a site that a worker keeps until their requests have ended.
/// Beyond it the oldest VM ends together with its requests.
pub const OLD_VMS_MAX: usize = 4;

/// Most bytes of all values that a script keeps across reloads in one worker.
pub const KEPT_MAX_BYTES: usize = 64 * 1024 * 1024;

/// Tasks without a request that run in one pass: requests of the same worker wait meanwhile.
pub const TASKS_PER_PASS: usize = 64;

/// The number of milliseconds after which a pass begins no more such tasks: a request waits for at
/// most this time and the turn of one task.
pub const TASKS_PER_PASS_MAX_MS: u64 = 5;

/// Most values that `cached` holds in one VM. Beyond it the oldest is dropped, and is made again
/// when it is needed.
pub const CACHED_MAX: usize = 1000;

/// Most values, and most parts of pages, that one VM keeps until the data changes that they have
/// read of the store. Beyond it the oldest is dropped, and is made again when it is needed.
pub const STORE_KEPT_MAX: usize = 1000;

/// After a request has met the limit of memory, the values of `cached` are dropped if the VM still
/// uses more than this fraction of its memory. They can be made again, and a VM that they fill
/// could answer no request any more.
pub const CACHED_MEMORY_PARTS: usize = 2;

/// Most bytes of content as one string, however much a handler requests: half of the memory of a
/// request, because they exist twice while the string is copied.
pub const CONTENT_TEXT_MAX_BYTES: u64 = 16 * 1024 * 1024;

/// How many bytes more than its limit a request may announce in one chunk (HTTP/1.1) before the
/// engine refuses it: more than clients put into a chunk, so that the log can name the limit and
/// its route. No more than the limit is kept.
pub const CONTENT_EXCESS_MAX_BYTES: u64 = 1024 * 1024;

/// Bytes of content that are requested of a client at once, and most bytes of a piece: a few reads
/// of a socket, and little enough to hold for many requests at once.
pub const CONTENT_PIECE_MAX_BYTES: usize = 64 * 1024;

/// Most bytes of content that one worker keeps for all its requests, with fields of forms and the
/// part of their files that is not yet on disk. This content is outside of the memory of the VMs.
/// The limit has room for a few of the largest texts, or for a thousand ordinary forms.
pub const CONTENT_MEMORY_MAX_BYTES: usize = 64 * 1024 * 1024;

/// This fraction of the content is reserved for requests that keep up to
/// [`CONTENT_PIECE_MAX_BYTES`]: they are still answered when others have filled the rest.
pub const CONTENT_RESERVE_DIVISOR: usize = 4;

/// When so many bytes have been freed, and less is in use, the memory goes back to the system. That
/// costs milliseconds, less than the receipt of so many bytes.
pub const CONTENT_TRIM_BYTES: usize = 8 * 1024 * 1024;

/// Milliseconds without any content after which a request is among the first to lose the content
/// that it keeps, when there is no room: several round trips around the world.
pub const CONTENT_STALL_MS: u64 = 1000;

/// Bytes of content in a millisecond below which a request counts as stalled too: half a megabit in
/// a second, the speed for which [`CONTENT_WAIT_MAX_MS`] is made.
pub const CONTENT_SLOW_BYTES_PER_MS: u64 = 56;

/// The `Retry-After` of clients that were refused for want of room, in seconds: the content of
/// other clients has mostly been read by then.
pub const RETRY_AFTER_S: u32 = 5;

/// How much longer than [`WALL_MAX_MS`] a request may take while content arrives: 32 MiB over a
/// line of half a megabit.
pub const CONTENT_WAIT_MAX_MS: u64 = 600_000;

/// How much longer than its time a request may take while its client receives the response, or each
/// piece of a file: 200 MiB over a line of half a megabit; larger content is better sent as a file.
/// The engine closes connections of clients that receive nothing. This limit is for clients that
/// receive a byte now and then.
pub const ROOM_WAIT_MAX_MS: u64 = 3_600_000;

/// The longest time that a request waits until there is room once: a client that receives a KiB a
/// second has made it after 192 seconds (`OUTPUT_HIGH_WATER_BYTES` less `OUTPUT_LOW_WATER_BYTES` of
/// the engine). This limit is for streams that make no progress on a connection that is in use.
pub const ROOM_WAIT_ONCE_MS: u64 = 300_000;

/// Most bytes of a form with files, unless the handler says otherwise: some photographs.
pub const UPLOAD_MAX_BYTES: u64 = 32 * 1024 * 1024;

/// Most files of a form: people choose tens at once.
pub const FORM_FILES_MAX: usize = 100;

/// Most bytes of the names and values of a form with files, without the files: the same as for a
/// form without any.
pub const FORM_FIELDS_MAX_BYTES: usize = 1024 * 1024;

/// Milliseconds between two searches of a worker for uploads that have stalled. Each search looks
/// at all requests that wait, and content may arrive in many small pieces.
pub(crate) const UPLOAD_RELIEF_PAUSE_MS: u64 = 100;

/// Most bytes of a string that is made while the limit of memory is off; the next allocation meets
/// the limit. It is little beside the memory of a request.
pub const RELAXED_MAX_BYTES: usize = 16 * 1024;

/// Bytes that are read at once of a file that is sent: a few writes of a socket, and little enough
/// to hold for many requests at once.
pub const FILE_PIECE_BYTES: u64 = 64 * 1024;

/// Most counters of a site: they are for totals, and a number for each visitor belongs into a
/// store.
pub const COUNTERS_MAX: usize = 10_000;

/// Most bytes of the name of a counter.
pub const COUNTER_NAME_MAX_BYTES: usize = 256;

/// The largest value of a counter: beyond it, Lua's numbers cannot represent every whole number.
pub const COUNTER_MAX: i64 = 1 << 53;

/// Timers that a worker keeps before it searches for timers of tasks that have ended; with more it
/// searches whenever their number has doubled.
pub const TIMERS_MIN: usize = 1024;

/// Texts whose escaped form a VM remembers, for each way of escaping; then the cache is emptied.
pub const ESCAPED_MAX: usize = 1000;

/// Most bytes of such a text: names and numbers, not paragraphs.
pub const ESCAPED_MAX_BYTES: usize = 100;

/// Levels of tables within each other that the log shows of a table that a script has thrown: an
/// error with its details.
pub const THROWN_DEPTH_MAX: usize = 2;

/// Entries of each of these tables that the log shows: as many as people read.
pub const THROWN_ENTRIES_MAX: usize = 16;

/// Bytes of the text after which the log shows no further value of these tables: some lines.
pub const THROWN_TEXT_MAX_BYTES: usize = 1000;

/// Functions that the stack of a turn over its budget shows, the innermost: as many as people read.
pub const TRACE_FRAMES_MAX: i32 = 20;

/// Modules that an error names where one was not found: as many as people read.
pub const MODULES_SHOWN_MAX: usize = 8;

/// The time that a stream waits until it has regained the whole allowance of a request, in
/// milliseconds: so it has one hundredth of a processor on average, and events can be written for
/// days.
pub(crate) const STREAM_REGAIN_MS: u64 = 20_000;

/// Most seconds that a route may set for itself, unless `--lua-time` is longer: an upload over a
/// slow line, or a report that takes long. Longer work belongs to the background.
pub const ROUTE_TIME_MAX_S: u64 = 3600;

/// Most bytes of content that a route may set for itself: beyond it, Lua's numbers cannot represent
/// every whole number. Content is read in pieces, and files of forms have
/// [`UPLOADS_MAX_BYTES`](pinion_jobs::limits::UPLOADS_MAX_BYTES) in all.
pub const ROUTE_BODY_MAX_BYTES: u64 = 1 << 53;

/// Most messages that wait in one subscription: a burst that its handler receives in one turn.
/// Older messages are of no use to a client that reads too slowly.
pub const SUBSCRIPTION_QUEUE_MAX: usize = 100;

/// Most bytes of these messages; a single larger message waits alone. They count among
/// [`MESSAGES_MAX_BYTES`], of which a slow client must not take much.
pub const SUBSCRIPTION_QUEUE_MAX_BYTES: usize = 256 * 1024;

/// Most responses of other servers that a handler, with the functions of `pinion.gather` that it
/// waits for, has not read to their end. Each may hold a connection.
pub const FETCHES_PER_TASK_MAX: usize = 1000;

/// Most programs that a handler, with the functions of `pinion.gather` that it waits for, runs at
/// the same time: a quarter of the programs that a worker runs in all.
pub const PROGRAMS_PER_TASK_MAX: usize = 16;

/// Most bytes that `response:read` returns at once, as `req:read` does.
pub const FETCH_PIECE_BYTES: usize = 64 * 1024;

/// Most bytes of the bodies of all requests to other servers of one worker that have not ended.
/// They stand outside of the memory of the VMs, so that a request can be sent again.
pub const FETCH_BODIES_MAX_BYTES: usize = 64 * 1024 * 1024;

/// The limit of these bodies where memory is small.
pub const SMALL_FETCH_BODIES_BYTES: usize = 1024 * 1024;

/// Most bytes of the arguments of one command of the store that a script calls, and of one reply:
/// as much as `req:body()` returns at once.
pub const STORE_COMMAND_MAX_BYTES: usize = 16 * 1024 * 1024;

/// Most arguments of such a command, and commands of a transaction: some milliseconds to copy.
pub const STORE_ARGUMENTS_MAX: usize = 65_536;

/// Most elements of a reply of the store that a script receives: their conversion takes some
/// milliseconds.
pub const STORE_ELEMENTS_MAX: usize = 65_536;

/// Most bytes of memory of a waiting command of the store, beside its arguments.
pub const STORE_JOB_BYTES: usize = 1024;

/// Most bytes of the store that a script has during a trial run, as much as a VM.
pub const TRIAL_STORE_MAX_BYTES: usize = 256 * 1024 * 1024;

/// Most subscriptions of one handler: only a program that loops by mistake makes more.
pub const SUBSCRIPTIONS_PER_TASK_MAX: usize = 16;

/// Seconds after which an unused session of a visitor expires, unless a script says otherwise: two
/// weeks, so that visitors who come back each week need not log in again.
pub const SESSION_IDLE_SECONDS: u64 = 14 * 24 * 3600;

/// Seconds for which a session lives at most, however often it is used, unless a script says
/// otherwise: a cookie that was stolen is worthless after three months.
pub const SESSION_AGE_SECONDS: u64 = 90 * 24 * 3600;

/// Most seconds that a script can give a session: browsers keep no cookie for longer than 400 days
/// (RFC 6265bis §5.5).
pub const SESSION_SECONDS_MAX: u64 = 400 * 24 * 3600;

/// Most bytes of the name of a value of a session: names are words.
pub const SESSION_NAME_MAX_BYTES: usize = 128;

/// Most bytes of a value of a session, which each request reads: a cart or a draft, no file.
pub const SESSION_VALUE_MAX_BYTES: usize = 16 * 1024;

/// Most values of a session: each one costs an entry of a table in each request.
pub const SESSION_VALUES_MAX: usize = 64;

/// Most bytes of the names and values of a session: some microseconds to read.
pub const SESSION_MAX_BYTES: usize = 64 * 1024;
