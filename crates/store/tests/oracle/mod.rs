//! Checks of arbitrary input, which fuzz targets share. Each file is independent, but that of
//! payloads needs `seal`.

pub(crate) mod payload;
pub(crate) mod resp;
pub(crate) mod seal;
