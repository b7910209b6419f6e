//! `BITOP`: operations on the bits of whole strings.

use crate::command::call::Call;
use crate::error::{Error, SYNTAX};

const ONE_KEY: Error = Error::constant("ERR BITOP NOT must be called with a single source key.");

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BitOperation {
    And,
    Or,
    Xor,
    Not,
}

impl BitOperation {
    fn parse(text: &[u8]) -> Option<Self> {
        let operations =
            [("and", Self::And), ("or", Self::Or), ("xor", Self::Xor), ("not", Self::Not)];
        let mut operations = operations.into_iter();
        let found = operations.find(|(name, _)| text.eq_ignore_ascii_case(name.as_bytes()));
        found.map(|(_, operation)| operation)
    }

    /// Combines a result with one more string. The shorter one is padded with zeros.
    fn apply(self, result: &mut Vec<u8>, bytes: &[u8]) {
        if result.len() < bytes.len() {
            result.resize(bytes.len(), 0);
        }
        let (common, rest) = result.split_at_mut(bytes.len());
        let pairs = common.iter_mut().zip(bytes);
        match self {
            Self::And => {
                pairs.for_each(|(result, byte)| *result &= byte);
                rest.fill(0);
            }
            Self::Or => pairs.for_each(|(result, byte)| *result |= byte),
            Self::Xor => pairs.for_each(|(result, byte)| *result ^= byte),
            Self::Not => pairs.for_each(|(result, byte)| *result = !byte),
        }
    }
}

/// `BITOP`. Takes time for each byte of each string.
pub(super) fn combine(call: &mut Call<'_, '_>) -> Result<(), Error> {
    let operation = BitOperation::parse(call.argument(1)).ok_or(SYNTAX)?;
    if operation == BitOperation::Not && call.arguments.len() != 4 {
        return Err(ONE_KEY);
    }
    let mut result = Vec::new();
    for index in 3..call.arguments.len() {
        let key = call.key(index);
        let (database, context) = call.locks.database(call.database, key);
        let bytes = database.string(key, context)?.unwrap_or_default();
        if index == 3 && operation != BitOperation::Not {
            result.extend_from_slice(bytes);
        } else {
            operation.apply(&mut result, bytes);
        }
    }
    let target = call.key(2);
    let (database, context) = call.locks.database(call.database, target);
    if result.is_empty() {
        database.remove(target, context);
    } else {
        database.put_string(target, &result, None, context);
    }
    call.reply.size(result.len());
    Ok(())
}
