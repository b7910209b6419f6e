//! Numbers in fields of hashes.

use crate::command::call::Call;
use crate::command::hashes::upsert;
use crate::error::{Error, NOT_A_FLOAT, OVERFLOW};
use crate::keyspace::database::ChangeEffect;
use crate::resp::long_double::LongDouble;
use crate::resp::number::{IntegerText, parse_i64};
use crate::value::EncodedField;

pub(super) fn hincrby(call: &mut Call<'_, '_>) -> Result<(), Error> {
    let by = call.integer(3)?;
    let name = call.argument(2);
    let sum = upsert(call, |hash, context| {
        let old = hash.get(name, context);
        let expiry_ms = old.and_then(|field| field.expiry_ms);
        let number = old.map_or(Some(0), |field| parse_i64(field.value));
        let not_an_integer = Error::constant("ERR hash value is not an integer");
        let sum = number.ok_or(not_an_integer).and_then(|it| it.checked_add(by).ok_or(OVERFLOW));
        let Ok(sum) = sum else { return ChangeEffect::None(sum) };
        let text = IntegerText::new(sum);
        hash.put(EncodedField { name, value: text.as_bytes(), expiry_ms }, context);
        ChangeEffect::Made(Ok(sum))
    })??;
    call.reply.integer(sum);
    Ok(())
}

pub(super) fn hincrbyfloat(call: &mut Call<'_, '_>) -> Result<(), Error> {
    let by = LongDouble::parse(call.argument(3)).ok_or(NOT_A_FLOAT)?;
    if !by.is_finite() {
        return Err(Error::constant("ERR value is NaN or Infinity"));
    }
    let (name, limit) = (call.argument(2), call.work_limit);
    let sum = upsert(call, |hash, context| {
        let old = hash.get(name, context);
        if let Err(error) = limit.check_bytes(old.map_or(0, |field| field.value.len())) {
            return ChangeEffect::None(Err(error));
        }
        let expiry_ms = old.and_then(|field| field.expiry_ms);
        let number = old.map_or(Some(LongDouble::ZERO), |field| LongDouble::parse(field.value));
        let not_a_float = Error::constant("ERR hash value is not a float");
        let text = number.ok_or(not_a_float).and_then(|number| number.sum_text(by));
        let Ok(text) = text else { return ChangeEffect::None(text) };
        hash.put(EncodedField { name, value: text.as_bytes(), expiry_ms }, context);
        ChangeEffect::Made(Ok(text))
    })??;
    call.reply.bulk(sum.as_bytes());
    Ok(())
}
