//! Real folders built into archives, read back with the archive's own reader.

mod answers;
mod codings;
mod corpus;
mod dynamic;
#[path = "../../../archive/tests/archive/edits.rs"]
mod edits;
mod extract;
mod extract_law;
mod failures;
mod fields_law;
mod folder;
mod import;
mod import_law;
mod imported;
mod large;
mod listings;
#[path = "../../../kawipiko/tests/archives/make.rs"]
mod make;
mod named_rules;
mod places;
mod plain_fields;
mod precompressed;
mod previous;
mod previous_law;
mod progress;
mod reader;
mod reuse;
mod reuse_law;
mod same_bytes;
mod walk;
