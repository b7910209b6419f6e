//! The end of a connection of many streams without loss, by GOAWAY (RFC 9113 §6.8, RFC 9114 §5.2).

/// The progress of this side's GOAWAY.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leaving {
    No,
    /// The client was asked to open no more streams; streams under way are accepted.
    Announced,
    /// The last GOAWAY has named the streams that are not accepted any more.
    Final,
}
