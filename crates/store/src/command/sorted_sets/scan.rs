//! `ZSCAN`

use crate::command::call::Call;
use crate::command::scan::scan_collection;
use crate::error::Error;
use crate::resp::reply_writer::double_text;
use crate::value::sorted_set::SortedSet;

/// `ZSCAN`
pub(super) fn scan(call: &mut Call<'_, '_>) -> Result<(), Error> {
    scan_collection(call, |set: &SortedSet, options, _, reply| {
        let mut count = 0;
        let next = set.visit_from(options.cursor, options.scanned(), |member, score| {
            if options.matches(member) {
                reply.bulk(member);
                reply.bulk(double_text(score).as_bytes());
                count += 2;
            }
        });
        (count, next)
    })
}
