use super::*;
use crate::sandbox;
use mlua::Lua;

/// Little, so that the tests are short; whatever is to run through needs less.
const LEFT: Duration = Duration::from_millis(30);

/// Runs code for one turn; what it says, and whether it was stopped.
fn turn(lua: &Lua, budget: &mut Budget, code: &str) -> (mlua::Result<String>, bool) {
    let function = lua.load(code).set_name("=code").into_function().expect("compiles");
    let coroutine = lua.create_thread(function).expect("a coroutine");
    budget.begin(&coroutine, LEFT);
    let outcome = coroutine.resume::<String>(());
    let spent = budget.end();
    (outcome, spent.is_over)
}

#[test]
fn whatever_runs_for_ever_is_stopped_and_what_comes_next_is_not() {
    let watch = Watch::start(1).expect("watching");
    let mut budget = watch.enter(0);
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
        let (outcome, is_over) = turn(&lua, &mut budget, code);
        let message = outcome.expect_err(code).to_string();
        assert!(is_over && message.contains(OVER_BUDGET), "{code}: {message}");
        let (next, is_over) = turn(&lua, &mut budget, "return 'well'");
        assert_eq!((next.expect("ran").as_str(), is_over), ("well", false), "{code}");
    }
}

/// A hook that stands would have LuaJIT interpret everything.
#[test]
fn no_hook_stands_but_where_a_turn_is_to_end() {
    let watch = Watch::start(1).expect("watching");
    let mut budget = watch.enter(0);
    let lua = sandbox::open().expect("a VM");
    let is_hooked = lua.create_function(|lua, ()| {
        // SAFETY: the state is that of the caller, one value is pushed, and there is room for it.
        unsafe {
            lua.exec_raw::<bool>((), |state| {
                ffi::lua_pushboolean(state, i32::from(ffi::lua_gethook(state).is_some()));
            })
        }
    });
    lua.globals().raw_set("is_hooked", is_hooked.expect("a function")).expect("set");
    for round in 0..3 {
        let (told, _) = turn(&lua, &mut budget, "return tostring(is_hooked())");
        assert_eq!(told.expect("ran"), "false", "round {round}");
        let (_, is_over) = turn(&lua, &mut budget, "while true do end");
        assert!(is_over, "round {round}");
    }
}

#[test]
fn a_turn_on_one_worker_does_not_end_that_of_another() {
    let watch = Watch::start(2).expect("watching");
    thread::scope(|scope| {
        let endless = scope.spawn(|| {
            let mut budget = watch.enter(0);
            let lua = sandbox::open().expect("a VM");
            turn(&lua, &mut budget, "while true do end").1
        });
        let mut budget = watch.enter(1);
        let lua = sandbox::open().expect("a VM");
        while !endless.is_finished() {
            let (outcome, is_over) = turn(&lua, &mut budget, "return 'well'");
            assert_eq!((outcome.expect("ran").as_str(), is_over), ("well", false));
        }
        assert!(endless.join().expect("ended"));
    });
}

/// Turns come and go faster than anybody looks.
#[test]
fn many_short_turns_are_never_stopped() {
    let watch = Watch::start(1).expect("watching");
    let mut budget = watch.enter(0);
    let lua = sandbox::open().expect("a VM");
    let code = "local n = 0 for i = 1, 1000 do n = n + i end return tostring(n)";
    for _ in 0..2_000 {
        let (outcome, is_over) = turn(&lua, &mut budget, code);
        assert_eq!((outcome.expect("ran").as_str(), is_over), ("500500", false));
    }
}

/// A worker that has ended gives its place to the next thread, as after a panic.
#[test]
fn a_place_can_be_taken_again() {
    let watch = Watch::start(1).expect("watching");
    for _ in 0..3 {
        thread::scope(|scope| {
            scope.spawn(|| {
                let mut budget = watch.enter(0);
                let lua = sandbox::open().expect("a VM");
                assert!(turn(&lua, &mut budget, "while true do end").1);
            });
        });
    }
}
