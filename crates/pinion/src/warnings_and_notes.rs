//! Lines of a server that are no errors: the server continues as it was asked to. An error begins
//! with `pinion: ` and the failure.

use pinion_engine::stderr;
use std::fmt::Display;

/// Logs something that an operator should look at.
pub(crate) fn warning(text: impl Display) {
    stderr::line(format_args!("pinion: warning: {text}"));
}

/// Logs something that an operator may want to know.
pub(crate) fn note(text: impl Display) {
    stderr::line(format_args!("pinion: note: {text}"));
}
