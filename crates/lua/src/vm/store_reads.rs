//! The keys of the store that scripts have read while they computed a value that they keep until
//! these keys change.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

use mlua::{Lua, Result, Table};
use pinion_store::read_set::ReadSet;

use super::host_functions::Host;
use crate::limits::STORE_KEPT_MAX;
use crate::task::TaskId;

/// The sets of keys that were read, by number, for values that a script keeps.
#[derive(Default)]
pub(crate) struct ScriptReads {
    sets: RefCell<HashMap<u64, ReadSet>>,
    last: Cell<u64>,
    /// The task that has begun to record the reads of all tasks.
    pub(super) recorder: Cell<Option<TaskId>>,
}

impl ScriptReads {
    fn add(&self, set: ReadSet) -> u64 {
        let number = self.last.get() + 1;
        self.last.set(number);
        self.sets.borrow_mut().insert(number, set);
        number
    }
}

impl Host {
    /// Begins to record reads. Returns whether it does, or why there is no store. If another task
    /// records already, it also gets the reads of this one.
    fn store_record(&self) -> Result<(bool, Option<String>)> {
        let task = self.work.current.get();
        let mut begins = false;
        let (_, why, _) = self.with_store(|client| {
            begins = client.record_reads();
            Ok((mlua::Value::Nil, None, None))
        })?;
        if begins {
            self.store.reads.recorder.set(Some(task));
            self.mark_owner(task);
        }
        Ok((begins, why))
    }

    /// Ends recording. Returns the number of the set, unless a read was of a kind whose changes
    /// could not be noticed.
    fn store_recorded(&self) -> Option<u64> {
        self.store.reads.recorder.set(None);
        let set = self.store.recorded_reads()?;
        Some(self.store.reads.add(set))
    }

    /// Returns whether all keys of a set have the values that were read.
    fn store_is_current(&self, number: u64) -> bool {
        let sets = self.store.reads.sets.borrow();
        sets.get(&number).is_some_and(|set| set.is_current(self.clock.now().unix_ms))
    }

    /// Drops a set.
    fn store_forget(&self, number: u64) {
        let set = self.store.reads.sets.borrow_mut().remove(&number);
        drop(set);
    }
}

/// Adds these functions to the table that the prelude receives.
pub(super) fn install(lua: &Lua, host: &Rc<Host>, table: &Table) -> Result<()> {
    let of = Rc::clone(host);
    table.raw_set("store_record", lua.create_function(move |_, ()| of.store_record())?)?;
    let of = Rc::clone(host);
    table.raw_set("store_recorded", lua.create_function(move |_, ()| Ok(of.store_recorded()))?)?;
    let of = Rc::clone(host);
    let is_current = move |_: &Lua, number| Ok(of.store_is_current(number));
    table.raw_set("store_is_current", lua.create_function(is_current)?)?;
    let of = Rc::clone(host);
    let forget = move |_: &Lua, number| {
        of.store_forget(number);
        Ok(())
    };
    table.raw_set("store_forget", lua.create_function(forget)?)?;
    table.raw_set("STORE_KEPT_MAX", STORE_KEPT_MAX)
}
