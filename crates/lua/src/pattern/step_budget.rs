//! The budget of steps, which limits the work of patterns.

use std::cell::Cell;
use std::rc::Rc;

use super::limits::STEP_BYTES;

/// Steps that the running request has left, shared between the code that grants them and the
/// functions that take them. At 0 the request is over its budget: a search that finds too few steps
/// takes all of them, and every later one fails at once.
#[derive(Clone, Debug)]
pub struct StepsLeft(Rc<Cell<u64>>);

impl StepsLeft {
    /// Creates a budget of so many steps.
    pub fn new(steps: u64) -> StepsLeft {
        StepsLeft(Rc::new(Cell::new(steps)))
    }

    /// Grants so many steps from now on, independent of the rest of the last grant.
    pub fn set(&self, steps: u64) {
        self.0.set(steps);
    }

    /// Returns how many steps are left.
    pub fn get(&self) -> u64 {
        self.0.get()
    }

    /// Takes some steps.
    ///
    /// # Errors
    /// Fails if there were no more than that; then none is left.
    pub fn take(&self, steps: usize) -> Result<(), OutOfSteps> {
        let mut own = Steps::new(self.get());
        let taken = own.take(steps);
        self.set(own.left());
        taken
    }

    /// Returns whether no step is left.
    pub fn is_spent(&self) -> bool {
        self.get() == 0
    }
}

/// Steps of one call. The shared value is read once and written once, not at every step.
#[derive(Debug)]
pub struct Steps {
    left: u64,
}

/// The error that more steps were needed than there were.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfSteps;

impl Steps {
    /// Creates a budget of so many steps.
    pub fn new(left: u64) -> Steps {
        Steps { left }
    }

    /// Returns how many steps are left.
    pub fn left(&self) -> u64 {
        self.left
    }

    /// Takes some steps.
    ///
    /// # Errors
    /// Fails if there were no more than that; then none is left.
    #[inline]
    pub fn take(&mut self, steps: usize) -> Result<(), OutOfSteps> {
        let steps = steps as u64;
        if self.left > steps {
            self.left -= steps;
            return Ok(());
        }
        self.left = 0;
        Err(OutOfSteps)
    }

    /// Takes the cost of a pass over `bytes` bytes at the speed of `memchr`.
    ///
    /// # Errors
    /// Returns an error as [`Steps::take`] does.
    #[inline]
    pub fn take_bytes(&mut self, bytes: usize) -> Result<(), OutOfSteps> {
        self.take(bytes / STEP_BYTES + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_step_is_never_spent() {
        let mut steps = Steps::new(3);
        assert_eq!(steps.take(1), Ok(()));
        assert_eq!(steps.take(1), Ok(()));
        assert_eq!(steps.take(1), Err(OutOfSteps));
        assert_eq!(steps.left(), 0);
        assert_eq!(steps.take(0), Err(OutOfSteps));
    }

    #[test]
    fn bytes_cost_a_fraction_of_a_step_and_at_least_one_step() {
        let mut steps = Steps::new(100);
        steps.take_bytes(0).expect("one step");
        assert_eq!(steps.left(), 99);
        steps.take_bytes(10 * STEP_BYTES).expect("eleven steps");
        assert_eq!(steps.left(), 88);
        assert_eq!(steps.take_bytes(usize::MAX), Err(OutOfSteps));
    }
}
