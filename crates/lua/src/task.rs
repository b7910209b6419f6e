//! The tasks of a worker: requests that are being answered, and work beside them. Each has a number
//! that is never used again.

mod task_budget;

use crate::body::received_content::ReceivedContent;
use crate::channel_message::ChannelMessage;
use crate::limits::{BACKGROUND_DIVISOR, ROOM_WAIT_MAX_MS, ROOM_WAIT_ONCE_MS, TASKS_MAX};
use crate::lua_job::LuaJobResult;
use crate::request::HandledRequest;
use crate::script_quotas::Allowance;
use crate::script_response::ScriptResponse;
use crate::sent_file::Sending;
use crate::vm::FunctionOrigin;
use mlua::{Result, Table, Thread as Coroutine};
use pinion_engine::address::Address;
use pinion_http::coding::Coding;
use pinion_jobs::job_queue::CancelOnDrop;
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

pub(crate) use task_budget::TaskBudget;

/// The number of a task, as scripts hold it: a whole number that a double holds exactly. The number
/// of a task that has ended never belongs to a living one.
pub(crate) type TaskId = f64;

/// The number of no task: the script itself, while it starts.
pub(crate) const NOBODY: TaskId = 0.0;

/// The number of places; the bits above them count the tenants of a place.
const PLACES: usize = 1 << 20;
/// The number of places that are allocated with the first task.
const PLACES_MIN: usize = 4;
const _: () = assert!(BACKGROUND_DIVISOR > 1 && TASKS_MAX <= PLACES);

/// Bytes of one task outside of its VM: its place, and its number among the free ones. While the
/// table of places grows there may be half as many once more.
pub(crate) const TASK_BYTES: usize = size_of::<Task>() * 3 / 2 + 2 * size_of::<usize>();

/// One request and the state of its response, or work that belongs to no request.
#[derive(Debug, Default)]
pub(crate) struct Task {
    tenant: u64,
    is_live: bool,
    /// The address of the request; none for work beside requests.
    pub(crate) address: Option<Address>,
    /// The task whose budget this one uses, if not its own.
    pub(crate) account: Option<TaskId>,
    /// Whether the task belongs to no request.
    is_background: bool,
    /// The function that the work beside requests begins with, and the kind of its start.
    pub(crate) origin: Option<FunctionOrigin>,
    pub(crate) kind: WorkKind,
    /// The tasks that end with this one.
    children: Vec<TaskId>,
    /// The subscriptions of the task, which end with it.
    pub(crate) subscriptions: Vec<u64>,
    /// Whether the task has sent requests to other servers or run programs, which end with it.
    pub(crate) is_owner: bool,
    /// Whether the client sends no more, and has most likely left.
    pub(crate) is_input_over: bool,
    /// The tasks that begin when this one has ended.
    after: Vec<TaskId>,
    /// How many tasks its origin may still begin, counted over all its descendants. None until it
    /// begins one.
    spawns_left: Option<Rc<Cell<u32>>>,
    /// The tasks that are notified of its end.
    watchers: Vec<TaskId>,
    /// The part of a page that the task waits for, and where that begins.
    pub(crate) awaited: Option<(Awaited, Option<FunctionOrigin>)>,
    /// Whether another task has woken this one, perhaps before it began to wait for that.
    pub(crate) is_woken: bool,
    /// Cancels the job that it waits for.
    pub(crate) job_guard: Option<CancelOnDrop>,
    /// The result of the job that it has waited for.
    pub(crate) result: Option<LuaJobResult>,
    /// The message that it begins with.
    pub(crate) message: Option<Arc<ChannelMessage>>,
    pub(crate) request: HandledRequest,
    pub(crate) answer: ScriptResponse,
    /// Whether its coroutine is parked: see [`Tasks::park`].
    is_parked: bool,
    /// The event that it waits for.
    pub(crate) waits: Waits,
    pub(crate) content: ReceivedContent,
    /// The file that is the content of its response.
    pub(crate) sending: Option<Sending>,
    pub(crate) left: TaskBudget,
    /// Whether the head of the response has been sent.
    pub(crate) has_begun: bool,
    /// Whether its content may be compressed, and the coding that the client prefers.
    pub(crate) is_compressed: bool,
    pub(crate) coding: Option<Coding>,
    /// Bytes of content that have been sent.
    pub(crate) sent_bytes: u64,
    /// Whether its error handler runs.
    pub(crate) is_failing: bool,
    /// The error that this handler was called for.
    pub(crate) failure: Option<Box<Reported>>,
    /// The deadline of the task, in monotonic milliseconds.
    pub(crate) deadline_ms: u64,
    /// The time limit of the task, or of a stream from one write to the next, in milliseconds.
    pub(crate) wall_ms: u64,
    /// The start of its wait, in monotonic milliseconds.
    waits_since_ms: u64,
    /// The start of its wait for room in the output queue, in monotonic milliseconds.
    room_since_ms: u64,
    /// The time that its deadline has been extended because its client was slow to make room.
    room_waited_ms: u64,
}

/// An error that was logged.
#[derive(Debug)]
pub(crate) struct Reported {
    /// The identifier of the error in the log and the response.
    pub(crate) id: String,
    /// The request, the message and the stack.
    pub(crate) report: String,
}

impl Task {
    /// Sets the deadline: the task has its whole time limit from now on.
    pub(crate) fn begin_time(&mut self, now_ms: u64, wall_ms: u64) {
        (self.deadline_ms, self.room_waited_ms) = (now_ms + wall_ms, 0);
        self.wall_ms = wall_ms;
    }

    /// Renews the deadline of a stream after a write, unless its client has kept it waiting for as
    /// long as clients may.
    pub(crate) fn renew_time(&mut self, now_ms: u64) {
        if self.room_left_ms() > 0 {
            self.deadline_ms = self.deadline_ms.max(now_ms + self.wall_ms);
        }
    }

    /// Records the start of a wait.
    pub(crate) fn begin_wait(&mut self, now_ms: u64) {
        self.waits_since_ms = now_ms;
    }

    /// Records the end of a wait. A stream regains some of its allowance meanwhile, because it
    /// blocks no other request.
    pub(crate) fn end_wait(&mut self, now_ms: u64, allowance: &Allowance) {
        if self.has_begun {
            self.left.regain(now_ms.saturating_sub(self.waits_since_ms), allowance);
        }
    }

    /// Records that the output queue is full until the client has received some of it.
    pub(crate) fn room_went(&mut self, now_ms: u64) {
        self.room_since_ms = now_ms;
    }

    /// Records that the output queue has room again. The deadline moves by the time of the wait,
    /// because it was the client that was slow.
    pub(crate) fn room_came(&mut self, now_ms: u64) {
        let waited_ms = now_ms.saturating_sub(self.room_since_ms);
        let granted_ms = waited_ms.min(self.room_left_ms());
        self.room_waited_ms += granted_ms;
        self.deadline_ms += granted_ms;
    }

    /// Returns when the task is ended unless it goes on before, in monotonic milliseconds.
    pub(crate) fn ends_ms(&self) -> u64 {
        match self.waits {
            Waits::Room | Waits::FileRoom => {
                self.deadline_ms + self.room_left_ms().min(ROOM_WAIT_ONCE_MS)
            }
            _ => self.deadline_ms,
        }
    }

    fn room_left_ms(&self) -> u64 {
        ROOM_WAIT_MAX_MS.saturating_sub(self.room_waited_ms)
    }

    /// Returns whether the task belongs to no request.
    pub(crate) fn is_background(&self) -> bool {
        self.is_background
    }
}

/// The event that a task waits for.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Waits {
    /// No event: the task runs, or has ended.
    #[default]
    No,
    /// A time, in monotonic milliseconds.
    Until(u64),
    /// Content of the request.
    Content,
    /// Room in the output queue.
    Room,
    /// A wake-up by another task.
    Wake,
    /// A wake-up, or a time in monotonic milliseconds.
    WakeUntil(u64),
    /// The result of a job.
    Job,
    /// The next piece of the file that is the content of its response.
    File,
    /// Room for that piece.
    FileRoom,
}

impl Waits {
    /// Returns when the task goes on in any case, in monotonic milliseconds.
    pub(crate) fn until_ms(self) -> Option<u64> {
        match self {
            Self::Until(time_ms) | Self::WakeUntil(time_ms) => Some(time_ms),
            _ => None,
        }
    }
}

/// The living tasks of a worker.
#[derive(Debug)]
pub(crate) struct Tasks {
    /// The limits of each task.
    pub(crate) allowance: Allowance,
    /// The most tasks that there may be.
    pub(crate) tasks_max: usize,
    places: Vec<Task>,
    free: Vec<usize>,
    /// The coroutines that are parked, by the places of their tasks from 1 on. Each value of Lua
    /// that Rust holds takes one of some thousand slots of its VM; here all of them take one.
    parked: Option<Table>,
    /// The number of living tasks that belong to no request.
    background: usize,
}

/// The tasks and subscriptions that the end of a task affects.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Ended {
    /// Tasks that wait for the end.
    pub(crate) watchers: Vec<TaskId>,
    /// Tasks that begin now.
    pub(crate) after: Vec<TaskId>,
    /// Subscriptions that end.
    pub(crate) subscriptions: Vec<u64>,
    /// Tasks whose requests to other servers end.
    pub(crate) owners: Vec<TaskId>,
}

/// The relation of work beside requests to the task that begins it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bond {
    /// A part of that task: it uses the budget of the task, and ends with it.
    Child,
    /// It begins when that task has ended.
    After,
    /// It is independent.
    Own,
}

/// The part of a page that waits until its script says that it is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Awaited {
    /// A block that has to call `done`.
    Block,
    /// A function that has to call its parameter.
    Await,
}

/// The kind of start of work that belongs to no request.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WorkKind {
    #[default]
    Spawn,
    Gather,
    /// A block of a page that waits beside others.
    Block,
    Cached,
    Every,
    Cron,
    Listener,
    /// The main script of a program at the command line.
    Program,
}

impl WorkKind {
    pub(crate) const fn bond(self) -> Bond {
        match self {
            Self::Spawn => Bond::After,
            Self::Gather | Self::Block => Bond::Child,
            Self::Cached | Self::Every | Self::Cron | Self::Listener | Self::Program => Bond::Own,
        }
    }

    /// Returns the name before its errors in the log: the function that has begun it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Spawn => "pinion.spawn",
            Self::Gather => "pinion.gather",
            Self::Block => "a block of a page",
            Self::Cached => "pinion.cached",
            Self::Every => "pinion.every",
            Self::Cron => "pinion.cron",
            Self::Listener => "pinion.on",
            Self::Program => "the main script",
        }
    }

    /// Returns the function that this function calls.
    pub(crate) const fn function(self) -> &'static str {
        match self {
            Self::Spawn => "the function of pinion.spawn",
            Self::Gather => "the function of pinion.gather",
            Self::Block => "the block of the page",
            Self::Cached => "the function of pinion.cached",
            Self::Every => "the function of pinion.every",
            Self::Cron => "the function of pinion.cron",
            Self::Listener => "the function of pinion.on",
            Self::Program => "the main script",
        }
    }
}

impl Default for Tasks {
    fn default() -> Self {
        let (places, free, parked) = Default::default();
        let allowance = Allowance::default();
        Self { allowance, tasks_max: TASKS_MAX, places, free, parked, background: 0 }
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

    /// Begins a task in its initial state, which may reuse memory of an earlier one. Returns none
    /// when no place is left.
    pub(crate) fn begin(&mut self) -> Option<TaskId> {
        let at = match self.free.pop() {
            Some(at) => at,
            None if self.places.len() >= self.tasks_max => return None,
            None => {
                if self.places.len() == self.places.capacity() {
                    self.grow();
                }
                self.places.push(Task::default());
                self.places.len() - 1
            }
        };
        let task = &mut self.places[at];
        task.is_live = true;
        task.answer.clear();
        task.waits = Waits::No;
        task.left = TaskBudget::of(&self.allowance);
        (task.address, task.account) = (None, None);
        task.begin_time(0, 0);
        (task.is_woken, task.result, task.message) = (false, None, None);
        task.is_input_over = false;
        task.spawns_left = None;
        (task.is_compressed, task.coding) = (true, None);
        (task.has_begun, task.is_failing, task.sent_bytes) = (false, false, 0);
        Some(((task.tenant + 1) * PLACES as u64 + at as u64) as f64)
    }

    /// Allocates twice as many places, and never more than there may be.
    #[cold]
    fn grow(&mut self) {
        let places = self.places.len();
        let wanted = (2 * places).max(PLACES_MIN).min(self.tasks_max);
        self.places.reserve_exact(wanted.saturating_sub(places).max(1));
    }

    /// Returns a living task.
    pub(crate) fn get(&mut self, id: TaskId) -> Option<&mut Task> {
        let task = self.places.get_mut(place(id))?;
        (task.is_live && task.tenant + 1 == id as u64 / PLACES as u64).then_some(task)
    }

    /// Begins work beside requests, whose coroutine the caller parks for its first turn. Returns
    /// none when there is too much of it.
    pub(crate) fn spawn(&mut self, by: TaskId, bond: Bond) -> Option<TaskId> {
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
        let id = self.begin()?;
        self.background += 1;
        let account = self.get(by).map(|by| by.account);
        let left = TaskBudget::background(&self.allowance);
        let task = self.get(id)?;
        (task.left, task.is_background, task.spawns_left) = (left, true, spawns_left);
        if bond == Bond::Child {
            task.account = account.map(|account| account.unwrap_or(by));
        }
        let parent = self.get(by);
        match (bond, parent) {
            (Bond::Child, Some(parent)) => parent.children.push(id),
            (Bond::After, Some(parent)) => parent.after.push(id),
            _ => {}
        }
        Some(id)
    }

    /// Returns the number of living tasks.
    pub(crate) fn live(&self) -> usize {
        self.places.len() - self.free.len()
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
        let is_wakeable = |task: &Task| task.is_live && matches!(task.waits, Waits::WakeUntil(_));
        let all = self.places.iter().enumerate().filter(|(_, task)| is_wakeable(task));
        all.map(|(at, task)| ((task.tenant + 1) * PLACES as u64 + at as u64) as f64).collect()
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
        self.parked.as_ref().map_or(Ok(()), |parked| parked.raw_set(place(id) + 1, coroutine))
    }

    /// Returns the coroutine of a task that is parked, and leaves it parked.
    pub(crate) fn coroutine(&mut self, id: TaskId) -> Option<Coroutine> {
        let is_parked = self.get(id)?.is_parked;
        let parked = self.parked.as_ref().filter(|_| is_parked)?;
        parked.raw_get(place(id) + 1).ok()
    }

    /// Takes the coroutine of a task out of the table.
    pub(crate) fn take_coroutine(&mut self, id: TaskId) -> Option<Coroutine> {
        let coroutine = self.coroutine(id)?;
        self.get(id)?.is_parked = false;
        if let Some(parked) = &self.parked {
            // The value is not nil, so that the table keeps the slot for the next coroutine.
            let _room_is_there = parked.raw_set(place(id) + 1, false);
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
    pub(crate) fn end(&mut self, id: TaskId) -> Ended {
        let mut ended = Ended::default();
        let mut ending = Vec::new();
        let mut next = Some(id);
        while let Some(id) = next {
            next = ending.pop();
            let _dropped = self.take_coroutine(id);
            let Some(task) = self.get(id) else { continue };
            task.is_live = false;
            if std::mem::take(&mut task.is_owner) {
                ended.owners.push(id);
            }
            // A double counts them exactly for longer than any server runs.
            task.tenant += 1;
            (task.content, task.sending) = (ReceivedContent::default(), None);
            (task.job_guard, task.result) = (None, None);
            (task.message, task.origin, task.spawns_left) = (None, None, None);
            (task.failure, task.awaited) = (None, None);
            ending.append(&mut task.children);
            next = next.or_else(|| ending.pop());
            ended.watchers.append(&mut task.watchers);
            ended.after.append(&mut task.after);
            ended.subscriptions.append(&mut task.subscriptions);
            let was_background = std::mem::take(&mut task.is_background);
            self.background -= usize::from(was_background);
            self.free.push(place(id));
        }
        ended
    }
}

/// Returns the place of a task, for a number that is one.
fn place(id: TaskId) -> usize {
    (id as u64 % PLACES as u64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::{
        BACKGROUND_MAX, CHANNELS_MAX, IDLE_COROUTINES_MAX, SCHEDULES_MAX, SMALL_TASKS_MAX,
    };

    fn coroutine(lua: &mlua::Lua) -> Coroutine {
        let nothing = lua.create_function(|_, ()| Ok(())).expect("a function");
        lua.create_thread(nothing).expect("a coroutine")
    }

    /// All that comes of a request counts as one, whoever has begun it and whoever has ended.
    #[test]
    fn what_comes_of_one_origin_has_one_bound() {
        for bond in [Bond::After, Bond::Child, Bond::Own] {
            let mut tasks = Tasks::default();
            tasks.allowance.spawned_max = 100;
            let (request, other) = (tasks.begin().expect("a place"), tasks.begin().expect("one"));
            let (mut begun, mut by) = (0, request);
            while let Some(id) = tasks.spawn(by, bond) {
                begun += 1;
                assert!(begun <= 100, "{bond:?}");
                // Each begins two: one that goes on with that, and one that ends at once.
                if let Some(second) = tasks.spawn(by, bond) {
                    begun += 1;
                    tasks.end(second);
                }
                by = id;
            }
            assert_eq!(begun, 100, "{bond:?}");
            assert!(tasks.spawn(request, bond).is_none());
            assert!(tasks.spawn(other, bond).is_some());
            // What belongs to nobody, such as a run of a schedule, is an origin itself.
            let run = tasks.spawn(NOBODY, Bond::Own).expect("a run");
            assert!(tasks.spawn(run, bond).is_some());
        }
    }

    /// As many tasks as there may be, and all else that is held of a VM: nothing panics.
    #[test]
    fn a_vm_holds_all_the_tasks_there_may_be() {
        let lua = mlua::Lua::new();
        let beside = CHANNELS_MAX + SCHEDULES_MAX + IDLE_COROUTINES_MAX;
        let _held: Vec<_> = (0..beside).map(|_| coroutine(&lua)).collect();
        let mut tasks = Tasks::default();
        tasks.park_in(lua.create_table().expect("a table"));
        let (mut requests, mut pieces) = (0, 0);
        while let Some(id) = tasks.spawn(NOBODY, Bond::Own) {
            pieces += 1;
            tasks.park(id, coroutine(&lua), Waits::No).expect("parked");
        }
        while let Some(id) = tasks.begin() {
            requests += 1;
            tasks.park(id, coroutine(&lua), Waits::No).expect("parked");
        }
        assert_eq!((pieces, requests), (BACKGROUND_MAX, TASKS_MAX - BACKGROUND_MAX));
    }

    #[test]
    fn a_small_table_takes_what_is_counted_for_it() {
        let mut tasks = Tasks { tasks_max: SMALL_TASKS_MAX, ..Tasks::default() };
        let mut pieces = 0;
        while tasks.spawn(NOBODY, Bond::Own).is_some() {
            pieces += 1;
        }
        assert_eq!(pieces, SMALL_TASKS_MAX / 2);
        let mut ids = Vec::new();
        while let Some(id) = tasks.begin() {
            ids.push(id);
        }
        assert_eq!(pieces + ids.len(), SMALL_TASKS_MAX);
        assert_eq!(tasks.places.capacity(), SMALL_TASKS_MAX);
        ids.into_iter().for_each(|id| drop(tasks.end(id)));
        let free_bytes = tasks.free.capacity() * size_of::<usize>();
        let table_bytes = tasks.places.capacity() * size_of::<Task>();
        assert!(table_bytes * 3 / 2 + free_bytes <= SMALL_TASKS_MAX * TASK_BYTES);
    }

    #[test]
    fn a_number_is_never_that_of_another_request() {
        let mut tasks = Tasks::default();
        let mut seen = Vec::new();
        for _ in 0..100 {
            let (one, two) = (tasks.begin().expect("a place"), tasks.begin().expect("a place"));
            assert_ne!(one, two);
            assert!(!seen.contains(&one) && !seen.contains(&two));
            seen.extend([one, two]);
            tasks.end(one);
            assert!(tasks.get(one).is_none() && tasks.get(two).is_some());
            tasks.end(one);
            assert_eq!(tasks.free.len(), 1);
            tasks.end(two);
        }
        assert_eq!((tasks.free.len(), tasks.places.len()), (2, 2));
        let one = Tasks::default().begin();
        assert!(one.is_some_and(|one| one > 0.0));
        for id in [0.0, -1.0, 0.5, f64::NAN, f64::INFINITY, 1e18] {
            assert!(tasks.get(id).is_none(), "{id}");
        }
    }
}
