//! The table of the living tasks of a VM.

use super::task_id::SLOTS;
use super::{
    Awaited, BackgroundTask, BackgroundTaskKind, RequestTask, Task, TaskBudget, TaskId,
    TaskLifetime, TaskState, Waits,
};
use crate::limits::{BACKGROUND_DIVISOR, TASKS_MAX};
use crate::script_quotas::Allowance;
use crate::vm::FunctionOrigin;
use mlua::{Result, Table, Thread as Coroutine};
use pinion_engine::exchange_address::Address;
use std::cell::Cell;
use std::rc::Rc;

/// The number of slots that are allocated with the first task.
const SLOTS_MIN: usize = 4;
const _: () = assert!(BACKGROUND_DIVISOR > 1 && TASKS_MAX <= SLOTS);

/// Bytes of one task outside of its VM: its slot, its state, its number among the free slots, and
/// its state among the unused ones. While the table of slots grows there may be half as many once
/// more.
pub(crate) const TASK_BYTES: usize =
    size_of::<TaskSlot>() * 3 / 2 + size_of::<RequestTask>() + 4 * size_of::<usize>();
const _: () = assert!(size_of::<BackgroundTask>() <= size_of::<RequestTask>());

/// The living tasks of a VM.
#[derive(Debug)]
#[expect(clippy::vec_box, reason = "the boxes move between the slots and the unused ones")]
pub(crate) struct Tasks {
    /// The limits of each task.
    pub(crate) allowance: Allowance,
    /// The most tasks that there may be.
    pub(crate) tasks_max: usize,
    slots: Vec<TaskSlot>,
    free: Vec<usize>,
    /// Tasks of requests that have ended. The next requests reuse their memory.
    unused: Vec<Box<RequestTask>>,
    /// The coroutines that are parked, by the slots of their tasks from 1 on. Each value of Lua
    /// that Rust holds takes one of some thousand slots of its VM; here all of them take one.
    parked: Option<Table>,
    /// The number of living tasks that belong to no request.
    background: usize,
}

/// A task, and the number of tasks that the slot has had, from 1 on.
#[derive(Debug)]
struct TaskSlot {
    generation: u64,
    task: Option<Task>,
}

/// The tasks and subscriptions that the end of a task affects.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct TaskEnd {
    /// Tasks that wait for the end.
    pub(crate) watchers: Vec<TaskId>,
    /// Tasks that begin now.
    pub(crate) after: Vec<TaskId>,
    /// Subscriptions that end.
    pub(crate) subscriptions: Vec<u64>,
    /// Tasks whose requests to other servers end.
    pub(crate) owners: Vec<TaskId>,
}

impl Default for Tasks {
    fn default() -> Self {
        let (slots, free, unused, parked) = Default::default();
        let allowance = Allowance::default();
        Self { allowance, tasks_max: TASKS_MAX, slots, free, unused, parked, background: 0 }
    }
}

impl Tasks {
    /// Returns the most tasks that may belong to no request.
    pub(crate) fn background_max(&self) -> usize {
        self.tasks_max / BACKGROUND_DIVISOR
    }

    /// Sets the table of the VM in which coroutines are parked.
    pub(crate) fn park_in(&mut self, table: Table) {
        self.parked = Some(table);
    }

    /// Begins the task of the request of an exchange, which may reuse memory of an earlier one.
    /// Returns none when no slot is left.
    pub(crate) fn begin(&mut self, address: Address) -> Option<TaskId> {
        let slot = self.free_slot()?;
        let left = TaskBudget::of(&self.allowance);
        let task = match self.unused.pop() {
            Some(mut task) => {
                task.renew(address, left);
                task
            }
            None => Box::new(RequestTask::new(address, left)),
        };
        Some(self.fill(slot, Task::Request(task)))
    }

    /// Begins the task of a request that no exchange has.
    #[cfg(test)]
    pub(crate) fn begin_without_exchange(&mut self) -> Option<TaskId> {
        self.begin(Address { worker: 0, slot: 0, generation: 0, exchange: 0 })
    }

    /// Takes a slot that no living task has; returns none when there are as many tasks as there may
    /// be.
    fn free_slot(&mut self) -> Option<usize> {
        if let Some(slot) = self.free.pop() {
            return Some(slot);
        }
        if self.slots.len() >= self.tasks_max {
            return None;
        }
        if self.slots.len() == self.slots.capacity() {
            self.grow();
        }
        self.slots.push(TaskSlot { generation: 1, task: None });
        Some(self.slots.len() - 1)
    }

    fn fill(&mut self, slot: usize, task: Task) -> TaskId {
        let filled = &mut self.slots[slot];
        debug_assert!(filled.task.is_none(), "the slot {slot} has a task");
        filled.task = Some(task);
        TaskId::new(filled.generation, slot)
    }

    /// Allocates twice as many slots, and never more than there may be.
    #[cold]
    fn grow(&mut self) {
        let slots = self.slots.len();
        let wanted = (2 * slots).max(SLOTS_MIN).min(self.tasks_max);
        self.slots.reserve_exact(wanted.saturating_sub(slots).max(1));
    }

    /// Returns a living task.
    pub(crate) fn task(&mut self, id: TaskId) -> Option<&mut Task> {
        let slot = self.slots.get_mut(id.slot())?;
        slot.task.as_mut().filter(|_| slot.generation == id.generation())
    }

    /// Returns the state of a living task of any kind.
    pub(crate) fn get(&mut self, id: TaskId) -> Option<&mut TaskState> {
        self.task(id).map(Task::state_mut)
    }

    /// Returns a living task that belongs to a request.
    pub(crate) fn request(&mut self, id: TaskId) -> Option<&mut RequestTask> {
        match self.task(id)? {
            Task::Request(task) => Some(task),
            Task::Background(_) => None,
        }
    }

    /// Returns a living task that belongs to no request.
    pub(crate) fn background_task(&mut self, id: TaskId) -> Option<&mut BackgroundTask> {
        match self.task(id)? {
            Task::Request(_) => None,
            Task::Background(task) => Some(task),
        }
    }

    /// Returns the task whose budget a living task uses: mostly its own.
    pub(crate) fn budget_owner(&mut self, id: TaskId) -> Option<TaskId> {
        match self.task(id)? {
            Task::Request(_) => Some(id),
            Task::Background(task) => Some(task.budget_owner.unwrap_or(id)),
        }
    }

    /// Begins background work, whose coroutine the caller parks for its first turn. Returns none
    /// when there is too much of it.
    pub(crate) fn spawn(&mut self, by: TaskId, kind: BackgroundTaskKind) -> Option<TaskId> {
        let spawned_max = self.allowance.spawned_max;
        let spawns_left = self.get(by).map(|by| {
            let fresh = || Rc::new(Cell::new(spawned_max));
            Rc::clone(by.spawns_left.get_or_insert_with(fresh))
        });
        if let Some(left) = &spawns_left {
            left.set(left.get().checked_sub(1)?);
        }
        if self.background >= self.background_max() {
            return None;
        }
        let slot = self.free_slot()?;
        self.background += 1;
        let mut task = BackgroundTask::new(kind, TaskBudget::background(&self.allowance));
        task.state.spawns_left = spawns_left;
        if kind.lifetime() == TaskLifetime::Child {
            task.budget_owner = self.budget_owner(by);
        }
        let id = self.fill(slot, Task::Background(Box::new(task)));
        if self.live() + self.unused.len() > self.tasks_max {
            // The memory of all tasks is counted once.
            self.unused.pop();
        }
        match (kind.lifetime(), self.get(by)) {
            (TaskLifetime::Child, Some(parent)) => parent.children.push(id),
            (TaskLifetime::AfterParent, Some(parent)) => parent.after.push(id),
            _ => {}
        }
        Some(id)
    }

    /// Returns the number of living tasks.
    pub(crate) fn live(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Returns the part of a page that a task or a child of it waits for.
    pub(crate) fn awaited(&mut self, id: TaskId) -> Option<(Awaited, Option<FunctionOrigin>)> {
        let task = self.get(id)?;
        if task.awaited.is_some() {
            return task.awaited.clone();
        }
        if task.waits != Waits::Wake {
            return None;
        }
        let children = task.children.clone();
        children.into_iter().find_map(|child| self.get(child)?.awaited.clone())
    }

    /// Returns the tasks that wait for a wake-up or a time.
    pub(crate) fn wakeable(&self) -> Vec<TaskId> {
        let is_wakeable = |task: &Task| matches!(task.state().waits, Waits::WakeUntil(_));
        let all = self.slots.iter().enumerate();
        let wakeable = all.filter(|(_, slot)| slot.task.as_ref().is_some_and(is_wakeable));
        wakeable.map(|(at, slot)| TaskId::new(slot.generation, at)).collect()
    }

    /// Returns the number of living tasks that belong to no request.
    pub(crate) fn background(&self) -> usize {
        self.background
    }

    /// Keeps the coroutine of a task until the event comes that it waits for.
    ///
    /// # Errors
    /// Fails when memory runs out.
    pub(crate) fn park(&mut self, id: TaskId, coroutine: Coroutine, waits: Waits) -> Result<()> {
        let Some(task) = self.get(id) else { return Ok(()) };
        (task.is_parked, task.waits) = (true, waits);
        self.parked.as_ref().map_or(Ok(()), |parked| parked.raw_set(id.slot() + 1, coroutine))
    }

    /// Returns the coroutine of a task that is parked, and leaves it parked.
    pub(crate) fn coroutine(&mut self, id: TaskId) -> Option<Coroutine> {
        let is_parked = self.get(id)?.is_parked;
        let parked = self.parked.as_ref().filter(|_| is_parked)?;
        parked.raw_get(id.slot() + 1).ok()
    }

    /// Takes the coroutine of a task out of the table.
    pub(crate) fn take_coroutine(&mut self, id: TaskId) -> Option<Coroutine> {
        let coroutine = self.coroutine(id)?;
        self.get(id)?.is_parked = false;
        if let Some(parked) = &self.parked {
            // The value is not nil, so that the table keeps the slot for the next coroutine.
            let _room_is_there = parked.raw_set(id.slot() + 1, false);
        }
        Some(coroutine)
    }

    /// Registers `watcher` for the end of a task; returns false if the task has ended.
    pub(crate) fn watch(&mut self, id: TaskId, watcher: TaskId) -> bool {
        let task = self.get(id);
        task.is_some_and(|task| {
            task.watchers.push(watcher);
            true
        })
    }

    /// Ends a task and its children.
    pub(crate) fn end(&mut self, id: TaskId) -> TaskEnd {
        let mut ended = TaskEnd::default();
        let mut ending = Vec::new();
        let mut next = Some(id);
        while let Some(id) = next {
            next = ending.pop();
            let _dropped = self.take_coroutine(id);
            let Some(mut task) = self.remove(id) else { continue };
            let state = task.state_mut();
            if state.is_owner {
                ended.owners.push(id);
            }
            ending.append(&mut state.children);
            next = next.or_else(|| ending.pop());
            ended.watchers.append(&mut state.watchers);
            ended.after.append(&mut state.after);
            ended.subscriptions.append(&mut state.subscriptions);
            match task {
                Task::Request(mut request) => {
                    request.clear();
                    self.unused.push(request);
                }
                Task::Background(_) => self.background -= 1,
            }
        }
        ended
    }

    /// Takes a living task out of its slot, which is free then.
    fn remove(&mut self, id: TaskId) -> Option<Task> {
        let slot = self.slots.get_mut(id.slot())?;
        let task = slot.task.take_if(|_| slot.generation == id.generation())?;
        slot.generation += 1;
        self.free.push(id.slot());
        Some(task)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::{
        BACKGROUND_MAX, CHANNELS_MAX, IDLE_COROUTINES_MAX, SCHEDULES_MAX, SMALL_TASKS_MAX,
    };
    use mlua::{FromLua as _, Value};

    fn coroutine(lua: &mlua::Lua) -> Coroutine {
        let nothing = lua.create_function(|_, ()| Ok(())).expect("a function");
        lua.create_thread(nothing).expect("a coroutine")
    }

    /// All tasks that a request has led to count together, whichever of them began others or ended.
    #[test]
    fn all_tasks_of_one_request_share_one_limit() {
        for kind in
            [BackgroundTaskKind::Spawn, BackgroundTaskKind::Gather, BackgroundTaskKind::Cached]
        {
            let mut tasks = Tasks::default();
            tasks.allowance.spawned_max = 100;
            let (request, other) = (
                tasks.begin_without_exchange().expect("a slot"),
                tasks.begin_without_exchange().expect("one"),
            );
            let (mut begun, mut by) = (0, request);
            while let Some(id) = tasks.spawn(by, kind) {
                begun += 1;
                assert!(begun <= 100, "{kind:?}");
                // Each begins two: one that goes on with that, and one that ends at once.
                if let Some(second) = tasks.spawn(by, kind) {
                    begun += 1;
                    tasks.end(second);
                }
                by = id;
            }
            assert_eq!(begun, 100, "{kind:?}");
            assert!(tasks.spawn(request, kind).is_none());
            assert!(tasks.spawn(other, kind).is_some());
            // A task without an origin, such as a run of a schedule, is an origin itself.
            let run = tasks.spawn(TaskId::NONE, BackgroundTaskKind::Every).expect("a run");
            assert!(tasks.spawn(run, kind).is_some());
        }
    }

    /// As many tasks as there may be, and all else that is held of a VM: nothing panics.
    #[test]
    fn a_vm_holds_the_largest_number_of_tasks() {
        let lua = mlua::Lua::new();
        let beside = CHANNELS_MAX + SCHEDULES_MAX + IDLE_COROUTINES_MAX;
        let _held: Vec<_> = (0..beside).map(|_| coroutine(&lua)).collect();
        let mut tasks = Tasks::default();
        tasks.park_in(lua.create_table().expect("a table"));
        let (mut requests, mut pieces) = (0, 0);
        while let Some(id) = tasks.spawn(TaskId::NONE, BackgroundTaskKind::Every) {
            pieces += 1;
            tasks.park(id, coroutine(&lua), Waits::No).expect("parked");
        }
        while let Some(id) = tasks.begin_without_exchange() {
            requests += 1;
            tasks.park(id, coroutine(&lua), Waits::No).expect("parked");
        }
        assert_eq!((pieces, requests), (BACKGROUND_MAX, TASKS_MAX - BACKGROUND_MAX));
    }

    #[test]
    fn a_small_table_takes_no_more_memory_than_is_counted() {
        let mut tasks = Tasks { tasks_max: SMALL_TASKS_MAX, ..Tasks::default() };
        let mut pieces = 0;
        while tasks.spawn(TaskId::NONE, BackgroundTaskKind::Every).is_some() {
            pieces += 1;
        }
        assert_eq!(pieces, SMALL_TASKS_MAX / 2);
        let mut ids = Vec::new();
        while let Some(id) = tasks.begin_without_exchange() {
            ids.push(id);
        }
        assert_eq!(pieces + ids.len(), SMALL_TASKS_MAX);
        assert_eq!(tasks.slots.capacity(), SMALL_TASKS_MAX);
        ids.into_iter().for_each(|id| drop(tasks.end(id)));
        let free_bytes = tasks.free.capacity() * size_of::<usize>();
        let table_bytes = tasks.slots.capacity() * size_of::<TaskSlot>();
        let list_bytes = tasks.unused.capacity() * size_of::<usize>();
        let states_bytes = (tasks.live() + tasks.unused.len()) * size_of::<RequestTask>();
        let bytes = table_bytes * 3 / 2 + free_bytes + list_bytes + states_bytes;
        assert!(bytes <= SMALL_TASKS_MAX * TASK_BYTES);
    }

    #[test]
    fn task_ids_are_never_reused() {
        let mut tasks = Tasks::default();
        let mut seen = Vec::new();
        for _ in 0..100 {
            let (one, two) = (
                tasks.begin_without_exchange().expect("a slot"),
                tasks.begin_without_exchange().expect("a slot"),
            );
            assert_ne!(one, two);
            assert!(!seen.contains(&one) && !seen.contains(&two));
            seen.extend([one, two]);
            tasks.end(one);
            assert!(tasks.get(one).is_none() && tasks.get(two).is_some());
            tasks.end(one);
            assert_eq!(tasks.free.len(), 1);
            tasks.end(two);
        }
        assert_eq!((tasks.free.len(), tasks.slots.len(), tasks.unused.len()), (2, 2, 2));
        let one = Tasks::default().begin_without_exchange();
        assert!(one.is_some_and(|one| one != TaskId::NONE));
        let lua = mlua::Lua::new();
        for number in [0.0, -1.0, 0.5, f64::NAN, f64::INFINITY, 1e18] {
            let id = TaskId::from_lua(Value::Number(number), &lua).expect("a number");
            assert!(tasks.get(id).is_none(), "{number}");
        }
    }

    #[test]
    fn live_tasks_and_reusable_states_share_one_limit() {
        let mut tasks = Tasks { tasks_max: SMALL_TASKS_MAX, ..Tasks::default() };
        let begin = |tasks: &mut Tasks| tasks.begin_without_exchange().expect("a slot");
        let ids: Vec<_> = (0..SMALL_TASKS_MAX).map(|_| begin(&mut tasks)).collect();
        ids.into_iter().for_each(|id| drop(tasks.end(id)));
        assert_eq!((tasks.live(), tasks.unused.len()), (0, SMALL_TASKS_MAX));
        let mut works = Vec::new();
        while let Some(id) = tasks.spawn(TaskId::NONE, BackgroundTaskKind::Every) {
            works.push(id);
            assert_eq!(tasks.live() + tasks.unused.len(), SMALL_TASKS_MAX);
            assert!(tasks.background_task(id).is_some() && tasks.request(id).is_none());
        }
        works.into_iter().for_each(|id| drop(tasks.end(id)));
        let id = begin(&mut tasks);
        assert!(tasks.background_task(id).is_none() && tasks.request(id).is_some());
        assert_eq!((tasks.live(), tasks.unused.len()), (1, SMALL_TASKS_MAX / 2 - 1));
    }
}
