//! The control socket, through which commands such as `pinion status` reach a running server, and
//! its protocol. The server's side is `server/control_thread.rs`.
//!
//! | Module | Holds |
//! |---|---|
//! | [`protocol`] | requests and responses, one JSON object in each line |
//! | [`connection`] | one client of the socket, as bytes |
//! | [`socket`] | the paths of sockets, and how one is bound |
//! | [`client`] | the side of a command |
//! | [`status`] | the status of a server |

pub(crate) mod client;
pub(crate) mod connection;
pub(crate) mod protocol;
pub(crate) mod socket;
pub(crate) mod status;
