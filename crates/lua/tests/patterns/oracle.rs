//! The pattern functions give the same results as Lua's own, and always terminate.

use mlua::{Function, Lua, LuaString};
use pinion_lua::pattern::{StepsLeft, install};

/// The limit of steps of an input: more than most comparisons below need. An input that exceeds it
/// proves no more with a far higher limit, and a fuzzer would learn to make many such inputs.
const STEPS: u64 = 100_000;

/// With more possible matches, Lua itself would not terminate.
const COMPARED_MAX_TRIES: usize = 10_000;
/// The most bytes of a compared subject, for the same reason.
const COMPARED_MAX_BYTES: usize = 64;

/// Code that returns the result of each function, or its error.
const ALL_ANSWERS: &str = r#"
    local subject, pattern, replacement = ...
    local lines = {}
    local function try(name, ...)
        local answer = { pcall(...) }
        for at = 1, 4 do
            answer[at] = type(answer[at]) .. " " .. tostring(answer[at])
        end
        lines[#lines + 1] = name .. ": " .. table.concat(answer, ", ", 1, 4)
    end
    try("find", string.find, subject, pattern)
    try("find from behind", string.find, subject, pattern, -3)
    try("match", string.match, subject, pattern)
    try("gmatch", function()
        local texts = {}
        for first, second in string.gmatch(subject, pattern) do
            texts[#texts + 1] = "<" .. tostring(first) .. "," .. tostring(second) .. ">"
        end
        return table.concat(texts)
    end)
    try("gsub", string.gsub, subject, pattern, replacement)
    try("gsub once", string.gsub, subject, pattern, "<%0>", 1)
    return table.concat(lines, "\n")
"#;

struct Vms {
    own: (Lua, Function),
    oracle: (Lua, Function),
    steps: StepsLeft,
}

thread_local! {
    static VMS: Vms = {
        let of = |lua: Lua| {
            // The compiler keeps its buffer by an address outside of it, which LeakSanitizer
            // reports as a leak.
            lua.load("if jit then jit.off() end").exec().expect("interpreted");
            let function = lua.load(ALL_ANSWERS).set_name("=case").into_function();
            (lua, function.expect("code"))
        };
        let (own, steps) = (Lua::new(), StepsLeft::new(STEPS));
        install(&own, &steps).expect("installed");
        Vms { own: of(own), oracle: of(Lua::new()), steps }
    };
}

/// Checks an input. The first line is the pattern, the second one the replacement, the rest the
/// subject. Returns whether it was compared with Lua itself.
pub(crate) fn check(data: &[u8]) -> bool {
    let mut lines = data.splitn(3, |byte| *byte == b'\n');
    let (Some(pattern), Some(replacement), Some(subject)) =
        (lines.next(), lines.next(), lines.next())
    else {
        return false;
    };
    VMS.with(|vms| {
        vms.steps.set(STEPS);
        let own = answers(&vms.own, [subject, pattern, replacement]);
        let repetitions = pattern.iter().filter(|byte| b"*+-?".contains(byte)).count();
        let is_compared = !vms.steps.is_spent()
            && subject.len() <= COMPARED_MAX_BYTES
            && has_few_tries(subject.len(), repetitions);
        if is_compared {
            let theirs = answers(&vms.oracle, [subject, pattern, replacement]);
            if own != theirs {
                differ_by_design(&own, &theirs);
            }
        }
        is_compared
    })
}

/// Returns whether a search has few possible matches: it begins at any byte, and each repetition
/// ends at any byte after the previous one.
fn has_few_tries(bytes: usize, repetitions: usize) -> bool {
    let tries = (1..=repetitions + 1).try_fold(1, |tries, n| {
        Some(tries * (bytes + n) / n).filter(|tries| *tries <= COMPARED_MAX_TRIES)
    });
    tries.is_some()
}

/// Asserts that two results differ only by design: Lua accepts an unfinished capture where it does
/// not need it.
fn differ_by_design(own: &[u8], theirs: &[u8]) {
    let [own, theirs] = [own, theirs].map(|answer| answer.escape_ascii().to_string());
    for (own, theirs) in own.split("\\n").zip(theirs.split("\\n")) {
        let is_open = own.contains("unfinished capture") && own.starts_with("gsub");
        assert!(own == theirs || is_open, "{own}\nLua's own: {theirs}");
    }
}

fn answers((lua, function): &(Lua, Function), texts: [&[u8]; 3]) -> Vec<u8> {
    let [subject, pattern, replacement] =
        texts.map(|text| lua.create_string(text).expect("a string"));
    let answer: LuaString = function.call((subject, pattern, replacement)).expect("no error");
    answer.as_bytes().to_vec()
}
