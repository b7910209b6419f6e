//! The operations outside of the VMs that tasks wait for.

use pinion_client::http_client::RequestId;
use pinion_programs::program_run::RunId;

/// Identifies an operation of a worker that runs outside of the VM that has begun it. A task waits
/// until the operation has news.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum OperationId {
    /// A request to another server.
    Fetch(RequestId),
    /// A job on another thread, by its number in the worker.
    Job(u64),
    /// A program that runs.
    Program(RunId),
    /// A command of the store that takes long, by its number in the server.
    StoreJob(u64),
}
