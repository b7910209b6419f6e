//! Times at which something expires, as options such as `EX 10` say them.

use super::call::Call;
use crate::error::{Error, NOT_AN_INTEGER, SYNTAX};
use crate::keyspace::record::EXPIRY_MAX_MS;
use crate::resp::number::parse_i64;

/// The unit of a time, and whether it counts from now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TimeUnit {
    /// `EX`
    Seconds,
    /// `PX`
    Milliseconds,
    /// `EXAT`
    UnixSeconds,
    /// `PXAT`
    UnixMilliseconds,
}

impl TimeUnit {
    /// Returns the unit of an option with this name.
    pub(crate) fn of_option(name: &[u8]) -> Option<Self> {
        match name {
            b"EX" => Some(Self::Seconds),
            b"PX" => Some(Self::Milliseconds),
            b"EXAT" => Some(Self::UnixSeconds),
            b"PXAT" => Some(Self::UnixMilliseconds),
            _ => None,
        }
    }

    /// Returns the milliseconds in one, and the time from which they count.
    pub(crate) fn scale(self, now_ms: u64) -> (u64, u64) {
        match self {
            Self::Seconds => (1000, now_ms),
            Self::Milliseconds => (1, now_ms),
            Self::UnixSeconds => (1000, 0),
            Self::UnixMilliseconds => (1, 0),
        }
    }

    /// Returns a time in milliseconds since 1970. One that is later than any expiry can be is the
    /// latest one.
    ///
    /// # Errors
    /// The text is no integer that is greater than 0, or the time is no integer.
    pub(crate) fn parse(self, call: &Call<'_, '_>, text: &[u8]) -> Result<u64, Error> {
        let number = parse_i64(text).ok_or(NOT_AN_INTEGER)?;
        let (unit_ms, from_ms) = self.scale(call.now_ms);
        let at_ms = (number > 0)
            .then_some(number)
            .and_then(|number| number.checked_mul(unit_ms as i64)?.checked_add_unsigned(from_ms));
        let at_ms = at_ms.map(|at| at.cast_unsigned().min(EXPIRY_MAX_MS));
        let name = call.command.name;
        at_ms.ok_or_else(|| Error::new(format!("ERR invalid expire time in '{name}' command")))
    }
}

/// The one option of a command that says when something expires. Its time is parsed when all other
/// options are known, as Redis does it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ExpiryOption<'a> {
    given: Option<(TimeUnit, &'a [u8])>,
}

impl<'a> ExpiryOption<'a> {
    /// Takes the time of an option with this unit.
    ///
    /// # Errors
    /// An option with another unit was given before; the same one may be given twice.
    pub(crate) fn set(&mut self, unit: TimeUnit, text: &'a [u8]) -> Result<(), Error> {
        if self.given.is_some_and(|(other, _)| other != unit) {
            return Err(SYNTAX);
        }
        self.given = Some((unit, text));
        Ok(())
    }

    pub(crate) fn is_given(&self) -> bool {
        self.given.is_some()
    }

    /// Returns the time in milliseconds since 1970, if there is one.
    ///
    /// # Errors
    /// It is no time.
    pub(crate) fn at_ms(&self, call: &Call<'_, '_>) -> Result<Option<u64>, Error> {
        self.given.map(|(unit, text)| unit.parse(call, text)).transpose()
    }
}
