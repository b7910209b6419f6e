//! A position in JavaScript or JSON.
//!
//! After `)` and `}` a `/` divides or begins a regular expression, depending on the owner of the
//! bracket. Both readings are followed until one is not valid for a browser, such as a string that
//! does not end on its line; a value between is refused unless both agree on it.

mod script_tokenizer;

use super::context::Context;
use crate::limits::SCRIPT_READINGS_MAX;
use script_tokenizer::Reading;

/// A position, by each reading, one of them at least.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ScriptContext {
    readings: Vec<Reading>,
}

impl Default for ScriptContext {
    fn default() -> Self {
        Self { readings: vec![Reading::default()] }
    }
}

impl ScriptContext {
    pub(crate) fn text(&mut self, bytes: &[u8]) {
        for at in 0..bytes.len() {
            self.step(&bytes[at..]);
        }
    }

    fn step(&mut self, here: &[u8]) {
        let mut others = Vec::new();
        for reading in &mut self.readings {
            others.extend(reading.byte(here));
        }
        for other in others {
            if self.readings.contains(&other) {
                continue;
            } else if self.readings.len() < SCRIPT_READINGS_MAX {
                self.readings.push(other);
            } else if let Some(first) = self.readings.first_mut() {
                first.lose(UNCLEAR);
            }
        }
        if self.readings.len() > 1 {
            self.settle();
        }
    }

    /// Drops readings that are not valid for a browser, and duplicates.
    fn settle(&mut self) {
        if self.readings.iter().any(Reading::is_well) {
            self.readings.retain(Reading::is_well);
        }
        for at in (1..self.readings.len()).rev() {
            if self.readings[..at].contains(&self.readings[at]) {
                self.readings.remove(at);
            }
        }
    }

    pub(crate) fn value(&mut self) -> Result<Context, &'static str> {
        let mut found = None;
        for reading in &mut self.readings {
            let context = reading.value();
            if *found.get_or_insert(context) != context {
                return Err(UNCLEAR);
            }
        }
        found.unwrap_or(Err(UNCLEAR))
    }

    pub(crate) fn joined(&self, other: &Self) -> Option<Self> {
        if self.readings.len() != other.readings.len() {
            return None;
        }
        let pairs = self.readings.iter().zip(&other.readings);
        Some(Self { readings: pairs.map(|(one, other)| one.joined(other)).collect::<Option<_>>()? })
    }
}

const UNCLEAR: &str = "after `)` or `}` a `/` divides or begins a regular expression, which \
     cannot be told apart on this line; put the value into a variable on a line before";
