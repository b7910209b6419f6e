//! The spawner: a process that starts the programs of a server.
//!
//! A server that starts programs forks the spawner before it has any thread ([`spawner`]). The
//! spawner starts the programs of a fixed table ([`start_table`]), reads what they write to
//! standard error, and kills all that is left of a program when it ends. A worker of the server has
//! a connection to the spawner ([`connection`]); it sends the number of a row of the table,
//! arguments if the row allows them, and sockets that become standard input and output. Paths,
//! users and environment never come from a worker, so the spawner may have more privileges than
//! the workers. The scripts of CGI are the exception: for them a worker names a file below the
//! folder of the row, and variables that CGI has ([`cgi_variables`]).
//!
//! The crate knows neither HTTP nor the engine. Apart from the two files with `unsafe` code it
//! calls the system by way of `rustix`.
//!
//! | Module | Task |
//! |---|---|
//! | [`start_table`] | the programs that may be started, and with what settings |
//! | [`table_check`] | what is wrong with a table, before it is used |
//! | [`accounts`] | numbers of users and groups by their names |
//! | [`spawner`] | the server's side: forks the spawner, connects workers, replaces the table |
//! | [`connection`] | a worker's side: sends requests, reads answers |
//! | [`request`] | requests of workers as bytes |
//! | [`cgi_variables`] | which variables workers may set for CGI scripts |
//! | [`answer`] | answers to workers as bytes, all of one size |
//! | `control` | requests of the server as bytes |
//! | `table_codec` | a row of the table as bytes |
//! | `byte_codec` | numbers and texts as bytes |
//! | `records` | records with descriptors over a socket |
//! | `event_loop` | the loop of the spawner: waits, expires deadlines, ends |
//! | `server_requests` | what requests of the server do: connections, tables |
//! | `worker_requests` | requests of workers are read, answers are sent |
//! | `start_program` | what a request for a start does |
//! | `end_program` | what the end of a process does, and how programs are stopped |
//! | `program` | a program that runs |
//! | `script_lookup` | finds a CGI script below its folder and enters the folder that it is in |
//! | `exec_plan` | what a new process does before it executes the program |
//! | `fork_exec` | forks, and executes the plan; `unsafe` |
//! | `process_state` | signals, title and descriptors of the spawner; `unsafe` |
//! | `descendants` | processes that a program has left |
//! | `cgroups` | a cgroup for each program, where the system allows it |
//! | `stderr_lines` | lines of programs, bounded and escaped |
//! | `log_output` | standard error of the spawner, which never blocks it |
//! | [`limits`] | every limit with its reason |
#![deny(unsafe_code)]

pub mod accounts;
pub mod answer;
mod byte_codec;
pub mod cgi_variables;
mod cgroups;
pub mod connection;
mod control;
mod descendants;
mod end_program;
mod event_loop;
mod exec_plan;
mod fork_exec;
pub mod limits;
mod log_output;
mod process_state;
mod program;
mod records;
pub mod request;
mod script_lookup;
mod server_requests;
pub mod spawner;
mod start_program;
pub mod start_table;
mod stderr_lines;
pub mod table_check;
mod table_codec;
mod worker_requests;

pub use stderr_lines::{LineBucket, escape};
