//! What functions cost the processor, counted by valgrind at two sizes of what they are given: the
//! check of the rows in `function_costs.rs` that no budget sees.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use mlua::{Function, Value};

use super::function_costs::{
    Body, Cost, GIVEN, MethodCall, cost, functions, method_cost, methods, script,
};
use super::*;

/// Bytes of the text, of which the list has an eighth as elements, at both sizes.
const SIZES: [usize; 2] = [1 << 14, 1 << 18];

/// Instructions that any function may take more for the larger one, whatever for.
const SLACK: u64 = 100_000;

/// Instructions for each byte that is given to a function whose cost is constant, but for a copy of
/// a text: an error may have it. The tests are built with little optimisation.
const COPIED_BYTE_MAX: u64 = 32;

/// The same for a function that goes over all it is given, and what its code does before it calls
/// it. In proportion to the square, it would be many thousands.
const EACH_BYTE_MAX: u64 = 256;

/// A function of C that rows do not call otherwise, and its name in this program: valgrind notes
/// where it is called.
const MARK: &str = "os.difftime(0, 0)";
const MARK_SYMBOL: &str =
    if cfg!(feature = "luajit") { "lj_cf_os_difftime" } else { "os_difftime" };

/// Functions that cannot be called by a test, or are the mark.
const LEFT_OUT: [&str; 2] = ["os.difftime", "print"];

/// Below valgrind, one row in so many is called.
const SAMPLE: &str = "PINION_COST_SAMPLE";

/// One row in so many is counted in the ordinary run, and each with `PINION_LONG`.
const ORDINARY_SAMPLE: usize = 8;

/// What is counted: a name, the code of one call, and the most instructions that the larger size
/// may take beyond the smaller one.
struct Counted {
    name: String,
    code: String,
    most: u64,
    /// The content of the request whose method it is.
    body: Option<Body>,
}

impl Counted {
    /// `None` for what a budget sees.
    fn of(name: String, cost: &Cost, called: &str) -> Option<Self> {
        let more_bytes = (SIZES[1] - SIZES[0]) as u64;
        let (code, most) = match cost {
            Cost::Counted(_) => return None,
            Cost::Constant | Cost::Arguments => (
                format!(
                    "pcall({called}, text, list) pcall({called}, list, text)
                    pcall({called}, text, text)"
                ),
                SLACK + COPIED_BYTE_MAX * more_bytes,
            ),
            Cost::Once(code) | Cost::UpTo(_, code) => {
                ((*code).to_owned(), SLACK + EACH_BYTE_MAX * more_bytes)
            }
        };
        Some(Self { name, code, most, body: None })
    }

    /// The path whose handler calls a method with so many bytes.
    fn path(&self, bytes: usize) -> String {
        let body = self.body.map(|body| format!("{body:?}")).unwrap_or_default();
        format!("/{}/{body}/{bytes}", self.name)
    }
}

fn of_libraries(lua: &Lua) -> Vec<Counted> {
    let names = functions(lua).into_iter().filter(|name| !LEFT_OUT.contains(&name.as_str()));
    let counted = |name: String| Counted::of(name.clone(), &cost(&name)?, &name);
    names.filter_map(counted).collect()
}

/// Methods whose cost is constant are called wherever they are used.
fn of_methods() -> Vec<Counted> {
    let with_bodies = |name: String| -> Vec<Counted> {
        let cost = method_cost(&name).filter(|cost| !matches!(cost, Cost::Constant));
        let counted = |&body: &Body| {
            let counted = Counted::of(name.clone(), cost.as_ref()?, &name)?;
            Some(Counted { body: Some(body), ..counted })
        };
        Body::of(&name).iter().filter_map(counted).collect()
    };
    methods().into_iter().flat_map(with_bodies).collect()
}

/// All rows, or one in `sample` of them.
fn rows(lua: &Lua, sample: usize) -> Vec<Counted> {
    of_libraries(lua).into_iter().chain(of_methods()).step_by(sample).collect()
}

/// A main script in which each method is called with each size.
fn methods_script() -> String {
    let calls = of_methods().into_iter().flat_map(|counted| {
        let code = &counted.code;
        let code = format!("local function call() {code} end mark(0, 0) call() mark(0, 0)");
        SIZES.map(|bytes| MethodCall {
            name: counted.name.clone(),
            path: counted.path(bytes),
            code: code.clone(),
            bytes,
        })
    });
    script(calls)
}

/// A VM with that script. Below valgrind rustix cannot read the clock.
fn room() -> Room {
    let unix_seconds = 1_800_000_000;
    let unix_ms = unix_seconds as u64 * 1000;
    handlers::site_at(&methods_script(), Now { monotonic_ms: 1, unix_seconds, unix_ms })
}

/// Calls everything that is counted, at both sizes, each between two marks. Alone it shows that the
/// code of all rows is right.
#[test]
fn each_counted_function_is_called_between_marks() {
    let mut room = room();
    let lua = &room.vm.lua;
    let mark: Function = lua.load(format!("return function() {MARK} end")).eval().expect("mark");
    let sample = std::env::var(SAMPLE).ok().and_then(|sample| sample.parse().ok());
    let rows = rows(lua, sample.unwrap_or(1)).into_iter();
    let (methods, functions): (Vec<_>, Vec<_>) = rows.partition(|row| row.body.is_some());
    for Counted { name, code, .. } in functions {
        let function = lua.load(format!("local text, list = ... {code}"));
        let function = function.into_function().unwrap_or_else(|error| panic!("{name}: {error}"));
        for size in SIZES {
            room.vm.steps.set(u64::MAX);
            let given: (Value, Value) = lua.load(GIVEN).call(size).expect("given");
            mark.call::<()>(()).expect("marked");
            let outcome = function.call::<()>(given);
            mark.call::<()>(()).expect("marked");
            outcome.unwrap_or_else(|error| panic!("{name}: {error}"));
        }
    }
    for row in methods {
        for (size, body) in SIZES.iter().zip(row.body.iter().cycle()) {
            let (path, content) = (row.path(*size), body.bytes(*size));
            let steps = room.steps_of(&path, body.media_type(), &content);
            steps.unwrap_or_else(|fault| panic!("{path}: {fault:?}"));
        }
    }
}

/// Instructions between marks, in order.
fn instructions(folder: &Path) -> Vec<u64> {
    let mut parts = BTreeMap::new();
    for entry in fs::read_dir(folder).expect("a folder").flatten() {
        let text = fs::read_to_string(entry.path()).expect("text");
        let number = |front: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(front))?;
            line.trim().split(' ').next()?.parse::<u64>().ok()
        };
        if let (Some(part), Some(sum)) = (number("part: "), number("summary: ")) {
            parts.insert(part, sum);
        }
    }
    parts.into_values().collect()
}

#[test]
fn uncounted_work_takes_few_instructions() {
    let folder = std::env::temp_dir().join(format!("pinion-costs-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder");
    // The kernel would tell rustix where it has mapped what valgrind has not.
    let mut valgrind = Command::new("strace");
    valgrind.env_remove("LD_LIBRARY_PATH");
    let is_long = std::env::var_os("PINION_LONG").is_some();
    let sample = if is_long { 1 } else { ORDINARY_SAMPLE };
    valgrind.env(SAMPLE, sample.to_string());
    valgrind.args(["-f", "-qq", "-e", "trace=prctl", "-e", "inject=prctl:error=EINVAL"]);
    valgrind.args([
        "-o",
        "/dev/null",
        "valgrind",
        "--tool=callgrind",
        "--quiet",
        &format!("--dump-before={MARK_SYMBOL}"),
    ]);
    valgrind.arg(format!("--callgrind-out-file={}", folder.join("out").display()));
    valgrind.arg(std::env::current_exe().expect("this program"));
    let test = format!(
        "{}::each_counted_function_is_called_between_marks",
        module_path!().split_once("::").expect("a crate").1
    );
    valgrind.args(["--exact", &test, "--test-threads=1"]);
    let output = valgrind
        .output()
        .expect("strace is missing; on Debian: sudo apt-get install strace valgrind");
    let counts = instructions(&folder);
    let _is_removed = fs::remove_dir_all(&folder);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    let rows = rows(&room().vm.lua, sample);
    // Before each mark: what is between two rows, or one call.
    assert_eq!(counts.len(), 4 * rows.len() + 1, "{MARK_SYMBOL} is called as often");
    let mut wrong = Vec::new();
    for (row, counts) in rows.iter().zip(counts.chunks(4)) {
        let [_, small, _, large] = *counts else { continue };
        let body = row.body.map(|body| format!(" of {body:?}")).unwrap_or_default();
        eprintln!("{}{body}: {small}, {large}", row.name); // Shown when one is wrong.
        if large > small + row.most {
            wrong.push(format!("{}{body}: {small}, then {large} instructions", row.name));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
