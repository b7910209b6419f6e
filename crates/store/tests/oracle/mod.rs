//! Checks of arbitrary input, which fuzz targets share. Each file is independent, but that of
//! payloads needs `payload_checksum`.

pub(crate) mod payload;
pub(crate) mod payload_checksum;
pub(crate) mod resp;
