//! The functions that `library.lua` calls: searches that return numbers, which are cheap to pass to
//! Lua.
//!
//! These functions are called in every search, so they allocate nothing in the VM: nothing they do
//! can start its collector, and with it functions of the script, while the desk is in use. A short
//! subject is copied, as that costs less than to borrow it from the VM.

use std::cell::RefCell;
use std::rc::Rc;

use mlua::{BString, Lua, Table, Value, Variadic};

use super::LUAJIT;
use super::compiled_pattern::PatternProgram;
use super::limits::{RESULT_MAX_BYTES, SHORT_MAX_BYTES};
use super::matcher::{Capture, CaptureSpan, Matcher};
use super::pattern_cache::PatternCache;
use super::pattern_error::PatternFailure;
use super::replace::{MatchWalk, replace};
use super::step_budget::{Steps, StepsLeft};
use crate::cpu_watchdog;

/// Replaces a match: there is none.
const NONE: i64 = -1;
/// Replaces a result: the search failed, and the desk keeps the reason.
const FAILED: i64 = -2;
/// The pattern is no longer kept under this number.
const STALE: i64 = -3;
/// The subject or the pattern is no string.
const NOT_TEXT: i64 = -4;
/// An argument is no number; the desk keeps the reason.
const WRONG_NUMBER: i64 = -5;

/// Replaces the end of a capture that is a position.
const POSITION: i64 = -1;

/// The result of a search, if it has found a match.
type Searched<T> = Result<Option<T>, PatternFailure>;

/// First and last position as `string.sub` needs them; instead of the first, the reason why there
/// is none.
type Ends = (i64, Option<i64>);
/// The position to go on at, or the reason why there is no match; its ends; the ends of its only
/// capture.
type Walked = (i64, Option<i64>, Option<i64>, Option<i64>, Option<i64>);

/// Sets `find`, `gmatch`, `gsub`, `match` and `rep` of the table `string`, in which methods of
/// strings are looked up as well. Every search takes its steps from `steps`.
///
/// # Errors
/// Fails when memory runs out, or the VM was opened without the libraries `string` and `table`.
pub fn install(lua: &Lua, steps: &StepsLeft) -> mlua::Result<()> {
    // Other functions that no hook interrupts take their steps from there.
    lua.set_app_data(steps.clone());
    install_with(lua, steps, SHORT_MAX_BYTES as i64)
}

/// Does this for a VM in which a subject is short up to so many bytes.
pub(super) fn install_with(lua: &Lua, steps: &StepsLeft, short_bytes: i64) -> mlua::Result<()> {
    let desk = Rc::new(Desk {
        steps: steps.clone(),
        work: RefCell::new(PatternWork {
            patterns: PatternCache::default(),
            matcher: Matcher::new(),
        }),
        reason: RefCell::new(String::new()),
    });
    let native = lua.create_table()?;
    // All functions share the desk.
    macro_rules! lend {
        ($($name:literal: $function:expr),* $(,)?) => {$({
            let desk = desk.clone();
            let function = lua.create_function(move |lua, given| $function(&desk, lua, given))?;
            native.raw_set($name, function)?;
        })*};
    }
    lend! {
        "learn": learn,
        "find_short": short(find),
        "find_long": long(find),
        "match_short": short(find_match),
        "match_long": long(find_match),
        "captures": long(captures),
        "plain_long": plain,
        "begin": begin,
        "walk_short": short(walk),
        "walk_long": long(walk),
        "walk_captures": long(walk_captures),
        "replace": replace_text,
        "most": most,
        "rep": repeatable,
        "reason": reason,
    }
    let codes = lua.create_table()?;
    for (name, code) in
        [("none", NONE), ("failed", FAILED), ("stale", STALE), ("wrong_number", WRONG_NUMBER)]
    {
        codes.raw_set(name, code)?;
    }
    let library = lua.load(include_str!("library.lua")).set_name("=string");
    let functions: Table = library.call((native, codes, short_bytes))?;
    let string: Table = lua.globals().raw_get("string")?;
    for pair in functions.pairs::<Value, Value>() {
        let (name, function) = pair?;
        string.raw_set(name, function)?;
    }
    Ok(())
}

struct Desk {
    steps: StepsLeft,
    work: RefCell<PatternWork>,
    /// The reason why the last call failed, in words.
    reason: RefCell<String>,
}

struct PatternWork {
    patterns: PatternCache,
    matcher: Matcher,
}

impl Desk {
    /// Keeps the reason of a failure, and returns the number that means it.
    fn failed(&self, why: impl std::fmt::Display) -> i64 {
        *self.reason.borrow_mut() = why.to_string();
        FAILED
    }

    /// Runs a function that takes steps.
    fn stepping<T>(
        &self,
        act: impl FnOnce(&mut Steps) -> Result<T, PatternFailure>,
    ) -> Result<T, i64> {
        let mut steps = Steps::new(self.steps.get());
        let done = act(&mut steps);
        self.steps.set(steps.left());
        done.map_err(|failure| self.failed(failure))
    }

    /// Searches a subject for one of the patterns.
    #[inline]
    fn search<T>(
        &self,
        number: i64,
        act: impl FnOnce(&mut Matcher, &PatternProgram, &mut Steps) -> Searched<T>,
    ) -> Result<T, i64> {
        if number < 0 {
            // The number is the result of learning the pattern.
            return Err(number);
        }
        let PatternWork { patterns, matcher } = &mut *self.work.borrow_mut();
        let program = patterns.get(number).ok_or(STALE)?;
        self.stepping(|steps| act(matcher, program, steps))?.ok_or(NONE)
    }

    /// Returns a number of the script as an integer, `absent` if there is none.
    #[inline]
    fn integer(&self, lua: &Lua, given: Value, absent: i64) -> Result<i64, i64> {
        match given {
            Value::Nil => Ok(absent),
            Value::Integer(integer) => Ok(integer),
            // Beyond the integers it is cut off to the largest.
            Value::Number(number) if LUAJIT || number.fract() == 0.0 => Ok(number as i64),
            Value::Number(_) => Err(self.wrong_number("number has no integer representation")),
            Value::String(text) => match lua.coerce_number(Value::String(text)) {
                Ok(Some(number)) => self.integer(lua, Value::Number(number), absent),
                _ => Err(self.not_a_number("string")),
            },
            other => Err(self.not_a_number(other.type_name())),
        }
    }

    fn not_a_number(&self, kind: &str) -> i64 {
        self.wrong_number(format_args!("number expected, got {kind}"))
    }

    fn wrong_number(&self, why: impl std::fmt::Display) -> i64 {
        *self.reason.borrow_mut() = why.to_string();
        WRONG_NUMBER
    }
}

/// Wraps a search whose subject is a short string.
fn short<A, R>(
    search: impl Fn(&Desk, &Lua, &[u8], i64, A) -> R,
) -> impl Fn(&Desk, &Lua, (BString, i64, A)) -> mlua::Result<R> {
    move |desk, lua, (subject, number, rest)| Ok(search(desk, lua, &subject, number, rest))
}

/// Wraps a search whose subject is a string of any length, or another value.
fn long<A, R>(
    search: impl Fn(&Desk, &Lua, &[u8], i64, A) -> R,
) -> impl Fn(&Desk, &Lua, (Value, i64, A)) -> mlua::Result<R> {
    move |desk, lua, (subject, number, rest)| {
        let Value::String(subject) = subject else {
            return Ok(search(desk, lua, b"", NOT_TEXT, rest));
        };
        Ok(search(desk, lua, &subject.as_bytes(), number, rest))
    }
}

/// Compiles a pattern and returns its number, how many captures it has, whether it has no specials,
/// and whether all others have been dropped.
fn learn(desk: &Desk, _: &Lua, pattern: Value) -> mlua::Result<(i64, usize, bool, bool)> {
    let Value::String(pattern) = pattern else { return Ok((NOT_TEXT, 0, false, false)) };
    let pattern = pattern.as_bytes();
    let program = desk.stepping(|steps| {
        // The compiler looks at each byte, without skipping.
        steps.take(pattern.len())?;
        PatternProgram::new(&pattern)
    });
    Ok(match program {
        Ok(program) => {
            let (captures, literal) = (program.captures(), program.literal.is_some());
            let (number, first) = desk.work.borrow_mut().patterns.keep(program, pattern.len());
            (number, captures, literal, first)
        }
        Err(code) => (code, 0, false, false),
    })
}

/// Returns the offset at which a search begins.
fn start(init: i64, length: usize) -> Option<usize> {
    let offset = match init {
        1.. => usize::try_from(init - 1).unwrap_or(usize::MAX),
        0 => 0,
        _ => length.saturating_sub(usize::try_from(init.unsigned_abs()).unwrap_or(usize::MAX)),
    };
    // Lua 5.1 searches the empty text after the last byte, 5.4 finds nothing there.
    if LUAJIT { Some(offset.min(length)) } else { Some(offset).filter(|offset| *offset <= length) }
}

/// Implements `find` with a pattern without captures.
fn find(desk: &Desk, lua: &Lua, subject: &[u8], number: i64, init: Value) -> Ends {
    let found = desk.integer(lua, init, 1).and_then(|init| {
        desk.search(number, |matcher, program, steps| {
            let Some(from) = start(init, subject.len()) else { return Ok(None) };
            let Some(literal) = &program.literal else {
                return matcher.search(program, subject, from, None, steps);
            };
            let found = literal.find(&subject[from..]);
            plain_found(subject, literal.needle(), from, found, steps)
        })
    });
    ends(found.map(Capture::Bytes))
}

/// Implements `find` with the option to use the pattern literally.
fn plain(
    desk: &Desk,
    lua: &Lua,
    (subject, text, init): (Value, Value, Value),
) -> mlua::Result<Ends> {
    let (Value::String(subject), Value::String(text)) = (&subject, &text) else {
        return Ok((NOT_TEXT, None));
    };
    let (subject, text) = (subject.as_bytes(), text.as_bytes());
    let found = desk.integer(lua, init, 1).and_then(|init| {
        let found = desk.stepping(|steps| {
            let Some(from) = start(init, subject.len()) else { return Ok(None) };
            let found = memchr::memmem::find(&subject[from..], &text);
            plain_found(&subject, &text, from, found, steps)
        });
        found?.ok_or(NONE)
    });
    Ok(ends(found.map(Capture::Bytes)))
}

/// Searches by `memmem`, which takes time in proportion to both lengths.
fn plain_found(
    subject: &[u8],
    text: &[u8],
    from: usize,
    skipped: Option<usize>,
    steps: &mut Steps,
) -> Result<Option<CaptureSpan>, PatternFailure> {
    steps.take_bytes(skipped.unwrap_or(subject.len() - from) + text.len())?;
    let found = skipped.map(|skipped| from + skipped);
    Ok(found.map(|from| CaptureSpan { from, to: from + text.len() }))
}

/// Implements `match` with a pattern that has one capture or none: it returns that, or the whole
/// match.
fn find_match(desk: &Desk, lua: &Lua, subject: &[u8], number: i64, init: Value) -> Ends {
    ends(desk.integer(lua, init, 1).and_then(|init| {
        desk.search(number, |matcher, program, steps| {
            let Some(from) = start(init, subject.len()) else { return Ok(None) };
            let found = matcher.search(program, subject, from, None, steps)?;
            Ok(found.and_then(|whole| matcher.capture(program, 0, whole)))
        })
    }))
}

/// Implements `find` and `match` with a pattern that has captures: it returns the ends of the match
/// and of all captures.
fn captures(
    desk: &Desk,
    lua: &Lua,
    subject: &[u8],
    number: i64,
    init: Value,
) -> (i64, Option<i64>, Variadic<i64>) {
    let found = desk.integer(lua, init, 1).and_then(|init| {
        desk.search(number, |matcher, program, steps| {
            let Some(from) = start(init, subject.len()) else { return Ok(None) };
            let found = matcher.search(program, subject, from, None, steps)?;
            Ok(found.map(|whole| (whole, all_captures(matcher, program, whole))))
        })
    });
    with_captures(found)
}

/// Returns where `gmatch` begins in a subject of so many bytes.
fn begin(desk: &Desk, lua: &Lua, (bytes, init): (i64, Value)) -> mlua::Result<i64> {
    let length = usize::try_from(bytes).unwrap_or(0);
    Ok(match desk.integer(lua, init, 1) {
        // After the end of the subject nothing is found, in both flavours: in 5.1 there was no such
        // argument.
        Ok(init) if init.saturating_sub(1) > bytes => MatchWalk::from(length + 1).to_number(),
        Ok(init) => MatchWalk::from(start(init, length).unwrap_or(0)).to_number(),
        Err(code) => code,
    })
}

/// Returns the next of several matches of a pattern that has one capture or none.
fn walk(desk: &Desk, _: &Lua, subject: &[u8], number: i64, at: i64) -> Walked {
    let mut walk = MatchWalk::from_number(at);
    let found = desk.search(number, |matcher, program, steps| {
        let found = walk.next(matcher, program, subject, steps)?;
        Ok(found.map(|whole| {
            let capture = || matcher.capture(program, 0, whole);
            (whole, (program.captures() > 0).then(capture).flatten())
        }))
    });
    match found {
        Ok((whole, capture)) => {
            let (first, last) = ends(Ok(Capture::Bytes(whole)));
            let capture = capture.map(|capture| ends(Ok(capture)));
            let capture_last = capture.and_then(|capture| capture.1);
            (walk.to_number(), Some(first), last, capture.map(|capture| capture.0), capture_last)
        }
        Err(code) => (code, None, None, None, None),
    }
}

/// Returns the next of several matches, with all captures.
fn walk_captures(
    desk: &Desk,
    _: &Lua,
    subject: &[u8],
    number: i64,
    at: i64,
) -> (i64, Option<i64>, Option<i64>, Variadic<i64>) {
    let mut walk = MatchWalk::from_number(at);
    let found = desk.search(number, |matcher, program, steps| {
        let found = walk.next(matcher, program, subject, steps)?;
        Ok(found.map(|whole| (whole, all_captures(matcher, program, whole))))
    });
    match with_captures(found) {
        (code, None, none) => (code, None, None, none),
        (first, last, all) => (walk.to_number(), Some(first), last, all),
    }
}

/// Implements `gsub` with a text: it returns how many matches there are, and the new text if there
/// are any.
fn replace_text(
    desk: &Desk,
    lua: &Lua,
    (subject, number, replacement, most): (Value, i64, Value, Value),
) -> mlua::Result<(i64, Option<BString>)> {
    let Value::String(subject) = subject else { return Ok((NOT_TEXT, None)) };
    // This comes before the desk is in use, as it may collect garbage: a number becomes a string.
    let Some(replacement) = lua.coerce_string(replacement)? else { return Ok((NOT_TEXT, None)) };
    let (subject, replacement) = (subject.as_bytes(), replacement.as_bytes());
    let replaced = desk.integer(lua, most, i64::MAX).and_then(|most| {
        let most = u64::try_from(most).unwrap_or(0);
        desk.search(number, |matcher, program, steps| {
            replace(matcher, program, &subject, &replacement, most, steps).map(Some)
        })
    });
    Ok(match replaced {
        Ok((_, 0)) => (0, None),
        Ok((text, count)) => (i64::try_from(count).unwrap_or(i64::MAX), Some(text.into())),
        Err(code) => (code, None),
    })
}

/// Returns how many matches `gsub` may replace.
fn most(desk: &Desk, lua: &Lua, most: Value) -> mlua::Result<i64> {
    let most = desk.integer(lua, most, i64::MAX);
    Ok(most.map_or_else(|code| code, |most| most.clamp(0, MOST_EXACT)))
}

/// The largest integer up to which a `double`, LuaJIT's only number, has all integers.
const MOST_EXACT: i64 = (1 << f64::MANTISSA_DIGITS) - 1;

/// Returns how often `rep` repeats a text of so many bytes.
fn repeatable(
    desk: &Desk,
    lua: &Lua,
    (bytes, times, separator_bytes): (u64, Value, u64),
) -> mlua::Result<i64> {
    if times.is_nil() {
        return Ok(desk.not_a_number("nil"));
    }
    let times = match desk.integer(lua, times, 0) {
        Ok(times) => u64::try_from(times).unwrap_or(0),
        Err(code) => return Ok(code),
    };
    let texts = bytes.saturating_mul(times);
    let separators = separator_bytes.saturating_mul(times.saturating_sub(1));
    let result_bytes = usize::try_from(texts.saturating_add(separators)).unwrap_or(usize::MAX);
    if result_bytes == 0 {
        return Ok(0);
    }
    let taken = desk.stepping(|steps| {
        if result_bytes > RESULT_MAX_BYTES {
            return Err(PatternFailure::ResultTooLarge);
        }
        Ok(steps.take_bytes(result_bytes)?)
    });
    Ok(taken.map_or_else(|code| code, |()| i64::try_from(times).unwrap_or(0)))
}

/// Returns the reason of the last failure. The position of the error is known, wherever it is
/// caught.
fn reason(desk: &Desk, lua: &Lua, (): ()) -> mlua::Result<String> {
    if desk.steps.is_spent() {
        cpu_watchdog::strike(|| cpu_watchdog::running(lua));
    }
    Ok(std::mem::take(&mut *desk.reason.borrow_mut()))
}

/// Returns first and last position of a match, or a position.
fn ends(found: Result<Capture, i64>) -> Ends {
    // Offsets in memory are far from the largest value of these types.
    match found {
        Ok(Capture::Bytes(span)) => (span.from as i64 + 1, Some(span.to as i64)),
        Ok(Capture::Position(at)) => (at as i64 + 1, Some(POSITION)),
        Err(code) => (code, None),
    }
}

fn all_captures(matcher: &Matcher, program: &PatternProgram, whole: CaptureSpan) -> Variadic<i64> {
    let captures = (0..program.captures()).filter_map(|at| matcher.capture(program, at, whole));
    captures
        .flat_map(|capture| {
            let (first, last) = ends(Ok(capture));
            [first, last.unwrap_or(POSITION)]
        })
        .collect()
}

fn with_captures(
    found: Result<(CaptureSpan, Variadic<i64>), i64>,
) -> (i64, Option<i64>, Variadic<i64>) {
    match found {
        Ok((whole, all)) => {
            let (first, last) = ends(Ok(Capture::Bytes(whole)));
            (first, last, all)
        }
        Err(code) => (code, None, Variadic::new()),
    }
}
