//! The identifier of a task.

use mlua::{FromLua, IntoLua, Lua, Result, Value};

/// The number of slots that an identifier can name; the bits above them are the generation.
pub(super) const SLOTS: usize = 1 << 20;

/// Identifies a task of a VM by its slot in the table of tasks and by the generation of this slot.
/// The identifier of a task that has ended never belongs to a living one. Scripts hold it as a
/// number: it is a whole number that a double represents exactly.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct TaskId(u64);

impl TaskId {
    /// Identifies no task: the main script, while it starts.
    pub(crate) const NONE: Self = Self(0);

    /// Creates the identifier of the task that has a slot in a generation, which counts from 1 on.
    pub(crate) fn new(generation: u64, slot: usize) -> Self {
        debug_assert!(generation > 0 && slot < SLOTS, "{generation}, {slot}");
        Self(generation * SLOTS as u64 + slot as u64)
    }

    pub(super) fn generation(self) -> u64 {
        self.0 / SLOTS as u64
    }

    pub(super) fn slot(self) -> usize {
        (self.0 % SLOTS as u64) as usize
    }
}

impl FromLua for TaskId {
    /// Converts a number of a script. A number that identifies no task is accepted here, and no
    /// task is found under it.
    fn from_lua(value: Value, lua: &Lua) -> Result<Self> {
        f64::from_lua(value, lua).map(|number| Self(number as u64))
    }
}

impl IntoLua for TaskId {
    fn into_lua(self, lua: &Lua) -> Result<Value> {
        // A double counts the tasks exactly for longer than any server runs.
        (self.0 as f64).into_lua(lua)
    }
}
