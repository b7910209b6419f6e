//! `HRANDFIELD`.

use crate::command::call::Call;
use crate::command::hashes::read;
use crate::command::random_choice::{RandomCount, choose};
use crate::error::{Error, SYNTAX};
use crate::resp::reply_writer::{Reply, RespVersion};
use crate::value::EncodedField;

pub(super) fn hrandfield(call: &mut Call<'_, '_>) -> Result<(), Error> {
    if call.arguments.len() == 2 {
        let (hash, context) = read(call.locks, call.database, call.key(1))?;
        let mut chosen = None;
        if let Some(hash) = hash {
            choose(hash, RandomCount::ONE, context, |field| chosen = Some(field.name));
        }
        call.reply.bulk_or_null(chosen);
        return Ok(());
    }
    let has_values = call.arguments.len() > 3;
    let count = RandomCount::parse(call.argument(2))?;
    if has_values {
        let is_known = call.argument(3).eq_ignore_ascii_case(b"WITHVALUES");
        if !is_known || call.arguments.len() > 4 {
            return Err(SYNTAX);
        }
        count.check_for_pairs()?;
    }
    let (hash, context) = read(call.locks, call.database, call.key(1))?;
    let mark = call.reply.begin();
    let mut written = 0;
    if let Some(hash) = hash {
        let (work, size) = (count.work(hash.work()), (hash.work(), hash.memory_bytes()));
        call.work_limit.check_part(work, size)?;
        let reply = &mut call.reply;
        choose(hash, count, context, |field| written += write(field, has_values, reply));
    }
    call.reply.end_array(mark, written);
    Ok(())
}

/// Writes a field, with its value or without. Returns the number of elements of the array that it
/// has written.
fn write(field: EncodedField<'_>, has_value: bool, reply: &mut Reply<'_>) -> usize {
    let is_pair = has_value && reply.version == RespVersion::Three;
    if is_pair {
        reply.array(2);
    }
    reply.bulk(field.name);
    if has_value {
        reply.bulk(field.value);
    }
    if has_value && !is_pair { 2 } else { 1 }
}
