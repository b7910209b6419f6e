//! Commands on parts of strings.

use super::{STRINGS, WRITE};
use crate::command::call::Call;
use crate::command::ranges::{byte_range, is_reversed};
use crate::command::spec::{CommandSpec, Flags};
use crate::error::{Error, TOO_LONG};
use crate::limits::STRING_MAX_BYTES;

const OFFSET_OUT_OF_RANGE: Error = Error::constant("ERR offset is out of range");

pub(in crate::command) const COMMANDS: &[CommandSpec] = &[
    STRINGS.command("setrange", 4, WRITE, ("2.2.0", "Overwrites a part of a string."), set_range),
    STRINGS.command(
        "getrange",
        4,
        Flags::READ_ONLY,
        ("2.4.0", "Returns a part of a string."),
        get_range,
    ),
    STRINGS.command(
        "substr",
        4,
        Flags::READ_ONLY,
        ("1.0.0", "Returns a part of a string."),
        get_range,
    ),
];

fn set_range(call: &mut Call<'_, '_>) -> Result<(), Error> {
    let (key, offset, value) = (call.key(1), call.integer(2)?, call.argument(3));
    let offset = usize::try_from(offset).map_err(|_| OFFSET_OUT_OF_RANGE)?;
    let (database, context) = call.locks.database(call.database, key);
    if value.is_empty() {
        let length = database.string(key, context)?.map_or(0, <[u8]>::len);
        call.reply.size(length);
        return Ok(());
    }
    let end = offset.saturating_add(value.len());
    if end > STRING_MAX_BYTES {
        // As in Redis, the error for a wrong type comes before all others.
        database.string(key, context)?;
        return Err(TOO_LONG);
    }
    call.work_limit.check_bytes(database.change_work_bytes(key, end))?;
    let length = database.change_string(key, context, |bytes| {
        if bytes.len() < end {
            bytes.resize(end, 0);
        }
        bytes[offset..end].copy_from_slice(value);
        bytes.len()
    })?;
    call.reply.size(length);
    Ok(())
}

fn get_range(call: &mut Call<'_, '_>) -> Result<(), Error> {
    let (key, start, stop) = (call.key(1), call.integer(2)?, call.integer(3)?);
    let (database, context) = call.locks.database(call.database, key);
    let bytes = database.string(key, context)?.unwrap_or_default();
    let range = byte_range(start, stop, bytes.len());
    let range = if is_reversed(start, stop) { 0..0 } else { range };
    call.work_limit.check_bytes(range.len())?;
    call.reply.bulk(bytes.get(range).unwrap_or_default());
    Ok(())
}
