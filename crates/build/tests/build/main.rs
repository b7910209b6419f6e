//! Real folders built into archives, read back with the archive's own reader.

mod answers;
mod beside;
mod codings;
#[path = "../../../archive/tests/archive/edits.rs"]
mod edits;
mod extract;
mod failures;
mod fields_law;
mod folder;
mod import;
mod imported;
mod large;
mod listings;
mod places;
mod previous;
mod previous_law;
mod reader;
mod reuse;
mod reuse_law;
mod same_bytes;
mod walk;
