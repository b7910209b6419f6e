//! The origins of running functions. A call by `return` replaces its caller on the stack, so its
//! failure has no line of the script: the position of the handler is reported then.

use std::collections::HashMap;
use std::rc::Rc;

use mlua::{Function, Lua, Result, Table, Value};

use super::host_functions::{Handler, Host};
use super::{OURS, TRACE, place};
use crate::source_names::Sources;
use crate::task::{Awaited, BackgroundTaskKind};

/// The position of a function of a script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FunctionOrigin {
    file: String,
    first: usize,
    last: usize,
}

impl FunctionOrigin {
    /// Returns the position of a function; none of functions that no script has written.
    pub(crate) fn of(function: &Function) -> Option<Self> {
        let info = function.info();
        let is_theirs = |file: &String| info.what != "C" && !OURS.contains(&file.as_str());
        let file = info.short_src.filter(is_theirs)?;
        // For Lua, a whole file begins at line 0, and has no end.
        match info.line_defined? {
            0 => Some(Self { file, first: 1, last: usize::MAX }),
            first => Some(Self { file, first, last: info.last_line_defined.unwrap_or(first) }),
        }
    }

    pub(super) fn source_position(&self) -> String {
        format!("{}:{}", self.file, self.first)
    }

    /// Returns whether a line of a stack belongs to the function.
    fn holds(&self, line: &str) -> bool {
        let place = place(line).and_then(|place| place.rsplit_once(':'));
        place.is_some_and(|(file, number)| {
            let is_within = |number| (self.first..=self.last).contains(&number);
            *file == self.file && number.parse().is_ok_and(is_within)
        })
    }

    /// Replaces the name and the lines by those of its file.
    pub(super) fn explained(self, sources: &Sources) -> Self {
        let place = sources.explained(&self.source_position());
        match place.rsplit_once(':').map(|(file, first)| (file.to_owned(), first.parse())) {
            Some((file, Ok(first))) => Self { file, first, ..self },
            _ => self,
        }
    }
}

/// The kind of a script's handler.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum HandlerId {
    /// The handler of the route with this number.
    Route(usize),
    Special(Handler),
}

/// A handler and then its middleware, the outermost first.
pub(crate) type Handlers = HashMap<HandlerId, Vec<FunctionOrigin>>;

/// Adds the function that records the positions of handlers to the table that the prelude receives.
pub(super) fn install(lua: &Lua, host: &Rc<Host>, table: &Table) -> Result<()> {
    let of = Rc::clone(host);
    let set_origin = move |_: &Lua, (key, handler, around): (Value, Function, Option<Table>)| {
        let around = around.map(|around| around.sequence_values().collect::<Result<Vec<_>>>());
        let around = around.transpose()?.unwrap_or_default();
        if let Some(key) = begun(&key) {
            let origins = [handler].iter().chain(&around).filter_map(FunctionOrigin::of).collect();
            of.handlers.borrow_mut().insert(key, origins);
        }
        Ok(())
    };
    table.raw_set("set_origin", lua.create_function(set_origin)?)?;
    let prefix = |origin: &FunctionOrigin| format!("{}: ", origin.source_position());
    let source_position = move |_: &Lua, function: Function| {
        Ok(FunctionOrigin::of(&function).as_ref().map(prefix).unwrap_or_default())
    };
    table.raw_set("source_position", lua.create_function(source_position)?)?;
    let of = Rc::clone(host);
    let route_position = move |_: &Lua, key: Value| {
        let handlers = of.handlers.borrow();
        let origins = begun(&key).and_then(|begun| handlers.get(&begun));
        Ok(origins.and_then(|origins| origins.first()).map(prefix).unwrap_or_default())
    };
    table.raw_set("route_position", lua.create_function(route_position)?)
}

/// Adds the function that records the event that a page waits for to the table that the prelude
/// receives.
pub(super) fn install_awaited(lua: &Lua, host: &Rc<Host>, table: &Table) -> Result<()> {
    let of = Rc::clone(host);
    let set_awaited = move |_: &Lua, (function, is_block): (Option<Function>, bool)| {
        let awaited = if is_block { Awaited::Block } else { Awaited::Await };
        if let Some(task) = of.tasks.borrow_mut().get(of.work.current.get()) {
            task.awaited = function.map(|function| (awaited, FunctionOrigin::of(&function)));
        }
        Ok(())
    };
    table.raw_set("set_awaited", lua.create_function(set_awaited)?)
}

/// Returns the handler that the prelude means by a key: the number of a route, or a name.
fn begun(key: &Value) -> Option<HandlerId> {
    match key {
        Value::String(name) => {
            let is_named = |handler: &Handler| *handler.name().as_bytes() == *name.as_bytes();
            Handler::ALL.into_iter().find(is_named).map(HandlerId::Special)
        }
        number => number.as_usize().map(HandlerId::Route),
    }
}

/// The functions that were running when an error occurred.
#[derive(Debug, Default)]
pub(super) struct FaultOrigins {
    /// The name of the first one.
    role: &'static str,
    all: Vec<FunctionOrigin>,
}

impl FaultOrigins {
    pub(super) fn of_handler(all: &[FunctionOrigin], sources: &Sources) -> Self {
        let all = all.iter().cloned().map(|origin| origin.explained(sources)).collect();
        Self { role: "the handler", all }
    }

    pub(super) fn of_work(
        kind: BackgroundTaskKind,
        origin: Option<FunctionOrigin>,
        sources: &Sources,
    ) -> Self {
        let origin = origin.map(|origin| origin.explained(sources));
        Self { role: kind.function(), all: Vec::from_iter(origin) }
    }

    /// Formats a failure: the reason, with a position if it needs one, and the stack. The origins
    /// follow where the stack does not show them.
    pub(super) fn format(&self, why: &str, needs_place: bool, stack: &[String]) -> String {
        let on_stack = stack.iter().find_map(|line| place(line));
        let mut text = match (on_stack, &self.all[..]) {
            (Some(place), _) if needs_place => format!("{place}: {why}"),
            // The message says already that it concerns the handler.
            (None, [one, ..]) if needs_place && why.starts_with("the handler ") => {
                format!("{}: {why}", one.source_position())
            }
            (None, [one, more @ ..]) if needs_place => {
                let middleware = if more.is_empty() { "" } else { ", or in its middleware" };
                let Self { role, .. } = self;
                format!(
                    "{}: in {role} that starts at this line{middleware}: {why}",
                    one.source_position()
                )
            }
            _ => why.to_owned(),
        };
        let is_shown = |origin: &FunctionOrigin| stack.iter().any(|line| origin.holds(line));
        let unseen = match &self.all[..] {
            [first, ..] if !is_shown(first) => &self.all[..],
            _ => &[],
        };
        if !(stack.is_empty() && unseen.is_empty()) {
            text.push_str(&format!("\n{TRACE}"));
        }
        stack.iter().for_each(|line| text.push_str(&format!("\n{line}")));
        for (at, origin) in unseen.iter().enumerate() {
            let role = if at == 0 { self.role } else { "its middleware" };
            if !is_shown(origin) {
                text.push_str(&format!("\n\t{}: {role} starts here", origin.source_position()));
            }
        }
        text
    }
}
