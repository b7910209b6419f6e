//! Media types.
