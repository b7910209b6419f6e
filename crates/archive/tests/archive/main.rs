//! The format seen from outside: a reader gets exactly the written data, and no damage of the bytes
//! leads to a wrong result.

mod compare;
#[path = "../../../http/tests/wire/compressed_fields_law.rs"]
mod compressed_fields_law;
mod corpus;
mod edits;
mod error_pages;
mod forge;
mod format;
mod hostile;
mod hostile_rules;
mod injury;
mod landmarks;
mod large;
mod oracle;
mod round_trip;
mod sample;
