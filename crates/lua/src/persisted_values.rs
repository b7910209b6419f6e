//! The values that a script keeps across reloads, in each worker separately.

use std::collections::HashMap;
use std::sync::Arc;

use crate::copied_value::CopiedValue;
use crate::limits::KEPT_MAX;

/// The values by name. A copy shares them.
#[derive(Debug, Clone, Default)]
pub(crate) struct KeptValues {
    values: HashMap<String, Arc<CopiedValue>>,
    bytes: usize,
}

impl KeptValues {
    pub(crate) fn get(&self, name: &str) -> Option<&CopiedValue> {
        self.values.get(name).map(|value| &**value)
    }

    /// Returns the memory that the values take, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Keeps a value in place of the previous one of that name; nil removes it. All values together
    /// have at most `max_bytes`.
    ///
    /// # Errors
    /// Fails when there is too much already.
    pub(crate) fn set(
        &mut self,
        name: &str,
        value: CopiedValue,
        max_bytes: usize,
    ) -> Result<(), String> {
        let old = self.values.get(name).map_or(0, |old| name.len() + old.bytes());
        let new = match value {
            CopiedValue::Nil => 0,
            _ => name.len() + value.bytes(),
        };
        let bytes = self.bytes - old + new;
        if new > old && bytes > max_bytes {
            return Err(format!(
                "pinion.keep holds at most {} KiB in each worker; set what is not needed to nil",
                max_bytes >> 10
            ));
        }
        if new > 0 && old == 0 && self.values.len() >= KEPT_MAX {
            return Err(format!(
                "pinion.keep holds at most {KEPT_MAX} values in each worker; put several into one \
                 table"
            ));
        }
        self.bytes = bytes;
        match value {
            CopiedValue::Nil => self.values.remove(name),
            _ => self.values.insert(name.to_owned(), Arc::new(value)),
        };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::KEPT_MAX_BYTES;

    #[test]
    fn persisted_values_are_limited_in_bytes_and_number() {
        let mut kept = KeptValues::default();
        let large = || CopiedValue::Bytes(vec![0; 1 << 20]);
        let mut count = 0;
        while kept.set(&format!("n{count}"), large(), KEPT_MAX_BYTES).is_ok() {
            count += 1;
        }
        let most = KEPT_MAX_BYTES >> 20;
        assert!((most - 1..=most).contains(&count), "{count}");
        kept.set("n0", CopiedValue::Boolean(true), KEPT_MAX_BYTES).expect("smaller");
        kept.set("more", CopiedValue::Boolean(true), KEPT_MAX_BYTES).expect("there is room now");
        for at in 0..count {
            kept.set(&format!("n{at}"), CopiedValue::Nil, KEPT_MAX_BYTES).expect("less");
        }
        kept.set("more", CopiedValue::Nil, KEPT_MAX_BYTES).expect("less");
        assert_eq!((kept.bytes, kept.values.len()), (0, 0));
        for at in 0..KEPT_MAX {
            kept.set(&format!("n{at}"), CopiedValue::Number(1.0), KEPT_MAX_BYTES).expect("room");
        }
        assert!(kept.set("more", CopiedValue::Number(1.0), KEPT_MAX_BYTES).is_err());
        kept.set("n1", CopiedValue::Number(2.0), KEPT_MAX_BYTES).expect("in its place");
        assert_eq!(kept.get("n1"), Some(&CopiedValue::Number(2.0)));
    }
}
