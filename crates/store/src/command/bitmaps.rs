//! Commands on the bits of strings. Bit 0 is the highest bit of the first byte.

mod bit_operation;
mod bit_search;
mod bitfield;

use super::call::Call;
use super::spec::{CommandDefaults, CommandGroup, CommandSpec, Flags, KeyArguments};
use crate::error::Error;
use crate::limits::STRING_MAX_BYTES;
use crate::resp::number::parse_u64;

const WRITE: Flags = Flags::WRITE.and(Flags::DENY_OOM);
const READ: Flags = Flags::READ_ONLY;
const FAST_READ: Flags = Flags::READ_ONLY.and(Flags::FAST);

const NO_BIT: Error = Error::constant("ERR bit is not an integer or out of range");
const NO_OFFSET: Error = Error::constant("ERR bit offset is not an integer or out of range");

const BITMAPS: CommandDefaults =
    CommandDefaults { group: CommandGroup::Bitmap, keys: KeyArguments::FIRST };

pub(super) const COMMANDS: &[CommandSpec] = &[
    BITMAPS.command("setbit", 4, WRITE, ("2.2.0", "Sets a bit of a string."), set_bit),
    BITMAPS.command("getbit", 3, FAST_READ, ("2.2.0", "Returns a bit of a string."), get_bit),
    BITMAPS.command(
        "bitcount",
        -2,
        READ,
        ("2.6.0", "Counts the bits that are 1."),
        bit_search::count,
    ),
    BITMAPS.command(
        "bitpos",
        -3,
        READ,
        ("2.8.7", "Finds the first bit that is 1, or 0."),
        bit_search::position,
    ),
    BITMAPS
        .command(
            "bitop",
            -4,
            WRITE,
            ("2.6.0", "Stores the bits of strings combined by an operation."),
            bit_operation::combine,
        )
        .with_keys(KeyArguments::Range { first: 2, last: -1, step: 1 }),
    BITMAPS.command(
        "bitfield",
        -2,
        WRITE,
        ("3.2.0", "Reads and changes integers within a string."),
        bitfield::read_and_change,
    ),
    BITMAPS.command(
        "bitfield_ro",
        -2,
        FAST_READ,
        ("6.0.0", "Reads integers within a string."),
        bitfield::read,
    ),
];

/// Parses the offset of a bit.
///
/// # Errors
/// The text is not an offset, or the offset is beyond the longest string.
fn parse_offset(text: &[u8]) -> Result<usize, Error> {
    let offset = parse_u64(text).and_then(|offset| usize::try_from(offset).ok());
    offset.filter(|offset| offset / 8 < STRING_MAX_BYTES).ok_or(NO_OFFSET)
}

fn bit_at(bytes: &[u8], offset: usize) -> bool {
    bytes.get(offset / 8).is_some_and(|byte| byte >> (7 - offset % 8) & 1 == 1)
}

fn set_bit(call: &mut Call<'_, '_>) -> Result<(), Error> {
    let key = call.key(1);
    let offset = parse_offset(call.argument(2))?;
    let is_set = match call.argument(3) {
        b"0" => false,
        b"1" => true,
        _ => return Err(NO_BIT),
    };
    let (database, context) = call.locks.database(call.database, key);
    call.work_limit.check_bytes(database.change_work_bytes(key, offset / 8 + 1))?;
    let was_set = database.change_string(key, context, |bytes| {
        let was_set = bit_at(bytes, offset);
        if bytes.len() <= offset / 8 {
            bytes.resize(offset / 8 + 1, 0);
        }
        let mask = 0x80 >> (offset % 8);
        let byte = &mut bytes[offset / 8];
        *byte = if is_set { *byte | mask } else { *byte & !mask };
        was_set
    })?;
    call.reply.integer(was_set.into());
    Ok(())
}

fn get_bit(call: &mut Call<'_, '_>) -> Result<(), Error> {
    let key = call.key(1);
    let offset = parse_offset(call.argument(2))?;
    let (database, context) = call.locks.database(call.database, key);
    let is_set = database.string(key, context)?.is_some_and(|bytes| bit_at(bytes, offset));
    call.reply.integer(is_set.into());
    Ok(())
}
