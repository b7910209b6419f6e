//! QUIC (RFC 9000) on quinn-proto: datagrams in, streams out, and back.
//!
//! | Module | Holds |
//! |---|---|
//! | [`config`] | what the connections of a listener have in common; keys |
//! | `ids` | connection ids that say who has the connection |
//! | `suites` | TLS inside of QUIC, by what the client's machine is good at |
//! | `socket` | a UDP socket |
//! | `service` | what a worker does with all of it |
//! | `door` | a listener of one worker: its socket and its endpoint |

pub mod config;
pub(crate) mod door;
mod ids;
pub(crate) mod service;
mod socket;
mod suites;
