//! The kinds of background tasks, and how long each lives.

/// The function by which a background task was started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BackgroundTaskKind {
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

impl BackgroundTaskKind {
    pub(crate) const fn lifetime(self) -> TaskLifetime {
        match self {
            Self::Spawn => TaskLifetime::AfterParent,
            Self::Gather | Self::Block => TaskLifetime::Child,
            Self::Cached | Self::Every | Self::Cron | Self::Listener | Self::Program => {
                TaskLifetime::Independent
            }
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

/// The relation of background work to the task that begins it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TaskLifetime {
    /// A part of that task: it uses the budget of the task, and ends with it.
    Child,
    /// It begins when that task has ended.
    AfterParent,
    /// It is independent.
    Independent,
}
