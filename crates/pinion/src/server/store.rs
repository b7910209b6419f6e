//! The store of a server: clients of Redis on the connections of a worker.

mod clients;
mod expiry_thread;
mod jobs;
mod killed_clients;
mod pages;
#[cfg(test)]
mod simulation;
mod waiting_pages;

pub(crate) use clients::{StoreClients, StoreShared, WorkerPages};
pub(crate) use expiry_thread::{monotonic_us, start as start_upkeep, unix_ms, unix_us};
pub(crate) use jobs::StoreJobs;
pub(crate) use pages::{FoundPage, NoPage, PageForm, StoreMount, StoredPage, StoredPages};
pub(crate) use waiting_pages::{WaitEnd, WaitingPage};
