//! Reports the progress of a build.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::limits::WORKED_MIN_BYTES;
use crate::site_layout_guard::WalkedSite;

/// Receives the progress of a build, and decides whether it continues. Called on the thread that
/// builds, after each batch of files, so it may print; counts are totals, not differences.
pub trait Progress: Sync {
    /// Called when the walk is over.
    fn found(&self, files: u64, bytes: u64) {
        let _ = (files, bytes);
    }

    /// Called when the walk is over, with the paths that it has met. Called also when the build
    /// then fails.
    fn walked(&self, walked: WalkedSite) {
        let _ = walked;
    }

    /// Called when so many files, with so many bytes of content, are done.
    fn advanced(&self, files: u64, bytes: u64) {
        let _ = (files, bytes);
    }

    /// Called when so many bytes of content are done, files that are under way counted in part: a
    /// large one takes minutes to compress. Called on any thread, for files of at least
    /// [`WORKED_MIN_BYTES`], and never with less than [`Self::advanced`] has reported before.
    ///
    /// A file counts as done by the work for its codings. With gzip:6 and br:6, gzip is about a
    /// quarter of that, and all of it is reported at its end: libdeflate takes its content at once.
    fn worked(&self, bytes: u64) {
        let _ = bytes;
    }

    /// Returns whether to cancel: the build then ends with
    /// [`BuildError::Cancelled`](crate::BuildError) and leaves no files. Asked on any thread.
    fn cancelled(&self) -> bool {
        false
    }
}

/// Ignores all progress.
impl Progress for () {}

/// Counts the bytes of content that are done, those of files under way in part.
pub(crate) struct WorkMeter<'p> {
    progress: &'p dyn Progress,
    done_bytes: AtomicU64,
}

impl<'p> WorkMeter<'p> {
    /// Returns a meter that reports to `progress`.
    pub(crate) fn new(progress: &'p dyn Progress) -> Self {
        Self { progress, done_bytes: AtomicU64::new(0) }
    }
}

/// The part of one file in a [`WorkMeter`]. When it is dropped, the file counts as done, in any
/// case.
pub(crate) struct FileMeter<'m> {
    meter: &'m WorkMeter<'m>,
    /// The bytes of the file.
    bytes: u64,
    /// Of these, the bytes that the meter has counted.
    counted_bytes: u64,
    /// The work of its codings all together: bytes to be read, times the work of each.
    work: u64,
    /// Of this, the work that is done.
    worked: u64,
}

impl<'m> FileMeter<'m> {
    /// Returns the part of a file of so many bytes.
    pub(crate) fn new(meter: &'m WorkMeter<'m>, bytes: u64) -> Self {
        Self { meter, bytes, counted_bytes: 0, work: 0, worked: 0 }
    }

    /// Sets how much work the file is.
    pub(crate) fn expect(&mut self, work: u64) {
        self.work = work;
    }

    /// Records that so much of the work is done.
    pub(crate) fn add(&mut self, work: u64) {
        self.worked = self.worked.saturating_add(work).min(self.work);
        let Some(part) =
            u128::from(self.bytes).saturating_mul(self.worked.into()).checked_div(self.work.into())
        else {
            return;
        };
        self.count_to(u64::try_from(part).unwrap_or(self.bytes));
    }

    fn count_to(&mut self, bytes: u64) {
        let more = bytes.min(self.bytes).saturating_sub(self.counted_bytes);
        if more == 0 {
            return;
        }
        self.counted_bytes += more;
        let done = self.meter.done_bytes.fetch_add(more, Ordering::Relaxed) + more;
        if self.bytes >= WORKED_MIN_BYTES {
            self.meter.progress.worked(done);
        }
    }
}

impl Drop for FileMeter<'_> {
    fn drop(&mut self) {
        self.count_to(self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use proptest::prelude::*;

    use super::*;

    #[derive(Default)]
    struct ReportedWork(Mutex<Vec<u64>>);

    impl Progress for ReportedWork {
        fn worked(&self, bytes: u64) {
            self.0.lock().unwrap().push(bytes);
        }
    }

    /// Bytes, the work that is expected, and the steps in which it is done.
    fn file() -> impl Strategy<Value = (u64, u64, Vec<u64>)> {
        let steps = prop::collection::vec(0u64..1 << 39, 0..5);
        (0..4 * WORKED_MIN_BYTES, 0u64..1 << 40, steps)
    }

    proptest! {
        /// Whatever work is expected and done for each file, the reported number rises, and ends
        /// with the sum.
        #[test]
        fn progress_rises_and_ends_with_the_sum_of_all_bytes(
            files in prop::collection::vec(file(), 0..8),
        ) {
            let reported = ReportedWork::default();
            let meter = WorkMeter::new(&reported);
            let mut sum = 0;
            for (bytes, work, steps) in &files {
                let mut file = FileMeter::new(&meter, *bytes);
                file.expect(*work);
                steps.iter().for_each(|step| file.add(*step));
                drop(file);
                sum += bytes;
                prop_assert_eq!(meter.done_bytes.load(Ordering::Relaxed), sum);
            }
            let reported = reported.0.into_inner().unwrap();
            prop_assert!(reported.is_sorted_by(|a, b| a < b));
            if files.last().is_some_and(|(bytes, ..)| *bytes >= WORKED_MIN_BYTES) {
                prop_assert_eq!(reported.last(), Some(&sum));
            }
        }
    }

    #[test]
    fn progress_of_a_file_is_proportional_to_its_work() {
        let reported = ReportedWork::default();
        let meter = WorkMeter::new(&reported);
        let mut file = FileMeter::new(&meter, 4 * WORKED_MIN_BYTES);
        file.expect(800);
        for work in [200, 200, 0, 300] {
            file.add(work);
        }
        drop(file);
        let quarters = reported.0.into_inner().unwrap();
        let quarters: Vec<u64> =
            quarters.iter().map(|bytes| bytes * 2 / WORKED_MIN_BYTES).collect();
        assert_eq!(quarters, [2, 4, 7, 8]);
    }
}
