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

/// Pieces of an answer that are not many: LuaJIT makes a string of them as fast as any.
pub const FEW_PIECES: usize = 16;

/// Pieces that there is room for from the beginning where the answer before had as many: a page of
/// some hundred values, in 4 KiB.
pub const MANY_PIECES: usize = 512;

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

/// The collector of a VM begins when as much has been made as this part of the memory of a request:
/// what is made until it has ended is garbage too, and collected at the end of the next one.
pub const GARBAGE_SHARE: usize = 4;

/// Steps in which the collector of a large VM goes through all of it. LuaJIT takes one whenever
/// something is made, however large that is: so many texts of 32 KiB are as much as
/// [`GARBAGE_SHARE`] allows.
pub const COLLECTION_STEPS: usize = 256;

/// Most bytes of source that a script compiles by `load`: it stands outside of the memory of the VM
/// and no hook runs while it is compiled, some ten milliseconds for so much.
pub const SOURCE_MAX_BYTES: usize = 1024 * 1024;

/// Most coroutines within each other: each takes some of the stack of its worker.
pub const COROUTINES_DEPTH_MAX: u32 = 100;

/// Stack of its thread that a script may take by functions of C that call functions of the script:
/// a quarter of what a worker has, because another one of these may just begin, and what is there
/// before the script takes some.
pub const SCRIPT_STACK_MAX_BYTES: usize = 256 * 1024;

/// Most messages of one turn of a script, and most bytes of all of them: they stand outside of the
/// memory of its VM until the turn is over.
pub const SENT_MAX: usize = 1000;
/// See [`SENT_MAX`].
pub const SENT_MAX_BYTES: usize = 4 * 1024 * 1024;

/// Most bytes of all messages that wait to be heard, of all workers: what a few turns of many
/// scripts bring, and little beside the memory of a VM. Without it as many of the largest values
/// could wait as there is room for pieces of work.
pub const MESSAGES_MAX_BYTES: usize = 64 * 1024 * 1024;

/// Memory that one VM may take, for all its requests and what its script keeps.
pub const VM_MEMORY_MAX_BYTES: usize = 256 * 1024 * 1024;

/// Memory of one VM where there is very little: a site with some pages, and two requests at once
/// that take all they may. The library and the pages of the guestbook take 1.5 MiB of it.
pub const SMALL_VM_BYTES: usize = 6 * 1024 * 1024;

/// Values of a VM are small, and the allocator takes more for each than the VM counts: one byte in
/// so many. 0.31 were measured of functions and of texts of four bytes, 0.07 of coroutines
/// (`little_memory.rs`).
pub const VM_SLACK_DIVISOR: usize = 3;

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

/// With so many bytes of results of jobs that were not taken no further job is begun, where memory
/// is very small: results of a page that reads some files.
pub const SMALL_RESULTS_BYTES: usize = 512 * 1024;

/// How long a request may take in all, whatever it waits for.
pub const WALL_MAX_MS: u64 = 30_000;

/// What stands for no limit of time: a hundred years, of which nanoseconds fit into 64 bits too.
pub const ENDLESS_MS: u64 = 100 * 365 * 86_400 * 1000;

/// Coroutines that are kept for the next request: as many as one pass answers at once, mostly.
pub const IDLE_COROUTINES_MAX: usize = 64;

/// CPU that the handler of errors may take, if less was left.
pub const FAILING_CPU_MAX_MS: u64 = 50;

/// Most bytes of content that a handler takes as one string, unless it asks for more.
pub const BODY_MAX_BYTES: u64 = 1024 * 1024;

/// CPU that work beside requests may take: a pass over some data is more than a request should do,
/// and the requests of its worker wait for each turn of it.
pub const BACKGROUND_CPU_MAX_MS: u64 = 1_000;

/// How long work beside requests may take in all: longer, and it is a job for `every`.
pub const BACKGROUND_WALL_MAX_MS: u64 = 600_000;

/// Most tasks in one VM, requests that are being answered among them: about as many as a worker has
/// connections. Each has a coroutine, of about a KiB, and stands in a table outside of the memory
/// of the VM.
pub const TASKS_MAX: usize = 20_000;

/// The same where memory is very small: four for each connection that there may be.
pub const SMALL_TASKS_MAX: usize = 1024;

/// Pieces of work beside requests are at most one of so many tasks of a VM, so that requests find
/// room.
pub const BACKGROUND_DIVISOR: usize = 2;

/// Most pieces of work beside requests in one VM.
pub const BACKGROUND_MAX: usize = TASKS_MAX / BACKGROUND_DIVISOR;

/// Most pieces of work that may come of one request, of one run of a schedule, or of one message:
/// with those that its pieces begin, so that a tree of them cannot use up all there are.
pub const SPAWNED_MAX: u32 = 1_000;

/// Most schedules of a script: what a program makes by mistake in a loop is more.
pub const SCHEDULES_MAX: usize = 256;

/// Shortest time between two runs of a schedule: what is due more often belongs into a loop.
pub const SCHEDULE_MIN_MS: u64 = 10;

/// Seconds by which the clock of the machine may be set back so that no time of a schedule comes
/// twice: changes of summer time by hand are less. More means that it was wrong, and that schedules
/// have to begin anew with it.
pub const CLOCK_BACK_MAX_S: i64 = 3 * 3600;

/// Most bytes of a value that is copied out of a VM, its names and texts together.
pub const PLAIN_MAX_BYTES: usize = 1024 * 1024;

/// What an allocator takes for a text or a table of such a value beside its bytes: its own note,
/// and what is left to the next size.
pub const PLAIN_PIECE_BYTES: usize = 32;

/// Most tables within each other of such a value.
pub const PLAIN_MAX_DEPTH: u32 = 32;

/// Most channels that a script listens to.
pub const CHANNELS_MAX: usize = 1024;

/// Most values that a script keeps across reloads in one worker.
pub const KEPT_MAX: usize = 1024;

/// Most VMs of earlier scripts of a site that a worker keeps until their requests are done. Beyond
/// it the oldest ends with them.
pub const OLD_VMS_MAX: usize = 4;

/// Most bytes of all values that a script keeps across reloads in one worker.
pub const KEPT_MAX_BYTES: usize = 64 * 1024 * 1024;

/// Tasks without a request that run in one pass: requests of the same worker wait meanwhile.
pub const TASKS_PER_PASS: usize = 64;

/// A pass begins no more of them after so many milliseconds: what requests wait for is at most this
/// and the turn of one task.
pub const TASKS_PER_PASS_MAX_MS: u64 = 5;

/// Most values that `cached` holds in one VM; beyond it the oldest is made again when it is asked
/// for.
pub const CACHED_MAX: usize = 1000;

/// Most values, and most parts of pages, that one VM keeps until what they have read of the store
/// changes; beyond it the oldest is made again when it is asked for.
pub const STORE_KEPT_MAX: usize = 1000;

/// Once a request has met the limit of memory, what `cached` holds goes if the VM still has more of
/// its memory in use than one part in so many: it can be made again, and a VM that it fills could
/// answer nobody any more.
pub const CACHED_MEMORY_PARTS: usize = 2;

/// Most bytes of content as one string, whatever a handler asks for: half of the memory of a
/// request, because they are there twice for a moment.
pub const CONTENT_TEXT_MAX_BYTES: u64 = 16 * 1024 * 1024;

/// How much more content than its limit a request may announce in one chunk (HTTP/1.1) before the
/// engine refuses it, in bytes: more than clients put into a chunk, so that the log can name the
/// limit and its route. No more than the limit is kept.
pub const CONTENT_EXCESS_MAX_BYTES: u64 = 1024 * 1024;

/// Content that is asked of a client at once, and most bytes of a piece: a few reads of a socket,
/// and little enough to have for many requests at once.
pub const CONTENT_PIECE_MAX_BYTES: usize = 64 * 1024;

/// Most bytes of content that one worker keeps for all its requests, fields of forms and what of
/// their files is not in a file with it: it stands outside of the memory of the VMs. A few of the
/// largest texts, or a thousand ordinary forms.
pub const CONTENT_MEMORY_MAX_BYTES: usize = 64 * 1024 * 1024;

/// One part in so many of it is for requests that keep up to [`CONTENT_PIECE_MAX_BYTES`]: they are
/// still answered when others have filled the rest.
pub const CONTENT_RESERVE_DIVISOR: usize = 4;

/// When so much of it has gone, and less is left, its memory goes back to the system: that costs
/// milliseconds, less than it took to receive so much.
pub const CONTENT_TRIM_BYTES: usize = 8 * 1024 * 1024;

/// Milliseconds without any content after which a request is among the first to give up what it
/// keeps, when there is no room: several round trips around the world.
pub const CONTENT_STALL_MS: u64 = 1000;

/// Bytes of content in a millisecond below which a request counts as stalled too: half a megabit in
/// a second, for which [`CONTENT_WAIT_MAX_MS`] is made.
pub const CONTENT_SLOW_BYTES_PER_MS: u64 = 56;

/// When clients that were refused for want of room are told to come back, in seconds: what others
/// have sent is mostly taken by then.
pub const RETRY_AFTER_S: u32 = 5;

/// How much longer than [`WALL_MAX_MS`] a request may take while content comes: 32 MiB over a line
/// of half a megabit.
pub const CONTENT_WAIT_MAX_MS: u64 = 600_000;

/// How much longer than its time a request may take while its client takes the answer, or each
/// piece of a file: 200 MiB over a line of half a megabit; what is larger is better sent as a file.
/// The engine ends clients that take nothing. This is for those that take a byte now and then.
pub const ROOM_WAIT_MAX_MS: u64 = 3_600_000;

/// … and until there is room once: who takes a KiB a second has made it after 192 seconds
/// (`OUTPUT_HIGH_WATER_BYTES` less `OUTPUT_LOW_WATER_BYTES` of the engine). This is for streams
/// that are left alone on a connection that is in use.
pub const ROOM_WAIT_ONCE_MS: u64 = 300_000;

/// Most bytes of a form with files, unless the handler says otherwise: some photographs.
pub const UPLOAD_MAX_BYTES: u64 = 32 * 1024 * 1024;

/// Most files of a form: people choose tens at once.
pub const FORM_FILES_MAX: usize = 100;

/// Most bytes of the names and values of a form with files, without the files: what a form without
/// any may have.
pub const FORM_FIELDS_MAX_BYTES: usize = 1024 * 1024;

/// Milliseconds between two searches of a worker for uploads that have stalled: each looks at all
/// requests that wait, and content may come in many small pieces.
pub(crate) const UPLOAD_RELIEF_PAUSE_MS: u64 = 100;

/// Most bytes of a string that is made under no limit of memory, which is met by what comes next:
/// little beside the memory of a request.
pub const RELAXED_MAX_BYTES: usize = 16 * 1024;

/// What is read at once of a file that is sent, in bytes: a few writes of a socket, and little
/// enough to have for many requests at once.
pub const FILE_PIECE_BYTES: u64 = 64 * 1024;

/// Most counters of a site: they are for totals, and what has a number for each visitor belongs
/// into a store.
pub const COUNTERS_MAX: usize = 10_000;

/// Most bytes of the name of a counter.
pub const COUNTER_NAME_MAX_BYTES: usize = 256;

/// The largest number of a counter: from there on Lua's numbers leave some out.
pub const COUNTER_MAX: i64 = 1 << 53;

/// Timers that a worker keeps before it looks for those of tasks that are over; with more it looks
/// whenever their number has doubled.
pub const TIMERS_MIN: usize = 1024;

/// Texts whose escaped form a VM remembers, for each way of escaping; then it begins anew.
pub const ESCAPED_MAX: usize = 1000;

/// Most bytes of such a text: names and numbers, not paragraphs.
pub const ESCAPED_MAX_BYTES: usize = 100;

/// Levels of tables within each other that the log shows of a table that a script has thrown: an
/// error with its details.
pub const THROWN_DEPTH_MAX: usize = 2;

/// Entries of each of these tables that the log shows: as many as people read.
pub const THROWN_ENTRIES_MAX: usize = 16;

/// Bytes behind which the log shows no further value of them: some lines.
pub const THROWN_TEXT_MAX_BYTES: usize = 1000;

/// Functions that the stack of a turn over its budget shows, the innermost: what people read.
pub const TRACE_FRAMES_MAX: i32 = 20;

/// Modules that an error names where one was not found: as many as are read.
pub const MODULES_SHOWN_MAX: usize = 8;

/// How long a stream waits until it has regained all that a request may take, in milliseconds: so
/// it has one hundredth of a processor by and by, and events can be written for days.
pub(crate) const STREAM_REGAIN_MS: u64 = 20_000;

/// Most seconds that a route may give itself, unless `--lua-time` is longer: an upload over a slow
/// line, or a report that takes long. What takes longer is work beside requests.
pub const ROUTE_TIME_MAX_S: u64 = 3600;

/// Most bytes of content that a route may allow itself: from there on Lua's numbers leave some out.
/// Content is read in pieces, and files of forms have
/// [`UPLOADS_MAX_BYTES`](pinion_jobs::limits::UPLOADS_MAX_BYTES) in all.
pub const ROUTE_BODY_MAX_BYTES: u64 = 1 << 53;

/// Most messages that wait in one subscription: a burst that its handler takes in one turn. Those
/// of a client that reads too slowly are of no use to it later.
pub const SUBSCRIPTION_QUEUE_MAX: usize = 100;

/// Most bytes of these messages; one that is larger waits alone. They count among
/// [`MESSAGES_MAX_BYTES`], of which a slow client must not take much.
pub const SUBSCRIPTION_QUEUE_MAX_BYTES: usize = 256 * 1024;

/// Most responses of other servers that a handler, with the functions of `pinion.gather` that it
/// waits for, has not read to their end. Each may hold a connection.
pub const FETCHES_PER_TASK_MAX: usize = 1000;

/// Most programs that a handler, with the functions of `pinion.gather` that it waits for, runs at
/// the same time: a quarter of what a worker runs for all.
pub const PROGRAMS_PER_TASK_MAX: usize = 16;

/// Most bytes that `response:read` gives at once, as `req:read` does.
pub const FETCH_PIECE_BYTES: usize = 64 * 1024;

/// Most bytes of the bodies of all requests to other servers of one worker that have not ended.
/// They stand outside of the memory of the VMs, so that a request can be sent again.
pub const FETCH_BODIES_MAX_BYTES: usize = 64 * 1024 * 1024;

/// The same where memory is small.
pub const SMALL_FETCH_BODIES_BYTES: usize = 1024 * 1024;

/// Most bytes of the arguments of one command of the store that a script calls, and of one reply:
/// as much as `req:body()` gives at once.
pub const STORE_COMMAND_MAX_BYTES: usize = 16 * 1024 * 1024;

/// Most arguments of such a command, and commands of a transaction: some milliseconds to copy.
pub const STORE_ARGUMENTS_MAX: usize = 65_536;

/// Most elements of a reply of the store that a script gets: some milliseconds to make values of.
pub const STORE_ELEMENTS_MAX: usize = 65_536;

/// Bytes of memory that a command of the store which waits has beside its arguments, at most.
pub const STORE_JOB_BYTES: usize = 1024;

/// Most bytes of the store that a script has while it is tried out, as much as a VM.
pub const TRIAL_STORE_MAX_BYTES: usize = 256 * 1024 * 1024;

/// Most subscriptions of one handler: what a program makes by mistake in a loop is more.
pub const SUBSCRIPTIONS_PER_TASK_MAX: usize = 16;

/// Seconds for which a session of a visitor lives that is not used, unless a script says otherwise:
/// two weeks, so that those who come back each week need not log in again.
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
