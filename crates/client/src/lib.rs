//! Outgoing connections: what opens, checks and keeps connections to other servers, without the
//! connections themselves.
//!
//! Everything but the threads of [`resolver`] is free of I/O: values and the time go in, actions
//! come out. So it also runs in the simulator.
//!
//! | Module | Task |
//! |---|---|
//! | [`target`] | what a connection is opened to: the origin of a URL, or a Unix socket |
//! | [`address_policy`] | which addresses connections may be opened to |
//! | [`address_class`], [`ip_network`] | special addresses, and networks of settings |
//! | [`happy_eyeballs`] | which address of a name is tried when (RFC 8305) |
//! | `address_order` | the order of addresses (RFC 6724) |
//! | [`limits`] | every limit with its reason |
#![forbid(unsafe_code)]

pub mod address_class;
mod address_order;
pub mod address_policy;
pub mod happy_eyeballs;
pub mod ip_network;
pub mod limits;
pub mod target;
