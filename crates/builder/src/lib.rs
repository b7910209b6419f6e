//! A folder becomes an archive: walk, media types, codings, deduplication, publishing.
//!
//! **In:** a folder, [`Options`], the current time. **Out:** the bytes of an archive on any output
//! ([`build()`]) or an archive file published in one step ([`build_file`]), and a [`Summary`].
//!
//! | Step | Module | Does |
//! |---|---|---|
//! | 1 | `walk` | folder → sorted list of files; links followed; every problem named |
//! |   | `walk::name_filter` | the names that a build leaves out |
//! | 2 | [`rules`], `site_rules` | `_redirects`, `_headers` → entries, rules, fields of URLs |
//! |   | `separate_code`, `code_or_content` | files found → keys of the content, code set apart |
//! |   | `site_code` | code → read, its templates proven |
//! |   | `legacy_80s_server` | the files of a site of 80s that are no code |
//! | 3 | `file_batches` | list → batches of files, on all cores |
//! |   | `ordered_thread_pool` | jobs → results in the same order, bounded in bytes |
//! | 4 | `walk::consistent_file_read` | path → content that did not change while it was read |
//! |   | `walk::stat_cache` | which files need not be read, because they have not changed |
//! | 5 | `media_type` | name and content → media type |
//! |   | `precompressed` | content that lies in the folder in a coding → content |
//! | 6 | `encode` | content → gzip, br, zstd, where that pays |
//! |   | `coding_options`, `coding_rules` | which codings a file is tried in |
//! |   | `body_reuse`, `verify_coding` | the same from an older archive, checked |
//! |   | `kernel_body_copy` | the same, copied by the kernel, from one that is our own work |
//! | 7 | `assemble` | results → bodies, shared blocks, entities with their tags |
//! | 8 | `path_aliases` | paths → aliases: `/dir/`, `/name`; pages for missing resources |
//! |   | `listing` | files → the listing of a folder (`--listing`), as a page and as JSON |
//! |   | `warning`, `rule_warning` | warnings about the files of a site, and about its rules |
//! | 9 | `output_path`, `build_to_file` | a file appears complete, or not at all |
//! |   | `temporary_file` | an incomplete file, under another name until its process ends |
//!
//! `build` has the steps in their order. `process_file` is the work of one worker for one file
//! (steps 4 to 6). `examine_folder` takes steps 1 and 2 alone. `name_warnings` finds names with an
//! unintended meaning, and `site_layout_guard` what a served site must not lose. `extract` makes
//! a folder of an archive again. `import` makes such an archive of one of kawipiko's, from step 5
//! on.
//!
//! [`limits`] names every bound. `response_fields` holds the response fields, `fingerprint` finds
//! the names that change with their content, [`BuildReport`] shows where the bytes are,
//! [`number_format`] writes numbers.
//!
//! `build` runs the steps in their order. `options` has the options of a build, `progress` reports
//! its progress, and `error` has its errors, by their origin. `summary` has the result of a build,
//! and `report` the report of `pinion build --report`. `shape` is the layout with which a folder is
//! served, and which a running site must not lose unnoticed. `fuzzing` has the functions for fuzz
//! targets.
//!
//! **Promises.** Same input, same bytes: independent of the clock, the path of the folder, the
//! number of cores, the order in which a file system lists names. Input is: names, contents,
//! modification times (capped by `SOURCE_DATE_EPOCH`), options; reuse of older archives makes no
//! difference. The clock decides only whether a modification time lies in the future (such a file
//! is warned about and gets no `Last-Modified`), and which fingerprints may be trusted. With a
//! `SOURCE_DATE_EPOCH` in the past no time can lie in the future, and the clock has no say at all.
//!
//! Memory is bounded by [`limits::WINDOW_MAX_BYTES`], the encoders of each worker and about 450
//! bytes per file, 620 when it replaces an archive. Nothing here logs or ends the process.
#![forbid(unsafe_code)]

mod assemble;
mod body_reuse;
mod build;
mod build_to_file;
mod code_or_content;
mod coding_options;
mod coding_rules;
mod encode;
mod error;
mod examine_folder;
mod extract;
mod file_batches;
mod fingerprint;
#[cfg(fuzzing)]
pub mod fuzzing;
mod import;
mod kernel_body_copy;
mod legacy_80s_server;
pub mod limits;
mod listing;
mod media_type;
mod name_warnings;
pub mod number_format;
mod options;
mod ordered_thread_pool;
mod output_path;
mod path_aliases;
mod precompressed;
mod process_file;
mod progress;
mod report;
mod response_fields;
mod rule_warning;
pub mod rules;
mod separate_code;
mod site_code;
mod site_layout_guard;
mod site_rules;
mod summary;
mod temporary_file;
mod verify_coding;
mod walk;
mod warning;

pub use assemble::Earlier;
pub use build::{Built, build, build_nothing};
pub use build_to_file::{build_file, build_file_after, switch_link};
pub use code_or_content::CONTENT_FOLDER;
pub use coding_options::{
    CodingEffort, CodingError, CodingLevel, CodingsFor, Method, NamedCoding, codings_at,
    parse_codings,
};
pub use encode::encode_once;
pub use error::{BuildError, CodeError, FileProblem, Occupant, Reason};
pub use examine_folder::{Examined, examine, scripts};
pub use extract::{
    Difference, DifferenceReason, ExtractError, ExtractOptions, ExtractRefusal, Extracted,
    RefusalReason, extract,
};
pub use import::{ContentFault, ImportError, Imported, Leftover, LeftoverReason, import_file};
pub use media_type::file_type;
pub use options::{CodeCheck, Options};
pub use progress::Progress;
pub use report::{BuildReport, REPORT_MARK};
pub use response_fields::REVALIDATED;
pub use rule_warning::RuleWarning;
pub use rules::{RuleError, path_on_disk};
pub use site_layout_guard::{MainScript, PublishGuard, SiteLayout, WalkedSite};
pub use summary::{CodingSummary, Fingerprinted, Shadowed, Slow, Summary};
pub use temporary_file::{DraftFile, remove_left_drafts};
pub use walk::file_kinds_by_name::{RulesFile, is_script_source};
pub use walk::name_filter::NameFilter;
pub use walk::name_globs::Globs;
pub use warning::Warning;
