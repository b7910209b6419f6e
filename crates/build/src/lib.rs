//! A folder becomes an archive: walk, media types, codings, deduplication, publishing.
//!
//! **In:** a folder, [`Options`], the current time. **Out:** the bytes of an archive on any output
//! ([`build()`]) or an archive file published in one step ([`build_file`]), and a [`Summary`].
//!
//! | Step | Module | Does |
//! |---|---|---|
//! | 1 | `walk`, `names` | folder → sorted list of files; links followed; every problem named |
//! | 2 | [`rules`] | `_redirects`, `_headers` → entries, rules to be walked, fields of each URL |
//! |   | `dynamic`, `code` | code → set apart from the content, and templates proven |
//! |   | `eighties` | the files of a site of 80s that are no code |
//! | 3 | `pipeline` | list → results in the same order, on all cores, bounded in bytes |
//! | 4 | `source` | path → content that did not change while it was read |
//! |   | `stamps` | which files need not be read, because they have not changed |
//! | 5 | `media` | name and content → media type |
//! |   | `precompressed` | content that lies in the folder in a coding → content |
//! | 6 | `encode` | content → gzip, br, zstd, where that pays; `lists`, `codings`: which |
//! |   | `reuse`, `decode` | the same from an older archive, checked |
//! |   | `carry` | the same, copied by the kernel, from one that is our own work |
//! | 7 | `assemble`, `contents` | results → bodies, shared blocks, entities with their tags |
//! | 8 | `keys` | paths → aliases: `/dir/`, `/name`; pages for missing resources |
//! |   | `listing` | files → the listing of a folder (`--listing`), as a page and as JSON |
//! | 9 | `place`, `publish` | a file appears under its name complete, or not at all |
//! |   | `draft` | an incomplete file, under another name until its process ends: [`DraftFile`] |
//!
//! `examine` takes steps 1 and 2 alone. `site_doubts` finds names with an unintended meaning.
//! `extract` makes a folder of an archive again. `import` makes such an archive of one of
//! kawipiko's, from step 5 on.
//!
//! [`limits`] names every bound. `fields` holds the response fields, `fingerprint` finds the names
//! that change with their content, `work` is the work of one worker for one file (steps 4 to 6),
//! [`BuildReport`] shows where the bytes are, [`figures`] writes numbers.
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
mod build;
mod carry;
mod code;
mod codings;
mod contents;
mod decode;
mod draft;
mod dynamic;
mod eighties;
mod encode;
mod error;
mod examine;
mod extract;
mod fields;
pub mod figures;
mod fingerprint;
#[cfg(fuzzing)]
pub mod fuzzing;
mod import;
mod keys;
pub mod limits;
mod listing;
mod lists;
mod media;
mod names;
mod options;
mod pipeline;
mod place;
mod precompressed;
mod progress;
mod publish;
mod report;
mod reuse;
pub mod rules;
mod shape;
mod site_doubts;
mod source;
mod stamps;
mod summary;
mod walk;
mod work;

pub use assemble::Earlier;
pub use build::{Built, build, build_nothing};
pub use codings::{
    CodingEffort, CodingError, CodingLevel, CodingsFor, Method, NamedCoding, codings_at,
    parse_codings,
};
pub use draft::{DraftFile, remove_left_drafts};
pub use dynamic::CONTENT_FOLDER;
pub use encode::encode_once;
pub use error::{BuildError, CodeError, FileProblem, Occupant, Reason};
pub use examine::{Examined, examine, scripts};
pub use extract::{
    Difference, DifferenceReason, ExtractError, ExtractOptions, ExtractRefusal, Extracted,
    RefusalReason, extract,
};
pub use fields::REVALIDATED;
pub use import::{ContentFault, ImportError, Imported, Leftover, LeftoverReason, import_file};
pub use media::file_type;
pub use names::{Globs, Names, RulesFile, is_script_source};
pub use options::{CodeCheck, Options};
pub use progress::Progress;
pub use publish::{build_file, build_file_after, switch_link};
pub use report::{BuildReport, REPORT_MARK};
pub use rules::{RuleError, in_place};
pub use shape::{Main, Shape, Walked, Walls};
pub use summary::{CodingSummary, Fingerprinted, RuleDoubt, Shadowed, Slow, Summary, Warning};
