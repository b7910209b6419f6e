//! Black-box tests: the real program, started and asked as its users do. Each module is one
//! subject.
//!
//! They are one program because linking is what a test program costs most. The feature `long` adds
//! the modules that take minutes, for `cargo xtask test --long`.
#![forbid(unsafe_code)]

mod alt_svc;
mod bad_input;
mod building;
#[cfg(feature = "long")]
mod certbot;
mod changing;
mod check_cost;
mod chromium;
mod coding;
mod completions;
mod conditional;
mod confinement;
mod connection;
mod control;
mod curl;
mod damage;
mod dev;
mod docs;
mod dummy;
mod dynamic_sites;
mod early_responses;
mod error_pages;
mod escaping;
mod fields;
mod fingerprints;
mod floods;
#[cfg(feature = "long")]
mod generators;
mod guestbook;
mod h2_peers;
mod h2_priorities;
mod h2_suites;
mod h3_errors;
mod h3_peers;
mod import;
mod import_answers;
mod io;
mod json_reference;
#[cfg(feature = "long")]
mod large;
mod limits;
mod listing;
mod little_memory;
mod log;
mod log_trouble;
#[cfg(feature = "long")]
mod long_path;
mod lua_bounds;
mod lua_content;
mod lua_faults;
mod lua_fetch;
mod lua_fetch_faults;
mod lua_fetch_tls;
mod lua_files;
mod lua_handlers;
mod lua_large_input;
mod lua_modes;
mod lua_pages;
mod lua_passwords;
mod lua_programs;
mod lua_ranges;
mod lua_reload;
mod lua_requests;
mod lua_shared;
mod lua_stacks;
mod lua_stopping;
mod lua_streams;
mod lua_uploads;
mod lua_waiting;
mod lua_wakes;
mod lua_work;
mod manual;
mod memory;
mod one_meaning;
mod operating;
#[cfg(feature = "long")]
mod packages;
mod packaging;
mod permits;
mod previous;
mod protocols;
mod proxy_protocol;
mod python_docs;
mod quic_bad_input;
mod quic_certificates;
mod range;
mod redbot;
mod refused_rules;
mod releases;
mod reload;
mod report;
mod resolve;
mod rules;
mod sbom;
mod service_manager;
mod site_logs;
mod sites;
mod slow_clients;
mod slow_readers;
mod smuggling;
mod socket_activation;
mod ssh;
#[cfg(feature = "long")]
mod stalls;
mod starting;
mod startup_cost;
mod stopping;
mod survival;
mod swap;
mod terminal;
mod tls_bad_input;
mod tls_certificates;
mod tls_mutations;
mod tls_redirect;
mod tls_reload;
mod tls_scanners;
mod tls_self_signed;
mod tls_sessions;
mod unchanged;
mod unix_socket;
mod watch;
