//! The errors of writing an archive.

use std::io;

use crate::damage::Fault;
use crate::limits::{
    CODE_FILE_MAX_BYTES, CODE_SECTION_MAX_BYTES, FALLBACK_DEPTH_MAX, FIELD_RULES_SECTION_MAX_BYTES,
    RULES_MAX, RULES_SECTION_MAX_BYTES, SHARED_SECTION_MAX_BYTES,
};

/// The reason why an archive could not be written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The output failed.
    #[error(transparent)]
    Output(#[from] io::Error),
    /// A streamed body could not be read.
    #[error("cannot read: {0}")]
    Read(#[source] io::Error),
    /// A streamed body was not the announced one.
    #[error("content changed while it was read")]
    BodyChanged,
    /// A path key that does not begin with a slash, or a fallback's directory that does not end
    /// with one.
    #[error("{}: not a path key", .0.escape_ascii())]
    NotAPath(Box<[u8]>),
    /// Two entries for one path.
    #[error("{}: two entries for one path", .0.escape_ascii())]
    Duplicate(Box<[u8]>),
    /// An entry that the reader would refuse.
    #[error("{}: {fault}", path.escape_ascii())]
    Entry {
        /// Its path.
        path: Box<[u8]>,
        /// Why.
        fault: Fault,
    },
    /// A fallback page too many levels below the root.
    #[error("{}: a fallback page more than {FALLBACK_DEPTH_MAX} levels deep", .0.escape_ascii())]
    FallbackTooDeep(Box<[u8]>),
    /// A rule that the reader would refuse.
    #[error("rule {number}: {fault}")]
    Rule {
        /// Its rank, from 0.
        number: usize,
        /// Why.
        fault: Fault,
    },
    /// More rules than a reader loads.
    #[error("more than {RULES_MAX} rules, or more than {RULES_SECTION_MAX_BYTES} bytes of them")]
    TooManyRules,
    /// A rule for fields that the reader would refuse.
    #[error("rule {number} for fields: {fault}")]
    FieldRule {
        /// Its rank, from 0.
        number: usize,
        /// Why.
        fault: Fault,
    },
    /// More rules for fields than a reader loads.
    #[error(
        "more than {RULES_MAX} rules for fields, or more than {FIELD_RULES_SECTION_MAX_BYTES} \
         bytes of them"
    )]
    TooManyFieldRules,
    /// A shared block that the reader would refuse.
    #[error("response fields: {0}")]
    Shared(Fault),
    /// A file of code that is too large, or with which all code is.
    #[error(
        "{}: code of more than {CODE_FILE_MAX_BYTES} bytes, or of more than \
         {CODE_SECTION_MAX_BYTES} with all files before it",
        .0.escape_ascii()
    )]
    TooMuchCode(Box<[u8]>),
    /// A new body after the bodies were ended.
    #[error("a body after the last one")]
    BodiesEnded,
    /// More shared blocks than a reader loads.
    #[error("response fields: more than {SHARED_SECTION_MAX_BYTES} bytes of different ones")]
    TooManyShared,
    /// A build fact with a line break, without a name, or too many of them.
    #[error("build fact {0:?}: forbidden characters or too long")]
    Meta(String),
    /// Records beyond 8 TiB.
    #[error("the archive is too large for its index")]
    TooLarge,
    /// No hash seed keeps the index within its bounds.
    #[error("the paths do not fit an index: they were chosen to collide")]
    Index,
}
