use super::*;
use crate::sandbox;
use mlua::Lua;
#[cfg(feature = "luajit")]
use mlua::{Function, Table};

/// Little, so that the tests are short; whatever is to run through needs less.
const LEFT: Duration = Duration::from_millis(30);

/// Runs code for one turn; what it says, and whether it was stopped.
fn turn(lua: &Lua, watchdog: &mut CpuWatchdog, code: &str) -> (mlua::Result<String>, bool) {
    let function = lua.load(code).set_name("=code").into_function().expect("compiles");
    let coroutine = lua.create_thread(function).expect("a coroutine");
    watchdog.begin(&coroutine, LEFT);
    let outcome = coroutine.resume::<String>(());
    let spent = watchdog.end();
    (outcome, spent.is_over)
}

#[test]
fn endless_code_is_stopped_and_the_next_turn_is_not() {
    let watch = WatchdogThread::start(1).expect("watching");
    let mut watchdog = watch.enter(0);
    let lua = sandbox::open().expect("a VM");
    for code in [
        // LuaJIT compiles this one; without CHECKHOOK it would never look at the hook again.
        "local n = 0 while true do n = n + 1 end",
        "while true do pcall(function() while true do end end) end",
        "local f f = function() return f() end return f()",
        "repeat local ok = pcall(error) until false",
        "while true do xpcall(function() while true do end end, function(e) return e end) end",
        "for i = 1, 2^53 do local _ = {} end",
        "local t = setmetatable({}, {__index = function(t, k) return t[k + 1] end})
         while true do pcall(function() return t[1] end) end",
    ] {
        let (outcome, is_over) = turn(&lua, &mut watchdog, code);
        let message = outcome.expect_err(code).to_string();
        assert!(is_over && message.contains("the CPU time is used up"), "{code}: {message}");
        let (next, is_over) = turn(&lua, &mut watchdog, "return 'well'");
        assert_eq!((next.expect("ran").as_str(), is_over), ("well", false), "{code}");
    }
}

/// A VM with a function that says whether a hook stands, and one that sets it before it does.
fn with_hooks() -> Lua {
    let lua = sandbox::open().expect("a VM");
    for (name, sets) in [("is_hooked", false), ("set_hook", true)] {
        let function = lua.create_function(move |lua, ()| {
            // SAFETY: the state is that of the caller, the hook is for Lua to call, one value is
            // pushed, and there is room for it.
            unsafe {
                lua.exec_raw::<bool>((), |state| {
                    if sets {
                        ffi::lua_sethook(state, Some(stop), MASK, 1);
                    }
                    ffi::lua_pushboolean(state, i32::from(ffi::lua_gethook(state).is_some()));
                })
            }
        });
        lua.globals().raw_set(name, function.expect("a function")).expect("set");
    }
    lua
}

/// A signal that was sent for one turn can come in the next.
#[test]
fn a_hook_that_is_set_too_late_removes_itself() {
    let watch = WatchdogThread::start(1).expect("watching");
    let mut watchdog = watch.enter(0);
    let lua = with_hooks();
    let code = "local was_set = set_hook()
        local n = 1
        return tostring(was_set) .. ', ' .. tostring(is_hooked())";
    let (output, is_over) = turn(&lua, &mut watchdog, code);
    assert_eq!((output.expect("ran").as_str(), is_over), ("true, false", false));
}

/// Otherwise nothing here would show that compiled code is stopped.
#[cfg(feature = "luajit")]
#[test]
fn the_watchdog_stops_a_compiled_loop() {
    let watch = WatchdogThread::start(1).expect("watching");
    let mut watchdog = watch.enter(0);
    let lua = sandbox::open().expect("a VM");
    // No script reaches what the registry has.
    let registered = |name| lua.named_registry_value::<Table>(name).expect(name);
    let jit: Table = registered("_LOADED").get("jit").expect("the compiler");
    let status: Function = jit.get("status").expect("a function");
    assert!(status.call::<bool>(()).expect("a status"), "the compiler is off");
    let util: Function = registered("_PRELOAD").get("jit.util").expect("a function");
    let trace_info: Function =
        util.call::<Table>(()).expect("opened").get("traceinfo").expect("it");
    let trace = || trace_info.call::<Option<Table>>(1).expect("called");
    assert_eq!(trace(), None, "something else was compiled");
    let (_, is_over) = turn(&lua, &mut watchdog, "local n = 0 while true do n = n + 1 end");
    assert!(is_over);
    let kind: String = trace().expect("a trace").get("linktype").expect("its kind");
    assert_eq!(kind, "loop");
}

/// A hook that stands would have LuaJIT interpret everything.
#[test]
fn no_hook_is_set_except_to_end_a_turn() {
    let watch = WatchdogThread::start(1).expect("watching");
    let mut watchdog = watch.enter(0);
    let lua = with_hooks();
    for round in 0..3 {
        let (output, _) = turn(&lua, &mut watchdog, "return tostring(is_hooked())");
        assert_eq!(output.expect("ran"), "false", "round {round}");
        let (_, is_over) = turn(&lua, &mut watchdog, "while true do end");
        assert!(is_over, "round {round}");
    }
}

#[test]
fn a_turn_on_one_worker_does_not_end_that_of_another() {
    let watch = WatchdogThread::start(2).expect("watching");
    thread::scope(|scope| {
        let endless = scope.spawn(|| {
            let mut watchdog = watch.enter(0);
            let lua = sandbox::open().expect("a VM");
            turn(&lua, &mut watchdog, "while true do end").1
        });
        let mut watchdog = watch.enter(1);
        let lua = sandbox::open().expect("a VM");
        while !endless.is_finished() {
            let (outcome, is_over) = turn(&lua, &mut watchdog, "return 'well'");
            assert_eq!((outcome.expect("ran").as_str(), is_over), ("well", false));
        }
        assert!(endless.join().expect("ended"));
    });
}

/// Turns come and go faster than anybody looks.
#[test]
fn many_short_turns_are_never_stopped() {
    let watch = WatchdogThread::start(1).expect("watching");
    let mut watchdog = watch.enter(0);
    let lua = sandbox::open().expect("a VM");
    let code = "local n = 0 for i = 1, 1000 do n = n + i end return tostring(n)";
    for _ in 0..2_000 {
        let (outcome, is_over) = turn(&lua, &mut watchdog, code);
        assert_eq!((outcome.expect("ran").as_str(), is_over), ("500500", false));
    }
}

/// A worker that has ended gives its place to the next thread, as after a panic.
#[test]
fn a_watchdog_slot_can_be_used_again() {
    let watch = WatchdogThread::start(1).expect("watching");
    for _ in 0..3 {
        thread::scope(|scope| {
            scope.spawn(|| {
                let mut watchdog = watch.enter(0);
                let lua = sandbox::open().expect("a VM");
                assert!(turn(&lua, &mut watchdog, "while true do end").1);
            });
        });
    }
}
