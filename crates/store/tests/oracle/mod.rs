//! Checks of arbitrary input, which fuzz targets share. Each file stands alone, but that of
//! payloads has `seal` beside it.

pub(crate) mod payload;
pub(crate) mod resp;
pub(crate) mod seal;
