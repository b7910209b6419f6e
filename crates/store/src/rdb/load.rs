//! Reading of values from payloads, in every form that Redis up to 7.4 writes, except streams
//! and modules.

use std::borrow::Cow;

use super::packed_element::Element;
use super::payload_reader::PayloadReader;
use super::{kind, legacy_encodings, listpack};
use crate::keyspace::database::ShardContext;
use crate::keyspace::record::EXPIRY_MAX_MS;
use crate::value::hash::Hash;
use crate::value::list::{ListEnd, ListValue};
use crate::value::set::Set;
use crate::value::sorted_set::{ScoreChange, SortedSet};
use crate::value::{Collection, EncodedField, StoreValue};

/// A value that was read from a payload.
#[derive(Debug)]
pub(crate) enum LoadedValue<'p> {
    String(Cow<'p, [u8]>),
    Collection(StoreValue),
}

/// Reads the type and the value of a payload. Returns `None` if the payload is damaged: the bytes
/// end too early or too late, an element occurs twice, or there are no elements.
pub(crate) fn load<'p>(bytes: &'p [u8], context: &ShardContext) -> Option<LoadedValue<'p>> {
    let mut reader = PayloadReader::new(bytes);
    let kind = reader.byte()?;
    let loaded = match kind {
        kind::STRING => LoadedValue::String(reader.string()?),
        kind::LIST | kind::LIST_ZIPLIST | kind::LIST_ZIPLISTS | kind::LIST_LISTPACKS => {
            collection(list(kind, &mut reader)?)?
        }
        kind::SET | kind::SET_INTEGERS | kind::SET_LISTPACK => {
            collection(set(kind, &mut reader, context)?)?
        }
        kind::SORTED_SET_TEXT
        | kind::SORTED_SET
        | kind::SORTED_SET_ZIPLIST
        | kind::SORTED_SET_LISTPACK => collection(sorted_set(kind, &mut reader, context)?)?,
        kind::HASH_FIELD_EXPIRY => collection(hash_with_expiry(&mut reader, context)?)?,
        kind::HASH_LISTPACK_FIELD_EXPIRY => {
            collection(listpack_hash_with_expiry(&mut reader, context)?)?
        }
        kind::HASH | kind::HASH_ZIPMAP | kind::HASH_ZIPLIST | kind::HASH_LISTPACK => {
            collection(hash(kind, &mut reader, context)?)?
        }
        _ => return None,
    };
    reader.is_at_end().then_some(loaded)
}

fn collection<C: Collection>(collection: C) -> Option<LoadedValue<'static>> {
    (!collection.is_empty()).then(|| LoadedValue::Collection(collection.into_value()))
}

fn list(kind: u8, reader: &mut PayloadReader<'_>) -> Option<ListValue> {
    /// The node of the list is one element.
    const PLAIN: u64 = 1;
    const PACKED: u64 = 2;
    let mut list = ListValue::default();
    let mut add = |element: Element<'_>| {
        element.with_text(|text| list.push(ListEnd::Right, text));
        Some(())
    };
    if kind == kind::LIST_ZIPLIST {
        legacy_encodings::ziplist(&reader.string()?, add)?;
        return Some(list);
    }
    for _ in 0..reader.number()? {
        if kind == kind::LIST_LISTPACKS {
            match reader.number()? {
                PLAIN => add(Element::Text(&reader.string()?))?,
                PACKED => listpack::elements(&reader.string()?, &mut add)?,
                _ => return None,
            }
        } else if kind == kind::LIST_ZIPLISTS {
            legacy_encodings::ziplist(&reader.string()?, &mut add)?;
        } else {
            add(Element::Text(&reader.string()?))?;
        }
    }
    Some(list)
}

fn set(kind: u8, reader: &mut PayloadReader<'_>, context: &ShardContext) -> Option<Set> {
    let mut set = Set::default();
    let mut add =
        |member: Element<'_>| member.with_text(|text| set.insert(text, context)).then_some(());
    match kind {
        kind::SET_INTEGERS => legacy_encodings::integers(&reader.string()?, add)?,
        kind::SET_LISTPACK => listpack::elements(&reader.string()?, add)?,
        _ => {
            for _ in 0..reader.number()? {
                add(Element::Text(&reader.string()?))?;
            }
        }
    }
    Some(set)
}

fn sorted_set(
    kind: u8,
    reader: &mut PayloadReader<'_>,
    context: &ShardContext,
) -> Option<SortedSet> {
    let mut set = SortedSet::default();
    let mut add = |member: Element<'_>, score: f64| {
        let change = member.with_text(|text| set.set_score(text, score, context.hasher));
        (change == ScoreChange::Added).then_some(())
    };
    if matches!(kind, kind::SORTED_SET_ZIPLIST | kind::SORTED_SET_LISTPACK) {
        let pack = reader.string()?;
        let pack_kind = if kind == kind::SORTED_SET_LISTPACK { Pack::List } else { Pack::Zip };
        pairs(&pack, pack_kind, |member, score| {
            let score = score.score()?;
            add(Element::Text(member), score)
        })?;
        return Some(set);
    }
    for _ in 0..reader.number()? {
        let member = reader.string()?;
        let score = reader.score(kind == kind::SORTED_SET_TEXT)?;
        add(Element::Text(&member), score)?;
    }
    Some(set)
}

fn hash(kind: u8, reader: &mut PayloadReader<'_>, context: &ShardContext) -> Option<Hash> {
    let mut hash = Hash::default();
    let mut add = |name: &[u8], value: &[u8]| {
        hash.put(EncodedField { name, value, expiry_ms: None }, context).then_some(())
    };
    let pack_kind = match kind {
        kind::HASH_ZIPMAP => Pack::Map,
        kind::HASH_ZIPLIST => Pack::Zip,
        kind::HASH_LISTPACK => Pack::List,
        _ => {
            for _ in 0..reader.number()? {
                let (name, value) = (reader.string()?, reader.string()?);
                add(&name, &value)?;
            }
            return Some(hash);
        }
    };
    pairs(&reader.string()?, pack_kind, |name, value| value.with_text(|value| add(name, value)))?;
    Some(hash)
}

fn hash_with_expiry(reader: &mut PayloadReader<'_>, context: &ShardContext) -> Option<Hash> {
    let mut hash = Hash::default();
    let earliest = u64::from_le_bytes(reader.array()?);
    for _ in 0..reader.number()? {
        // The number 0 means no expiry, and 1 is the earliest expiry of the hash.
        let expiry_ms = match reader.number()? {
            0 => None,
            later => Some(earliest.checked_add(later - 1).filter(|&at| at <= EXPIRY_MAX_MS)?),
        };
        let (name, value) = (reader.string()?, reader.string()?);
        if !hash.put(EncodedField { name: &name, value: &value, expiry_ms }, context) {
            return None;
        }
    }
    Some(hash)
}

fn listpack_hash_with_expiry(
    reader: &mut PayloadReader<'_>,
    context: &ShardContext,
) -> Option<Hash> {
    let mut hash = Hash::default();
    // The earliest time is ignored, because it follows from the others.
    let _earliest: [u8; 8] = reader.array()?;
    let mut texts: Vec<Vec<u8>> = Vec::new();
    listpack::elements(&reader.string()?, |element| {
        if texts.len() < 2 {
            texts.push(element.with_text(<[u8]>::to_vec));
            return Some(());
        }
        let Element::Integer(at) = element else { return None };
        let at = u64::try_from(at).ok().filter(|&at| at <= EXPIRY_MAX_MS)?;
        let expiry_ms = Some(at).filter(|&at| at > 0);
        let is_new =
            hash.put(EncodedField { name: &texts[0], value: &texts[1], expiry_ms }, context);
        texts.clear();
        is_new.then_some(())
    })?;
    texts.is_empty().then_some(hash)
}

/// The encoding of a packed collection.
#[derive(Clone, Copy, Debug)]
enum Pack {
    List,
    Zip,
    Map,
}

/// Calls `visit` for each pair of elements of a packed collection. The number of elements must be
/// even.
fn pairs(
    pack: &[u8],
    kind: Pack,
    mut visit: impl FnMut(&[u8], Element<'_>) -> Option<()>,
) -> Option<()> {
    let mut first: Option<Vec<u8>> = None;
    let visit_one = |element: Element<'_>| match first.take() {
        None => {
            first = Some(element.with_text(<[u8]>::to_vec));
            Some(())
        }
        Some(first) => visit(&first, element),
    };
    match kind {
        Pack::List => listpack::elements(pack, visit_one)?,
        Pack::Zip => legacy_encodings::ziplist(pack, visit_one)?,
        Pack::Map => legacy_encodings::zipmap(pack, visit_one)?,
    }
    first.is_none().then_some(())
}
