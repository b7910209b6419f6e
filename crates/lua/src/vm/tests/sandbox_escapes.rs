//! Ways out of a sandbox of Lua that are known, one row each. What a script breaks of its own VM is
//! its own business; budgets, other VMs and the memory of the server are not.

use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;

use super::*;

/// How a row has to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// Without an error: what was tried has led nowhere, and the code has looked.
    Well,
    /// With an error of the script.
    Error,
    /// Over its budget of CPU, memory or steps.
    Over,
    /// With an error or over its budget, whichever comes first in either Lua.
    Stopped,
}

/// What a VM may hold beyond what it began with, when a row is over and its garbage gone: tables of
/// the VM itself grow with what was once in them.
const LEFT_BEHIND_MAX_BYTES: usize = 4 << 20;

/// How long a row may take until it is held to have no end: each has a budget of milliseconds.
const NO_END: Duration = Duration::from_secs(120);

/// Ends the program when a row has none: what hangs in a function of C cannot be stopped from
/// outside, and would hold up all tests.
struct Alarm(Sender<String>);

impl Alarm {
    fn new() -> Self {
        let (next, rows) = mpsc::channel();
        thread::spawn(move || {
            let mut row = String::new();
            loop {
                match rows.recv_timeout(NO_END) {
                    Ok(next) => row = next,
                    Err(RecvTimeoutError::Disconnected) => return,
                    Err(RecvTimeoutError::Timeout) => {
                        eprintln!("{row}\nhas no end");
                        std::process::abort();
                    }
                }
            }
        });
        Self(next)
    }

    fn begins(&self, code: &str) {
        self.0.send(code.to_owned()).expect("the alarm is set");
    }
}

fn check(rows: &[(&str, End)]) {
    let (mut other, alarm) = (Room::new(), Alarm::new());
    let mut broken = |&(code, end): &(&str, End)| {
        alarm.begins(code);
        broken(&mut other, code, end)
    };
    let complaints: Vec<_> = rows.iter().filter_map(&mut broken).collect();
    assert!(complaints.is_empty(), "{}", complaints.join("\n\n"));
}

/// What does not hold when code runs in a VM of its own; some of it breaks that.
fn broken(other: &mut Room, code: &str, end: End) -> Option<String> {
    // Shown when a row never ends.
    println!("{code}");
    let program = SiteProgram::new("site.lua", Vec::new());
    let vm = Vm::start(&program, &mut other.watchdog, WorkerSite::default(), Now::read())
        .expect("started");
    let before = vm.lua.used_memory();
    let outcome = ends(&vm, &mut other.watchdog, code, MEMORY_MAX_BYTES);
    let is_right = match end {
        End::Well => outcome.is_ok(),
        End::Error => matches!(outcome, Err(ScriptFault::Error(_))),
        End::Over => matches!(outcome, Err(ScriptFault::OverBudget(_))),
        End::Stopped => outcome.is_err(),
    };
    if !is_right {
        return Some(format!("{code}\nends with {outcome:?} instead of {end:?}"));
    }
    // The next one has a budget of its own, and it holds.
    let next =
        ends(&vm, &mut other.watchdog, "local n = 0 for i = 1, 100 do n = n + i end", 1 << 20);
    if next.is_err() {
        return Some(format!("{code}\nand the next one ends with {next:?}"));
    }
    let endless = ends(&vm, &mut other.watchdog, "while true do end", 1 << 20);
    if !matches!(endless, Err(ScriptFault::OverBudget(_))) {
        return Some(format!("{code}\nand one without an end ends with {endless:?}"));
    }
    vm.lua.gc_collect().expect(code);
    let used = vm.lua.used_memory().saturating_sub(before);
    if used >= LEFT_BEHIND_MAX_BYTES {
        return Some(format!("{code}\nleaves {used} bytes behind"));
    }
    // Neither has another VM of the worker noticed anything.
    let usual = other.ends(USUAL, MEMORY_MAX_BYTES);
    usual.err().map(|fault| format!("{code}\nand another VM has {fault:?}"))
}

/// What every VM can do, whatever has become of another one.
const USUAL: &str = r#"
    assert(("text"):upper() == "TEXT" and ("%d"):format(7) == "7")
    assert(table.concat({ 1, 2 }, ",") == "1,2" and type(pinion.get) == "function")
    assert(pinion.json.decode(pinion.json.encode({ 1 }))[1] == 1)
    assert(getmetatable(_G) == nil and ("x").secret == nil)
"#;

#[test]
fn changes_to_shared_objects_do_not_evade_the_limits() {
    use End::*;
    check(&[
        ("getmetatable('').__index = { secret = 1 }; assert(('x').secret == 1)", Well),
        ("getmetatable('').__index = function() while true do end end; local n = ('').x", Over),
        ("string.upper, string.format = nil, error", Well),
        ("local meta = getmetatable(''); meta.__gc, meta.__metatable = error, 1", Well),
        ("setmetatable(_G, { __index = function() while true do end end }); return nothing", Over),
        ("setmetatable(_G, { __newindex = error, __metatable = false })", Well),
        ("pinion.get, pinion.json, pinion.sleep = nil, 1, false", Well),
        ("pinion = nil; table.concat, tostring = error, error", Well),
        (
            "setmetatable(pinion, { __index = function() while true do end end }); return pinion.x",
            Over,
        ),
        ("assert(getmetatable(pinion.keep) == 'keep'); setmetatable(pinion.keep, {})", Error),
        ("rawset(pinion.keep, 'x', print); assert(pinion.keep.x == print)", Well),
        ("pinion.get('/late', function() end)", Error),
    ]);
}

#[test]
fn bytecode_and_environments_do_not_escape_the_sandbox() {
    use End::*;
    check(&[
        ("assert(load('\\27Lua') == nil and load('\\27LJ\\2\\0\\0') == nil)", Well),
        ("local part = '\\27LJ' .. (' '):rep(2^12)
            assert(load(function() return part end) == nil)", Well),
        ("local n = 0; assert(load(function() n = n + 1; return n < 2 and '\\27LJ\\2' or nil end)
            == nil)", Well),
        ("assert(load('\\27LJ', 'x', 'b') == nil)", Well),
        ("assert(string.dump == nil and ('').dump == nil)", Well),
        ("assert(setfenv == nil and getfenv == nil and newproxy == nil and jit == nil)", Well),
        ("load('x = 1', 'x', 't', setmetatable({}, { __newindex = function()
            while true do end end }))()", Over),
        ("load(function() while true do end end)", Over),
        ("assert(load(function() error({}) end) == nil)", Well),
        ("load(function() coroutine.yield() end)", Error),
        ("assert(load(function() return {} end) == nil)", Well),
        ("local n = 0; assert(load(function() n = n + 1; return n < 3 and n or nil end) == nil)",
            Well),
        // An error of a reader stays what it is: wrapped by the host it could hold an earlier one,
        // which holds another, and the end of such a chain was the end of the process.
        ("local last = {}; for _ = 1, 100 do
            local _, why = load(function() error(last, 0) end)
            assert(why == last) end", Well),
        // What a reader raises counts against the memory of its VM.
        ("local all = {}; for n = 1, 2000 do
            local _, why = load(function() error(('x'):rep(2^20) .. n, 0) end)
            all[n] = assert(#why > 2^20 and why) end", Stopped),
        ("local some = (' '):rep(2^19)
            local function nest() return load(function() nest() return some end) end
            nest()", Stopped),
        // A source without an end is not collected until the machine is out of memory.
        ("local part = (' '):rep(2^20); while true do
            assert(load(function() return part end) == nil) end", Stopped),
        ("local all = {}; for n = 1, 1e9 do all[n] = load('return ' .. n) end", Over),
        ("assert(load(('('):rep(2^18)) == nil)", Well),
        ("assert(load(('a.b='):rep(2^17) .. '1') == nil)", Well),
        ("for _, name in ipairs({ 'getinfo', 'getlocal', 'getregistry', 'sethook', 'getupvalue',
            'setmetatable', 'upvalueid', 'setuservalue' }) do assert(debug[name] == nil) end",
            Well),
        ("assert(require == nil or not pcall(require, 'ffi'))", Well),
        ("assert(not pcall(require, 'debug') and not pcall(require, 'jit.util'))", Well),
        ("for name in pairs(os) do assert(('clock date difftime time'):find(name)) end", Well),
        ("assert(collectgarbage('stop') == 0 and collectgarbage('setpause', 1000) == 0);
            for n = 1, 2^53 do local t = { n, {} } end", Over),
    ]);
}

#[test]
fn errors_do_not_escape_the_sandbox_or_the_limits() {
    use End::*;
    check(&[
        ("error(setmetatable({}, { __tostring = function() while true do end end }))", Stopped),
        ("error(setmetatable({}, { __tostring = function(t) error(t) end }))", Error),
        ("error(setmetatable({}, { __tostring = function() return {} end }))", Error),
        ("error(nil)", Error),
        ("error(coroutine.create(print))", Error),
        ("error(('x'):rep(2^24))", Stopped),
        ("xpcall(error, function() while true do end end)", Over),
        ("xpcall(function() while true do end end, function() while true do end end)", Over),
        ("while true do xpcall(error, function() error() end) end", Over),
        ("local function f() return xpcall(error, f) end; while true do f() end", Over),
        ("local function f() return pcall(f) end; f(); while true do f() end", Over),
        ("local function f(n) return n + f(n + 1) end; f(1)", Stopped),
        ("local t = setmetatable({}, {}); getmetatable(t).__index = t; return t.x", Error),
        (
            "local t = {}; for n = 1, 2^17 do t = setmetatable({}, { __index = t }) end;
            return t.x",
            Stopped,
        ),
        // Errors of the host are values with a metatable: it is not for scripts.
        (
            "local _, why = pcall(pinion.json.encode, print);
            local meta = getmetatable(why); assert(meta == false or type(why) == 'string')",
            Well,
        ),
        (
            "local _, why = pcall(load, {}, {}, {}, 1);
            local meta = getmetatable(why); assert(meta == nil or type(meta) ~= 'table'
                or type(why) == 'string')",
            Well,
        ),
        ("local _, why = pcall(collectgarbage, {}); while true do tostring(why) end", Over),
        ("local _, why = pcall(collectgarbage, {}); error(why)", Error),
        ("local _, why = pcall(collectgarbage, {}); why.x = 1", Error),
    ]);
}

#[test]
fn functions_called_by_the_host_count_against_the_cpu_limit() {
    use End::*;
    check(&[
        ("tostring(setmetatable({}, { __tostring = function() while true do end end }))", Over),
        ("tostring(setmetatable({}, { __tostring = function() coroutine.yield() end }))", Stopped),
        ("print(setmetatable({}, { __tostring = function() while true do end end }))", Over),
        (
            "local t; t = setmetatable({}, { __tostring = function() return tostring(t) end });
            tostring(t)",
            Stopped,
        ),
        ("return setmetatable({}, { __concat = function() while true do end end }) .. ''", Over),
        (
            "local t = setmetatable({}, { __eq = function() while true do end end });
            return t == setmetatable({}, getmetatable(t))",
            Over,
        ),
        (
            "pinion.json.encode(setmetatable({}, { __pairs = function() while true do end end,
            __index = function() while true do end end }))",
            Well,
        ),
        ("pinion.json.encode(setmetatable({}, { __len = function() return 2^31 end }))", Well),
        ("local t = {}; t.t = t; pinion.json.encode(t)", Error),
        ("local t = {}; for n = 1, 60 do t = { t, t } end; pinion.json.encode(t)", Stopped),
        (
            "local x = ('x'):rep(2^20); local t = {}; for n = 1, 2^15 do t[n] = x end;
            pinion.json.encode(t)",
            Stopped,
        ),
        ("pinion.json.decode(('['):rep(2^20))", Well),
        ("pinion.json.decode('[' .. ('{},'):rep(2^22) .. '1]')", Over),
        (
            "pinion.send('channel', setmetatable({},
            { __pairs = function() while true do end end }))",
            Well,
        ),
        ("local text = ('x'):rep(2^19); while true do pinion.send('channel', text) end", Error),
        ("while true do pinion.send('channel', 1) end", Error),
        ("table.sort({ 3, 1, 2 }, function() coroutine.yield() end)", Error),
        ("table.sort({ 3, 1, 2 }, function() error('no order') end)", Error),
        ("('x'):gsub('x', function() coroutine.yield() end)", Stopped),
        ("('x'):gsub('x', setmetatable({}, { __index = function() while true do end end }))", Over),
    ]);
}

#[test]
fn coroutines_count_against_the_limits_of_their_task() {
    use End::*;
    check(&[
        ("local c; c = coroutine.wrap(function() while true do pcall(c) end end); c()", Over),
        ("local function f() return coroutine.wrap(f)() end; f()", Stopped),
        (
            "local all = {}; while true do all[#all + 1] = coroutine.create(function() end) end",
            Over,
        ),
        ("coroutine.resume(coroutine.running())", Well),
        ("coroutine.yield()", Stopped),
        ("coroutine.wrap(function() pinion.sleep({}) end)()", Error),
        ("local function f() assert(coroutine.resume(coroutine.create(f))) end; f()", Stopped),
        (
            "local function deep(n)
            return n == 0 and 'well' or coroutine.wrap(deep)(n - 1) end;
            assert(deep(90) == 'well')",
            Well,
        ),
        (
            "local c = coroutine.create(function() local _ = ('x'):rep(2^20) end);
            while true do coroutine.resume(c) end",
            Over,
        ),
    ]);
}

#[test]
fn excessive_memory_use_fails_the_request() {
    use End::*;
    check(&[
        ("return ('x'):rep(2^31)", Stopped),
        ("return ('x'):rep(2^25)", Error),
        ("return ('x'):rep(2^20, ('y'):rep(2^20))", Stopped),
        ("assert((''):rep(2^31 - 1) == '')", Well),
        (
            "local x = ('x'):rep(2^20); local t = {}; for n = 1, 2^12 do t[n] = x end;
            return table.concat(t)",
            Stopped,
        ),
        ("return ('x'):rep(2^20):gsub('x', ('y'):rep(2^20))", Stopped),
        ("return ('x'):rep(2^16):match(('x*'):rep(100) .. 'y')", Over),
        ("return ('('):rep(2^16):find(('('):rep(2^15))", Error),
        ("return ('a'):rep(2^16):find(('.-'):rep(2^14) .. 'b')", Stopped),
        ("return unpack({}, 1, 1e8)", Error),
        ("return string.char(unpack({}, 1, 1e6))", Error),
        ("return ('%99d'):rep(1e6):format(1)", Stopped),
        ("local t = {}; t[2^53] = 1; t[-2^53] = 1; t[1e300] = 1", Well),
        ("local t = {}; for n = 1, 1e9 do t[n * 1e6] = n end", Over),
        ("return os.date(('%c'):rep(2^20))", Stopped),
    ]);
}

/// Loops of C in which no hook runs would hold the worker for as long as they last.
#[test]
fn library_functions_do_not_loop_without_end() {
    use End::*;
    check(&[
        (
            "local a, b = ('x'):rep(2^23), ('x'):rep(2^23 - 1) .. 'y'; local t = {};
            for n = 1, 2^14 do t[n] = n % 2 == 0 and a or b end; table.sort(t)",
            Over,
        ),
        (
            "table.concat(setmetatable({}, { __index = function() return '' end }), '', 1,
            2^31 - 2)",
            Stopped,
        ),
        ("table.insert({}, -2^31 + 1, 1)", Error),
        ("table.insert({}, '-2147483647', 1)", Error),
        ("table.insert({}, 2^31, 1)", Error),
        ("table.insert({}, 0/0, 1)", Error),
        ("table.insert({}, -1/0, 1)", Error),
    ]);
}

/// What only Lua 5.4 has.
#[cfg(not(feature = "luajit"))]
#[test]
fn functions_of_lua_5_4_count_against_the_limits() {
    use End::*;
    check(&[
        ("assert((''):rep(math.maxinteger) == '' and (''):rep(2^40, '') == '')", Well),
        ("table.move({}, 1, 2^53, 1)", Over),
        ("table.move({}, 1, 2^53, 2, {})", Over),
        ("table.insert(setmetatable({}, { __len = function() return 2^53 end }), 1, nil)", Over),
        ("table.remove(setmetatable({}, { __len = function() return 2^53 end }), 1)", Over),
        ("table.concat(setmetatable({}, { __index = table.concat }), '', 1, 2^53)", Over),
        ("local a, b = ('x'):rep(2^23), ('x'):rep(2^23 - 1) .. 'y'; local t = {};
            for n = 1, 2^14 do t[n] = n % 2 == 0 and a or b end; table.sort(t)", Over),
        ("table.sort(setmetatable({}, { __len = function() return 2^31 - 2 end,
            __index = rawlen, __newindex = rawlen }))", Over),
        ("table.unpack(setmetatable({}, { __index = rawlen }), 1, 2^53)", Error),
        ("setmetatable({}, { __gc = function() while true do end end })", Error),
        ("local t = setmetatable({}, {}); getmetatable(t).__gc = function() while true do end end;
            t = nil; for n = 1, 1e5 do local t = {} end", Well),
        ("local list = setmetatable({ 1, 2, 3 }, { __index = table }); list:insert(4);
            list:insert(1, 0); assert(list:remove(1) == 0 and list:remove() == 4 and #list == 3);
            assert(list:remove(4) == nil and not pcall(list.remove, list, 5))", Well),
        ("local list = table.move({ 1, 2, 3 }, 1, 3, 2); assert(table.concat(list) == '1123');
            assert(table.concat(table.move(list, 2, 4, 1)) == '1233')", Well),
    ]);
}

/// What rows of Lua 5.4 begin with: values that are to be closed, whose `__close` has no end or
/// fails.
#[cfg(not(feature = "luajit"))]
const CLOSED: &str = "
    local function closed(f) return setmetatable({}, { __close = f }) end
    local function forever() while true do end end
    local function endless() return closed(forever) end
    local function failing() return closed(function() error('closing') end) end\n";

#[cfg(not(feature = "luajit"))]
fn check_closed(rows: &[(&str, End)]) {
    let rows: Vec<_> = rows.iter().map(|(code, end)| (format!("{CLOSED}{code}"), *end)).collect();
    let rows: Vec<_> = rows.iter().map(|(code, end)| (code.as_str(), *end)).collect();
    check(&rows);
}

#[cfg(not(feature = "luajit"))]
#[test]
fn close_metamethods_count_against_the_limits() {
    use End::*;
    check_closed(&[
        ("local x <close> = endless()", Over),
        ("for _ in next, {}, nil, endless() do end", Over),
        ("local x <close> = endless(); while true do end", Over),
        ("local x <close> = endless(); local y <close> = endless()", Over),
        ("for _ in next, { 1 }, nil, endless() do while true do end end", Over),
        (
            "local function f(n) local x <close> = endless(); if n > 0 then f(n - 1) end end
            f(10000)",
            Over,
        ),
        ("local function f() local x <close> = endless(); f() end; f()", Over),
        (
            "local function f() local x, y <close> = f, closed(f) end
            local x <close> = closed(f)",
            Stopped,
        ),
        (
            "local function f() local x <close> = closed(f); local y <close> = closed(f) end; f()",
            Stopped,
        ),
        ("while true do pcall(function() local x <close> = endless() end) end", Over),
        ("xpcall(function() local x <close> = endless(); error('why') end, forever)", Over),
        ("local x <close> = closed(pcall); while true do end", Over),
        ("local x <close> = closed(coroutine.yield); while true do end", Over),
        (
            "local x <close> = closed(function() local t = {}
            while true do t[#t + 1] = {} end end); local t = {}
            while true do t[#t + 1] = {} end",
            Stopped,
        ),
    ]);
}

#[cfg(not(feature = "luajit"))]
#[test]
fn close_metamethods_after_an_error_count_against_the_limits() {
    use End::*;
    check_closed(&[
        ("local x <close> = endless(); error('why')", Over),
        ("local x <close> = closed(function() end); error('why')", Error),
        ("local x <close> = closed(coroutine.yield); error('why')", Stopped),
        ("local x <close> = endless(); error(setmetatable({}, { __tostring = forever }))", Over),
        ("local x <close> = endless(); local function f() return 1 + f() end; f()", Over),
    ]);
}

#[cfg(not(feature = "luajit"))]
#[test]
fn an_error_in_a_close_metamethod_fails_the_script() {
    use End::*;
    check_closed(&[
        ("local x <close> = failing(); error('why')", Error),
        ("local x <close> = failing(); local y <close> = failing(); error('why')", Error),
        ("local x <close> = failing(); while true do end", Over),
        ("local x <close> = failing(); local t = {}; while true do t[#t + 1] = {} end", Stopped),
        ("coroutine.wrap(function() local x <close> = failing(); error('why') end)()", Error),
        (
            "local c = coroutine.create(function() local x <close> = failing(); error('why') end)
            assert(not coroutine.resume(c) and not coroutine.close(c))",
            Well,
        ),
    ]);
}

#[cfg(not(feature = "luajit"))]
#[test]
fn close_metamethods_in_coroutines_count_against_the_limits() {
    use End::*;
    check_closed(&[
        ("local c = coroutine.create(function()
            local x <close> = endless(); coroutine.yield() end)
            coroutine.resume(c); coroutine.close(c)", Over),
        ("local c = coroutine.create(function() local x <close> = endless(); error('why') end)
            coroutine.resume(c); coroutine.close(c)", Over),
        ("local c = coroutine.wrap(function() local x <close> = endless(); error('why') end)
            pcall(c)", Over),
        ("local c = coroutine.wrap(function() local x <close> = endless(); forever() end); c()",
            Over),
        // It is never closed: it is garbage.
        ("local c = coroutine.wrap(function() local x <close> = endless(); coroutine.yield() end)
            c()", Well),
        // What cannot be closed does not run, and so is not what is stopped.
        ("local outer = coroutine.running()
            coroutine.wrap(function() pcall(coroutine.close, outer); forever() end)()", Over),
        ("local outer = coroutine.running()
            coroutine.wrap(function() coroutine.resume(outer); forever() end)()", Over),
        ("pcall(coroutine.close, coroutine.running()); forever()", Over),
        ("pcall(coroutine.resume, coroutine.running()); forever()", Over),
    ]);
}

/// What was stopped in one turn is closed in another one.
#[cfg(not(feature = "luajit"))]
#[test]
fn variables_of_a_stopped_turn_are_closed_at_the_cost_of_the_next() {
    let (mut room, alarm) = (Room::new(), Alarm::new());
    for (one, other) in [("endless", "endless"), ("endless", "failing"), ("failing", "endless")] {
        let begin = format!(
            "{CLOSED} kept = coroutine.create(function()
                local x <close> = {one}(); local y <close> = {other}(); forever() end)
            coroutine.resume(kept)"
        );
        for code in [&*begin, "coroutine.close(kept)", "while true do end"] {
            alarm.begins(code);
            let outcome = room.ends(code, MEMORY_MAX_BYTES);
            let is_over = matches!(outcome, Err(ScriptFault::OverBudget(_)));
            assert!(is_over || code.contains("close(kept)"), "{begin}{code}: {outcome:?}");
        }
    }
}
