//! Lua: one sandboxed VM per worker, with budgets for every request.
//!
//! Requests and background work:
//!
//! | module | contents |
//! |---|---|
//! | [`worker_scripts`] | the requests of one worker to scripts, and background work |
//! | `task` | requests that are being answered, and background work |
//! | `request` | a request as a script sees it |
//! | `body` | the content of requests: as it arrives, its forms, and the worker's quota for it |
//! | `script_response`, `cookie` | a response as a script makes it |
//! | `sent_file` | files that are sent |
//! | `schedule` | when work that is repeated is due |
//! | `operation_id` | the operations outside of a VM that tasks wait for |
//! | `task_resources` | objects outside of a VM that end with their task |
//! | `lua_job` | work that blocks, on the threads of `pinion-jobs` |
//! | `channel_message` | messages between workers |
//!
//! Sites and their code:
//!
//! | module | contents |
//! |---|---|
//! | [`site_program`] | the source of a site's scripts and pages |
//! | `pages` | pages of templates: their routes, how values are escaped, functions for them |
//! | `require` | Lua files of the site as modules |
//! | [`router`] | which handler a path gets |
//! | [`route_inspection`] | the routes of a program, and where their handlers are written |
//! | [`shared_site_state`] | the state that successive scripts of a site share |
//! | `site_counters`, `persisted_values` | counters and values that outlive a script |
//! | [`secrets`] | values that scripts need and that do not stand in their code |
//! | [`fetch_client`] | requests of scripts to other servers |
//! | [`external_programs`] | programs of the system that scripts run |
//! | [`store_access`] | the store of the server, for its scripts |
//!
//! A VM and its functions:
//!
//! | module | contents |
//! |---|---|
//! | `vm` | a script, the routes it has registered, coroutines to answer in |
//! | [`sandbox`] | a VM with the libraries that a script may have |
//! | `unsandboxed_vm` | a VM with everything, where the operator trusts the script |
//! | [`library`] | the modules `pinion.json`, `pinion.codec` and `pinion.crypto` |
//! | [`pattern`] | the functions that search strings, on a budget of steps |
//! | `copied_value` | values that are copied out of their VM |
//! | `bounded_output` | bounded texts that the host makes of other texts |
//! | `clock` | the time, as the functions of a VM have it |
//! | `jit_code_memory` | the behaviour where LuaJIT may not run the code that it has compiled |
//!
//! Limits and errors:
//!
//! | module | contents |
//! |---|---|
//! | [`limits`] | every limit with its reason |
//! | [`script_quotas`] | the operator's limits for scripts |
//! | [`script_memory_limits`] | the memory limits of all scripts, by the size of the machine |
//! | [`memory_footprint`] | the memory that scripts need |
//! | [`cpu_watchdog`] | how a script that has used up its CPU is stopped |
//! | `native_stack_depth` | how deep functions of C and of a script may call each other |
//! | [`script_load_error`] | errors of a script that are found before it answers a request |
//! | [`source_names`] | the names of the site's files in errors |
//! | `missing_function_hints` | hints about functions that only other versions of Lua have |
//!
//! All functions that can wait are written in Lua. `prelude.lua` runs the handlers of requests and
//! calls the chunks of the other files, which Rust loads: `coroutines.lua`, `routes.lua`,
//! `responses.lua`, `request_content.lua`, `background_work.lua`, `subscriptions.lua`, `files.lua`,
//! `fetch.lua`, `process.lua`, `store.lua` and `session.lua`. `pages/*.lua` hold the functions that
//! pages may call, `bounded_functions.lua`, `charged_functions.lua` and `guarded_functions.lua` the
//! library functions of Lua with limits, `pattern/library.lua` those of patterns, and `require.lua`
//! is `require`.
#![deny(unsafe_code)]

// Brings LuaJIT, whose functions mlua calls.
#[cfg(feature = "luajit")]
use pinion_luajit as _;

mod body;
mod bounded_output;
mod channel_message;
mod clock;
mod cookie;
mod copied_value;
pub mod cpu_watchdog;
pub mod external_programs;
pub mod fetch_client;
mod jit_code_memory;
pub mod library;
pub mod limits;
mod lua_job;
pub mod memory_footprint;
mod missing_function_hints;
mod native_stack_depth;
mod operation_id;
mod pages;
pub mod pattern;
mod persisted_values;
mod request;
mod require;
pub mod route_inspection;
pub mod router;
pub mod sandbox;
mod schedule;
pub mod script_load_error;
pub mod script_memory_limits;
pub mod script_quotas;
mod script_response;
pub mod secrets;
mod sent_file;
pub mod shared_site_state;
mod site_counters;
pub mod site_program;
pub mod source_names;
pub mod store_access;
mod task;
mod task_resources;
mod unsandboxed_vm;
mod vm;
pub mod worker_scripts;
