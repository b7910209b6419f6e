//! The reasons why the variables of a request cannot be written.

use core::fmt;

use super::limits::VARIABLES_MAX_BYTES;

/// The error of a variable. Nothing of the request was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum VariableError {
    /// The name is empty, or has a NUL or an equals sign, which ends a name in an environment.
    Name,
    /// The value has a NUL, which ends a value in an environment and in SCGI.
    Value,
    /// All variables together have more bytes than [`VARIABLES_MAX_BYTES`].
    TooLarge,
    /// SCGI needs the length of the content before the content (`CONTENT_LENGTH`).
    LengthRequired,
}

impl fmt::Display for VariableError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Name => "the name of a request variable is malformed",
            Self::Value => "the value of a request variable has a NUL character",
            Self::TooLarge => {
                let max = VARIABLES_MAX_BYTES / 1024;
                return write!(f, "the request variables are longer than {max} KiB");
            }
            Self::LengthRequired => "SCGI needs the length of the request's content",
        })
    }
}

impl core::error::Error for VariableError {}

/// Checks a variable that is to be written. Names and values are so short that to look at all of
/// their bytes costs less than a search that stops.
#[inline]
pub(crate) fn check_variable(name: &[u8], value: &[u8]) -> Result<(), VariableError> {
    let ends_name = |found: bool, &byte: &u8| found | (byte == 0) | (byte == b'=');
    if name.is_empty() || name.iter().fold(false, ends_name) {
        return Err(VariableError::Name);
    }
    if value.iter().fold(false, |found, &byte| found | (byte == 0)) {
        return Err(VariableError::Value);
    }
    Ok(())
}
