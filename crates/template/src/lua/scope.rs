//! Declared names, labels, and the limits of Lua for both.

use std::collections::{HashMap, HashSet};

use crate::escaping::PageContext;
use crate::limits::{LOCALS_MAX, UPVALUES_MAX};

/// The meaning of a name at some position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// A local variable, of this function or of an outer one.
    Local {
        constant: bool,
        /// Its rank in the order of declaration.
        serial: u32,
    },
    Global,
}

#[derive(Debug)]
struct Local<'a> {
    name: &'a [u8],
    serial: u32,
    /// The depth of its function.
    depth: usize,
    constant: bool,
}

#[derive(Debug)]
struct Function {
    serial: u32,
    /// The number of present variables, those of Lua itself in loops included.
    locals: usize,
    upvalues: usize,
    is_vararg: bool,
    /// The number of blocks around it.
    blocks: usize,
}

#[derive(Debug)]
struct LuaBlock<'a> {
    /// The rank of the first local of the block.
    first: usize,
    /// The number of variables without a name.
    hidden: usize,
    is_loop: bool,
    /// The labels, with their contexts in the page.
    labels: HashMap<&'a [u8], PageContext>,
    gotos: Vec<Goto<'a>>,
}

#[derive(Debug)]
struct Goto<'a> {
    name: &'a [u8],
    line: u32,
    /// The number of locals at that position.
    locals: usize,
    /// The context in the page.
    place: PageContext,
}

impl Goto<'_> {
    /// Returns the common context of this `goto` and its label at `place`.
    fn joined(&self, place: &PageContext) -> Result<PageContext, Refused> {
        place.joined(&self.place).ok_or_else(|| {
            let name = String::from_utf8_lossy(self.name);
            let both = place.both_described(&self.place);
            let message = format!(
                "`goto {name}` and its label stand in different contexts{both}: put both inside \
                 or both outside of the tag or attribute"
            );
            (message, Some(self.line))
        })
    }

    /// Checks a jump back: the text after the label has been read already.
    fn goes_back(&self, label: &PageContext) -> Result<(), Refused> {
        self.joined(label).map(|_| ())
    }
}

/// An error without its position; the error of a `goto` has its line.
pub(crate) type Refused = (String, Option<u32>);

/// All open scopes at a position of a program.
#[derive(Debug, Default)]
pub(crate) struct Scopes<'a> {
    locals: Vec<Local<'a>>,
    by_name: HashMap<&'a [u8], Vec<usize>>,
    functions: Vec<Function>,
    blocks: Vec<LuaBlock<'a>>,
    /// The variables of outer functions that functions use, as pairs of serial numbers of function
    /// and variable.
    captured: HashSet<(u32, u32)>,
    serial: u32,
}

impl<'a> Scopes<'a> {
    pub(crate) fn open_function(&mut self, is_vararg: bool) {
        self.serial += 1;
        let blocks = self.blocks.len();
        let serial = self.serial;
        self.functions.push(Function { serial, locals: 0, upvalues: 0, is_vararg, blocks });
        self.open_block(false);
    }

    pub(crate) fn close_function(&mut self) -> Result<(), Refused> {
        self.close_block()?;
        self.functions.pop();
        Ok(())
    }

    pub(crate) fn is_vararg(&self) -> bool {
        self.functions.last().is_some_and(|function| function.is_vararg)
    }

    pub(crate) fn open_block(&mut self, is_loop: bool) {
        let first = self.locals.len();
        let (labels, gotos) = (HashMap::new(), Vec::new());
        self.blocks.push(LuaBlock { first, hidden: 0, is_loop, labels, gotos });
    }

    pub(crate) fn close_block(&mut self) -> Result<(), Refused> {
        let Some(block) = self.blocks.pop() else { return Ok(()) };
        for local in self.locals.drain(block.first..) {
            if let Some(ranks) = self.by_name.get_mut(local.name) {
                ranks.pop();
            }
            if let Some(function) = self.functions.last_mut() {
                function.locals -= 1;
            }
        }
        let is_last = self.functions.last().is_none_or(|f| f.blocks == self.blocks.len());
        if let Some(function) = self.functions.last_mut() {
            function.locals -= block.hidden;
        }
        for goto in block.gotos {
            let outer = if is_last { None } else { self.blocks.last_mut() };
            let Some(outer) = outer else {
                let name = String::from_utf8_lossy(goto.name);
                let message = format!("`goto {name}` has no label `::{name}::` that it can see");
                return Err((message, Some(goto.line)));
            };
            match outer.labels.get(goto.name) {
                Some(label) => goto.goes_back(label)?,
                None => outer.gotos.push(Goto { locals: goto.locals.min(block.first), ..goto }),
            }
        }
        Ok(())
    }

    /// Returns whether the rest of the page sees a declaration here.
    pub(crate) fn is_outside_of_blocks(&self) -> bool {
        let page = self.functions.get(1).filter(|_| self.functions.len() == 2);
        page.is_some_and(|page| page.blocks + 1 == self.blocks.len())
    }

    /// Returns whether a `break` is inside of a loop.
    pub(crate) fn is_in_loop(&self) -> bool {
        let first = self.functions.last().map_or(0, |function| function.blocks);
        self.blocks[first..].iter().any(|block| block.is_loop)
    }

    /// Records a `goto`, at a context of the page.
    pub(crate) fn goto(
        &mut self,
        name: &'a [u8],
        line: u32,
        place: &PageContext,
    ) -> Result<(), Refused> {
        let locals = self.locals.len();
        let Some(block) = self.blocks.last_mut() else { return Ok(()) };
        let goto = Goto { name, line, locals, place: place.clone() };
        match block.labels.get(name) {
            Some(label) => goto.goes_back(label)?,
            None => block.gotos.push(goto),
        }
        Ok(())
    }

    /// Records a label at a context of the page; `is_last` means that only the end of its block
    /// follows. Returns the context of the following text, which is the same for every way to it.
    pub(crate) fn label(
        &mut self,
        name: &'a [u8],
        is_last: bool,
        place: &PageContext,
    ) -> Result<PageContext, Refused> {
        let here = self.locals.len();
        let mut place = place.clone();
        let Some(block) = self.blocks.last_mut() else { return Ok(place) };
        let shown = String::from_utf8_lossy(name);
        if block.labels.contains_key(name) {
            return Err((
                format!("the label `::{shown}::` exists already; rename one of them"),
                None,
            ));
        }
        // The position after the last statement of a block is outside of all its variables.
        let from = if is_last { block.first } else { here };
        for goto in block.gotos.iter().filter(|goto| goto.name == name) {
            if goto.locals < from {
                let message = format!("`goto {shown}` jumps over a `local` that its label can see");
                return Err((message, Some(goto.line)));
            }
            place = goto.joined(&place)?;
        }
        block.gotos.retain(|goto| goto.name != name);
        block.labels.insert(name, place.clone());
        Ok(place)
    }

    /// Declares a local of the present function.
    pub(crate) fn declare(&mut self, name: &'a [u8], constant: bool) -> Result<(), Refused> {
        self.serial += 1;
        let (serial, depth) = (self.serial, self.functions.len());
        self.by_name.entry(name).or_default().push(self.locals.len());
        self.locals.push(Local { name, serial, depth, constant });
        self.grow(1)
    }

    /// Counts variables that Lua needs for itself in the present block.
    pub(crate) fn hide(&mut self, variables: usize) -> Result<(), Refused> {
        if let Some(block) = self.blocks.last_mut() {
            block.hidden += variables;
        }
        self.grow(variables)
    }

    /// Ends such variables before their block ends.
    pub(crate) fn unhide(&mut self, variables: usize) {
        if let (Some(block), Some(function)) = (self.blocks.last_mut(), self.functions.last_mut()) {
            block.hidden -= variables;
            function.locals -= variables;
        }
    }

    fn grow(&mut self, variables: usize) -> Result<(), Refused> {
        let Some(function) = self.functions.last_mut() else { return Ok(()) };
        function.locals += variables;
        if function.locals <= LOCALS_MAX {
            return Ok(());
        }
        let message = format!(
            "more than {LOCALS_MAX} local variables at once, which Lua cannot have in one \
             function; `do … end` around some of them ends their lives sooner"
        );
        Err((message, None))
    }

    /// Returns the meaning of a name here, and counts the variables that functions take from outer
    /// ones.
    pub(crate) fn resolve(&mut self, name: &[u8]) -> Result<Meaning, Refused> {
        let rank = self.by_name.get(name).and_then(|ranks| ranks.last());
        let Some(local) = rank.and_then(|&rank| self.locals.get(rank)) else {
            return Ok(Meaning::Global);
        };
        let (constant, serial) = (local.constant, local.serial);
        // Inner functions come first: a function that has the variable already has it through all
        // outer ones.
        for function in self.functions[local.depth..].iter_mut().rev() {
            if !self.captured.insert((function.serial, serial)) {
                break;
            }
            function.upvalues += 1;
            if function.upvalues > UPVALUES_MAX {
                let message = format!(
                    "a function here uses more than {UPVALUES_MAX} variables from outside of \
                     it, which LuaJIT cannot; a table can hold several of them"
                );
                return Err((message, None));
            }
        }
        Ok(Meaning::Local { constant, serial })
    }
}
