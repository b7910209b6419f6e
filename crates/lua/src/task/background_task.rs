//! The task of work that belongs to no request.

use super::{BackgroundTaskKind, TaskBudget, TaskId, TaskState};
use crate::channel_message::ChannelMessage;
use crate::vm::FunctionOrigin;
use std::sync::Arc;

/// Work that belongs to no request.
#[derive(Debug)]
pub(crate) struct BackgroundTask {
    pub(crate) state: TaskState,
    /// The task whose budget this one uses, if not its own.
    pub(super) budget_owner: Option<TaskId>,
    /// The kind of its start.
    pub(crate) kind: BackgroundTaskKind,
    /// The function that it begins with.
    pub(crate) origin: Option<FunctionOrigin>,
    /// The message that it begins with.
    pub(crate) message: Option<Arc<ChannelMessage>>,
}

impl BackgroundTask {
    pub(super) fn new(kind: BackgroundTaskKind, left: TaskBudget) -> Self {
        let (budget_owner, origin, message) = (None, None, None);
        Self { state: TaskState::new(left), budget_owner, kind, origin, message }
    }
}
