//! Work that a worker must not do itself because it blocks or needs an asynchronous runtime, and
//! the files that it is done with.
//!
//! The crate knows neither Lua nor HTTP. Every crate above the engine may use it.
//!
//! | Module | Task |
//! |---|---|
//! | [`job_queue`] | jobs: threads beside the workers, bounded queues, cancellation, results |
//! | [`piecewise_job`] | jobs that give their result in pieces, each when it is wanted |
//! | [`task_thread`] | asynchronous tasks of client libraries, on one thread with a runtime |
//! | [`byte_quota`] | bytes that stand in memory outside of workers and VMs |
//! | [`folder_root`] | what is at a path below a folder |
//! | [`folders`] | files below folders that the operator has named |
//! | [`upload_spool`] | where the files of an upload lie until its request is over |
//! | [`upload_quota`] | what all uploads may take of the folder for temporary files |
//! | [`upload_name`] | names of uploaded files that do no harm |
//! | [`limits`] | every limit with its reason |
#![forbid(unsafe_code)]

pub mod byte_quota;
pub mod folder_root;
pub mod folders;
pub mod job_queue;
pub mod limits;
pub mod piecewise_job;
pub mod task_thread;
pub mod upload_name;
pub mod upload_quota;
pub mod upload_spool;
