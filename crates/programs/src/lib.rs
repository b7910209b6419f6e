//! Programs that a server runs. The spawner starts them. Those of a worker have byte streams of the
//! engine as input and output; those that are kept running write to the log.
//!
//! | Module | Task |
//! |---|---|
//! | [`program_runner`] | the programs of one worker: starts, input, output, ends, time limits |
//! | [`program_run`] | one program that runs, from the caller's side |
//! | [`spawner_access`] | where workers get their connections to the spawner from |
//! | [`run_error`] | why a program was not run, or not to its end |
//! | [`supervisor`] | which programs are kept running, and when they are started again |
//! | `restart_delay` | how long a program that has ended waits for its next start |
//! | [`supervisor_link`] | the supervisor with its connection to the spawner |
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

pub use pinion_spawner::answer::{Reason, StartStage, signal_name};
pub use pinion_spawner::limits::{CGI_VARIABLES_MAX, CGI_VARIABLES_MAX_BYTES};
pub use pinion_spawner::request::is_script_path;
