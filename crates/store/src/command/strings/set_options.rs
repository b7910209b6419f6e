//! Options of `SET` and `GETEX`.

use crate::command::call::Call;
use crate::command::expiry_option::{ExpiryOption, TimeUnit};
use crate::command::options::OptionArguments;
use crate::error::{Error, SYNTAX, WRONG_TYPE};
use crate::keyspace::record::KeyRecord;

/// The options of `SET` or `GETEX`.
#[derive(Debug, Default)]
pub(super) struct SetOptions<'a> {
    pub(super) condition: SetCondition<'a>,
    pub(super) expiry: ExpiryOption<'a>,
    /// `GET`: the reply is the previous value.
    pub(super) returns_old: bool,
    /// `KEEPTTL`.
    pub(super) keeps_expiry: bool,
    /// `PERSIST`.
    pub(super) is_persistent: bool,
}

/// The condition under which a value is set.
#[derive(Clone, Copy, Debug, Default)]
pub(super) enum SetCondition<'a> {
    #[default]
    Always,
    /// `NX`
    IsNew,
    /// `XX`
    Exists,
    /// `IFEQ`
    Equals(&'a [u8]),
}

impl SetCondition<'_> {
    /// # Errors
    /// The value is to be compared, but is not a string.
    pub(super) fn is_met(self, current: Option<&KeyRecord>) -> Result<bool, Error> {
        Ok(match self {
            Self::Always => true,
            Self::IsNew => current.is_none(),
            Self::Exists => current.is_some(),
            Self::Equals(expected) => match current {
                None => false,
                Some(record) => record.bytes().ok_or(WRONG_TYPE)? == expected,
            },
        })
    }
}

impl<'a> SetOptions<'a> {
    /// Parses the options of `SET`, from an argument on.
    ///
    /// # Errors
    /// An option is unknown, or two options contradict each other.
    pub(super) fn parse(call: &Call<'a, '_>, from: usize) -> Result<Self, Error> {
        let mut parsed = Self::default();
        let mut options = OptionArguments::from(call.arguments, from);
        while let Some(name) = options.next_name() {
            let name = name?;
            match (name.as_bytes(), parsed.condition) {
                (b"NX", SetCondition::Always | SetCondition::IsNew) => {
                    parsed.condition = SetCondition::IsNew;
                }
                (b"XX", SetCondition::Always | SetCondition::Exists) => {
                    parsed.condition = SetCondition::Exists;
                }
                (b"IFEQ", SetCondition::Always) => {
                    parsed.condition = SetCondition::Equals(options.next_value()?);
                }
                (b"GET", _) => parsed.returns_old = true,
                (b"KEEPTTL", _) if !parsed.expiry.is_given() => parsed.keeps_expiry = true,
                (name, _) => parsed.take_expiry(name, &mut options)?,
            }
        }
        Ok(parsed)
    }

    /// Parses the options of `GETEX`, from an argument on.
    ///
    /// # Errors
    /// An option is unknown, or two options contradict each other.
    pub(super) fn parse_for_getex(call: &Call<'a, '_>, from: usize) -> Result<Self, Error> {
        let mut parsed = Self::default();
        let mut options = OptionArguments::from(call.arguments, from);
        while let Some(name) = options.next_name() {
            match name?.as_bytes() {
                b"PERSIST" if !parsed.expiry.is_given() => parsed.is_persistent = true,
                name => parsed.take_expiry(name, &mut options)?,
            }
        }
        Ok(parsed)
    }

    /// Takes one of the four options that set the expiry of a key.
    fn take_expiry(&mut self, name: &[u8], options: &mut OptionArguments<'a>) -> Result<(), Error> {
        let unit = TimeUnit::of_option(name).ok_or(SYNTAX)?;
        if self.keeps_expiry || self.is_persistent {
            return Err(SYNTAX);
        }
        self.expiry.set(unit, options.next_value()?)
    }

    /// Returns whether there are no options.
    pub(super) fn has_no_options(&self) -> bool {
        let is_conditional = !matches!(self.condition, SetCondition::Always);
        !is_conditional && !self.expiry.is_given() && !self.returns_old && !self.keeps_expiry
    }
}
