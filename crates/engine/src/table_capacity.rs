//! Tables with an entry for each connection. They grow when a connection is accepted, or it is not
//! accepted: later, no connection needs memory for an entry.

/// Makes room for `places` entries in all; returns false if there is no memory for them. Beyond its
/// capacity, the table doubles.
#[inline]
pub(crate) fn has_places<T>(table: &mut Vec<T>, places: usize) -> bool {
    places <= table.capacity() || table.try_reserve(places - table.len()).is_ok()
}
