//! The sources of members for `ZUNION` and similar commands: sorted sets, and sets, whose members
//! have the score 1.

use crate::error::{Error, WRONG_TYPE};
use crate::keyspace::database::ShardContext;
use crate::keyspace::record::KeyRecord;
use crate::value::StoreValue;
use crate::value::set::Set;
use crate::value::sorted_set::SortedSet;

/// The members of a value with their scores. A key that does not exist has no members.
#[derive(Clone, Copy, Debug)]
pub(crate) enum MemberSource<'v> {
    Nothing,
    Set(&'v Set, &'v ShardContext),
    SortedSet(&'v SortedSet),
}

impl<'v> MemberSource<'v> {
    /// # Errors
    /// The value is neither a sorted set nor a set.
    pub(crate) fn of(
        record: Option<&'v KeyRecord>,
        context: &'v ShardContext,
    ) -> Result<Self, Error> {
        match record.map(KeyRecord::value) {
            None => Ok(Self::Nothing),
            Some(Some(StoreValue::Set(set))) => Ok(Self::Set(set, context)),
            Some(Some(StoreValue::SortedSet(set))) => Ok(Self::SortedSet(set)),
            Some(_) => Err(WRONG_TYPE),
        }
    }

    /// Returns the number of members.
    pub(crate) fn len(self) -> usize {
        match self {
            Self::Nothing => 0,
            Self::Set(set, _) => set.len(),
            Self::SortedSet(set) => set.len(),
        }
    }

    /// Returns the score of a member.
    pub(crate) fn score(self, member: &[u8]) -> Option<f64> {
        match self {
            Self::Nothing => None,
            Self::Set(set, context) => set.contains(member, context).then_some(1.0),
            Self::SortedSet(set) => set.score(member),
        }
    }

    /// Calls `visit` for all members.
    pub(crate) fn for_each(self, mut visit: impl FnMut(&[u8], f64)) {
        match self {
            Self::Nothing => {}
            Self::Set(set, _) => {
                set.members().for_each(|member| member.with_text(|text| visit(text, 1.0)));
            }
            Self::SortedSet(set) => set.iter().for_each(|(member, score)| visit(member, score)),
        }
    }
}
