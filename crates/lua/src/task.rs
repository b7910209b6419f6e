//! What scripts do at the same time: requests that are being answered, and work beside them, each
//! under a number that no later one has.

mod left;

use crate::allowance::Allowance;
use crate::answer::ScriptResponse;
use crate::content::ReceivedContent;
use crate::letter::Letter;
use crate::limits::{BACKGROUND_DIVISOR, ROOM_WAIT_MAX_MS, ROOM_WAIT_ONCE_MS, TASKS_MAX};
use crate::lua_job::LuaJobResult;
use crate::request::HandledRequest;
use crate::sent_file::Sending;
use crate::vm::FunctionOrigin;
use mlua::{Result, Table, Thread as Coroutine};
use pinion_engine::address::Address;
use pinion_http::coding::Coding;
use pinion_jobs::job_queue::CancelOnDrop;
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

pub(crate) use left::Left;

/// The number of a task, as scripts hold it: a whole number that a double keeps. One that is over
/// has none of those that live.
pub(crate) type TaskId = f64;

/// The number of no task: the script itself, while it starts.
pub(crate) const NOBODY: TaskId = 0.0;

/// Numbers of places; the numbers above say which tenant of its place it is.
const PLACES: usize = 1 << 20;
/// Places that there is room for with the first task.
const PLACES_MIN: usize = 4;
const _: () = assert!(BACKGROUND_DIVISOR > 1 && TASKS_MAX <= PLACES);

/// Bytes of one task outside of its VM: its place, and its number among those that are free. While
/// the table of places grows there may be half as many once more.
pub(crate) const TASK_BYTES: usize = size_of::<Task>() * 3 / 2 + 2 * size_of::<usize>();

/// One request and how far its answer is, or work that belongs to none.
#[derive(Debug, Default)]
pub(crate) struct Task {
    tenant: u64,
    is_live: bool,
    /// Where it is answered; none for work beside requests.
    pub(crate) address: Option<Address>,
    /// Whose budget it uses, if not its own.
    pub(crate) account: Option<TaskId>,
    /// It belongs to no request.
    is_background: bool,
    /// Where the work that belongs to no request begins, and what has begun it.
    pub(crate) origin: Option<FunctionOrigin>,
    pub(crate) kind: WorkKind,
    /// What ends with it.
    children: Vec<TaskId>,
    /// Its subscriptions, which end with it.
    pub(crate) subscriptions: Vec<u64>,
    /// It has sent requests to other servers or run programs, which end with it.
    pub(crate) is_owner: bool,
    /// Its client sends no more, and has most likely left.
    pub(crate) is_input_over: bool,
    /// What begins when it has ended.
    after: Vec<TaskId>,
    /// How much its origin may still begin: it, and all that has come of it. None until something
    /// does.
    spawns_left: Option<Rc<Cell<u32>>>,
    /// Who wants to know when it has ended.
    watchers: Vec<TaskId>,
    /// What of a page it waits for, and where that begins.
    pub(crate) awaited: Option<(Awaited, Option<FunctionOrigin>)>,
    /// Somebody has woken it, perhaps before it began to wait for that.
    pub(crate) is_woken: bool,
    /// Cancels the job that it waits for.
    pub(crate) job_guard: Option<CancelOnDrop>,
    /// What it has waited for.
    pub(crate) result: Option<LuaJobResult>,
    /// The message that it begins with.
    pub(crate) letter: Option<Arc<Letter>>,
    pub(crate) request: HandledRequest,
    pub(crate) answer: ScriptResponse,
    /// Its coroutine is parked: see [`Tasks::park`].
    is_parked: bool,
    /// What it waits for.
    pub(crate) waits: Waits,
    pub(crate) content: ReceivedContent,
    /// The file it is answered with.
    pub(crate) sending: Option<Sending>,
    pub(crate) left: Left,
    /// The head has gone out.
    pub(crate) has_begun: bool,
    /// Its content may be compressed, and the client likes it in this coding.
    pub(crate) is_compressed: bool,
    pub(crate) coding: Option<Coding>,
    /// Bytes of content that have gone out.
    pub(crate) sent_bytes: u64,
    /// Its error handler runs.
    pub(crate) is_failing: bool,
    /// The error that this handler was called for.
    pub(crate) failure: Option<Box<Reported>>,
    /// When it has to be done, in monotonic milliseconds.
    pub(crate) deadline_ms: u64,
    /// How long it may take in all, or a stream from one write to the next, in milliseconds.
    pub(crate) wall_ms: u64,
    /// Since when it waits, in monotonic milliseconds.
    waits_since_ms: u64,
    /// Since when it waits for room for its answer, in monotonic milliseconds.
    room_since_ms: u64,
    /// How much longer it may take already, because its client was slow to make room.
    room_waited_ms: u64,
}

/// An error that was logged.
#[derive(Debug)]
pub(crate) struct Reported {
    /// The name that the log and the response have for it.
    pub(crate) id: String,
    /// The request, the message and the stack.
    pub(crate) report: String,
}

impl Task {
    /// It has all of its time from now on.
    pub(crate) fn begin_time(&mut self, now_ms: u64, wall_ms: u64) {
        (self.deadline_ms, self.room_waited_ms) = (now_ms + wall_ms, 0);
        self.wall_ms = wall_ms;
    }

    /// Some of a stream has gone out: its time begins anew, unless its client has kept it waiting
    /// for as long as clients may.
    pub(crate) fn renew_time(&mut self, now_ms: u64) {
        if self.room_left_ms() > 0 {
            self.deadline_ms = self.deadline_ms.max(now_ms + self.wall_ms);
        }
    }

    /// It begins to wait.
    pub(crate) fn begin_wait(&mut self, now_ms: u64) {
        self.waits_since_ms = now_ms;
    }

    /// It has waited. What a stream may take comes back meanwhile, because it holds up nobody.
    pub(crate) fn end_wait(&mut self, now_ms: u64, allowance: &Allowance) {
        if self.has_begun {
            self.left.regain(now_ms.saturating_sub(self.waits_since_ms), allowance);
        }
    }

    /// There is no room for more of its answer until its client has taken some.
    pub(crate) fn room_went(&mut self, now_ms: u64) {
        self.room_since_ms = now_ms;
    }

    /// There is room again. Its time stood still meanwhile: it is its client that was slow.
    pub(crate) fn room_came(&mut self, now_ms: u64) {
        let waited_ms = now_ms.saturating_sub(self.room_since_ms);
        let granted_ms = waited_ms.min(self.room_left_ms());
        self.room_waited_ms += granted_ms;
        self.deadline_ms += granted_ms;
    }

    /// When it is ended unless it goes on before, in monotonic milliseconds.
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

    /// Whether it belongs to no request.
    pub(crate) fn is_background(&self) -> bool {
        self.is_background
    }
}

/// What a task waits for.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Waits {
    /// Nothing: it runs, or is over.
    #[default]
    No,
    /// A time, in monotonic milliseconds.
    Until(u64),
    /// Content of the request.
    Content,
    /// Room for more of the answer.
    Room,
    /// To be woken by another task.
    Wake,
    /// To be woken, or a time, in monotonic milliseconds.
    WakeUntil(u64),
    /// Work that is done elsewhere.
    Job,
    /// The next piece of the file that it is answered with.
    File,
    /// Room for that.
    FileRoom,
}

impl Waits {
    /// When it goes on in any case, in monotonic milliseconds.
    pub(crate) fn until_ms(self) -> Option<u64> {
        match self {
            Self::Until(time_ms) | Self::WakeUntil(time_ms) => Some(time_ms),
            _ => None,
        }
    }
}

/// All that live in a worker.
#[derive(Debug)]
pub(crate) struct Tasks {
    /// What each may take.
    pub(crate) allowance: Allowance,
    /// How many there may be.
    pub(crate) tasks_max: usize,
    places: Vec<Task>,
    free: Vec<usize>,
    /// The coroutines that are parked, by the places of their tasks from 1 on. Each value of Lua
    /// that Rust holds takes one of some thousand slots of its VM; here all of them take one.
    parked: Option<Table>,
    /// How many live that are none of requests.
    background: usize,
}

/// Who has to hear that a task has ended.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Ended {
    /// They wait for it.
    pub(crate) watchers: Vec<TaskId>,
    /// They begin now.
    pub(crate) after: Vec<TaskId>,
    /// They end.
    pub(crate) subscriptions: Vec<u64>,
    /// Their requests to other servers end.
    pub(crate) owners: Vec<TaskId>,
}

/// What work beside requests has to do with the task that begins it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bond {
    /// A part of it: uses its budget, and ends with it.
    Child,
    /// Begins when it has ended.
    After,
    /// None.
    Own,
}

/// What a page waits for until its script says that it is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Awaited {
    /// A block that has to call `done`.
    Block,
    /// A function that has to call its parameter.
    Await,
}

/// What has begun work that belongs to no request.
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

    /// Returns what stands in front of its errors in the log: the function that has begun it.
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

    /// Returns what is called by that function.
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
    /// How many there may be that belong to no request.
    pub(crate) fn background_max(&self) -> usize {
        self.tasks_max / BACKGROUND_DIVISOR
    }

    /// Coroutines are parked in this table of their VM.
    pub(crate) fn park_in(&mut self, table: Table) {
        self.parked = Some(table);
    }

    /// A new one, as good as new but for the memory it has; none when there is no place left.
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
        task.left = Left::of(&self.allowance);
        (task.address, task.account) = (None, None);
        task.begin_time(0, 0);
        (task.is_woken, task.result, task.letter) = (false, None, None);
        task.is_input_over = false;
        task.spawns_left = None;
        (task.is_compressed, task.coding) = (true, None);
        (task.has_begun, task.is_failing, task.sent_bytes) = (false, false, 0);
        Some(((task.tenant + 1) * PLACES as u64 + at as u64) as f64)
    }

    /// Makes room for twice as many places, and never for more than there may be.
    #[cold]
    fn grow(&mut self) {
        let places = self.places.len();
        let wanted = (2 * places).max(PLACES_MIN).min(self.tasks_max);
        self.places.reserve_exact(wanted.saturating_sub(places).max(1));
    }

    /// One that lives.
    pub(crate) fn get(&mut self, id: TaskId) -> Option<&mut Task> {
        let task = self.places.get_mut(place(id))?;
        (task.is_live && task.tenant + 1 == id as u64 / PLACES as u64).then_some(task)
    }

    /// Work beside requests, whose coroutine is to be parked for its first turn; none when there is
    /// too much of it.
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
        let left = Left::background(&self.allowance);
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

    /// How many live.
    pub(crate) fn live(&self) -> usize {
        self.places.len() - self.free.len()
    }

    /// Returns what of a page a task or a part of it waits for.
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

    /// Those that wait to be woken until a time.
    pub(crate) fn wakeable(&self) -> Vec<TaskId> {
        let is_wakeable = |task: &Task| task.is_live && matches!(task.waits, Waits::WakeUntil(_));
        let all = self.places.iter().enumerate().filter(|(_, task)| is_wakeable(task));
        all.map(|(at, task)| ((task.tenant + 1) * PLACES as u64 + at as u64) as f64).collect()
    }

    /// How much work lives that belongs to no request, in pieces.
    pub(crate) fn background(&self) -> usize {
        self.background
    }

    /// Keeps the coroutine of a task until what it waits for is here.
    ///
    /// # Errors
    /// Out of memory.
    pub(crate) fn park(&mut self, id: TaskId, coroutine: Coroutine, waits: Waits) -> Result<()> {
        let Some(task) = self.get(id) else { return Ok(()) };
        (task.is_parked, task.waits) = (true, waits);
        self.parked.as_ref().map_or(Ok(()), |parked| parked.raw_set(place(id) + 1, coroutine))
    }

    /// The coroutine of a task that is parked, and stays so.
    pub(crate) fn coroutine(&mut self, id: TaskId) -> Option<Coroutine> {
        let is_parked = self.get(id)?.is_parked;
        let parked = self.parked.as_ref().filter(|_| is_parked)?;
        parked.raw_get(place(id) + 1).ok()
    }

    /// The coroutine of a task that is parked, and no more.
    pub(crate) fn take_coroutine(&mut self, id: TaskId) -> Option<Coroutine> {
        let coroutine = self.coroutine(id)?;
        self.get(id)?.is_parked = false;
        if let Some(parked) = &self.parked {
            // Not nil: the table keeps its room for the next one.
            let _room_is_there = parked.raw_set(place(id) + 1, false);
        }
        Some(coroutine)
    }

    /// `watcher` is to hear when a task has ended; false if it has.
    pub(crate) fn watch(&mut self, id: TaskId, watcher: TaskId) -> bool {
        let task = self.get(id);
        task.is_some_and(|task| {
            task.watchers.push(watcher);
            true
        })
    }

    /// It is over, and so is what was a part of it.
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
            (task.letter, task.origin, task.spawns_left) = (None, None, None);
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

/// The place of a task, if it is one.
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
