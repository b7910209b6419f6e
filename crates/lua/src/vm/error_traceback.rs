//! Formats the failure of a coroutine for the author of its script: with the files and the lines of
//! the site, and without the frames of the runtime.

use mlua::{Error, Lua};

use super::function_origin::FaultOrigins;
use super::thrown_tables;
use crate::missing_function_hints;
use crate::source_names::Sources;
use pinion_template::Formatted;

/// The reason why a coroutine ends without a response.
#[derive(Debug)]
pub(crate) enum ScriptFault {
    /// An error, with its stack.
    Error(String),
    /// The coroutine has used up its CPU or its memory.
    OverBudget(String),
    /// The coroutine has taken too long in all.
    OverTime(String),
    /// The client sends a larger body than it may.
    BodyTooLarge(String),
}

impl ScriptFault {
    /// Returns an error text with its stack, for a text that has no position of its own.
    pub(super) fn with_stack(
        why: &str,
        stack: &str,
        sources: &Sources,
        origins: &FaultOrigins,
    ) -> String {
        let stack = sources.explained(stack);
        origins.format(why, true, &frames(stack.lines()))
    }

    /// Formats an error for the author of the script.
    pub(super) fn of(error: &Error, lua: &Lua, sources: &Sources, origins: &FaultOrigins) -> Self {
        let text = error.to_string();
        let described = thrown_tables::described(lua, &text);
        let text = text.strip_prefix("runtime error: ").unwrap_or(&text);
        let (line, rest) = text.split_once('\n').unwrap_or((text, ""));
        // This has to happen before the lines of pages become lines of the files that they include.
        let rest = with_innermost_line(line, rest);
        let text = sources.explained(&format!("{line}\n{rest}"));
        let (line, rest) = text.split_once('\n').unwrap_or((&text, ""));
        let described = described.or_else(|| thrown_tables::without_text(line));
        let first = without_our_place(described.as_deref().unwrap_or(line));
        // A text without a position that a script throws stays as it is.
        let needs_place = described.is_some() || first.len() < line.len();
        let first = format_explained(first, sources);
        let first = with_function_name(&first, rest).unwrap_or(first);
        let rest = rest.replace(FORMAT_NAME, "'format'");
        let first =
            format!("{first}{}", missing_function_hints::advice(&first).unwrap_or_default());
        let mut shown: Vec<_> = [&*first].into_iter().chain(rest.lines()).collect();
        let traces: Vec<_> = (0..shown.len()).filter(|&at| shown[at] == TRACE).collect();
        if let Some(&second) = traces.get(1) {
            let within = &shown[..second];
            let outermost = within.iter().rposition(|line| line.ends_with(OUTERMOST));
            shown.truncate(outermost.unwrap_or(second));
        }
        let (why, stack) = match traces.first() {
            Some(&at) => (&shown[..at], shown.get(at + 1..).unwrap_or_default()),
            None => (&shown[..], &[][..]),
        };
        let stack = frames(stack.iter().copied());
        Self::Error(origins.format(&why.join("\n"), needs_place, &stack))
    }

    /// Returns the message, followed by the stack.
    pub(crate) fn text(&self) -> &str {
        let (Self::Error(text)
        | Self::OverBudget(text)
        | Self::OverTime(text)
        | Self::BodyTooLarge(text)) = self;
        text
    }
}

/// The names in messages of the parts of the runtime that are written in Lua.
pub(super) const OURS: [&str; 2] = ["pinion", "string"];

/// The line after which the stack begins. A second such line belongs to the host's own body of the
/// coroutine, which passes the error on.
pub(super) const TRACE: &str = "stack traceback:";

/// The end of the line by which that body calls the script.
const OUTERMOST: &str = "xpcall'";

/// Returns the lines of a stack that belong to the script: without the frames of the runtime, and
/// without the functions of C that these have called.
fn frames<'t>(stack: impl Iterator<Item = &'t str>) -> Vec<String> {
    let lines: Vec<&str> = stack.collect();
    let (mut shown, mut called) = (Vec::new(), Vec::new());
    for (at, &line) in lines.iter().enumerate() {
        let frame = line.trim_start();
        if frame.starts_with("[C]") || frame.starts_with("(...tail calls") {
            called.push(line.to_owned());
        } else if is_ours(frame) {
            called.clear();
        } else {
            shown.append(&mut called);
            let is_called_by_us = lines.get(at + 1).is_some_and(|next| is_ours(next.trim_start()));
            let role = is_called_by_us.then(|| with_role(line)).flatten();
            shown.push(role.unwrap_or_else(|| line.to_owned()));
        }
    }
    shown
}

/// The names by which the runtime calls functions of a script, and their roles for its author.
const ROLES: [(&str, &str); 3] =
    [("'outer'", "the middleware"), ("'inner'", "the handler"), ("'page'", "the page")];

/// Replaces the runtime's name of a function in a line of a stack by the role of the function.
fn with_role(line: &str) -> Option<String> {
    let (_, role) = ROLES.iter().find(|(name, _)| line.ends_with(name))?;
    let (place, _) = line.split_once(": in ")?;
    Some(format!("{place}: in {role}"))
}

fn is_ours(frame: &str) -> bool {
    let is_name = |name: &&str| frame.strip_prefix(*name).is_some_and(|rest| rest.starts_with(':'));
    OURS.iter().any(is_name)
}

/// Returns the file and line of a line of a stack, if it belongs to a script.
pub(super) fn place(line: &str) -> Option<&str> {
    let (place, _) = line.trim_start().split_once(": in ")?;
    let (file, number) = place.rsplit_once(':')?;
    (!OURS.contains(&file) && number.parse::<u32>().is_ok()).then_some(place)
}

/// Adds to a message the name of the function of C that it is about. LuaJIT does not know the name
/// of a function that is called by `return`, but the stack has it.
fn with_function_name(message: &str, rest: &str) -> Option<String> {
    // The last two are the names of middleware and of the handler that it calls.
    let unknown = ["to '?'", "to 'outer'", "to 'inner'"];
    let (before, behind) = unknown.iter().find_map(|name| message.split_once(name))?;
    let (_, frames) = rest.split_once(TRACE)?;
    let innermost = frames.trim_start().lines().next()?;
    let name = innermost.strip_prefix("[C]: in ")?.split('\'').nth(1)?;
    // These throw the error of an earlier call.
    if matches!(name, "error" | "assert") {
        return None;
    }
    Some(format!("{before}to '{name}'{behind}"))
}

/// Adds the line to the innermost function of a stack. LuaJIT has lost it when an error has ended a
/// coroutine, but the message begins with it.
fn with_innermost_line(message: &str, rest: &str) -> String {
    let with_line = || {
        let (before, frames) = rest.split_at_checked(rest.find(TRACE)? + TRACE.len() + 1)?;
        let innermost = frames.trim_start();
        let (file, function) = innermost.split_once(": in ")?;
        let number = message.strip_prefix(file)?.strip_prefix(':')?.split(':').next()?;
        let _is_number = number.parse::<u32>().ok()?;
        Some(format!("{before}\t{file}:{number}: in {function}"))
    };
    with_line().unwrap_or_else(|| rest.to_owned())
}

/// Removes a position in the runtime: a function that ends with a call of the runtime has left no
/// position of its own.
fn without_our_place(line: &str) -> &str {
    let [ours, ..] = OURS;
    let behind = line.strip_prefix(ours).and_then(|rest| rest.strip_prefix(':'));
    match behind.and_then(|rest| rest.split_once(": ")) {
        Some((number, rest)) if number.bytes().all(|byte| byte.is_ascii_digit()) => rest,
        _ => line,
    }
}

/// The name by which a page calls `string.format`, which its author has not written.
const FORMAT_NAME: &str = "'__format'";

/// Explains a message about a value that its format in a page does not accept, in terms of the
/// page.
fn format_explained(line: &str, sources: &Sources) -> String {
    let named = line.split_once(FORMAT_NAME).and_then(|(before, why)| {
        let (before, _number) = before.rsplit_once("bad argument #")?;
        Some((before, why.strip_prefix(" (")?))
    });
    let Some((before, why)) = named else { return line.to_owned() };
    let why = why.strip_suffix(')').unwrap_or(why);
    let shown = |value: &Formatted| format!("#[[{}:{}]]", value.expression, value.format);
    let values = sources.formats_at(before.strip_suffix(": ").unwrap_or(before));
    match &values[..] {
        [] => {
            format!(
                "{before}the value does not fit its format, such as `d` in `#[[value:d]]`: {why}"
            )
        }
        [value] => format!("{before}{}: {}", shown(value), misfit(value, why)),
        values => {
            let all: Vec<_> = values.iter().map(|value| shown(value)).collect();
            let all = all.join(", ");
            format!("{before}the value of one of {all} does not fit its format: {why}")
        }
    }
}

/// Explains why a value does not fit its format, and names the correction if that is known.
fn misfit(value: &Formatted, why: &str) -> String {
    let Formatted { expression, format, .. } = value;
    let Some((wanted, given)) = why.split_once(" expected, got ") else {
        return format!("the value does not fit the format `{format}`: {why}");
    };
    let is_nil = matches!(given, "nil" | "no value");
    let is_whole = !expression.ends_with('…');
    let help = match given {
        _ if wanted != "number" || !is_whole => String::new(),
        _ if is_nil && expression.starts_with("tonumber(") => {
            format!("; write `{expression} or 0`")
        }
        _ if is_nil || given == "string" => format!("; write `tonumber({expression}) or 0`"),
        _ => String::new(),
    };
    let given = if is_nil { "nil".to_owned() } else { format!("a {given}") };
    format!("the format `{format}` needs a {wanted}, the value is {given}{help}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_traceback_shows_only_frames_of_the_script_and_its_calls() {
        let stack = "\t[C]: in function 'error'\n\tpinion:12: in function 'sleep'\n\
                     \t[C]: in function 'error'\n\tsite/lib.lua:3: in function 'go'\n\
                     \tstring:99: in function <string:90>\n\tsite/main.lua:4: in function \
                     <site/main.lua:1>\n\t(...tail calls...)\n\tpinion:3: in function <pinion:1>\n\
                     \t[C]: in function 'xpcall'";
        let shown = frames(stack.lines());
        assert_eq!(
            shown,
            [
                "\t[C]: in function 'error'",
                "\tsite/lib.lua:3: in function 'go'",
                "\tsite/main.lua:4: in function <site/main.lua:1>",
            ]
        );
        // A folder of that name is none of ours.
        assert_eq!(frames(["\tpinion/main.lua:4: in function 'x'"].into_iter()).len(), 1);
    }

    #[test]
    fn functions_called_by_the_runtime_are_named_by_their_role() {
        for (name, role) in [
            ("upvalue 'outer'", "the middleware"),
            ("local 'inner'", "the handler"),
            ("upvalue 'page'", "the page"),
        ] {
            let line = format!("\ta.lua:3: in {name}");
            let called = [line.as_str(), "\tpinion:9: in function 'next'"];
            assert_eq!(frames(called.into_iter()), [format!("\ta.lua:3: in {role}")]);
            // A script may have a function of that name.
            let own = [line.as_str(), "\ta.lua:9: in function 'next'"];
            assert_eq!(frames(own.into_iter()), own);
        }
    }

    #[test]
    fn a_c_function_in_a_message_gets_its_name_from_the_traceback() {
        let named = |message: &str, stack: &str| with_function_name(message, stack);
        let stack = "stack traceback:\n\t[C]: in function 'next'\n\tpinion:3: in x";
        let message = "bad argument #1 to '?' (table expected, got no value)";
        for unknown in ["?", "outer", "inner"] {
            let message = message.replace('?', unknown);
            assert_eq!(named(&message, stack), Some(message.replace(unknown, "next")));
        }
        assert_eq!(named("a.lua:1: why", stack), None);
        for stack in [
            "stack traceback:\n\t[C]: in global 'error'",
            "",
            "stack traceback:",
            "stack traceback:\n\t[C]: at 0x55",
            "[C]: in 'x'",
        ] {
            assert_eq!(named(message, stack), None);
        }
    }

    #[test]
    fn the_innermost_frame_gets_its_line_from_the_message() {
        let rest = "stack traceback:\n\ta.lua: in upvalue 'inner'\n\ta.lua:6: in main chunk";
        let filled = with_innermost_line("a.lua:2: why", rest);
        assert_eq!(filled, rest.replace("\ta.lua: in", "\ta.lua:2: in"));
        for message in ["why", "b.lua:2: why", "a.lua: why", "a.lua:x: why"] {
            assert_eq!(with_innermost_line(message, rest), rest, "{message}");
        }
        for rest in ["", "stack traceback:", "stack traceback:\n\ta.lua:2: in x", "a: in b"] {
            assert_eq!(with_innermost_line("a.lua:2: why", rest), rest);
        }
    }

    #[test]
    fn errors_about_formats_have_no_internal_function_names() {
        let line = "a.dyn.html:2: bad argument #2 to '__format' (number expected, got string)";
        let sources = Sources::default();
        let message = format_explained(line, &sources);
        assert!(
            message.starts_with("a.dyn.html:2: the value does not fit its format"),
            "{message}"
        );
        assert!(message.ends_with(": number expected, got string"), "{message}");
        assert_eq!(format_explained("a.lua:2: why", &sources), "a.lua:2: why");
    }
}
