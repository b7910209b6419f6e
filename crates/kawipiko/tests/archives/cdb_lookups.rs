//! Databases are compared with maps.

use std::collections::BTreeMap;

use pinion_kawipiko::cdb::Cdb;
use proptest::prelude::*;

use crate::{cdb_oracle, cdb_writer};

fn records() -> impl Strategy<Value = Vec<(Vec<u8>, Vec<u8>)>> {
    let text = |bytes| prop::collection::vec(any::<u8>(), 0..bytes);
    // Short keys are often equal, and the first of them counts.
    prop::collection::vec((text(3), text(20)), 0..60)
}

proptest! {
    #[test]
    fn every_record_is_found(
        records in records(),
        others in prop::collection::vec(any::<[u8; 2]>(), 20),
    ) {
        let file = cdb_writer::database(&records);
        let cdb = Cdb::open(&file).unwrap();
        let mut first: BTreeMap<&[u8], &[u8]> = BTreeMap::new();
        for (key, data) in &records {
            first.entry(key).or_insert(data);
        }
        let keys = first.keys().copied().chain(others.iter().map(|key| &key[..]));
        for key in keys.collect::<Vec<_>>() {
            prop_assert_eq!(cdb.get(key), Ok(first.get(key).copied()));
        }
        let found: Result<Vec<_>, _> =
            cdb.records().map(|record| record.map(|r| (r.key.to_vec(), r.data.to_vec()))).collect();
        prop_assert_eq!(found.unwrap(), records);
    }

    #[test]
    fn edited_databases_agree_with_the_oracle(
        records in records(),
        edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        cut in any::<prop::sample::Index>(),
        shorter in any::<bool>(),
    ) {
        let mut file = cdb_writer::database(&records);
        for (at, byte) in edits {
            let at = at.index(file.len());
            file[at] = byte;
        }
        if shorter {
            file.truncate(cut.index(file.len()));
        }
        cdb_oracle::check(&file);
    }
}
