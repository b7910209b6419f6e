//! Scripts in a simulated worker with virtual time: one seed determines a run and repeats it
//! (docs/simulator.md).

mod counting_allocator;
mod http1_client;
mod leaks;
mod reload;
mod reload_scenarios;
mod request_time_limit;
mod script_files;
mod simulated_worker;
