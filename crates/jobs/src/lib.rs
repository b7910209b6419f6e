//! Work that a worker must not do itself because it blocks or needs an asynchronous runtime, and
//! the operations on files that such work consists of.
//!
//! The crate knows neither Lua nor HTTP. Every crate above the engine may use it.
//!
//! | Module | Task |
//! |---|---|
//! | [`job_queue`] | jobs: threads beside the workers, bounded queues, cancellation, results |
//! | [`piecewise_job`] | jobs that give their result in pieces, each when it is wanted |
//! | [`async_thread`] | asynchronous tasks of client libraries, on one thread with a runtime |
//! | [`byte_quota`] | limits for bytes in memory outside of workers and VMs |
//! | [`folder_root`] | lookups of paths that never leave an open folder |
//! | [`confined_folders`] | files below folders that the operator has named |
//! | [`upload_spool`] | storage of the files of an upload until its request is over |
//! | [`upload_quota`] | limits of the bytes and open files of all uploads |
//! | [`safe_file_name`] | safe names for uploaded files |
//! | [`limits`] | every limit with its reason |
#![forbid(unsafe_code)]

pub mod async_thread;
pub mod byte_quota;
pub mod confined_folders;
pub mod folder_root;
pub mod job_queue;
pub mod limits;
pub mod piecewise_job;
pub mod safe_file_name;
pub mod upload_quota;
pub mod upload_spool;
