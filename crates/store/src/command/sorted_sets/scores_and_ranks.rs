//! Commands that return scores, ranks and random members.

use std::collections::HashSet;

use super::bounds::Order;
use super::write_members;
use crate::command::call::Call;
use crate::command::random_choice::RandomCount;
use crate::dispatch::wrong_arity;
use crate::error::{Error, SYNTAX};
use crate::keyspace::database::ShardContext;
use crate::value::sorted_set::SortedSet;

/// `ZSCORE`
pub(super) fn score(call: &mut Call<'_, '_>) -> Result<(), Error> {
    let (key, member) = (call.key(1), call.argument(2));
    let (database, context) = call.locks.database(call.database, key);
    let set = database.collection::<SortedSet>(key, context)?;
    match set.and_then(|set| set.score(member)) {
        Some(score) => call.reply.double(score),
        None => call.reply.null(),
    }
    Ok(())
}

/// `ZMSCORE`
pub(super) fn scores(call: &mut Call<'_, '_>) -> Result<(), Error> {
    let (key, members) = (call.key(1), call.arguments.from(2));
    let (database, context) = call.locks.database(call.database, key);
    let set = database.collection::<SortedSet>(key, context)?;
    call.reply.array(members.len());
    for member in members {
        match set.and_then(|set| set.score(member)) {
            Some(score) => call.reply.double(score),
            None => call.reply.null(),
        }
    }
    Ok(())
}

/// `ZCARD`
pub(super) fn cardinality(call: &mut Call<'_, '_>) -> Result<(), Error> {
    let key = call.key(1);
    let (database, context) = call.locks.database(call.database, key);
    let set = database.collection::<SortedSet>(key, context)?;
    call.reply.size(set.map_or(0, SortedSet::len));
    Ok(())
}

/// `ZRANK` and `ZREVRANK`
pub(super) fn rank(call: &mut Call<'_, '_>, order: Order) -> Result<(), Error> {
    let with_score = match call.arguments.get(3) {
        None => false,
        Some(_) if call.arguments.len() > 4 => return Err(wrong_arity(call.command.name)),
        Some(option) if option.eq_ignore_ascii_case(b"withscore") => true,
        Some(_) => return Err(SYNTAX),
    };
    let (key, member) = (call.key(1), call.argument(2));
    let (database, context) = call.locks.database(call.database, key);
    let set = database.collection::<SortedSet>(key, context)?;
    let Some((rank, score, len)) = set.and_then(|set| {
        let (rank, score) = set.rank(member)?;
        Some((rank, score, set.len()))
    }) else {
        if with_score {
            call.reply.null_array();
        } else {
            call.reply.null();
        }
        return Ok(());
    };
    if with_score {
        call.reply.array(2);
    }
    call.reply.size(if order == Order::Ascending { rank } else { len - 1 - rank });
    if with_score {
        call.reply.double(score);
    }
    Ok(())
}

/// Returns `count` different numbers below `len`, each set of them as likely as any other (R. W.
/// Floyd's algorithm). `count` is at most `len`.
fn distinct_ranks(len: usize, count: usize, context: &mut ShardContext) -> Vec<usize> {
    let mut chosen = HashSet::with_capacity(count);
    let mut ranks = Vec::with_capacity(count);
    for most in len - count..len {
        let rank = random_rank(most + 1, context);
        let rank = if chosen.insert(rank) { rank } else { most };
        chosen.insert(rank);
        ranks.push(rank);
    }
    ranks
}

fn random_rank(len: usize, context: &mut ShardContext) -> usize {
    (context.random() % (len as u64).max(1)) as usize
}

/// `ZRANDMEMBER`
pub(super) fn random(call: &mut Call<'_, '_>) -> Result<(), Error> {
    let key = call.key(1);
    let count = call.arguments.get(2).map(RandomCount::parse).transpose()?;
    let with_scores = match call.arguments.get(3) {
        None => false,
        Some(option) if option.eq_ignore_ascii_case(b"withscores") => true,
        Some(_) => return Err(SYNTAX),
    };
    if call.arguments.len() > 4 {
        return Err(SYNTAX);
    }
    if let Some(count) = count.filter(|_| with_scores) {
        count.check_for_pairs()?;
    }
    let (database, context) = call.locks.database(call.database, key);
    let Some(set) = database.collection::<SortedSet>(key, context)? else {
        if count.is_some() {
            call.reply.array(0);
        } else {
            call.reply.null();
        }
        return Ok(());
    };
    let len = set.len();
    let Some(count) = count else {
        let member = set.range(random_rank(len, context)..len).next();
        call.reply.bulk_or_null(member.map(|(member, _)| member));
        return Ok(());
    };
    call.work_limit.check_part(count.work(len), (len, set.memory_bytes()))?;
    match count {
        RandomCount::Different(count) if count >= len => {
            write_members(&mut call.reply, set.iter(), len, with_scores);
        }
        RandomCount::Different(count) => {
            let ranks = distinct_ranks(len, count, context).into_iter();
            let members = ranks.filter_map(|rank| set.range(rank..len).next());
            write_members(&mut call.reply, members, count, with_scores);
        }
        RandomCount::Repeated(count) => {
            let ranks = std::iter::repeat_with(|| random_rank(len, context)).take(count);
            let members = ranks.filter_map(|rank| set.range(rank..len).next());
            write_members(&mut call.reply, members, count, with_scores);
        }
    }
    Ok(())
}
