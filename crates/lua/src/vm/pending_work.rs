//! The operations that the functions of a VM have recorded, and the state that these functions
//! share with the owner of the VM. The owner carries out the operations after each turn.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use mlua::Function;
use pinion_engine::exchange_address::Address;
use pinion_jobs::byte_quota::ByteQuota;
use pinion_jobs::confined_folders::Folders;

use crate::channel_message::ChannelMessage;
use crate::external_programs::WorkerPrograms;
use crate::fetch_client::WorkerClient;
use crate::lua_job::LuaJob;
use crate::operation_id::OperationId;
use crate::pages::LinkKey;
use crate::schedule::Schedule;
use crate::shared_site_state::WorkerSite;
use crate::task::TaskId;

/// The work that a script has requested and the owner of the VM has to do.
#[derive(Default)]
pub(crate) struct PendingWork {
    /// Whether one of the following lists is not empty.
    pub(crate) has_news: Cell<bool>,
    /// The task that runs.
    pub(crate) current: Cell<TaskId>,
    /// Tasks without a request that can go on.
    pub(crate) ready: RefCell<Vec<TaskId>>,
    /// Requests that can go on.
    pub(crate) woken: RefCell<Vec<Address>>,
    /// Messages for all workers.
    pub(crate) sent: RefCell<Vec<ChannelMessage>>,
    /// The bytes of these messages, while there are any.
    pub(super) sent_bytes: Cell<usize>,
    /// The quota of all messages that wait, in any worker.
    pub(crate) messages: RefCell<Arc<ByteQuota>>,
    /// The functions that make the VM drop values that can be made again.
    pub(super) forget_cached: RefCell<Vec<Function>>,
    /// The schedules of the script.
    pub(crate) schedules: RefCell<Vec<Schedule>>,
    /// The handlers of messages, by channel.
    pub(crate) channels: RefCell<HashMap<String, Function>>,
    /// The job of the next operation, which runs outside of the worker.
    pub(crate) job: RefCell<Option<LuaJob>>,
    /// The folders of its files.
    pub(crate) folders: RefCell<Folders>,
    /// The key from which other keys are derived, where the site has one.
    pub(crate) key: RefCell<Option<LinkKey>>,
    /// The client that sends requests to other servers; none where a script is only proven.
    pub(crate) client: RefCell<Option<Rc<WorkerClient>>>,
    /// The runner of programs; none where a script is only proven.
    pub(crate) programs: RefCell<Option<Rc<WorkerPrograms>>>,
    /// Operations that have begun, each with its task, and then operations that were ended.
    pub(crate) begun_operations: RefCell<Vec<(OperationId, TaskId)>>,
    pub(crate) ended_operations: RefCell<Vec<OperationId>>,
    /// The site and worker of the script, and the state that outlives the script.
    pub(crate) worker_site: RefCell<WorkerSite>,
}

impl PendingWork {
    /// Records that an operation of a task has begun.
    pub(super) fn begin_operation(&self, id: OperationId, task: TaskId) {
        self.begun_operations.borrow_mut().push((id, task));
        self.has_news.set(true);
    }

    /// Records that an operation was ended.
    pub(super) fn end_operation(&self, id: OperationId) {
        self.ended_operations.borrow_mut().push(id);
        self.has_news.set(true);
    }
}
