//! Tables with a place for each connection. They grow when a connection is taken, or it is not
//! taken: later, nobody who is inside needs memory for a place of his own.

/// Makes room for `places` entries in all; false when there is no memory for them. Beyond what
/// there is, the table doubles.
#[inline]
pub(crate) fn has_places<T>(table: &mut Vec<T>, places: usize) -> bool {
    places <= table.capacity() || table.try_reserve(places - table.len()).is_ok()
}
