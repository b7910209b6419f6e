//! Functions of C that call functions of the script take stack of the worker, which Lua does not
//! count everywhere, and whose end is the end of the process.

use std::thread;

use pinion_engine::limits::WORKER_STACK_BYTES;

use super::*;

/// Functions that call themselves through another one, and `step` each time.
const WAYS: &[&str] = &[
    "function() step() load(way) end",
    "function() step() table.sort({ 1, 2 }, function() way() return false end) end",
    "function() step() pcall(error) return xpcall(error, way) end",
    "function() step() return pcall(way) end",
    "function() step() return (('x'):gsub('x', way)) end",
    "function() step() return tostring(setmetatable({}, { __tostring = way })) end",
    "function() step() return string.format('%s', setmetatable({}, { __tostring = way })) end",
    "function() step()
        return ('%d%d%d%d%s'):format(1, 2, 3, 4, setmetatable({}, { __tostring = way })) end",
    "function() step() return os.time(setmetatable({}, { __index = way })) end",
    "function() step() return setmetatable({}, { __index = way }).x end",
    "function() step() return pinion.json.encode(
        { 1, 2, [setmetatable({}, { __tostring = way })] = 1 }) end",
    "function() step() return pinion.json.encode(
        1, { [setmetatable({}, { __tostring = way })] = 1 }) end",
];

/// Each goes on in a coroutine now and then, which has a stack of Lua's of its own.
const NESTED: &str = "local calls, levels, way = 0, 0
    local function step()
        calls = calls + 1
        if calls % 150 == 0 and levels < 90 then
            levels = levels + 1
            coroutine.wrap(function() pcall(way) end)()
        end
    end
    way = WAY
    pcall(way)";

#[test]
fn no_script_overflows_the_stack_of_its_worker() {
    let rows = || {
        let mut room = Room::new();
        for way in WAYS {
            // Shown when it is the end of the process.
            println!("{way}");
            let _any = room.ends(&NESTED.replace("WAY", way), MEMORY_MAX_BYTES);
            room.ends("assert(('%s'):format(1) == '1')", MEMORY_MAX_BYTES).expect(way);
        }
    };
    // What is there beside the script, and another build, may take the other half.
    let builder = thread::Builder::new().stack_size(WORKER_STACK_BYTES / 2);
    builder.spawn(rows).expect("a thread").join().expect("all is well");
}

#[test]
fn stack_overflow_through_a_library_function_names_it() {
    let mut room = Room::new();
    for (code, name) in [
        ("local function f() table.sort({ 1, 2 }, f) end f()", "table.sort"),
        (
            "local meta = {}
            function meta.__tostring() return ('%s'):format(setmetatable({}, meta)) end
            tostring(setmetatable({}, meta))",
            "string.format",
        ),
    ] {
        let Err(ScriptFault::Error(text)) = room.ends(code, MEMORY_MAX_BYTES) else {
            panic!("{code}: it does not end with an error");
        };
        // In 5.4 the library's own count may come first.
        let is_ours = text.contains(&format!("stack overflow ({name} "));
        assert!(is_ours || text.contains("C stack overflow"), "{code}: {text}");
    }
}
