//! Commands that look for elements of lists by their values.

use crate::command::call::Call;
use crate::command::options::OptionArguments;
use crate::command::ranges::parse_integer;
use crate::error::{Error, SYNTAX};
use crate::keyspace::database::ChangeEffect;
use crate::value::list::{ListEnd, ListValue};

const RANK_ZERO: Error = Error::constant(
    "ERR RANK can't be zero: use 1 to start from the first match, 2 from the second ... \
     or use negative to start from the end of the list",
);
const COUNT_NEGATIVE: Error = Error::constant("ERR COUNT can't be negative");
const MAXLEN_NEGATIVE: Error = Error::constant("ERR MAXLEN can't be negative");

/// `LREM`
pub(super) fn remove(call: &mut Call<'_, '_>) -> Result<(), Error> {
    let (key, count, element) = (call.key(1), call.integer(2)?, call.argument(3));
    let end = if count < 0 { ListEnd::Right } else { ListEnd::Left };
    let limit = match usize::try_from(count.unsigned_abs()) {
        Ok(0) | Err(_) => usize::MAX,
        Ok(limit) => limit,
    };
    let (database, context) = call.locks.database(call.database, key);
    let removed = database.change_collection(key, context, |list: &mut ListValue, _| match list
        .remove_equal(end, element, limit)
    {
        0 => ChangeEffect::None(0),
        removed => ChangeEffect::Made(removed),
    })?;
    call.reply.size(removed.unwrap_or(0));
    Ok(())
}

/// Options of `LPOS`.
struct PositionOptions {
    end: ListEnd,
    /// The number of matches to skip.
    skipped: usize,
    /// The most matches to return; `None` if the reply is one index.
    count: Option<usize>,
    /// The most elements to compare.
    compared_max: usize,
}

impl PositionOptions {
    fn parse(call: &Call<'_, '_>) -> Result<Self, Error> {
        let end = ListEnd::Left;
        let mut parsed = Self { end, skipped: 0, count: None, compared_max: usize::MAX };
        let mut options = OptionArguments::from(call.arguments, 3);
        while let Some(name) = options.next_name() {
            let name = name?;
            let value = options.next_value()?;
            let limit = |error| {
                let number = parse_integer(value).ok().and_then(|it| usize::try_from(it).ok());
                number.ok_or(error)
            };
            match name.as_bytes() {
                b"RANK" => {
                    let rank = parse_integer(value)?;
                    // The least integer has no absolute value. Redis 7.0 treats it as -1.
                    let matches = rank.checked_abs().unwrap_or(1) as usize;
                    parsed.skipped = matches.checked_sub(1).ok_or(RANK_ZERO)?;
                    parsed.end = if rank < 0 { ListEnd::Right } else { ListEnd::Left };
                }
                b"COUNT" => parsed.count = Some(limit(COUNT_NEGATIVE)?),
                b"MAXLEN" => {
                    let most = limit(MAXLEN_NEGATIVE)?;
                    parsed.compared_max = if most == 0 { usize::MAX } else { most };
                }
                _ => return Err(SYNTAX),
            }
        }
        Ok(parsed)
    }

    /// Returns the indices of the matching elements.
    fn find(&self, list: &ListValue, element: &[u8]) -> Vec<usize> {
        let limit = match self.count {
            None => 1,
            Some(0) => usize::MAX,
            Some(count) => count,
        };
        let len = list.len();
        let compared = self.compared_max.min(len);
        match self.end {
            ListEnd::Left => {
                let elements = list.iter_from(0).enumerate().take(compared);
                let equal = elements.filter(|(_, it)| *it == element).map(|(index, _)| index);
                equal.skip(self.skipped).take(limit).collect()
            }
            ListEnd::Right => {
                let elements = list.iter_back_from(len.saturating_sub(1)).take(compared);
                let elements = (0..len).rev().zip(elements);
                let equal = elements.filter(|(_, it)| *it == element).map(|(index, _)| index);
                equal.skip(self.skipped).take(limit).collect()
            }
        }
    }
}

/// `LPOS`
pub(super) fn positions(call: &mut Call<'_, '_>) -> Result<(), Error> {
    let options = PositionOptions::parse(call)?;
    let (key, element) = (call.key(1), call.argument(2));
    let (database, context) = call.locks.database(call.database, key);
    let list = database.collection::<ListValue>(key, context)?;
    let found = list.map(|list| options.find(list, element)).unwrap_or_default();
    match (options.count, found.first()) {
        (Some(_), _) => {
            call.reply.array(found.len());
            found.iter().for_each(|&index| call.reply.size(index));
        }
        (None, Some(&index)) => call.reply.size(index),
        (None, None) => call.reply.null(),
    }
    Ok(())
}
