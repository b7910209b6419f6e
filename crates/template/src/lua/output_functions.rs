//! The functions of a page that write text, and their calls.
//!
//! The output of a function is escaped for the context in which the function is defined, so it must
//! be called in such a context only. Functions are distinguished by the variable or the field that
//! they are first assigned to; a function that is passed on as a value is not followed.

use std::collections::HashMap;

use crate::compile_error::{FileFault, TemplateProblem, quoted};
use crate::escaping::PageContext;

/// The name by which a function is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Callee<'a> {
    /// A local variable, by its serial number.
    Local(u32),
    /// A field of any table.
    Field(&'a [u8]),
}

#[derive(Debug)]
struct Function<'a> {
    callee: Option<Callee<'a>>,
    /// The context of its definition.
    place: PageContext,
    /// The function around it, by rank.
    outer: Option<usize>,
    /// Whether it contains text, or calls a function that writes.
    writes: bool,
}

#[derive(Debug)]
struct Call<'a> {
    callee: Callee<'a>,
    /// The context of the call, by rank.
    place: usize,
    /// The function that contains the call, by rank.
    caller: Option<usize>,
    name: &'a [u8],
    file: &'a str,
    line: u32,
}

/// The functions and calls of a page.
#[derive(Debug, Default)]
pub(super) struct Functions<'a> {
    functions: Vec<Function<'a>>,
    calls: Vec<Call<'a>>,
    /// The contexts of calls; consecutive calls share one.
    places: Vec<PageContext>,
    /// The functions around the present position, the innermost last.
    open: Vec<usize>,
}

impl<'a> Functions<'a> {
    /// Returns the rank of the function that is opened next.
    pub(super) fn next(&self) -> usize {
        self.functions.len()
    }

    pub(super) fn open(&mut self, place: &PageContext) {
        let outer = self.open.last().copied();
        self.open.push(self.functions.len());
        let place = place.clone();
        self.functions.push(Function { callee: None, place, outer, writes: false });
    }

    /// Sets the variable or field that a function was assigned to.
    pub(super) fn name(&mut self, rank: usize, callee: Option<Callee<'a>>) {
        if let Some(function) = self.functions.get_mut(rank) {
            function.callee = callee;
        }
    }

    pub(super) fn close(&mut self) {
        self.open.pop();
    }

    /// Records that the function around writes text.
    pub(super) fn write(&mut self) {
        if let Some(&rank) = self.open.last() {
            self.functions[rank].writes = true;
        }
    }

    /// Records a call of the function with this name, at a line of a file.
    pub(super) fn call(
        &mut self,
        callee: Callee<'a>,
        name: &'a [u8],
        place: &PageContext,
        (file, line): (&'a str, u32),
    ) {
        if self.places.last() != Some(place) {
            self.places.push(place.clone());
        }
        let (place, caller) = (self.places.len() - 1, self.open.last().copied());
        self.calls.push(Call { callee, place, caller, name, file, line });
    }

    /// Fails at the first call of a function that writes for another context.
    pub(super) fn check(&mut self) -> Result<(), TemplateProblem> {
        self.follow();
        // Two functions of one name must have the same context, too.
        let mut places: HashMap<Callee<'_>, Option<&PageContext>> = HashMap::new();
        for function in self.functions.iter().filter(|function| function.writes) {
            let Some(callee) = function.callee else { continue };
            let place = places.entry(callee).or_insert(Some(&function.place));
            if *place != Some(&function.place) {
                *place = None;
            }
        }
        let wrong = self.calls.iter().find(|call| {
            let known = places.get(&call.callee);
            known.is_some_and(|place| *place != Some(&self.places[call.place]))
        });
        wrong.map_or(Ok(()), |call| {
            let name = quoted(call.name);
            let here = self.places[call.place].described();
            let defined = places.get(&call.callee).copied().flatten().map(PageContext::described);
            let why = match defined {
                Some(defined) if defined != here => format!(
                    "the output of `{name}` is escaped for {defined}, where it is defined, and \
                     cannot be used in {here}"
                ),
                Some(defined) => format!(
                    "the output of `{name}` is escaped for one position in {defined}, where it is \
                     defined, and cannot be used in another one"
                ),
                None => format!(
                    "several functions `{name}` are defined in different contexts, so their \
                     output cannot be used in {here}"
                ),
            };
            let message = format!("{why}: return the value from `{name}` and write #[[{name}(…)]]");
            Err(FileFault::new(call.line, message).in_file(call.file))
        })
    }

    /// Marks the functions that write, directly or by a call.
    fn follow(&mut self) {
        let mut callers: HashMap<Callee<'_>, Vec<usize>> = HashMap::new();
        for call in &self.calls {
            callers.entry(call.callee).or_default().extend(call.caller);
        }
        let all = 0..self.functions.len();
        let mut found: Vec<usize> = all.filter(|&rank| self.functions[rank].writes).collect();
        while let Some(rank) = found.pop() {
            let Function { callee, outer, .. } = self.functions[rank];
            // This is done once for each name: all its callers are marked then.
            let by_name = callee.and_then(|callee| callers.remove(&callee)).unwrap_or_default();
            for rank in by_name.into_iter().chain(outer) {
                if !std::mem::replace(&mut self.functions[rank].writes, true) {
                    found.push(rank);
                }
            }
        }
    }
}
