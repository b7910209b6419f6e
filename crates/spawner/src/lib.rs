//! The spawner: a process that starts the programs of a server.
//!
//! A server that starts programs forks the spawner before it has any thread ([`spawner_handle`]).
//! The spawner starts the programs of a fixed table ([`start_table`]), reads their standard error,
//! and kills all processes that a program leaves behind when it ends. A worker of the server has a
//! connection to the spawner ([`worker_connection`]); it sends the number of a row of the table,
//! arguments if the row allows them, and sockets that become standard input and output. Paths,
//! users and environment never come from a worker, so the spawner may have more privileges than the
//! workers. CGI scripts are the exception: for them a worker names a file below the folder of the
//! row, and the variables that CGI defines ([`cgi_variables`]).
//!
//! The crate knows neither HTTP nor the engine. Apart from the two files with `unsafe` code it
//! calls the system by way of `rustix`.
//!
//! | Module | Task |
//! |---|---|
//! | [`start_table`] | the programs that may be started, with their settings |
//! | [`table_check`] | checks a table before it is used |
//! | [`accounts`] | numbers of users and groups by their names |
//! | [`spawner_handle`] | the server's side: starts the spawner, connects workers |
//! | [`worker_connection`] | a worker's side: sends requests, reads answers |
//! | [`worker_request`] | requests of workers as bytes |
//! | [`cgi_variables`] | the variables that workers may set for CGI scripts |
//! | [`reply`] | answers to workers as bytes, all of one size |
//! | `control_codec` | requests of the server as bytes |
//! | `table_codec` | a row of the table as bytes |
//! | `byte_codec` | numbers and texts as bytes |
//! | `seqpacket_socket` | records with descriptors over a socket |
//! | `event_loop` | the loop of the spawner: waits, expires deadlines, ends |
//! | `server_requests` | handles requests of the server: connections, tables |
//! | `worker_requests` | reads requests of workers, sends answers |
//! | `start_program` | carries out start requests |
//! | `end_program` | handles ends of processes, and kills the processes that are left |
//! | `program` | a running program |
//! | `script_lookup` | finds a CGI script below its folder and enters the folder that it is in |
//! | `exec_plan` | the plan of a new process, made before the fork |
//! | `fork_exec` | forks, and executes the plan; `unsafe` |
//! | `process_state` | signals, title and descriptors of the spawner; `unsafe` |
//! | `descendants` | finds processes that a program has left behind |
//! | `cgroups` | a cgroup for each program, where the system allows it |
//! | `stderr_lines` | lines of programs, bounded and escaped |
//! | `nonblocking_log` | standard error of the spawner, which never blocks it |
//! | [`limits`] | every limit with its reason |
#![deny(unsafe_code)]

pub mod accounts;
mod byte_codec;
pub mod cgi_variables;
mod cgroups;
mod control_codec;
mod descendants;
mod end_program;
mod event_loop;
mod exec_plan;
mod fork_exec;
pub mod limits;
mod nonblocking_log;
mod process_state;
mod program;
pub mod reply;
mod script_lookup;
mod seqpacket_socket;
mod server_requests;
pub mod spawner_handle;
mod start_program;
pub mod start_table;
mod stderr_lines;
pub mod table_check;
mod table_codec;
pub mod worker_connection;
pub mod worker_request;
mod worker_requests;

pub use stderr_lines::{LineBucket, escape};
