//! Real folders built into archives, read back with the archive's own reader.

mod archive_reader;
#[path = "../../../kawipiko/tests/archives/cdb_writer.rs"]
mod cdb_writer;
mod codings;
mod corpus;
mod dynamic_sites;
mod external_rules_files;
mod extract;
mod extract_imported;
mod extract_law;
mod fields_law;
mod fields_oracle;
#[path = "../../../archive/tests/archive/fuzz_edits.rs"]
mod fuzz_edits;
mod import;
mod import_law;
mod large_files;
mod listings;
mod output_failures;
mod output_paths;
mod precompressed;
mod previous_assets_law;
mod previous_corpus;
mod progress;
mod reproducible_builds;
mod responses;
mod reuse;
mod reuse_law;
mod temporary_folder;
mod walk;
