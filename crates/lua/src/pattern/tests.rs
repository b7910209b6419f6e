//! The functions as scripts use them: budgets, limits and errors.

use mlua::{FromLuaMulti, Lua, Value};

use super::limits::{DEFAULT_STEPS, KEPT_MAX_PATTERNS, PATTERN_MAX_BYTES, RESULT_MAX_BYTES};
use super::{LUAJIT, StepsLeft, TOO_MANY_STEPS, install};

fn vm() -> (Lua, StepsLeft) {
    let lua = crate::sandbox::open().expect("a VM");
    let steps = StepsLeft::new(DEFAULT_STEPS);
    install(&lua, &steps).expect("installed");
    (lua, steps)
}

fn eval<R: FromLuaMulti>(code: &str) -> R {
    vm().0.load(code).eval().unwrap_or_else(|why| panic!("{code}: {why}"))
}

/// What `pcall` says of an expression.
fn why(lua: &Lua, expression: &str) -> String {
    let code = format!("return pcall(function() local given = {expression} return given end)");
    let (ok, why) = lua.load(code).set_name("=script").eval::<(bool, Value)>().expect("ran");
    assert!(!ok, "{expression} gave {why:?}");
    // Handlers search and concatenate the error, for which it has to be a string.
    why.as_string().unwrap_or_else(|| panic!("{expression}: {why:?}")).to_string_lossy()
}

const CATASTROPHES: &[&str] = &[
    r#"(("a"):rep(40) .. "b"):find(("a*"):rep(20) .. "c")"#,
    r#"(("a"):rep(40)):match(("a-"):rep(20) .. "c")"#,
    r#"(("a"):rep(40)):match(("(a?)"):rep(30) .. ("a"):rep(41))"#,
    r#"(("a"):rep(40)):gmatch((".*"):rep(20) .. "c")()"#,
    r#"(("a"):rep(40)):gsub(("[ab]+"):rep(20) .. "c", "")"#,
    r#"(("a"):rep(40)):gsub(("%w*"):rep(20) .. "c", print)"#,
    r#"(("a"):rep(40)):gsub(("%w*"):rep(20) .. "c", {})"#,
    r#"(("a"):rep(9000)):find("(a*)(a*)%1%2b")"#,
    r#"(("("):rep(200000)):find("%b()")"#,
    r#"(("a"):rep(200000)):find(".-b")"#,
];

#[test]
fn catastrophic_backtracking_uses_up_the_steps() {
    let (lua, steps) = vm();
    lua.globals().raw_set("print", lua.create_function(|_, ()| Ok(())).expect("one")).expect("set");
    for catastrophe in CATASTROPHES {
        steps.set(DEFAULT_STEPS);
        assert_eq!(why(&lua, catastrophe), format!("script:1: {TOO_MANY_STEPS}"), "{catastrophe}");
        assert!(steps.is_spent(), "{catastrophe} left {}", steps.get());
        assert!(why(&lua, r#"("a"):match("a")"#).ends_with(TOO_MANY_STEPS), "not even that");
        steps.set(100);
        assert_eq!(lua.load(r#"return ("a"):match("a")"#).eval::<String>().expect("again"), "a");
        assert!(steps.get() < 100);
    }
}

#[test]
fn linear_searches_take_few_steps() {
    let (lua, steps) = vm();
    let cost = |code: &str| {
        steps.set(DEFAULT_STEPS);
        lua.load(code).exec().unwrap_or_else(|why| panic!("{code}: {why}"));
        DEFAULT_STEPS - steps.get()
    };
    assert!(cost(r#"assert(not ("a"):rep(1000000):find("b"))"#) < 200_000);
    assert!(cost(r#"assert(not ("a"):rep(1000000):find("b", 1, true))"#) < 200_000);
    assert!(cost(r#"assert(#("a"):rep(1000000):gsub("a", "b") == 1000000)"#) < 10_000_000);
    assert!(cost(r#"assert(#("a"):rep(1000000):match("^%w*$") == 1000000)"#) < 1_200_000);
}

#[test]
fn errors_of_patterns_are_those_of_lua() {
    let (ours, steps) = vm();
    let oracle = Lua::new();
    let full = "a".repeat(10);
    let many = "(a)".repeat(33);
    for pattern in [
        "%", "a%", "[", "[a", "[]", "[^", "[^]", "[%", "[%]", "[a-", "%f", "%fa", "%f[", "%b",
        "%bx", ")", "a)", "(", "(a", "((a)", "(()", "%0", "%1", "(a%1", "(a)%2", "()%1", "%9",
        &many, "^(", "^*", "$(",
    ] {
        for expression in [
            format!("string.find('{full}', '{pattern}')"),
            format!("string.match('{full}', '.-{pattern}')"),
            format!("string.gmatch('{full}', '{pattern}')()"),
            format!("string.gsub('{full}', '{pattern}', '%1')"),
        ] {
            steps.set(DEFAULT_STEPS);
            let code = format!(
                "local t = {{pcall(function() local a, b = {expression} return a, b end)}} \
                for i = 1, 3 do t[i] = tostring(t[i]) end return table.concat(t, ' ')"
            );
            let [theirs, own] = [&oracle, &ours]
                .map(|lua| lua.load(&code).set_name("=script").eval::<String>().expect("ran"));
            assert_eq!(theirs, own, "{expression}");
        }
    }
}

#[test]
fn patterns_are_too_complex_exactly_where_they_are_in_lua() {
    let (ours, steps) = vm();
    let oracle = Lua::new();
    for part in ["a?", "a*", "a-", "ab+", "x?", "x*", "x-", "()", "[a]*", "a?x?", "a-()x*"] {
        for count in (1..30).chain(60..70).chain(95..105).chain(195..205).chain([1000]) {
            for tail in ["", "$", "("] {
                steps.set(DEFAULT_STEPS);
                let subject = if part == "ab+" { "ab" } else { "a" };
                let code = format!(
                    "return tostring(select(2, pcall(string.find,
                        ('{subject}'):rep(400), ('{part}'):rep({count}) .. '{tail}')))"
                );
                // Lua itself would not come back from these.
                if tail == "$" && part.starts_with(['a', '[']) && count > 1 {
                    continue;
                }
                let [theirs, own] =
                    [&oracle, &ours].map(|lua| lua.load(&code).eval::<String>().expect("ran"));
                assert_eq!(theirs, own, "{part} × {count} {tail}");
            }
        }
    }
}

/// Recursion of any kind is bounded by what Lua itself bounds.
#[test]
fn excessive_recursion_and_captures_are_errors() {
    let (lua, steps) = vm();
    steps.set(u64::MAX);
    assert!(why(&lua, r#"("a"):rep(300):find(("a?"):rep(300))"#).ends_with("too complex"));
    assert!(why(&lua, r#"("x"):find(("("):rep(1000))"#).ends_with("too many captures"));
    let code = r#"
        local nested = ("("):rep(100000) .. (")"):rep(100000)
        assert(nested:match("^%b()$") == nested)
        local long = ("a"):rep(1000000)
        assert(long:match("^.-$") == long and long:match("^(.*)a$"))
        local function deeper(text) return (text:gsub(".", deeper)) end
        local ok, why = pcall(deeper, "x")
        assert(not ok and why:find("overflow"), why)
    "#;
    lua.load(code).exec().expect("no overflow but that of Lua's stack");
}

#[test]
fn rep_is_bounded() {
    let (lua, steps) = vm();
    let eval =
        |code: &str| lua.load(code).eval::<usize>().unwrap_or_else(|w| panic!("{code}: {w}"));
    assert_eq!(eval(r#"return #(""):rep(2^31)"#), 0);
    assert_eq!(eval(r#"return #("ab"):rep(-2^31)"#), 0);
    assert_eq!(eval(r#"return #("ab"):rep(0)"#), 0);
    assert_eq!(eval(r#"return #("x"):rep(3)"#), 3);
    assert_eq!(eval(r#"return #("x"):rep("3")"#), 3);
    assert_eq!(eval(r#"return #("x"):rep(1000, ", ")"#), 2998);
    assert_eq!(eval(r#"return #(""):rep(1000, "-")"#), 999);
    assert_eq!(eval("return #string.rep(12, 1000)"), 2000);
    assert_eq!(eval(&format!(r#"return #("a"):rep({RESULT_MAX_BYTES})"#)), RESULT_MAX_BYTES);
    let before = steps.get();
    for expression in [
        r#"("a"):rep(2^31)"#,
        r#"("a"):rep(2^53)"#,
        r#"("a"):rep(1e300)"#,
        r#"(""):rep(2^40, "x")"#,
        r#"("abc"):rep(2^62)"#,
        &format!(r#"("a"):rep({RESULT_MAX_BYTES} + 1)"#),
    ] {
        let why = why(&lua, expression);
        assert!(
            why.contains("resulting string too large") || why.contains("no integer"),
            "{expression}: {why}"
        );
    }
    assert_eq!(steps.get(), before);
    assert!(why(&lua, r#"("a"):rep()"#).contains("bad argument #2 to 'rep' (number expected"));
    assert!(why(&lua, r#"("a"):rep({})"#).contains("bad argument #2 to 'rep' (number expected"));
}

#[test]
fn gsub_is_bounded() {
    let (lua, _) = vm();
    let large = r#"("x"):rep(10000):gsub("x", ("y"):rep(10000))"#;
    assert!(why(&lua, large).contains("resulting string too large"));
}

#[test]
fn long_patterns_are_refused() {
    let (lua, _) = vm();
    let find = |bytes: usize| format!(r#"("b"):find(("a"):rep({bytes} - 1) .. ".")"#);
    let fits = format!("return {}", find(PATTERN_MAX_BYTES));
    assert!(lua.load(fits).eval::<Value>().expect("fits").is_nil());
    assert!(why(&lua, &find(PATTERN_MAX_BYTES + 1)).contains("the pattern is longer than"));
}

#[test]
fn numbers_are_accepted_as_strings() {
    assert_eq!(eval::<(i64, i64)>("return string.find(123, 2)"), (2, 2));
    assert_eq!(eval::<(i64, i64)>("return string.find(123, 2, '1', true)"), (2, 2));
    assert_eq!(eval::<String>("return string.match(123, '%d', 2)"), "2");
    assert_eq!(eval::<String>("return string.gmatch(77, 7)()"), "7");
    assert_eq!(eval::<(String, i64)>("return string.gsub(121, 1, 3)"), ("323".into(), 2));
    assert_eq!(eval::<String>("return (string.gsub(121, 1, {['1'] = 5}))"), "525");
    assert_eq!(eval::<String>("return (string.gsub(121, 1, function() return 6 end))"), "626");
}

#[test]
fn errors_about_arguments_name_function_and_line() {
    let (lua, _) = vm();
    let function = "function() end";
    for (expression, words) in [
        ("string.find()", "bad argument #1 to 'find' (string expected, got nil)"),
        ("string.find('a')", "bad argument #2 to 'find' (string expected, got nil)"),
        ("string.find({}, 'a')", "bad argument #1 to 'find' (string expected, got table)"),
        ("string.match('a', {})", "bad argument #2 to 'match' (string expected, got table)"),
        ("string.match('a', 'a', {})", "bad argument #3 to 'match' (number expected, got table)"),
        ("string.gmatch(nil, 'a')", "bad argument #1 to 'gmatch' (string expected, got nil)"),
        ("string.gmatch('a', 'a', {})", "bad argument #3 to 'gmatch' (number expected, got"),
        ("string.gsub('a', nil, '')", "bad argument #2 to 'gsub' (string expected, got nil)"),
        ("string.gsub('a', 'a')", "bad argument #3 to 'gsub' (string/function/table expected"),
        ("string.gsub('a', 'a', '', 'x')", "bad argument #4 to 'gsub' (number expected, got"),
        (&format!("string.gsub('a', 'a', {function}, true)"), "bad argument #4 to 'gsub' ("),
        (&format!("string.gsub('a', 'a', {{a = {function}}})"), "invalid replacement value (a f"),
        ("string.rep({}, 3)", "bad argument #1 to 'rep' (string expected, got table)"),
        ("string.find(('a'):rep(999), '[')", "malformed pattern (missing ']')"),
    ] {
        let why = why(&lua, expression);
        assert!(why.starts_with(&format!("script:1: {words}")), "{expression}: {why}");
    }
}

#[test]
fn replacement_functions_may_fail_yield_and_nest() {
    let (lua, _) = vm();
    assert_eq!(why(&lua, "('ab'):gsub('b', function() error('mine', 0) end)"), "mine");
    let code = r#"
        local task = coroutine.wrap(function()
            local text = ("a-b"):gsub("%w", function(c) return coroutine.yield(c) end)
            return text
        end)
        assert(task() == "a" and task("1") == "b")
        return task("2")
    "#;
    assert_eq!(lua.load(code).eval::<String>().expect("ran"), "1-2");
    let nested = r#"
        return (("a.b c.d"):gsub("%S+", function(word)
            return (word:gsub("(%w)%.(%w)", "%2.%1"))
        end))
    "#;
    assert_eq!(lua.load(nested).eval::<String>().expect("ran"), "b.a d.c");
}

/// A script may break its own globals, but not functions that others use.
#[test]
fn changed_globals_do_not_affect_string_functions() {
    let code = r#"
        local find, gsub, gmatch = string.find, string.gsub, string.gmatch
        for name in pairs(string) do string[name] = nil end
        table.concat, type, error, tostring, select = nil, nil, nil, nil, nil
        assert(find("abc", "(b)") == 2)
        assert(gmatch("abc", "b")() == "b")
        return (gsub("abc", "%w", {b = "x"}))
    "#;
    assert_eq!(eval::<String>(code), "axc");
}

/// More patterns than are kept, while searches with older ones go on.
#[test]
fn searches_continue_while_patterns_are_evicted_from_the_cache() {
    let code = format!(
        r#"
        local each = ("a1b2c3"):gmatch("(%a)(%d)")
        local one = ("abc"):gmatch("%a")
        assert(each() == "a" and one() == "a")
        for round = 1, 3 do
            for i = 1, {} do
                local text = "key" .. i .. "=value"
                assert(text:find("^key" .. i .. "=()") == 1)
                assert(text:match("y(" .. i .. ")=") == tostring(i))
                assert(select(2, text:gsub("[k" .. i .. "]", "%0%0")) >= 2)
                if i % 100 == 0 then
                    assert(("x"):match("^(x)$") == "x")
                end
            end
            local letter, digit = each()
            assert(letter == ({{"b", "c"}})[round] and digit == ({{"2", "3"}})[round])
            assert(one() == ({{"b", "c"}})[round])
        end
        local replaced = ("abc"):gsub("%a", function(c)
            for i = 1, {} do assert(not ("x"):find("[y" .. i .. "]z")) end
            return c .. c
        end)
        return replaced
        "#,
        2 * KEPT_MAX_PATTERNS,
        2 * KEPT_MAX_PATTERNS,
    );
    let (lua, steps) = vm();
    steps.set(u64::MAX);
    assert_eq!(lua.load(code).eval::<String>().expect("ran"), "aabbcc");
}

#[test]
fn empty_matches_behave_as_in_the_lua_version() {
    let replaced = eval::<(String, i64)>(r#"return ("abc"):gsub("%w*", "x")"#);
    assert_eq!(replaced, if LUAJIT { ("xx".into(), 2) } else { ("x".into(), 1) });
    let found =
        eval::<i64>(r#"local n = 0 for _ in ("ab c"):gmatch("%a*") do n = n + 1 end return n"#);
    assert_eq!(found, if LUAJIT { 4 } else { 2 });
    assert_eq!(
        eval::<i64>(r#"local n = 0 for _ in ("aaa"):gmatch("a", 3) do n = n + 1 end return n"#),
        1
    );
    assert_eq!(eval::<String>(r#"return ("hello world"):gmatch("%a+", -5)()"#), "world");
}
