//! A release folder: where one machine keeps the archives of a site, and which of them is served.
//!
//! ```text
//! DIR/current.pinion    a link to releases/DIGEST.pinion, the release that is served
//! DIR/releases/         the releases that are kept, each named by its own digest
//! DIR/log               one line for each switch
//! DIR/.lock             locked while a switch is made
//! ```
//!
//! **In:** a folder, an archive or a request to roll back. **Out:** a switched link. A server that
//! serves the folder watches the link and reloads the release that it leads to.
//!
//! | Module | Holds |
//! |---|---|
//! | [`folder`] | the names above; which folders are release folders, or may become one |
//! | [`id`] | the name of a release |
//! | [`release_store`] | the files in `releases/`: storing, listing, removing |
//! | [`history`] | the log, and the order of rollbacks |
//! | [`lock`] | one switch after the other |
//! | [`release_switch`] | the switch itself |
//! | [`release_in_use`] | whether a server has a release in use |
//! | [`release_location`] | a folder of this machine, or `ssh://` of another |
//! | [`remote`] | the same verbs at the other end of ssh |
//!
//! **Promises.** At every moment, after a crash too, `current.pinion` leads to a whole archive that
//! was verified when it came, or there has never been one. The link decides which release is
//! current; the log follows it, and is mended by the next switch when its last line was lost.

pub(crate) mod folder;
pub(crate) mod history;
pub(crate) mod id;
mod lock;
pub(crate) mod release_in_use;
pub(crate) mod release_location;
pub(crate) mod release_store;
pub(crate) mod release_switch;
pub(crate) mod remote;
