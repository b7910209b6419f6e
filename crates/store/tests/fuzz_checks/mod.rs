//! Checks of arbitrary input, which fuzz targets share. Each file is independent, but that of
//! payloads needs `payload_checksum`.

pub(crate) mod dump_restore_round_trip;
pub(crate) mod payload_checksum;
pub(crate) mod split_input;
