//! Whatever Lua's own functions do, ours do: results and errors, over random patterns.

use mlua::{Function, Lua, LuaString};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, TestCaseError, TestRunner};

use super::string_functions::install_with;
use super::{CaptureSpan, Matcher, PatternFailure, PatternProgram, Steps, StepsLeft, install};

/// More than any subject here can need: 24 bytes, four repetitions and a search from each byte.
const PLENTY_STEPS: u64 = 1 << 40;

/// Gives everything that the functions of `string` make of the arguments as one text.
const ALL_ANSWERS: &str = r##"
    local subject, pattern, init, replacement, most = ...
    local string, lines, rounds = string, {}, 0
    local function shown(...)
        local text = select("#", ...) .. ":"
        for i = 1, select("#", ...) do
            local value = select(i, ...)
            text = text .. type(value) .. "<" .. tostring(value) .. ">"
        end
        return text
    end
    local function try(name, ...)
        lines[#lines + 1] = name .. " " .. shown(pcall(...))
    end
    try("find", string.find, subject, pattern)
    try("find init", string.find, subject, pattern, init)
    try("find plain", string.find, subject, pattern, init, true)
    try("match", string.match, subject, pattern)
    try("match init", string.match, subject, pattern, init)
    local function all(subject, pattern, init)
        local text = ""
        local each = string.gmatch(subject, pattern, init)
        while true do
            local answer = shown(each())
            if answer == "0:" or answer == "1:nil<nil>" then return text end
            text = text .. answer
            rounds = rounds + 1
            assert(rounds < 1000, "endless")
        end
    end
    try("gmatch", all, subject, pattern)
    if _VERSION == "Lua 5.4" then
        try("gmatch init", all, subject, pattern, init)
    end
    try("gsub text", string.gsub, subject, pattern, replacement)
    try("gsub most", string.gsub, subject, pattern, replacement, most)
    local function given(...)
        local answer = shown(...)
        if #answer % 5 == 0 then return nil end
        if #answer % 5 == 1 then return false end
        if #answer % 5 == 2 then return #answer end
        return "{" .. answer .. "}"
    end
    try("gsub function", string.gsub, subject, pattern, given, most)
    local default = {__index = function(_, key) return shown(key) end}
    try("gsub table", string.gsub, subject, pattern,
        setmetatable({a = "A", b = false, [1] = "one", [3] = 3, [""] = "-"}, default))
    return table.concat(lines, "\n")
"##;

/// VMs of the same flavour: Lua as it is, one with our functions, and one with ours to which no
/// subject is short.
struct Vms {
    vms: [(Lua, Function); 3],
    steps: StepsLeft,
}

impl Vms {
    fn new(code: &str) -> Vms {
        let vms = [Lua::new(), Lua::new(), Lua::new()];
        let steps = StepsLeft::new(PLENTY_STEPS);
        install(&vms[1], &steps).expect("installed");
        install_with(&vms[2], &steps, -1).expect("installed");
        let vms = vms.map(|lua| {
            let function = lua.load(code).set_name("=case").into_function().expect("code");
            (lua, function)
        });
        Vms { vms, steps }
    }

    /// What they all say, Lua as it is first.
    fn answers(&self, case: &Case) -> [String; 3] {
        self.steps.set(PLENTY_STEPS);
        self.vms.each_ref().map(|(lua, function)| {
            let text = |bytes: &[u8]| lua.create_string(bytes).expect("a string");
            let arguments = (
                text(&case.subject),
                text(&case.pattern),
                case.init,
                text(&case.replacement),
                case.most,
            );
            let answer: LuaString = function.call(arguments).expect("no error");
            answer.as_bytes().escape_ascii().to_string()
        })
    }
}

#[derive(Clone, Debug)]
struct Case {
    subject: Vec<u8>,
    pattern: Vec<u8>,
    init: i32,
    replacement: Vec<u8>,
    most: i32,
}

const SETS: &[&str] = &[
    "[ab]",
    "[^a]",
    "[a-c]",
    "[%a_]",
    "[]a]",
    "[^]]",
    "[a-]",
    "[%]]",
    "[^%s%d]",
    "[c-a]",
    "[a-%z]",
    "[^%z]",
    "[(-*]",
    "[^^]",
    "[-a]",
    "[%-a]",
    "[.]",
    "[\u{80}-\u{ff}]",
];

fn once() -> impl Strategy<Value = Vec<u8>> {
    let classes = proptest::sample::select(b"acdglpsuwxzACDGLPSUWXZ.%-]bf109e".as_slice());
    prop_oneof![
        6 => proptest::sample::select(b"aaabbc1 .".as_slice()).prop_map(|byte| vec![byte]),
        4 => classes.prop_map(|class| vec![b'%', class]),
        3 => proptest::sample::select(SETS).prop_map(|set| set.as_bytes().to_vec()),
        1 => proptest::sample::select(b"()[]^$%*+?-\0\xff".as_slice()).prop_map(|byte| vec![byte]),
    ]
}

const SPECIAL: &[&str] = &[
    "()", "(", ")", "(a)", "(.)", "%1", "%2", "%bab", "%b()", "%baa", "%b", "%f[a]", "%f[^a]",
    "%f[%w]", "%f[%z]", "%f", "$", "^", "%0", "%",
];

/// Generates a piece of a pattern: its text, and whether it repeats.
fn piece() -> impl Strategy<Value = (Vec<u8>, bool)> {
    let repeated = (once(), proptest::sample::select(b"*+-?".as_slice()));
    let special = proptest::sample::select(SPECIAL);
    prop_oneof![
        5 => once().prop_map(|text| (text, false)),
        5 => repeated.prop_map(|(mut text, repeat)| { text.push(repeat); (text, true) }),
        3 => special.prop_map(|text| (text.as_bytes().to_vec(), false)),
    ]
}

/// Few repetitions, or Lua itself would never come to an end.
const REPETITIONS_MAX: usize = 4;

fn pattern() -> impl Strategy<Value = Vec<u8>> {
    let pieces = proptest::collection::vec((piece(), 0..8_u8), 0..9);
    (pieces, 0..10_u8).prop_map(|(pieces, begin)| {
        let mut pattern = if begin == 0 { b"^".to_vec() } else { Vec::new() };
        let (mut repetitions, mut open) = (0, 0);
        for ((text, repeats), bracket) in pieces {
            repetitions += usize::from(repeats);
            if repeats && repetitions > REPETITIONS_MAX {
                continue;
            }
            // Captures that are closed, so that most patterns are right.
            if bracket == 0 {
                pattern.push(b'(');
                open += 1;
            }
            pattern.extend(text);
            if bracket == 1 && open > 0 {
                pattern.push(b')');
                open -= 1;
            }
        }
        pattern.extend(std::iter::repeat_n(b')', open));
        pattern
    })
}

fn bytes(of: &'static [u8], most: usize) -> impl Strategy<Value = Vec<u8>> {
    proptest::collection::vec(proptest::sample::select(of), 0..=most)
}

fn case() -> impl Strategy<Value = Case> {
    let replacement = prop_oneof![
        Just(b"<%0>".to_vec()),
        Just(b"%1.%2".to_vec()),
        bytes(b"x%%%0123a", 5),
        bytes(b"x", 2),
    ];
    let subject = prop_oneof![4 => bytes(b"aaaabbbc1 .()", 24), 1 => bytes(b"aA%b\0\xff-^$]", 12)];
    (subject, pattern(), -30..30_i32, replacement, -1..4_i32).prop_map(
        |(subject, pattern, init, replacement, most)| Case {
            subject,
            pattern,
            init,
            replacement,
            most,
        },
    )
}

/// `gsub` of Lua may leave a capture open that it has no use for.
fn differs_by_design(ours: &str) -> bool {
    ours.starts_with("gsub ") && ours.ends_with("unfinished capture>")
}

#[test]
fn random_patterns_give_the_results_of_lua() {
    let vms = Vms::new(ALL_ANSWERS);
    let mut runner = TestRunner::new(Config::default());
    let ran = runner.run(&case(), |case| {
        let [oracle, short, long] = vms.answers(&case);
        for ours in [short, long] {
            for (oracle, ours) in oracle.split("\\n").zip(ours.split("\\n")) {
                if oracle != ours && !differs_by_design(ours) {
                    let pattern = case.pattern.escape_ascii();
                    let why = format!("{pattern}\nLua  {oracle}\nours {ours}");
                    return Err(TestCaseError::fail(why));
                }
            }
        }
        Ok(())
    });
    ran.unwrap_or_else(|why| panic!("{why}"));
}

/// The generator is worth something only if what it makes matches, and captures, now and then.
#[test]
fn random_patterns_match_often_enough() {
    let mut runner = TestRunner::deterministic();
    let (mut matched, mut captured, mut wrong, all) = (0, 0, 0, 1000);
    for _ in 0..all {
        let case = case().new_tree(&mut runner).expect("a case").current();
        let program = PatternProgram::new(&case.pattern).expect("short");
        let found =
            Matcher::new().search(&program, &case.subject, 0, None, &mut Steps::new(PLENTY_STEPS));
        matched += i32::from(matches!(found, Ok(Some(_))));
        captured += i32::from(matches!(found, Ok(Some(_))) && program.captures() > 0);
        wrong += i32::from(found.is_err());
    }
    assert!(matched > all / 5 && captured > all / 20, "{matched} matched, {captured} captured");
    assert!(wrong > all / 50 && wrong < all / 2, "{wrong} wrong");
}

proptest! {
    /// A search takes the same steps each time, and one with too few ends with none.
    #[test]
    fn a_search_with_too_few_steps_fails(case in case()) {
        let Ok(program) = PatternProgram::new(&case.pattern) else { return Ok(()) };
        let search = |given: u64| {
            let mut steps = Steps::new(given);
            let found: Result<Option<CaptureSpan>, PatternFailure> =
                Matcher::new().search(&program, &case.subject, 0, None, &mut steps);
            (found, steps.left())
        };
        let (found, left) = search(PLENTY_STEPS);
        let needed = PLENTY_STEPS - left;
        prop_assert_eq!(search(needed + 1), (found, 1));
        if needed > 0 {
            prop_assert_eq!(search(needed), (Err(PatternFailure::TooManySteps), 0));
            prop_assert_eq!(search(needed / 2), (Err(PatternFailure::TooManySteps), 0));
        }
    }
}
