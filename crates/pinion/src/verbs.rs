//! The commands of the program, one file for each verb.

pub(crate) mod build;
pub(crate) mod cat;
pub(crate) mod check;
pub(crate) mod completions;
pub(crate) mod control;
pub(crate) mod diff;
pub(crate) mod extract;
pub(crate) mod import;
pub(crate) mod inspect;
pub(crate) mod ls;
pub(crate) mod man;
pub(crate) mod publish;
pub(crate) mod releases;
pub(crate) mod rollback;
pub(crate) mod run;
pub(crate) mod serve;
mod status;
pub(crate) mod store;
pub(crate) mod verify;
pub(crate) mod version;
pub(crate) mod why;
