//! Scripts in a simulated worker with virtual time: one seed determines a run and repeats it
//! (docs/simulator.md).

mod counting;
mod fixture;
mod leaks;
mod reload;
mod stage;
mod stories;
mod talk;
mod times;
