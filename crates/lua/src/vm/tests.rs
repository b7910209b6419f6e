mod function_costs;
mod globals;
mod handlers;
mod sandbox_escapes;
mod script_mistakes;
mod sessions;
mod stack_depth;
mod stack_traces;
mod store;
mod valgrind_function_costs;

use super::*;
use crate::cpu_watchdog::CpuWatchdogs;
use crate::limits::{MEMORY_MAX_BYTES, MESSAGES_MAX_BYTES, SENT_MAX_BYTES};
use crate::source_names::SourceNames;

/// Little, so that the tests are short.
const CPU: Duration = Duration::from_millis(30);
/// Of what has an end.
const PATIENT_CPU: Duration = Duration::from_secs(10);

struct Room {
    vm: Vm,
    watchdog: CpuWatchdog,
}

impl Room {
    fn new() -> Self {
        let mut watchdog = CpuWatchdogs::new(1).watchdog(0).expect("watched");
        // A site with a page, since pages bring more into a VM.
        let page = ("/page.dyn.html".to_owned(), b"#[[_VERSION]]".to_vec());
        let program = SiteProgram::of_code(
            "site.lua",
            Some(Vec::new()),
            SourceNames::default(),
            std::iter::once(page),
        );
        let program = program.expect("a page");
        let vm = Vm::start(&program, &mut watchdog, WorkerSite::default(), Now::read())
            .expect("started");
        Self { vm, watchdog }
    }

    /// How code ends that is given so much.
    fn ends(&mut self, code: &str, memory_bytes: usize) -> Result<(), ScriptFault> {
        ends(&self.vm, &mut self.watchdog, code, memory_bytes)
    }

    /// Runs code that ends, with as much CPU time as it may need on a busy machine.
    fn ends_some_time(&mut self, code: &str) -> Result<(), ScriptFault> {
        ends_within(&self.vm, &mut self.watchdog, code, (PATIENT_CPU, MEMORY_MAX_BYTES))
    }
}

/// How code ends in a VM that is given so much memory.
fn ends(
    vm: &Vm,
    watchdog: &mut CpuWatchdog,
    code: &str,
    memory_bytes: usize,
) -> Result<(), ScriptFault> {
    ends_within(vm, watchdog, code, (CPU, memory_bytes))
}

fn ends_within(
    vm: &Vm,
    watchdog: &mut CpuWatchdog,
    code: &str,
    (cpu, memory_bytes): (Duration, usize),
) -> Result<(), ScriptFault> {
    let function = vm.lua.load(code).set_name("=code").into_function().expect(code);
    let coroutine = vm.host.coroutine(&vm.lua, function).expect("a coroutine");
    let mut left = TaskBudget { cpu, memory_bytes, ..TaskBudget::default() };
    match vm.resume(TaskId::NONE, &coroutine, (), watchdog, &mut left) {
        CoroutineStep::Done(_) => Ok(()),
        CoroutineStep::Waits(_) => panic!("{code}: it waits"),
        CoroutineStep::Failed(fault) => Err(fault),
    }
}

#[test]
fn coroutines_do_not_evade_the_cpu_limit() {
    let mut room = Room::new();
    for code in [
        "coroutine.wrap(function() while true do end end)()",
        "local inner = coroutine.create(function() while true do pcall(error) end end)
         while true do coroutine.resume(inner) end",
        "while true do pcall(coroutine.wrap(function() while true do end end)) end",
        "local depth = 0
         local function deeper()
             depth = depth + 1
             if depth == 20 then while true do end end
             while true do pcall(coroutine.wrap(deeper)) end
         end
         deeper()",
        "while true do coroutine.wrap(function() coroutine.yield() end)() end",
        "table.sort({3, 1, 2, 5, 4}, function() while true do end end)",
        "setmetatable({}, {__index = function() while true do end end}).x()",
        "local text = ('x'):rep(100) while true do text:gsub('x', function() return 'y' end) end",
        "while true do string.format('%d', 5) end",
    ] {
        let fault = room.ends(code, MEMORY_MAX_BYTES).expect_err(code);
        assert!(matches!(fault, ScriptFault::OverBudget(_)), "{code}: {fault:?}");
        room.ends("local n = 0 for i = 1, 100 do n = n + i end", MEMORY_MAX_BYTES).expect(code);
    }
}

#[test]
fn memory_used_up_by_one_task_is_free_for_the_next() {
    let mut room = Room::new();
    for code in [
        "local all = {} for n = 1, 2^53 do all[n] = ('x'):rep(1000) .. n end",
        "local text = 'x' while true do text = text .. text end",
        "local all = {} while true do pcall(function()
             for n = 1, 1e9 do all[#all + 1] = {} end end) end",
        "local function deep(n) local t = {n} return {deep(n + 1), t} end deep(1)",
    ] {
        room.vm.lua.gc_collect().expect("collected");
        let before = room.vm.lua.used_memory();
        let fault = room.ends(code, 1 << 20).expect_err(code);
        let after = room.vm.lua.used_memory();
        // Deep recursion ends at the limit of the stack, if that comes first.
        let is_stack = matches!(&fault, ScriptFault::Error(text) if text.contains("overflow"));
        assert!(is_stack || matches!(fault, ScriptFault::OverBudget(_)), "{code}: {fault:?}");
        // It is collected at once, not when the next request has no memory, but for the stack of
        // the coroutine that has ended, and the space in which LuaJIT has put together the longest
        // text.
        let is_memory =
            matches!(&fault, ScriptFault::OverBudget(text) if text.contains("its memory"));
        let is_deep = code.contains("deep");
        let is_collected = after < before + (384 << 10);
        assert!(!is_memory || is_deep || is_collected, "{code}: {before}, then {after} bytes");
        room.ends("local t = {} for n = 1, 1000 do t[n] = {} end", 1 << 20).expect(code);
    }
    let used = room.vm.lua.used_memory();
    assert!(used < 8 << 20, "{used} bytes are left behind");
}

/// What a script can do to its globals reaches neither the runtime nor the budget.
#[test]
fn changed_globals_affect_neither_runtime_nor_limits() {
    let mut room = Room::new();
    for code in [
        "coroutine.yield, coroutine.resume, coroutine.wrap = nil, nil, nil",
        "string, table, error, type, pcall, setmetatable, tostring = nil",
        "local globals, pairs = _G, pairs for key in pairs(globals) do globals[key] = nil end",
    ] {
        room.ends(code, MEMORY_MAX_BYTES).expect(code);
        let fault = room.ends("while true do end", MEMORY_MAX_BYTES).expect_err(code);
        assert!(matches!(fault, ScriptFault::OverBudget(_)), "{code}: {fault:?}");
    }
    assert!(room.vm.coroutine().is_ok());
}

#[test]
fn memory_that_a_request_releases_is_returned_to_its_budget() {
    let mut room = Room::new();
    let ends = |room: &mut Room, code: &str| {
        let function = room.vm.lua.load(code).into_function().expect(code);
        let coroutine = room.vm.lua.create_thread(function).expect("a coroutine");
        let mut left =
            TaskBudget { cpu: PATIENT_CPU, memory_bytes: 8 << 20, ..TaskBudget::default() };
        loop {
            match room.vm.resume(TaskId::NONE, &coroutine, true, &mut room.watchdog, &mut left) {
                CoroutineStep::Waits(_) => {}
                CoroutineStep::Done(_) => return true,
                CoroutineStep::Failed(_) => return false,
            }
        }
    };
    let turns = |keeps: &str| {
        format!(
            "local kept = {{}}
            for turn = 1, 200 do
                local text = ('x'):rep(100000) .. turn
                {keeps}
                pinion.sleep(0)
            end"
        )
    };
    assert!(ends(&mut room, &turns("")));
    assert!(!ends(&mut room, &turns("kept[turn] = text")));
}

/// Whichever Lua it is, and whatever stands between the host and the script in it.
#[test]
fn a_traceback_shows_only_frames_of_the_script() {
    let mut room = Room::new();
    for why in ["'why'", "setmetatable({}, { __tostring = function() return 'code:1: why' end })"] {
        let code = format!("local function inner() error({why}) end inner()");
        let fault = room.ends(&code, MEMORY_MAX_BYTES).expect_err("an error");
        let ScriptFault::Error(text) = fault else { panic!("{fault:?}") };
        let lines: Vec<_> = text.lines().map(str::trim_start).collect();
        let (head, stack) = lines.split_at(3);
        assert_eq!(head[..2], ["code:1: why", TRACE], "{text}");
        assert!(head[2].starts_with("[C]: in ") && head[2].ends_with(" 'error'"), "{text}");
        assert!(stack.iter().all(|line| line.starts_with("code:1: in ")), "{text}");
        assert_eq!(stack.len(), 2, "{text}");
    }
}

#[test]
fn undelivered_messages_are_limited_in_memory() {
    let mut room = Room::new();
    let code = "for n = 1, 3 do pinion.send('news', ('x'):rep(2^20)) end";
    let quota = Arc::clone(&room.vm.host.work.messages.borrow());
    let mut waiting = Vec::new();
    let why = loop {
        match room.ends_some_time(code) {
            Ok(()) => waiting.append(&mut room.vm.host.work.sent.take()),
            Err(ScriptFault::Error(why)) => break why,
            Err(other) => panic!("{other:?}"),
        }
        assert!(quota.bytes() <= MESSAGES_MAX_BYTES, "{}", quota.bytes());
    };
    assert!(why.contains("code:1: more than 64 MiB of messages wait"), "{why}");
    assert!(quota.bytes() > MESSAGES_MAX_BYTES - SENT_MAX_BYTES, "{}", quota.bytes());
    drop((room.vm.host.work.sent.take(), waiting));
    assert_eq!(quota.bytes(), 0);
    room.ends_some_time(code).expect("room again");
}
