//! `BITFIELD`: integers of 1 to 64 bits anywhere in a string.

use super::parse_offset;
use crate::command::call::Call;
use crate::command::options::OptionArguments;
use crate::command::ranges::parse_integer;
use crate::error::{Error, SYNTAX};
use crate::limits::STRING_MAX_BYTES;
use crate::resp::reply_writer::Reply;

const NO_TYPE: Error = Error::constant(
    "ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but \
     i64 is.",
);
const NO_OVERFLOW: Error = Error::constant("ERR Invalid OVERFLOW type specified");
const READ_ONLY: Error = Error::constant("ERR BITFIELD_RO only supports the GET subcommand");

/// The size of an integer and whether it may be negative.
#[derive(Clone, Copy, Debug)]
struct FieldType {
    is_signed: bool,
    bits: usize,
}

/// The handling of a number that does not fit.
#[derive(Clone, Copy, Debug)]
enum Overflow {
    Wrap,
    Saturate,
    Fail,
}

#[derive(Clone, Copy, Debug)]
enum Action {
    Get,
    Set(i64),
    Increment(i64),
}

/// One operation on one integer.
#[derive(Clone, Copy, Debug)]
struct FieldOperation {
    field: FieldType,
    /// The first bit.
    offset: usize,
    action: Action,
    overflow: Overflow,
}

impl FieldType {
    fn parse(text: &[u8]) -> Result<Self, Error> {
        let (is_signed, bits_max, digits) = match text {
            [b'i', digits @ ..] => (true, 64, digits),
            [b'u', digits @ ..] => (false, 63, digits),
            _ => return Err(NO_TYPE),
        };
        let bits = parse_integer(digits).ok().and_then(|bits| usize::try_from(bits).ok());
        let bits = bits.filter(|bits| (1..=bits_max).contains(bits)).ok_or(NO_TYPE)?;
        Ok(Self { is_signed, bits })
    }

    /// Returns the least and the greatest number.
    fn limits(self) -> (i128, i128) {
        if self.is_signed {
            (-(1 << (self.bits - 1)), (1 << (self.bits - 1)) - 1)
        } else {
            (0, (1 << self.bits) - 1)
        }
    }

    /// Returns the number of this type that has the same low bits as another one.
    fn wrapped(self, number: i128) -> i128 {
        let bits = number & ((1 << self.bits) - 1);
        if self.is_signed && bits >> (self.bits - 1) == 1 { bits - (1 << self.bits) } else { bits }
    }

    /// Returns the number to store, or `None` if nothing is to be stored.
    fn fitted(self, number: i128, overflow: Overflow) -> Option<i128> {
        let (least, greatest) = self.limits();
        if (least..=greatest).contains(&number) {
            return Some(number);
        }
        match overflow {
            Overflow::Wrap => Some(self.wrapped(number)),
            Overflow::Saturate => Some(number.clamp(least, greatest)),
            Overflow::Fail => None,
        }
    }
}

/// Number of bytes that contain any 64 consecutive bits.
const WINDOW_BYTES: usize = 9;

/// Returns the bytes from `start` on as a big-endian number. The string is padded with zeros.
fn window(bytes: &[u8], start: usize) -> u128 {
    let window = bytes.iter().skip(start).copied().chain(std::iter::repeat(0)).take(WINDOW_BYTES);
    window.fold(0, |window, byte| window << 8 | u128::from(byte))
}

impl FieldOperation {
    /// Returns the number of bits between the integer and the end of its window.
    fn shift(&self) -> usize {
        WINDOW_BYTES * 8 - self.offset % 8 - self.field.bits
    }

    fn read(&self, bytes: &[u8]) -> i128 {
        let window = window(bytes, self.offset / 8);
        self.field.wrapped((window >> self.shift()) as i128)
    }

    /// Writes a number into a string that is long enough.
    fn write(&self, bytes: &mut [u8], number: i128) {
        let start = self.offset / 8;
        let mask = ((1_u128 << self.field.bits) - 1) << self.shift();
        let changed = window(bytes, start) & !mask | (number as u128) << self.shift() & mask;
        let changed = changed.to_be_bytes();
        let changed = &changed[changed.len() - WINDOW_BYTES..];
        bytes.iter_mut().skip(start).zip(changed).for_each(|(byte, new)| *byte = *new);
    }

    /// Executes the operation and writes its reply.
    fn execute(&self, bytes: &mut [u8], reply: &mut Reply<'_>) {
        let old = self.read(bytes);
        let new = match self.action {
            Action::Get => return reply.integer(old as i64),
            // For an unsigned type, a negative number is interpreted as a large one.
            Action::Set(number) if !self.field.is_signed => i128::from(number as u64),
            Action::Set(number) => number.into(),
            Action::Increment(by) => old + i128::from(by),
        };
        let Some(new) = self.field.fitted(new, self.overflow) else { return reply.null() };
        self.write(bytes, new);
        let is_set = matches!(self.action, Action::Set(_));
        reply.integer(if is_set { old } else { new } as i64);
    }

    /// Returns how many bytes a string needs for the integer.
    fn end_bytes(&self) -> usize {
        (self.offset + self.field.bits).div_ceil(8)
    }
}

/// Parses an offset in bits, or in multiples of the size of the integer (`#1`).
fn parse_field_offset(text: &[u8], field: FieldType) -> Result<usize, Error> {
    let offset = match text {
        [b'#', text @ ..] => parse_offset(text)?.saturating_mul(field.bits),
        text => parse_offset(text)?,
    };
    let fits = offset / 8 < STRING_MAX_BYTES;
    fits.then_some(offset).ok_or(super::NO_OFFSET)
}

fn parse(call: &Call<'_, '_>) -> Result<Vec<FieldOperation>, Error> {
    let mut operations = Vec::new();
    let mut overflow = Overflow::Wrap;
    let mut options = OptionArguments::from(call.arguments, 2);
    while let Some(name) = options.next_name() {
        let name = name?;
        let name = name.as_bytes();
        if name == b"OVERFLOW" && options.left() >= 1 {
            overflow = match options.next_value()?.to_ascii_lowercase().as_slice() {
                b"wrap" => Overflow::Wrap,
                b"sat" => Overflow::Saturate,
                b"fail" => Overflow::Fail,
                _ => return Err(NO_OVERFLOW),
            };
            continue;
        }
        let values = match name {
            b"GET" => 2,
            b"SET" | b"INCRBY" => 3,
            _ => return Err(SYNTAX),
        };
        if options.left() < values {
            return Err(SYNTAX);
        }
        let field = FieldType::parse(options.next_value()?)?;
        let offset = parse_field_offset(options.next_value()?, field)?;
        let action = match name {
            b"GET" => Action::Get,
            b"SET" => Action::Set(parse_integer(options.next_value()?)?),
            _ => Action::Increment(parse_integer(options.next_value()?)?),
        };
        operations.push(FieldOperation { field, offset, action, overflow });
    }
    Ok(operations)
}

/// `BITFIELD`
pub(super) fn read_and_change(call: &mut Call<'_, '_>) -> Result<(), Error> {
    let operations = parse(call)?;
    let changes = operations.iter().filter(|it| !matches!(it.action, Action::Get));
    let Some(bytes_min) = changes.map(FieldOperation::end_bytes).max() else {
        return write_fields(call, &operations);
    };
    let key = call.key(1);
    let (database, context) = call.locks.database(call.database, key);
    call.work_limit.check_bytes(database.change_work_bytes(key, bytes_min))?;
    let reply = &mut call.reply;
    database.change_string(key, context, |bytes| {
        if bytes.len() < bytes_min {
            bytes.resize(bytes_min, 0);
        }
        reply.array(operations.len());
        operations.iter().for_each(|operation| operation.execute(bytes, reply));
    })
}

/// `BITFIELD_RO`
pub(super) fn read(call: &mut Call<'_, '_>) -> Result<(), Error> {
    let operations = parse(call)?;
    if !operations.iter().all(|it| matches!(it.action, Action::Get)) {
        return Err(READ_ONLY);
    }
    write_fields(call, &operations)
}

/// Writes the integers that are read.
fn write_fields(call: &mut Call<'_, '_>, operations: &[FieldOperation]) -> Result<(), Error> {
    let key = call.key(1);
    let (database, context) = call.locks.database(call.database, key);
    let bytes = database.string(key, context)?.unwrap_or_default();
    call.reply.array(operations.len());
    operations.iter().for_each(|it| call.reply.integer(it.read(bytes) as i64));
    Ok(())
}
