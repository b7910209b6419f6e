//! The store of a server: clients of Redis on the connections of a worker.

mod clients;
mod jobs;
mod kills;
mod pages;
#[cfg(test)]
mod simulation;
mod upkeep;
mod waiting_pages;

pub(crate) use clients::{StoreClients, StoreShared, WorkerPages};
pub(crate) use jobs::StoreJobs;
pub(crate) use pages::{FoundPage, NoPage, PageForm, StoreMount, StoredPage, StoredPages};
pub(crate) use upkeep::{monotonic_us, start as start_upkeep, unix_ms, unix_us};
pub(crate) use waiting_pages::{WaitEnd, WaitingPage};
