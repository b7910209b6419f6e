//! Reasons why a rule of `_redirects` or `_headers` has another effect than it seems to have.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::error::ShownPath;

/// The reason why a rule has another effect than it seems to have.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RuleWarning {
    /// It never applies: a rule before it applies to all that it is about.
    Covered {
        /// That rule's file.
        file: PathBuf,
        /// The line of that rule.
        line: usize,
    },
    /// It never applies: its path is a file's.
    FileFirst,
    /// The content that it is to send is not in the site.
    Missing,
    /// Its target leads back to it, directly or by other redirects.
    Around,
    /// Its pattern names a host.
    OtherHost,
    /// It never applies: the site does not respond for its host.
    ForeignHost,
    /// It is wrong, and the build was asked to leave such lines out.
    LeftOut {
        /// The expected text; follows the word "expected".
        expected: String,
    },
    /// It has no fields.
    NoFields,
    /// Its target ends in a `!`, which has its meaning after a status alone.
    ForceInTarget {
        /// The status of the rule.
        status: u16,
    },
    /// Its target has a `*`, which has its meaning in the path alone.
    StarInTarget,
    /// It has a placeholder or a pattern as another server writes it.
    ForeignMark {
        /// The text as written.
        mark: String,
        /// Whether it is in the target, and not in the path.
        is_in_target: bool,
    },
    /// It gives a second value of a field that may have one.
    SecondValue {
        /// The name of the field.
        name: String,
        /// The line of the pattern that gives the first value.
        first: usize,
    },
}

impl RuleWarning {
    /// Returns whether the place of a warning is the target of the rule, and not its beginning.
    pub(crate) fn is_about_target(&self) -> bool {
        matches!(self, RuleWarning::Missing | RuleWarning::Around)
    }

    /// Writes the rest of a warning about a rule in the file `path`.
    pub(crate) fn write(&self, f: &mut fmt::Formatter<'_>, path: &Path) -> fmt::Result {
        match self {
            RuleWarning::LeftOut { expected } => {
                write!(f, "skipped by --lax-rules: expected {expected}")
            }
            RuleWarning::Covered { file, line } if file == path => {
                write!(f, "never applies: line {line} matches all its requests first")
            }
            RuleWarning::Covered { file, line } => {
                write!(
                    f,
                    "never applies: {}:{line} matches all its requests first",
                    ShownPath(file)
                )
            }
            RuleWarning::FileFirst => f.write_str(
                "never applies: the site has a file at this path, which wins; a ! after the \
                 status, as in 301!, forces the rule",
            ),
            RuleWarning::Missing => {
                f.write_str("the target is not in the site, so the response is 404; correct it")
            }
            RuleWarning::ForeignHost => {
                f.write_str("never applies: its host is not one of the hosts of the site")
            }
            RuleWarning::Around => f.write_str(
                "redirects in a circle: its target leads back to this rule, and browsers give up",
            ),
            RuleWarning::OtherHost => f.write_str(
                "left out: patterns with a host are not supported; give that host a [[site]] with \
                 `fields`",
            ),
            RuleWarning::NoFields => {
                f.write_str("has no headers below it, and does not share those of the next pattern")
            }
            RuleWarning::ForceInTarget { status } => write!(
                f,
                "the ! is part of the target here; to force the rule, write it after the status, \
                 as in {status}!"
            ),
            RuleWarning::StarInTarget => f.write_str(
                "the * of the target is sent as it is; write :splat for what the * of the path \
                 stands for",
            ),
            RuleWarning::ForeignMark { mark, is_in_target: true } => write!(
                f,
                "{mark} is ordinary text in a target; write :splat for what the * of the path \
                 stands for, or :name for a placeholder of the path"
            ),
            RuleWarning::ForeignMark { mark, is_in_target: false } => write!(
                f,
                "{mark} is ordinary text in a path; write * for the rest of a path (:splat in the \
                 target), or :name for one segment"
            ),
            RuleWarning::SecondValue { name, first } => write!(
                f,
                "the pattern in line {first} gives {name} to the same paths, and browsers do not \
                 accept two values; write `! {name}` above the second one to replace the first"
            ),
        }
    }
}
