//! Reads the archives of kawipiko, the static server that preceded Pinion, whose sites
//! `pinion import` imports.
//!
//! **In:** the bytes of a file. **Out:** references (a path, its fields, its content) borrowed from
//! them, or an error that names the record. The crate reads no byte twice, and copies and keeps
//! none.
//!
//! | Module | Holds |
//! |---|---|
//! | [`cdb`] | the file format below it: a constant database, key → data |
//! | `archive` | [`Archive`]: schema, references, contents |
//! | `field_block` | [`KawipikoField`]: the fields of a block of response fields |
//! | `static_header_table` | the names and values that have numbers in such blocks |
//! | [`limits`] | every limit |
//!
//! **Promises.** No input makes this crate panic or loop.
#![forbid(unsafe_code)]

mod archive;
pub mod cdb;
mod field_block;
pub mod limits;
mod static_header_table;

pub use archive::{Archive, Damage, Kind, OpenError, RecordFault, Reference, References, SCHEMA};
pub use field_block::KawipikoField;
