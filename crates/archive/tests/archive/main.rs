//! The format seen from outside: a reader gets exactly the written data, and no damage of the bytes
//! leads to a wrong result.

mod checksum_forger;
mod compare;
#[path = "../../../http/tests/wire/compressed_fields_law.rs"]
mod compressed_fields_law;
mod corrupted_archives;
mod error_pages;
mod format_document;
mod fuzz_check;
mod fuzz_corpus;
mod fuzz_edits;
mod hostile;
mod hostile_rules;
mod landmarks;
mod large;
mod round_trip;
mod sample_archive;
