//! Python applications: the processes that the server starts for them, which the supervisor keeps
//! running as it does the programs of `[[program]]`.
//!
//! | Module | Does |
//! |---|---|
//! | [`code_watch`] | changes of the code, for `--dev` |
//! | [`django_settings`] | the folders that the settings of a Django project name |
//! | [`interpreter`] | finds the interpreter of an application |
//! | [`limits`] | every limit with its reason |
//! | [`process_files`] | the program, sockets and names of processes |
//! | [`process_memory`] | how much memory a process has |
//! | [`process_start`] | waits until processes have loaded their application |
//! | [`python_apps`] | the applications of all sites, at start and after each reload |
//! | [`process_limit_check`] | whether a process has reached a limit and is replaced |
//! | [`running_app`] | an application with its processes, and how they are replaced |

pub(crate) mod code_watch;
pub(crate) mod django_settings;
pub(crate) mod interpreter;
pub(crate) mod limits;
mod process_files;
mod process_limit_check;
mod process_memory;
pub(crate) mod process_start;
pub(crate) mod python_apps;
pub(crate) mod running_app;
