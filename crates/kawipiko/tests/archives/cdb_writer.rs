//! Writing a database, as `cdb.txt` describes it.

/// Returns the database with these records, in their order.
pub(crate) fn database(records: &[(Vec<u8>, Vec<u8>)]) -> Vec<u8> {
    let mut file = vec![0; 2048];
    let mut tables: Vec<Vec<(u32, u32)>> = vec![Vec::new(); 256];
    for (key, data) in records {
        let hash =
            key.iter().fold(5381_u64, |hash, &byte| (hash * 33 % (1 << 32)) ^ u64::from(byte));
        tables[(hash % 256) as usize].push((hash as u32, file.len() as u32));
        file.extend_from_slice(&(key.len() as u32).to_le_bytes());
        file.extend_from_slice(&(data.len() as u32).to_le_bytes());
        file.extend_from_slice(key);
        file.extend_from_slice(data);
    }
    for (number, table) in tables.iter().enumerate() {
        let slots = table.len() * 2;
        let place = [file.len() as u32, slots as u32].map(u32::to_le_bytes).concat();
        file[number * 8..][..8].copy_from_slice(&place);
        let mut filled = vec![(0, 0); slots];
        for &(hash, at) in table {
            let mut slot = (hash as usize >> 8) % slots;
            while filled[slot].1 != 0 {
                slot = (slot + 1) % slots;
            }
            filled[slot] = (hash, at);
        }
        for (hash, at) in filled {
            file.extend_from_slice(&[hash, at].map(u32::to_le_bytes).concat());
        }
    }
    file
}

/// Returns the record that every archive has.
pub(crate) fn schema() -> (Vec<u8>, Vec<u8>) {
    (b"schema".to_vec(), b"kawipiko-2022a".to_vec())
}
