//! Jobs that give their result in pieces, such as the content of a large file.
//!
//! Each piece is a job of its own, which the worker submits when it has room for the piece. So a
//! client that reads slowly holds neither a thread nor more than one piece of memory, and the
//! pieces of many clients take turns.

use std::sync::{Arc, Mutex, PoisonError};

use crate::job_queue::{BlockingJob, JobOutcome, JobValue};

/// The source of the pieces of a [`PiecewiseJob`]. Its methods run on the threads of jobs.
pub trait PieceSource: Send + 'static {
    /// A part of the result.
    type Piece: JobValue;

    /// Makes the next piece.
    ///
    /// # Errors
    /// An error says why there is no next piece. No further piece can be made after an error.
    fn next_piece(&mut self) -> JobOutcome<Self::Piece>;
}

/// A job that gives its result in pieces. If the job is dropped, its source is dropped as soon as
/// the current piece is complete.
#[derive(Debug)]
pub struct PiecewiseJob<S>(Arc<Mutex<Option<S>>>);

/// The outcome of a piece after an error.
const ENDED: &str = "an earlier piece has failed";

impl<S: PieceSource> PiecewiseJob<S> {
    /// Creates a job from a source.
    pub fn new(source: S) -> Self {
        Self(Arc::new(Mutex::new(Some(source))))
    }

    /// Returns the job for the next piece. Its owner waits for that before it asks for another one,
    /// so that pieces come in their order.
    #[must_use]
    pub fn next_piece(&self) -> BlockingJob<S::Piece> {
        // A weak reference: the piece of a job that was dropped is not made.
        let source = Arc::downgrade(&self.0);
        BlockingJob::files(0, move || {
            let source = source.upgrade().ok_or_else(|| ENDED.to_owned())?;
            let mut source = source.lock().unwrap_or_else(PoisonError::into_inner);
            // A source that panics is gone too.
            let mut taken = source.take().ok_or_else(|| ENDED.to_owned())?;
            let piece = taken.next_piece()?;
            *source = Some(taken);
            Ok(piece)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts down, one byte in each piece; 0 fails.
    struct Countdown(u8);

    impl PieceSource for Countdown {
        type Piece = Vec<u8>;

        fn next_piece(&mut self) -> JobOutcome<Vec<u8>> {
            self.0 = self.0.checked_sub(1).ok_or_else(|| "over".to_owned())?;
            Ok(vec![self.0])
        }
    }

    fn run(job: BlockingJob<Vec<u8>>) -> JobOutcome<Vec<u8>> {
        let guard = Arc::new(());
        job.run(&Arc::downgrade(&guard))
    }

    #[test]
    fn pieces_follow_each_other_until_one_fails() {
        let job = PiecewiseJob::new(Countdown(2));
        assert_eq!(run(job.next_piece()), Ok(vec![1]));
        assert_eq!(run(job.next_piece()), Ok(vec![0]));
        assert_eq!(run(job.next_piece()), Err("over".to_owned()));
        assert_eq!(run(job.next_piece()), Err(ENDED.to_owned()));
    }

    #[test]
    fn a_dropped_job_produces_no_further_piece() {
        let job = PiecewiseJob::new(Countdown(2));
        let piece = job.next_piece();
        drop(job);
        assert_eq!(run(piece), Err(ENDED.to_owned()));
    }
}
