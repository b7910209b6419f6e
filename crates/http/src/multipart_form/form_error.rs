//! The errors of a form, and the status of each.

/// The error of a form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FormFault {
    /// `Content-Type` has no boundary, or two of them, or one that RFC 2046 §5.1.1 does not allow.
    Boundary,
    /// A delimiter is followed neither by the end of its line nor by the mark of the last one.
    Delimiter,
    /// The head of a part has a line that is no field, or says the same thing twice.
    PartHead,
    /// A part has no `Content-Disposition: form-data` with a name (RFC 7578 §4.2).
    Nameless,
    /// The form ends before its last delimiter.
    Incomplete,
    /// The head of a part is over [`PART_HEAD_MAX_BYTES`](crate::limits::PART_HEAD_MAX_BYTES).
    PartHeadTooLarge,
    /// A name is over [`PART_NAME_MAX_BYTES`](crate::limits::PART_NAME_MAX_BYTES).
    NameTooLong,
    /// There are more parts than [`PARTS_MAX`](crate::limits::PARTS_MAX).
    TooManyParts,
}

impl FormFault {
    /// Returns the status of a response that reports it: 413 for too much content, 400 for a
    /// malformed form.
    #[must_use]
    pub const fn status(self) -> u16 {
        match self {
            Self::Boundary
            | Self::Delimiter
            | Self::PartHead
            | Self::Nameless
            | Self::Incomplete => 400,
            Self::PartHeadTooLarge | Self::NameTooLong | Self::TooManyParts => 413,
        }
    }

    /// Returns the error in a few words.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Boundary => "the content type of the form has no valid boundary",
            Self::Delimiter => {
                "a boundary of the form is followed by something else than the end of its line"
            }
            Self::PartHead => "the head of a part of the form is malformed",
            Self::Nameless => "a part of the form has no name",
            Self::Incomplete => "the multipart form ends before its closing boundary",
            Self::PartHeadTooLarge => "the head of a part of the form is too large",
            Self::NameTooLong => "a name in the form is too long",
            Self::TooManyParts => "the form has too many parts",
        }
    }
}
