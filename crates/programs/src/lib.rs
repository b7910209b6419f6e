//! Programs that one worker runs: the spawner starts them, and their input and output are byte
//! streams of the engine.
//!
//! | Module | Task |
//! |---|---|
//! | [`program_runner`] | the programs of one worker: starts, input, output, ends, time limits |
//! | [`program_run`] | one program that runs, from the caller's side |
//! | [`spawner_access`] | where workers get their connections to the spawner from |
//! | [`run_error`] | why a program was not run, or not to its end |
//! | [`limits`] | every limit with its reason |
#![forbid(unsafe_code)]

pub mod limits;
pub mod program_run;
pub mod program_runner;
pub mod run_error;
pub mod spawner_access;

pub use pinion_spawner::answer::signal_name;
