//! Parsing of the options after the fixed arguments of a command.

use crate::error::{Error, SYNTAX};
use crate::resp::arguments::Arguments;

/// An iterator over the arguments from some index on.
#[derive(Debug)]
pub(crate) struct OptionArguments<'a> {
    arguments: Arguments<'a>,
    next: usize,
}

impl<'a> OptionArguments<'a> {
    pub(crate) fn from(arguments: Arguments<'a>, index: usize) -> Self {
        Self { arguments, next: index }
    }

    /// Takes the next argument in upper case, which is how options are compared. One that is too
    /// long to be an option is a syntax error.
    pub(crate) fn next_name(&mut self) -> Option<Result<OptionName, Error>> {
        let argument = self.next_value().ok()?;
        let mut name = OptionName { bytes: [0; OPTION_MAX_BYTES], length: argument.len() };
        let Some(bytes) = name.bytes.get_mut(..argument.len()) else { return Some(Err(SYNTAX)) };
        bytes.copy_from_slice(argument);
        bytes.make_ascii_uppercase();
        Some(Ok(name))
    }

    /// Takes the next argument unchanged.
    ///
    /// # Errors
    /// There is no further argument.
    pub(crate) fn next_value(&mut self) -> Result<&'a [u8], Error> {
        let argument = self.arguments.get(self.next).ok_or(SYNTAX)?;
        self.next += 1;
        Ok(argument)
    }

    /// Returns the number of remaining arguments.
    pub(crate) fn left(&self) -> usize {
        self.arguments.len().saturating_sub(self.next)
    }
}

/// Most bytes of an option. The longest ones, such as `WITHMATCHLEN`, have 12 bytes.
const OPTION_MAX_BYTES: usize = 16;

/// An option in upper case.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OptionName {
    bytes: [u8; OPTION_MAX_BYTES],
    length: usize,
}

impl OptionName {
    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}
