//! Sets of strings.

mod compact;
mod integers;
mod table_form;

use compact::CompactMembers;
use integers::IntegerSet;
use table_form::{MemberText, TableMembers};

use super::{Collection, StoreValue};
use crate::command::random_choice::RandomElements;
use crate::keyspace::allocation_size::allocated_bytes;
use crate::keyspace::database::ShardContext;
use crate::keyspace::segment_table::POSITION_BITS;
use crate::prefetch::prefetch_two;
use crate::resp::number::{IntegerText, parse_i64};
use crate::resp::reply_writer::Reply;

/// Most members of a set of integers (`set-max-intset-entries`).
const INTEGERS_MAX: usize = 512;

/// Most members of a small set of other strings.
const COMPACT_MEMBERS_MAX: usize = 128;

/// Longest member of a small set, in bytes.
const COMPACT_MEMBER_MAX_BYTES: usize = 64;

/// A set of strings in one of its forms.
#[derive(Clone, Debug)]
pub(crate) enum Set {
    Integers(IntegerMembers),
    Compact(SmallMembers),
    Table(TableSet),
}

/// The members of a set of integers.
#[derive(Clone, Debug, Default)]
pub(crate) struct IntegerMembers(IntegerSet);

/// The members of a small set.
#[derive(Clone, Debug, Default)]
pub(crate) struct SmallMembers(CompactMembers);

/// The members of a large set.
#[derive(Clone, Debug)]
pub(crate) struct TableSet(Box<TableMembers>);

use Set::{Compact, Integers, Table};

/// A member of a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Member<'a> {
    Integer(i64),
    Text(&'a [u8]),
}

impl Member<'_> {
    /// Calls a function with the member as text.
    pub(crate) fn with_text<R>(self, function: impl FnOnce(&[u8]) -> R) -> R {
        match self {
            Self::Integer(number) => function(IntegerText::new(number).as_bytes()),
            Self::Text(text) => function(text),
        }
    }

    pub(crate) fn write(self, reply: &mut Reply<'_>) {
        match self {
            Self::Integer(number) => reply.bulk_integer(number),
            Self::Text(text) => reply.bulk(text),
        }
    }
}

impl Default for Set {
    fn default() -> Self {
        Integers(IntegerMembers::default())
    }
}

impl Set {
    /// Prefetches the data of the set into the cache of the processor.
    pub(crate) fn prefetch(&self) {
        match self {
            Integers(IntegerMembers(members)) => members.prefetch(),
            Compact(SmallMembers(members)) => members.prefetch(),
            Table(TableSet(members)) => prefetch_two(&**members),
        }
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Integers(IntegerMembers(members)) => members.len(),
            Compact(SmallMembers(members)) => members.len(),
            Table(TableSet(members)) => members.len(),
        }
    }

    pub(crate) fn contains(&self, member: &[u8], context: &ShardContext) -> bool {
        match self {
            Integers(IntegerMembers(members)) => {
                parse_i64(member).is_some_and(|number| members.contains(number))
            }
            Compact(SmallMembers(members)) => members.contains(member),
            Table(TableSet(members)) => members.contains(member, context.hasher),
        }
    }

    /// Returns all members.
    pub(crate) fn members(&self) -> impl Iterator<Item = Member<'_>> {
        let (integers, compact, table) = match self {
            Integers(IntegerMembers(members)) => (Some(members.iter()), None, None),
            Compact(SmallMembers(members)) => (None, Some(members.iter()), None),
            Table(TableSet(members)) => (None, None, Some(members.table().iter())),
        };
        let integers = integers.into_iter().flatten().map(Member::Integer);
        let compact = compact.into_iter().flatten().map(Member::Text);
        let table = table.into_iter().flatten().map(MemberText::member);
        integers.chain(compact).chain(table)
    }

    /// Adds a member. Returns whether it is new.
    pub(crate) fn insert(&mut self, member: &[u8], context: &ShardContext) -> bool {
        // A large set checks this itself.
        if !matches!(self, Table(_)) && self.contains(member, context) {
            return false;
        }
        let is_short = member.len() <= COMPACT_MEMBER_MAX_BYTES;
        match self {
            Integers(IntegerMembers(members)) => {
                if let Some(number) = parse_i64(member)
                    && members.len() < INTEGERS_MAX
                {
                    return members.insert(number);
                }
                if is_short && members.len() < COMPACT_MEMBERS_MAX {
                    let mut compact = CompactMembers::default();
                    for number in members.iter() {
                        compact.push(IntegerText::new(number).as_bytes());
                    }
                    compact.push(member);
                    *self = Compact(SmallMembers(compact));
                    return true;
                }
            }
            Compact(SmallMembers(members)) if is_short && members.len() < COMPACT_MEMBERS_MAX => {
                members.push(member);
                return true;
            }
            Compact(_) => {}
            Table(TableSet(members)) => return members.insert(member, context.hasher),
        }
        let mut table = TableMembers::default();
        for member in self.members() {
            member.with_text(|text| table.insert(text, context.hasher));
        }
        table.insert(member, context.hasher);
        *self = Table(TableSet(Box::new(table)));
        true
    }

    /// Removes a member. Returns whether it existed.
    pub(crate) fn remove(&mut self, member: &[u8], context: &ShardContext) -> bool {
        match self {
            Integers(IntegerMembers(members)) => {
                parse_i64(member).is_some_and(|number| members.remove(number))
            }
            Compact(SmallMembers(members)) => members.remove(member),
            Table(TableSet(members)) => members.remove(member, context.hasher),
        }
    }

    /// Calls `visit` for about `count` members from a position on, or for all members of a small
    /// set. Returns the next position, or `None` at the end.
    pub(crate) fn visit_from<'s>(
        &'s self,
        start: u64,
        count: usize,
        context: &ShardContext,
        mut visit: impl FnMut(Member<'s>),
    ) -> Option<u64> {
        match self {
            Table(_) if start >> POSITION_BITS != 0 => None,
            Table(TableSet(members)) => {
                let visit = |member: &'s MemberText| visit(member.member());
                let hash_of = TableMembers::hash_of(context.hasher);
                members.table().visit_from(start, count, hash_of, visit)
            }
            _ => {
                self.members().for_each(visit);
                None
            }
        }
    }

    /// Returns the bytes of memory that the set has allocated.
    pub(crate) fn memory_bytes(&self) -> usize {
        match self {
            Integers(IntegerMembers(members)) => members.memory_bytes(),
            Compact(SmallMembers(members)) => members.memory_bytes(),
            Table(TableSet(members)) => {
                allocated_bytes(size_of::<TableMembers>()) + members.memory_bytes()
            }
        }
    }

    /// Returns the approximate number of allocations of the set.
    pub(crate) fn parts(&self) -> usize {
        match self {
            Integers(_) | Compact(_) => 1,
            Table(TableSet(members)) => members.len(),
        }
    }

    /// Returns the name of the form for `OBJECT ENCODING`, as in Redis 7.0. The small form for
    /// strings other than integers is newer than that version.
    pub(crate) fn encoding(&self) -> &'static str {
        match self {
            Integers(_) => "intset",
            Compact(_) | Table(_) => "hashtable",
        }
    }
}

impl RandomElements for Set {
    type Element<'e> = Member<'e>;

    fn len(&self, _: &ShardContext) -> usize {
        Self::len(self)
    }

    fn all(&self, _: &ShardContext) -> Vec<Member<'_>> {
        self.members().collect()
    }

    fn random(&self, context: &mut ShardContext) -> Option<Member<'_>> {
        match self {
            Integers(IntegerMembers(members)) => {
                members.get(context.random_below(members.len())?).map(Member::Integer)
            }
            Compact(_) => None,
            Table(TableSet(members)) => {
                members.table().random(|| context.random()).map(MemberText::member)
            }
        }
    }

    fn identity(member: Member<'_>) -> u64 {
        match member {
            Member::Integer(number) => number.cast_unsigned(),
            Member::Text(text) => text.as_ptr().addr() as u64,
        }
    }
}

impl Collection for Set {
    fn of(value: &StoreValue) -> Option<&Self> {
        match value {
            StoreValue::Set(set) => Some(set),
            _ => None,
        }
    }

    fn of_mut(value: &mut StoreValue) -> Option<&mut Self> {
        match value {
            StoreValue::Set(set) => Some(set),
            _ => None,
        }
    }

    fn into_value(self) -> StoreValue {
        StoreValue::Set(self)
    }

    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
