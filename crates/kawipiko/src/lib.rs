//! What the archives of kawipiko hold: the static server that came before us, whose sites
//! `pinion import` takes over.
//!
//! **In:** the bytes of a file. **Out:** references (a path, its fields, its content) borrowed from
//! them, or an error that names the record. Nothing is read twice, copied or kept.
//!
//! | Module | Holds |
//! |---|---|
//! | [`cdb`] | the file format below it: a constant database, key → data |
//! | `archive` | [`Archive`]: schema, references, contents |
//! | `fields` | [`KawipikoField`]: a block of response fields, taken apart |
//! | `words` | the names and values that such blocks have numbers for |
//! | [`limits`] | every bound |
//!
//! **Promises.** No input makes this crate panic or loop.
#![forbid(unsafe_code)]

mod archive;
pub mod cdb;
mod fields;
pub mod limits;
mod words;

pub use archive::{Archive, Damage, Kind, OpenError, RecordFault, Reference, References, SCHEMA};
pub use fields::KawipikoField;
