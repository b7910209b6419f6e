//! Writing of payloads. Each type is written in its simplest encoding, which Redis 7.0 and later
//! read; a hash with fields that expire needs Redis 7.4.

use super::{kind, seal};
use crate::keyspace::record::KeyRecord;
use crate::resp::number::parse_i64;
use crate::value::StoreValue;
use crate::value::hash::Hash;

/// Returns the payload of a value. Fields of hashes that have expired by `now_ms` are left out.
pub(crate) fn save(record: &KeyRecord, now_ms: u64) -> Vec<u8> {
    let mut out = Vec::new();
    if let Some(bytes) = record.bytes() {
        out.push(kind::STRING);
        string(bytes, &mut out);
    }
    match record.value() {
        None | Some(StoreValue::Bytes(_)) => {}
        Some(StoreValue::List(list)) => {
            out.push(kind::LIST);
            number(list.len() as u64, &mut out);
            list.iter_from(0).for_each(|element| string(element, &mut out));
        }
        Some(StoreValue::Set(set)) => {
            out.push(kind::SET);
            number(set.len() as u64, &mut out);
            for member in set.members() {
                member.with_text(|text| string(text, &mut out));
            }
        }
        Some(StoreValue::SortedSet(set)) => {
            out.push(kind::SORTED_SET);
            number(set.len() as u64, &mut out);
            for (member, score) in set.iter() {
                string(member, &mut out);
                out.extend_from_slice(&score.to_le_bytes());
            }
        }
        Some(StoreValue::Hash(hash)) => save_hash(hash, now_ms, &mut out),
    }
    seal(out)
}

fn save_hash(hash: &Hash, now_ms: u64, out: &mut Vec<u8>) {
    let count = hash.fields(now_ms).count() as u64;
    let earliest = hash.fields(now_ms).filter_map(|field| field.expiry_ms).min();
    match earliest {
        None => {
            out.push(kind::HASH);
            number(count, out);
        }
        Some(earliest) => {
            out.push(kind::HASH_FIELD_EXPIRY);
            out.extend_from_slice(&earliest.to_le_bytes());
            number(count, out);
        }
    }
    for field in hash.fields(now_ms) {
        if let Some(earliest) = earliest {
            // The number 0 means no expiry, and 1 is the earliest expiry of the hash.
            number(field.expiry_ms.map_or(0, |at| at - earliest + 1), out);
        }
        string(field.name, out);
        string(field.value, out);
    }
}

/// Writes a number in 1, 2, 5 or 9 bytes.
fn number(number: u64, out: &mut Vec<u8>) {
    match number {
        0..=0x3f => out.push(number as u8),
        0x40..=0x3fff => out.extend_from_slice(&(0x4000 | number as u16).to_be_bytes()),
        0x4000..=0xffff_ffff => {
            out.push(0x80);
            out.extend_from_slice(&(number as u32).to_be_bytes());
        }
        _ => {
            out.push(0x81);
            out.extend_from_slice(&number.to_be_bytes());
        }
    }
}

/// Writes a string. If the string is the text of an integer that fits into 1, 2 or 4 bytes, it is
/// written as that integer.
fn string(bytes: &[u8], out: &mut Vec<u8>) {
    /// The longest text of an integer of 4 bytes, in bytes.
    const INTEGER_MAX_BYTES: usize = 11;
    let integer = if bytes.len() <= INTEGER_MAX_BYTES { parse_i64(bytes) } else { None };
    if let Some(integer) = integer {
        if let Ok(integer) = i8::try_from(integer) {
            out.push(0xc0);
            return out.extend_from_slice(&integer.to_le_bytes());
        } else if let Ok(integer) = i16::try_from(integer) {
            out.push(0xc1);
            return out.extend_from_slice(&integer.to_le_bytes());
        } else if let Ok(integer) = i32::try_from(integer) {
            out.push(0xc2);
            return out.extend_from_slice(&integer.to_le_bytes());
        }
    }
    number(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}
