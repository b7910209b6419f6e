//! Variables of a page with a layout that a part of it cannot use. The layout decides the order of
//! the slots of a page, so that a slot may run before the code that declares a variable, although
//! it follows in the file.

use std::collections::HashMap;

use crate::compile_error::{FileFault, TemplateProblem, quoted};
use crate::include_expansion::ExpandedPage;

/// Globals of Lua and of Pinion: a part that reads one means the global.
const GLOBALS: &[&str] = &[
    "_G",
    "_VERSION",
    "assert",
    "bit",
    "collectgarbage",
    "coroutine",
    "debug",
    "error",
    "getmetatable",
    "ipairs",
    "load",
    "math",
    "next",
    "os",
    "pairs",
    "pcall",
    "pinion",
    "print",
    "rawequal",
    "rawget",
    "rawlen",
    "rawset",
    "require",
    "select",
    "setmetatable",
    "string",
    "table",
    "tonumber",
    "tostring",
    "type",
    "unpack",
    "utf8",
    "xpcall",
];

/// A name in the code of a page.
#[derive(Clone, Copy, Debug)]
struct Named<'a> {
    name: &'a [u8],
    /// The rank of its piece in the page.
    flat: usize,
    line: u32,
}

/// The names that a page with a layout reads as globals, and the variables that it declares.
#[derive(Debug, Default)]
pub(super) struct SlotNames<'a> {
    globals: Vec<Named<'a>>,
    declared: HashMap<&'a [u8], Vec<Named<'a>>>,
}

impl<'a> SlotNames<'a> {
    /// Records that a piece reads a name that no variable has there.
    pub(super) fn read(&mut self, name: &'a [u8], flat: usize, line: u32) {
        self.globals.push(Named { name, flat, line });
    }

    /// Records that a piece declares a variable outside of all blocks and functions.
    pub(super) fn declare(&mut self, name: &'a [u8], flat: usize, line: u32) {
        self.declared.entry(name).or_default().push(Named { name, flat, line });
    }

    /// Fails at the first name that is a variable of another part of the same file.
    pub(super) fn check(&self, page: &ExpandedPage<'_>) -> Result<(), TemplateProblem> {
        for read in &self.globals {
            let Some(declared) = self.declared.get(read.name) else { continue };
            if GLOBALS.iter().any(|global| global.as_bytes() == read.name) {
                continue;
            }
            let (Some(&flat), slot) = (page.flats.get(read.flat), page.slot_of(read.flat)) else {
                continue;
            };
            let is_of_other_part = |other: &&Named<'_>| {
                let is_same_file =
                    page.flats.get(other.flat).is_some_and(|other| other.source == flat.source);
                is_same_file && page.slot_of(other.flat) != slot && !self.copies_global(other)
            };
            let Some(variable) = declared.iter().find(is_of_other_part) else { continue };
            let part = match slot {
                Some(slot) => format!("the slot `{slot}`"),
                None => "the text outside of the slots".to_owned(),
            };
            let message = format!(
                "{part} cannot use the variable \"{}\" of line {}: declare it in a block before \
                 the first text or slot of the page",
                quoted(read.name),
                variable.line
            );
            return Err(FileFault::new(read.line, message).in_file(&page.source(flat).path));
        }
        Ok(())
    }

    /// Returns whether a variable may hold the global of its name, as in `local config = config`.
    fn copies_global(&self, variable: &Named<'_>) -> bool {
        let is_match = |read: &Named<'_>| read.name == variable.name && read.flat == variable.flat;
        self.globals.iter().any(is_match)
    }
}
