//! Python applications: the processes that the server starts for them, which the supervisor keeps
//! running as it does the programs of `[[program]]`.
//!
//! | Module | Does |
//! |---|---|
//! | [`interpreter`] | finds the interpreter of an application |
//! | [`python_apps`] | which processes each application has, at start and after each reload |

mod interpreter;
pub(crate) mod python_apps;
