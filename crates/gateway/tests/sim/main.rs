//! The gateway in a simulated worker, between simulated clients and upstream servers that fail in
//! every way at every byte. The laws are in `laws.rs`.

mod application;
mod fastcgi_scgi_records;
mod http1_client;
mod http1_reader;
mod http2_client;
mod laws;
mod operation_failure_sweep;
mod python_application_and_process;
mod python_seeded_runs;
mod python_websockets;
mod run;
mod seeded_runs;
#[path = "../../../engine/tests/strict/mod.rs"]
mod strict;
mod tunnels;
mod upstream;
mod upstream_failure_sweep;
