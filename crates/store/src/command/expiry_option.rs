//! Times of expiry in options such as `EX 10`.

use super::call::Call;
use crate::error::{Error, NOT_AN_INTEGER, SYNTAX};
use crate::keyspace::record::EXPIRY_MAX_MS;
use crate::resp::number::parse_i64;

/// The unit of a time, and whether the time is relative to now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TimeUnit {
    /// Seconds from now, `EX`.
    Seconds,
    /// Milliseconds from now, `PX`.
    Milliseconds,
    /// Seconds since 1970, `EXAT`.
    UnixSeconds,
    /// Milliseconds since 1970, `PXAT`.
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

    /// Returns the milliseconds of one unit, and the time from which they count.
    pub(crate) fn scale(self, now_ms: u64) -> (u64, u64) {
        match self {
            Self::Seconds => (1000, now_ms),
            Self::Milliseconds => (1, now_ms),
            Self::UnixSeconds => (1000, 0),
            Self::UnixMilliseconds => (1, 0),
        }
    }

    /// Parses a time. Returns it in milliseconds since 1970, limited to the latest possible expiry.
    ///
    /// # Errors
    /// The text is not an integer greater than 0, or the time exceeds the range of integers.
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

/// The option of a command with an expiry. As in Redis, its time is parsed when all other options
/// are known.
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
    /// The text is not a valid time.
    pub(crate) fn at_ms(&self, call: &Call<'_, '_>) -> Result<Option<u64>, Error> {
        self.given.map(|(unit, text)| unit.parse(call, text)).transpose()
    }
}
