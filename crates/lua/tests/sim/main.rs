//! Scripts in a simulated worker, under virtual time: what one seed decides happens again
//! (docs/simulator.md).

mod counting;
mod fixture;
mod leaks;
mod reload;
mod stage;
mod stories;
mod talk;
mod times;
