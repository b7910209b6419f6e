//! The budget of CPU: how a script that has used it up is stopped, without a permanent hook, which
//! would keep the compiler from compiling.
//!
//! A worker records which turn it begins and how much CPU that may take ([`CpuWatchdog::begin`]),
//! and the end of the turn. One thread looks at all workers every [`LOOK_MS`], but only while a
//! script runs. Where a turn has had more, it *dooms* it and interrupts the worker by a signal, as
//! often as necessary. The handler, in the worker's own thread, sets Lua's hook for the next
//! instruction, as Lua's own interpreter does on SIGINT; the hook raises an error. It stays set, so
//! no `pcall` swallows it, until the turn is over. The reason for a signal, instead of a hook set
//! by the other thread, is in `docs/decisions/0021-the-hook-is-set-by-a-signal.md`.
//!
//! The module has `unsafe` code because it sets hooks and handles a signal.
#![allow(unsafe_code, reason = "hooks and signals are set by the interfaces of C")]

#[cfg(not(feature = "luajit"))]
mod coroutines;
mod script_position;

use std::cell::Cell;
use std::ffi::{CStr, c_char, c_int};
use std::fmt::Write as _;
use std::io;
use std::marker::PhantomData;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::{self, JoinHandle, Thread};
use std::time::{Duration, Instant};

use mlua::{Thread as Coroutine, ffi};

use crate::limits::{LOOK_MS, LOOKS_BEFORE_SLEEP, TRACE_FRAMES_MAX};
#[cfg(not(feature = "luajit"))]
pub(crate) use coroutines::coroutines;
pub(crate) use script_position::{running, strike, struck};

/// The message of the error that ends a turn, as `pcall` sees it. The log says which limit it was.
const OVER_BUDGET: &CStr = c"the CPU time is used up";

/// The signal that interrupts a worker. No other program sends it, and it harms nothing if one
/// does.
const SIGNAL: c_int = libc::SIGURG;

/// The events for which the hook runs. Functions of C that call others run no instructions, so it
/// sees calls too.
const MASK: c_int = ffi::LUA_MASKCOUNT | ffi::LUA_MASKCALL;

/// The state that the watching thread and one worker share.
#[repr(align(64))]
#[derive(Default)]
struct WatchSlot {
    /// The number of the turn that runs, 0 while none does.
    running: AtomicU64,
    /// The CPU that the turn may take, in nanoseconds.
    left_ns: AtomicU64,
    /// The number of turns so far: no two turns have the same number, in any worker.
    turns: AtomicU64,
    /// The CPU that the turn has been seen to take, in nanoseconds.
    seen_ns: AtomicU64,
    /// The number of the turn that has to end.
    doomed: AtomicU64,
    /// The coroutine whose instructions run; for LuaJIT, whose hook is for all coroutines, any of
    /// the VM.
    lua: AtomicPtr<ffi::lua_State>,
    /// The main state, in which errors of a coroutine that has ended become texts, by functions of
    /// scripts perhaps.
    main: AtomicPtr<ffi::lua_State>,
    /// The identifier of the worker's thread; 0 without one.
    thread: AtomicI32,
    /// The clock of the CPU that this thread has used.
    clock: AtomicI32,
}

impl WatchSlot {
    /// Returns whether the turn that runs has to end.
    fn is_doomed(&self) -> bool {
        let running = self.running.load(Ordering::Relaxed);
        running != 0 && running == self.doomed.load(Ordering::Relaxed)
    }
}

thread_local! {
    /// The slot of this worker. It is constant until it is set, and has nothing to drop, so that a
    /// signal handler may read it.
    static SLOT: Cell<*const WatchSlot> = const { Cell::new(ptr::null()) };
}

/// The thread that watches the workers of a server. It ends when this value is dropped.
pub struct WatchdogThread {
    shared: Arc<WatchShared>,
    thread: Option<JoinHandle<()>>,
}

struct WatchShared {
    slots: Box<[WatchSlot]>,
    is_asleep: AtomicBool,
    is_over: AtomicBool,
    /// The watching thread, to wake it.
    watcher: OnceLock<Thread>,
}

impl WatchdogThread {
    /// Begins to watch so many workers.
    ///
    /// # Errors
    /// Fails if no thread can be started, or the signal cannot be handled.
    pub fn start(workers: usize) -> io::Result<Arc<Self>> {
        handle_signal()?;
        let shared = Arc::new(WatchShared {
            slots: (0..workers).map(|_| WatchSlot::default()).collect(),
            is_asleep: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
            watcher: OnceLock::new(),
        });
        let watched = Arc::clone(&shared);
        let thread = thread::Builder::new().name("lua-budget".into()).spawn(move || {
            watched.watch();
        })?;
        let _first = shared.watcher.set(thread.thread().clone());
        Ok(Arc::new(Self { shared, thread: Some(thread) }))
    }

    /// Returns the watchdog of a worker, whose thread this is.
    ///
    /// # Panics
    /// Panics when there is no such worker, or when this thread is one already.
    #[must_use]
    pub fn enter(self: &Arc<Self>, worker: usize) -> CpuWatchdog {
        let slot = &self.shared.slots[worker];
        assert!(SLOT.get().is_null(), "a thread is one worker");
        let mut clock = 0;
        // SAFETY: it asks the system about this very thread, and writes to a local.
        let thread = unsafe {
            libc::pthread_getcpuclockid(libc::pthread_self(), &raw mut clock);
            libc::gettid()
        };
        slot.running.store(0, Ordering::Relaxed);
        slot.clock.store(clock, Ordering::Relaxed);
        slot.thread.store(thread, Ordering::Release);
        SLOT.set(ptr::from_ref(slot));
        let next = slot.turns.load(Ordering::Relaxed) + 1;
        let watch = Arc::clone(self);
        CpuWatchdog { watch, worker, next, began: None, _of_this_thread: PhantomData }
    }
}

/// The watchdogs of a server. Their thread is started when the first worker needs it: a server that
/// runs no script has none.
pub struct CpuWatchdogs {
    workers: usize,
    watch: Mutex<Option<Arc<WatchdogThread>>>,
}

impl CpuWatchdogs {
    /// Creates the watch of so many workers.
    #[must_use]
    pub fn new(workers: usize) -> Self {
        Self { workers, watch: Mutex::new(None) }
    }

    /// Returns the watchdog of a worker, whose thread this is.
    ///
    /// # Errors
    /// Returns the errors of [`WatchdogThread::start`].
    pub fn watchdog(&self, worker: usize) -> io::Result<CpuWatchdog> {
        let mut watch = self.watch.lock().unwrap_or_else(PoisonError::into_inner);
        let watch = match &mut *watch {
            Some(watch) => watch,
            none => none.insert(WatchdogThread::start(self.workers)?),
        };
        Ok(watch.enter(worker))
    }
}

impl Drop for WatchdogThread {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ended = thread.join();
        }
    }
}

impl WatchShared {
    fn watch(&self) {
        // For each worker, the last seen turn, and the CPU that its thread had used then.
        let mut seen = vec![(0, 0); self.slots.len()];
        let mut idle_looks = 0;
        while !self.is_over.load(Ordering::Acquire) {
            let mut any_busy = false;
            for (slot, seen) in self.slots.iter().zip(&mut seen) {
                any_busy |= look(slot, seen);
            }
            idle_looks = if any_busy { 0 } else { idle_looks + 1 };
            if idle_looks < LOOKS_BEFORE_SLEEP {
                thread::park_timeout(Duration::from_millis(LOOK_MS));
                continue;
            }
            // A worker that begins a turn records that and then looks whether this thread sleeps.
            // This thread does it the other way round, so one of both sees the other.
            self.is_asleep.store(true, Ordering::SeqCst);
            let running = |slot: &WatchSlot| slot.running.load(Ordering::SeqCst) != 0;
            if !self.slots.iter().any(running) && !self.is_over.load(Ordering::SeqCst) {
                thread::park();
            }
            self.is_asleep.store(false, Ordering::SeqCst);
            idle_looks = 0;
        }
    }
}

/// Looks at a worker, and returns whether it runs a turn.
fn look(slot: &WatchSlot, seen: &mut (u64, u64)) -> bool {
    let running = slot.running.load(Ordering::Acquire);
    if running == 0 {
        return false;
    }
    let Some(cpu_ns) = cpu_ns(slot.clock.load(Ordering::Relaxed)) else { return true };
    if seen.0 != running {
        *seen = (running, cpu_ns);
        return true;
    }
    let used_ns = cpu_ns.saturating_sub(seen.1);
    slot.seen_ns.store(used_ns, Ordering::Relaxed);
    if used_ns > slot.left_ns.load(Ordering::Relaxed) {
        slot.doomed.store(running, Ordering::SeqCst);
        let thread = slot.thread.load(Ordering::Acquire);
        // SAFETY: it sends a signal that has a handler to a thread of this process. For a thread
        // that has just ended the call returns an error, which is ignored.
        unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, SIGNAL) };
    }
    true
}

/// Returns the time of a CPU clock; none when its thread has ended.
fn cpu_ns(clock: c_int) -> Option<u64> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: it writes to a local; a clock that no longer exists is an error.
    let outcome = unsafe { libc::clock_gettime(clock, &raw mut time) };
    (outcome == 0).then(|| time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

fn handle_signal() -> io::Result<()> {
    // SAFETY: an action of zeros is a valid one; its handler does only actions that a signal
    // handler may do.
    let outcome = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = interrupted as extern "C" fn(c_int) as usize;
        action.sa_flags = libc::SA_RESTART;
        libc::sigaction(SIGNAL, &raw const action, ptr::null_mut())
    };
    if outcome == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Handles the signal. It takes no lock, calls no function that does, and leaves `errno` alone.
extern "C" fn interrupted(_signal: c_int) {
    let slot = SLOT.get();
    // SAFETY: the pointer is null, or the slot of this thread, which does not move until it is
    // taken off.
    let Some(slot) = (unsafe { slot.as_ref() }) else { return };
    for lua in [&slot.lua, &slot.main].map(|lua| lua.load(Ordering::Relaxed)) {
        if slot.is_doomed() && !lua.is_null() {
            // SAFETY: the state belongs to this thread, and lives as long as its turn. Lua allows a
            // signal handler to set a hook.
            unsafe { ffi::lua_sethook(lua, Some(stop), MASK, 1) };
            // SAFETY: as above; it sets a byte of the state.
            unsafe { stop_parser(lua, true) };
        }
    }
}

#[cfg(feature = "luajit")]
// SAFETY: the signature is that of crates/luajit/patches.
unsafe extern "C-unwind" {
    /// Makes the parser of a VM end with an error, or lets it run again.
    fn luaJIT_stop(state: *mut ffi::lua_State, is_on: c_int);
}

/// Makes the parser, which runs no instructions, end with an error, or lets it run again. The
/// parser of Lua 5.4 ends without this.
///
/// # Safety
/// The state must be alive and belong to this thread.
unsafe fn stop_parser(lua: *mut ffi::lua_State, is_on: bool) {
    #[cfg(feature = "luajit")]
    // SAFETY: the caller guarantees it.
    unsafe {
        luaJIT_stop(lua, c_int::from(is_on));
    }
    #[cfg(not(feature = "luajit"))]
    let _nothing_to_do = (lua, is_on);
}

/// The hook: it ends a doomed turn, and removes itself in any other turn.
///
/// # Safety
/// Only Lua may call it, in the thread of its VM.
unsafe extern "C-unwind" fn stop(lua: *mut ffi::lua_State, _at: *mut ffi::lua_Debug) {
    let slot = SLOT.get();
    // SAFETY: as in the signal handler.
    let is_doomed = unsafe { slot.as_ref() }.is_some_and(WatchSlot::is_doomed);
    // SAFETY: Lua calls its hook with the state that runs. Nothing is left to be dropped when the
    // error unwinds.
    unsafe {
        if is_doomed {
            strike(|| stack_of(lua));
            ffi::luaL_error(lua, OVER_BUDGET.as_ptr());
        } else {
            ffi::lua_sethook(lua, None, 0, 0);
            stop_parser(lua, false);
        }
    }
}

/// The watchdog of a worker, to which the worker reports its turns. The value stays in the thread
/// that it was made in.
pub struct CpuWatchdog {
    /// The thread, which runs as long as there is a watchdog.
    watch: Arc<WatchdogThread>,
    worker: usize,
    next: u64,
    began: Option<Instant>,
    _of_this_thread: PhantomData<*const ()>,
}

/// The use of CPU by a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spent {
    /// The CPU that the turn has taken.
    pub cpu: Duration,
    /// Whether the turn was stopped.
    pub is_over: bool,
}

impl CpuWatchdog {
    fn slot(&self) -> &WatchSlot {
        &self.watch.shared.slots[self.worker]
    }

    /// Begins a turn: the caller resumes `coroutine`, which may take so much CPU. The coroutine has
    /// to live until the turn is over.
    pub fn begin(&mut self, coroutine: &Coroutine, left: Duration) {
        let slot = self.slot();
        let left_ns = u64::try_from(left.as_nanos()).unwrap_or(u64::MAX);
        slot.left_ns.store(left_ns, Ordering::Relaxed);
        slot.seen_ns.store(0, Ordering::Relaxed);
        struck();
        slot.lua.store(coroutine.state(), Ordering::Relaxed);
        slot.main.store(main_of(coroutine), Ordering::Relaxed);
        // The order pairs with the look at the sleeper, see `WatchShared::watch`.
        slot.running.swap(self.next, Ordering::SeqCst);
        let shared = &self.watch.shared;
        if shared.is_asleep.load(Ordering::SeqCst)
            && let Some(watcher) = shared.watcher.get()
        {
            watcher.unpark();
        }
        self.next += 1;
        self.began = Some(Instant::now());
    }

    /// Ends the turn.
    pub fn end(&mut self) -> Spent {
        let wall = self.began.take().map_or(Duration::ZERO, |began| began.elapsed());
        let slot = self.slot();
        let running = slot.running.swap(0, Ordering::SeqCst);
        let is_over = running != 0 && slot.doomed.load(Ordering::SeqCst) == running;
        for lua in [&slot.lua, &slot.main] {
            let lua = lua.swap(ptr::null_mut(), Ordering::Relaxed);
            if is_over && !lua.is_null() {
                // SAFETY: `begin` requires that the coroutine lives.
                unsafe { ffi::lua_sethook(lua, None, 0, 0) };
                // SAFETY: as above.
                unsafe { stop_parser(lua, false) };
            }
        }
        // Short turns are charged by their wall time. Of a longer turn, the time when other threads
        // had the processor is not charged.
        let seen = Duration::from_nanos(slot.seen_ns.load(Ordering::Relaxed));
        let sure = Duration::from_millis(2 * LOOK_MS);
        Spent { cpu: if wall <= sure { wall } else { seen.max(sure) }, is_over }
    }

    /// Returns whether the turn that runs has to end.
    #[must_use]
    pub fn is_doomed(&self) -> bool {
        self.slot().is_doomed()
    }
}

impl Drop for CpuWatchdog {
    fn drop(&mut self) {
        SLOT.set(ptr::null());
        self.slot().turns.store(self.next, Ordering::Relaxed);
        self.slot().running.store(0, Ordering::SeqCst);
        self.slot().thread.store(0, Ordering::Release);
    }
}

/// Returns the main state of a VM. In LuaJIT the hook of a coroutine is that of all.
#[cfg(feature = "luajit")]
fn main_of(_: &Coroutine) -> *mut ffi::lua_State {
    ptr::null_mut()
}

/// Returns the main state of a VM.
#[cfg(not(feature = "luajit"))]
fn main_of(coroutine: &Coroutine) -> *mut ffi::lua_State {
    let lua = coroutine.state();
    // SAFETY: the coroutine lives, belongs to this thread and does not run; the stack of a new
    // coroutine, or of one that has been resumed, has room for a value.
    unsafe {
        if ffi::lua_checkstack(lua, 1) == 0 {
            return ptr::null_mut();
        }
        ffi::lua_rawgeti(lua, ffi::LUA_REGISTRYINDEX, ffi::LUA_RIDX_MAINTHREAD);
        let main = ffi::lua_tothread(lua, -1);
        ffi::lua_pop(lua, 1);
        main
    }
}

/// Returns the stack of a coroutine that does not run: a line for each function, the innermost
/// first, as Lua writes them.
pub(crate) fn stack(coroutine: &Coroutine) -> String {
    // SAFETY: the coroutine lives, belongs to this thread and does not run.
    unsafe { stack_of(coroutine.state()) }
}

/// Returns the stack of a state.
///
/// # Safety
/// The state must be alive and belong to this thread.
unsafe fn stack_of(lua: *mut ffi::lua_State) -> String {
    let mut text = String::new();
    for level in 0..TRACE_FRAMES_MAX {
        // SAFETY: the caller guarantees it. A record of zeros is a valid one, and looking up
        // source, line and name takes nothing from the VM. Its texts live as long as the function.
        unsafe {
            let mut frame: ffi::lua_Debug = std::mem::zeroed();
            if ffi::lua_getstack(lua, level, &raw mut frame) == 0
                || ffi::lua_getinfo(lua, c"Sln".as_ptr(), &raw mut frame) == 0
            {
                break;
            }
            line(&frame, &mut text);
        }
    }
    text
}

/// Writes the line of one function.
///
/// # Safety
/// Lua must have filled the record.
unsafe fn line(frame: &ffi::lua_Debug, text: &mut String) {
    // SAFETY: the caller guarantees that they are null or texts of C.
    let [source, kind, name] =
        unsafe { [frame.short_src.as_ptr(), frame.what, frame.name].map(|text| shown(text)) };
    let first = frame.linedefined;
    // LuaJIT does not always know the line of compiled code: the first line of the function
    // replaces it.
    let line = [frame.currentline, first].into_iter().find(|line| *line > 0);
    let place = line.map_or(source.clone(), |line| format!("{source}:{line}"));
    let _always = match (&*kind, &*name) {
        ("main", _) => writeln!(text, "\t{place}: in main chunk"),
        (_, "") => writeln!(text, "\t{place}: in function <{source}:{first}>"),
        (_, name) => writeln!(text, "\t{place}: in function '{name}'"),
    };
}

/// Returns a text of C; an empty one for null.
///
/// # Safety
/// The contract is that of [`CStr::from_ptr`], but for null.
unsafe fn shown(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: the caller guarantees it.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

/// Returns whether the turn that this thread runs has used up its budget.
pub(crate) fn is_over() -> bool {
    // SAFETY: as in the signal handler.
    unsafe { SLOT.get().as_ref() }.is_some_and(WatchSlot::is_doomed)
}

#[cfg(test)]
mod tests;
