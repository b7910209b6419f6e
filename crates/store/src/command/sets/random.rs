//! `SPOP` and `SRANDMEMBER`.

use crate::command::call::Call;
use crate::command::random_choice::{RandomCount, choose};
use crate::command::sets::read;
use crate::error::{Error, SYNTAX};
use crate::keyspace::database::ChangeEffect;
use crate::resp::number::parse_i64;
use crate::value::Collection;
use crate::value::set::Set;

pub(super) fn srandmember(call: &mut Call<'_, '_>) -> Result<(), Error> {
    if call.arguments.len() > 3 {
        return Err(SYNTAX);
    }
    let count = call.arguments.get(2).map(RandomCount::parse).transpose()?;
    let (set, context) = read(call.locks, call.database, call.key(1))?;
    let reply = &mut call.reply;
    let Some(count) = count else {
        match set {
            Some(set) => choose(set, RandomCount::ONE, context, |member| member.write(reply)),
            None => reply.null(),
        }
        return Ok(());
    };
    let mark = reply.begin();
    let mut written = 0;
    if let Some(set) = set {
        call.work_limit.check_part(count.work(set.len()), (set.len(), set.memory_bytes()))?;
        choose(set, count, context, |member| {
            member.write(reply);
            written += 1;
        });
    }
    reply.end_array(mark, written);
    Ok(())
}

pub(super) fn spop(call: &mut Call<'_, '_>) -> Result<(), Error> {
    if call.arguments.len() > 3 {
        return Err(SYNTAX);
    }
    let count = match call.arguments.get(2) {
        None => None,
        Some(text) => {
            let count = parse_i64(text).and_then(|count| usize::try_from(count).ok());
            let negative = Error::constant("ERR value is out of range, must be positive");
            Some(count.ok_or(negative)?)
        }
    };
    let (key, reply) = (call.key(1), &mut call.reply);
    let (database, context) = call.locks.database(call.database, key);
    let (mark, limit) = (reply.begin(), call.work_limit);
    let popped = database.change_collection(key, context, |set: &mut Set, context| {
        let mut popped: Vec<Box<[u8]>> = Vec::new();
        let chosen = RandomCount::Different(count.unwrap_or(1));
        let size = (set.len(), set.memory_bytes());
        if let Err(error) = limit.check_part(chosen.work(set.len()), size) {
            return ChangeEffect::None(Err(error));
        }
        choose(set, chosen, context, |member| {
            member.write(reply);
            popped.push(member.with_text(|text| text.into()));
        });
        if popped.len() == set.len() {
            context.discard_value(std::mem::take(set).into_value());
        } else {
            popped.iter().for_each(|member| {
                set.remove(member, context);
            });
        }
        if popped.is_empty() {
            ChangeEffect::None(Ok(0))
        } else {
            ChangeEffect::Made(Ok(popped.len()))
        }
    })?;
    match (popped.transpose()?, count) {
        (None, None) => call.reply.null(),
        (Some(_), None) => {}
        (popped, Some(_)) => call.reply.end_set(mark, popped.unwrap_or(0)),
    }
    Ok(())
}
