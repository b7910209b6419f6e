//! The end of dumped values, bit by bit.

/// Returns a type and a value with the version and the checksum that make a payload of them.
pub(crate) fn seal(value: &[u8], version: u16) -> Vec<u8> {
    let mut payload = value.to_vec();
    payload.extend_from_slice(&version.to_le_bytes());
    let mut rest = 0_u64;
    for byte in &payload {
        rest ^= u64::from(*byte);
        for _ in 0..8 {
            let is_odd = rest & 1 == 1;
            rest >>= 1;
            if is_odd {
                rest ^= 0x95ac_9329_ac4b_c9b5;
            }
        }
    }
    payload.extend_from_slice(&rest.to_le_bytes());
    payload
}
