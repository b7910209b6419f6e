//! Programs that a server runs. The spawner starts them. Programs of a worker have byte streams of
//! the engine as input and output. Supervised programs, which are kept running, write to the log.
//!
//! | Module | Task |
//! |---|---|
//! | [`program_runner`] | runs the programs of one worker: starts, streams, ends, time limits |
//! | [`program_run`] | one run of a program, from the caller's side |
//! | [`spawner_access`] | connects workers to the spawner, and replaces its table |
//! | [`run_error`] | the errors of runs |
//! | [`supervisor`] | keeps programs running: decides on starts, restarts and stops |
//! | `restart_delay` | the back-off between the end of a program and its restart |
//! | [`supervisor_link`] | the supervisor, combined with its connection to the spawner |
//! | [`limits`] | every limit with its reason |
#![forbid(unsafe_code)]

pub mod limits;
pub mod program_run;
pub mod program_runner;
mod restart_delay;
pub mod run_error;
pub mod spawner_access;
pub mod supervisor;
pub mod supervisor_link;

pub use pinion_spawner::limits::{CGI_VARIABLES_MAX, CGI_VARIABLES_MAX_BYTES};
pub use pinion_spawner::reply::{Reason, StartStage, signal_name};
pub use pinion_spawner::worker_request::is_script_path;
