//! A running server, put together from the other crates.
//!
//! A start has two halves (docs/ARCHITECTURE.md, "Start and threads"). [`startup::prepare`] runs on
//! the main thread, and no other thread is left when it returns: it blocks the signals, binds the
//! sockets, opens the log and the sites. [`server_threads::run`] starts the threads and waits for
//! the end.
//!
//! | Module | Holds |
//! |---|---|
//! | [`startup`] | everything a server needs, ready before the first thread |
//! | [`server_keys`] | the keys that seal session tickets and connection ids |
//! | [`server_threads`] | the threads: workers, log, reloads, watch, signals |
//! | [`app`] | how a worker handles a request, as one readable function |
//! | [`access`] | which clients may request which paths, and how often |
//! | [`acme`] | challenges of certificate authorities, with responses from a folder |
//! | [`dispatch`] | the responder of a request: health check, challenges, redirects, sites |
//! | [`dev`] | the additions of `--dev`: pages that reload, pages about errors |
//! | [`deferred_responses`] | requests that the scripts of sites respond to |
//! | [`gateway`] | requests that other servers respond to |
//! | [`mounts`] | the paths of these requests |
//! | [`live_folders`] | the folders of live files, opened with their site |
//! | [`live_files`] | files that are read as they are when they are requested |
//! | [`sendfile_folders`] | folders with the files that applications have the server send |
//! | [`php`] | PHP that the server starts for its sites |
//! | [`not_found_reason`] | whether a rule causes status 404 |
//! | [`dummy_server`] | the dummy for measurements, without a site |
//! | [`site_generation`] | one state of a site |
//! | [`site_roster`] | the current state of every site, and how workers load the next |
//! | [`sites`] | the sites beside the workers: how each is loaded and watched |
//! | [`control_thread`] | signals and commands for the server |
//! | [`control_clients`] | clients of the control socket |
//! | [`explainer`] | explanations of responses for them |
//! | [`status`] | the status of the server |
//! | [`configuration_reload`] | the configuration file, read again |
//! | `startup_messages` | the lines that a start prints |
//! | [`service_manager`] | the sockets and settings that systemd has passed to the process |
//! | `passed_sockets` | sockets from it: `fd:NAME` |
//! | `sd_notify`, `watchdog` | reports to it: ready, reloading, stopping, alive |
//! | [`server_error_report`] | the reasons of responses with status 500, on stderr |
//! | [`log_throttle`] | how often a message is logged that clients can cause |
//! | [`request_log`] | the record of a request for the access log |
//! | [`latency`] | how long requests take |
//! | [`stats`] | the figures of the server: requests and resources |
//! | [`program_table`] | the programs of all sites, and the process that starts them |
//! | `private_folder` | a folder for their configurations and sockets |
//! | `program_output` | the output of a program that is run to answer a question |
//! | [`site_programs`] | the programs that the server starts on behalf of sites |
//! | [`running_programs`] | which programs run, and how they are replaced |
//! | [`pending_log_records`] | log records of responses that have not been sent yet |
//! | [`site_loader`] | folder, archive or script → generation |
//! | [`site_reload`] | the thread that loads the next generation |
//! | [`reload_report`] | the outcome of a reload, for the clients that wait for it |
//! | [`watch`] | folder, archive or script changed → reload |
//! | [`listeners`] | addresses → sockets |
//! | [`path_state`] | tells one state of a path from another |
//! | [`tls`] | certificates and ticket keys, and how changed files are reloaded |
//! | [`https_redirect`] | listeners that send every client to the encrypted ones |
//! | [`socket_files`] | the files of Unix sockets, gone at the end |
//! | [`startup_interrupt`] | a signal ends a start that takes long |
//! | `quic_keys` | the keys of QUIC, kept over restarts |
//! | `content_count` | how much is in a site |
//! | [`capacity`] | how many connections, how much memory |

pub(crate) mod access;
pub(crate) mod acme;
pub(crate) mod app;
pub(crate) mod capacity;
pub(crate) mod configuration_reload;
mod content_count;
pub(crate) mod control_clients;
mod control_thread;
pub(crate) mod deferred_responses;
pub(crate) mod dev;
pub(crate) mod dispatch;
pub(crate) mod dummy_server;
mod explainer;
mod extended_connect;
pub(crate) mod gateway;
pub(crate) mod https_redirect;
mod latency;
pub(crate) mod listeners;
pub(crate) mod live_files;
pub(crate) mod live_folders;
pub(crate) mod log_throttle;
mod memory_limit;
mod memory_parts;
pub(crate) mod mounts;
pub(crate) mod not_found_reason;
mod passed_sockets;
pub(crate) mod path_state;
pub(crate) mod pending_log_records;
pub(crate) mod php;
mod private_folder;
mod program_output;
mod program_rows;
pub(crate) mod program_table;
pub(crate) mod python;
mod quic_keys;
mod reload_report;
pub(crate) mod request_log;
pub(crate) mod running_programs;
pub(crate) mod sd_notify;
pub(crate) mod sendfile_folders;
pub(crate) mod server_error_report;
pub(crate) mod server_keys;
pub(crate) mod server_threads;
pub(crate) mod service_manager;
pub(crate) mod site_generation;
pub(crate) mod site_loader;
pub(crate) mod site_programs;
pub(crate) mod site_reload;
pub(crate) mod site_roster;
pub(crate) mod sites;
pub(crate) mod socket_files;
pub(crate) mod startup;
pub(crate) mod startup_interrupt;
mod startup_messages;
pub(crate) mod stats;
mod status;
mod store;
pub(crate) mod tls;
pub(crate) mod trusted_proxies;
pub(crate) mod watch;
mod watchdog;
mod writable_folder_check;
