//! Lua: one sandboxed VM per worker, with budgets for every request.
//!
//! | module | contents |
//! |---|---|
//! | [`scripts`] | the requests of one worker that scripts answer |
//! | [`program`] | the source of a site's scripts and pages |
//! | `pages` | pages of templates: their routes, how values are escaped, functions for them |
//! | `require` | Lua files of the site as modules |
//! | `vm` | a script, the routes it has registered, coroutines to answer in |
//! | `task` | requests that are being answered, and work beside them |
//! | `task_owned` | objects that tasks own outside of Lua, and that end with their task |
//! | `clock` | the time, as the functions of a VM have it |
//! | `schedule` | when work that is repeated is due |
//! | `lua_job` | work that blocks, on the threads of `pinion-jobs` |
//! | `operation_id` | the operations outside of a VM that tasks wait for |
//! | `task_owned` | objects outside of a VM that end with their task |
//! | [`site`] | the state that successive scripts of a site share |
//! | `counters` | counters of a site, which all its workers share and which outlive a reload |
//! | `copied_value` | values that are copied out of their VM |
//! | `persisted_values` | values that outlive their VM |
//! | `channel_message` | messages between workers |
//! | `request` | a request as a script sees it |
//! | `body` | the content of requests: as it arrives, its forms, and the worker's quota for it |
//! | [`fetch`] | requests of scripts to other servers |
//! | [`programs`] | programs that scripts run: those of a site, and the runner of a worker |
//! | [`store_access`] | the store of the server, for its scripts |
//! | [`secrets`] | values that scripts need and that do not stand in their code |
//! | `sent_file` | files that are sent |
//! | `script_response`, `cookie` | a response as a script makes it |
//! | [`library`] | the modules `pinion.json`, `pinion.codec` and `pinion.crypto` |
//! | `bounded_output` | bounded texts that the host makes of other texts |
//! | [`pattern`] | the functions that search strings, on a budget of steps |
//! | [`sandbox`] | a VM with the libraries that a script may have |
//! | `unconfined` | a VM with everything, where the operator trusts the script |
//! | [`cpu_watchdog`] | how a script that has used up its CPU is stopped |
//! | `call_depth` | how deep functions of C and of a script may call each other |
//! | [`router`] | which handler a path gets |
//! | [`routes`] | routes of a program that handles no requests, and where handlers are written |
//! | [`script_memory`] | the memory of all scripts, on a machine with much memory or little |
//! | [`script_quotas`] | the operator's limits for scripts |
//! | [`footprint`] | the memory that scripts need |
//! | [`source_names`] | the names of the site's files in errors |
//! | [`problem`] | errors of a script that are found before it answers a request |
//! | `missing_hints` | hints in errors about functions that only other versions of Lua have |
//! | `machine_code` | the behaviour where LuaJIT may not run the code that it has compiled |
//! | [`limits`] | every limit with its reason |
//!
//! `prelude.lua`, `responses.lua`, `request_content.lua`, `background_work.lua`,
//! `subscriptions.lua`, `files.lua`, `fetch.lua`, `process.lua`, `store.lua` and `session.lua` hold
//! the part of the runtime that is written in Lua: all functions that can wait. `pages/pages.lua`
//! holds the functions that pages may call.
#![deny(unsafe_code)]

// Brings LuaJIT, whose functions mlua calls.
#[cfg(feature = "luajit")]
use pinion_luajit as _;

mod body;
mod bounded_output;
mod call_depth;
mod channel_message;
mod clock;
mod cookie;
mod copied_value;
pub mod cpu_watchdog;
pub mod fetch;
pub mod footprint;
pub mod library;
pub mod limits;
mod lua_job;
mod machine_code;
mod missing_hints;
mod operation_id;
mod pages;
pub mod pattern;
mod persisted_values;
pub mod problem;
pub mod program;
pub mod programs;
mod request;
mod require;
pub mod router;
pub mod routes;
pub mod sandbox;
mod schedule;
pub mod script_memory;
pub mod script_quotas;
mod script_response;
pub mod scripts;
pub mod secrets;
mod sent_file;
pub mod site;
mod site_counters;
pub mod source_names;
pub mod store_access;
mod task;
mod task_owned;
mod unconfined;
mod vm;
