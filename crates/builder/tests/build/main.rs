//! Real folders built into archives, read back with the archive's own reader.

mod archive_reader;
mod codings;
mod corpus;
mod dynamic;
#[path = "../../../archive/tests/archive/edits.rs"]
mod edits;
mod extract;
mod extract_imported;
mod extract_law;
mod failures;
mod fields_law;
mod fields_oracle;
mod import;
mod import_law;
mod large;
mod listings;
#[path = "../../../kawipiko/tests/archives/make.rs"]
mod make;
mod named_rules;
mod output_paths;
mod precompressed;
mod previous_corpus;
mod previous_law;
mod progress;
mod responses;
mod reuse;
mod reuse_law;
mod same_bytes;
mod test_folder;
mod walk;
