//! The gateway in a simulated worker, between simulated clients and upstream servers that fail in
//! every way at every byte. The laws are in `laws.rs`.

mod application;
mod client;
mod http1_reader;
mod http2_client;
mod laws;
mod operations;
mod python_seeds;
mod python_websockets;
mod python_worker;
mod records;
mod run;
mod seeds;
#[path = "../../../engine/tests/strict/mod.rs"]
mod strict;
mod sweeps;
mod tunnels;
mod upstream;
