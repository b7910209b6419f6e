//! Limits on frames of HTTP/2 and HTTP/3 that are cheap for the client: one number per kind of
//! frame, which goes down with each frame and up with time and with useful work. When one is used
//! up, the connection ends (RFC 9113 §10.5, RFC 9114 §10.5). HTTP/3 has no frame that must be
//! answered, and its windows are those of the transport.

use crate::limits::{HEADS, REPLIES, RESETS, TRIFLES, WINDOWS};

/// The kinds of work of which a client can have caused too much.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Budget {
    /// Streams that ended without a response.
    Resets,
    /// Frames that must be answered.
    Replies,
    /// Frames that change nothing.
    Trifles,
    /// Windows opened by little.
    Windows,
    /// Requests that were refused for their heads.
    Heads,
    /// A field block longer than any head, or a frame of control longer than any.
    Block,
}

/// The amounts by which a budget is refilled.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BudgetRefill {
    /// The initial value, which is also the most that time and responses restore.
    pub(crate) burst: u16,
    /// The most that DATA restores, if that is more.
    pub(crate) data_max: u16,
    /// Per second that has passed.
    pub(crate) per_second: u16,
    /// Per answer that was given whole.
    pub(crate) per_response: u16,
    /// Per DATA frame sent.
    pub(crate) per_data: u16,
    /// Per KiB of content sent.
    pub(crate) per_kib: u16,
}

/// In the order of [`Budget`]; [`Budget::Block`] is a length and has no row.
const ROWS: [BudgetRefill; 5] = [RESETS, REPLIES, TRIFLES, WINDOWS, HEADS];

/// The rest of each budget.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Budgets {
    left: [u16; ROWS.len()],
    /// The time up to which the budgets were refilled, in seconds.
    counted_s: u32,
}

impl Budgets {
    pub(crate) fn new() -> Budgets {
        Budgets { left: ROWS.map(|row| row.burst), counted_s: 0 }
    }

    /// Starts the count of time.
    pub(crate) fn begin(&mut self, now_ms: u64) {
        self.counted_s = seconds(now_ms);
    }

    /// Takes one away.
    ///
    /// # Errors
    /// The budget, when nothing is left of it.
    #[inline]
    pub(crate) fn spend(&mut self, budget: Budget, now_ms: u64) -> Result<(), Budget> {
        if self.left.get(budget as usize).is_none_or(|&left| left == 0) {
            self.pass(now_ms);
        }
        match self.left.get_mut(budget as usize) {
            Some(left) if *left > 0 => {
                *left -= 1;
                Ok(())
            }
            _ => Err(budget),
        }
    }

    /// Refills the budgets after a complete response.
    #[inline]
    pub(crate) fn answered(&mut self) {
        self.fill(|row| (u32::from(row.per_response), row.burst));
    }

    /// Refills the budgets after a DATA frame of so many bytes was sent.
    #[inline]
    pub(crate) fn sent_data(&mut self, bytes: usize) {
        let kib = (bytes / 1024) as u32;
        self.fill(|row| {
            (u32::from(row.per_data) + u32::from(row.per_kib).saturating_mul(kib), row.data_max)
        });
    }

    /// Refills the budgets for the time since the last call. It is called only when something is
    /// used up, so the usual frame costs one subtraction.
    #[cold]
    fn pass(&mut self, now_ms: u64) {
        let now_s = seconds(now_ms);
        let seconds = now_s.saturating_sub(self.counted_s);
        self.counted_s = self.counted_s.max(now_s);
        self.fill(|row| (u32::from(row.per_second).saturating_mul(seconds), row.burst));
    }

    /// Fills each by so much, up to so much.
    #[inline]
    fn fill(&mut self, by: impl Fn(&BudgetRefill) -> (u32, u16)) {
        for (left, row) in self.left.iter_mut().zip(&ROWS) {
            let (by, to) = by(row);
            let full = u32::from(*left).saturating_add(by).min(u32::from(to.max(*left)));
            *left = full as u16;
        }
    }
}

fn seconds(ms: u64) -> u32 {
    u32::try_from(ms / 1000).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spend_all(budgets: &mut Budgets, budget: Budget, now_ms: u64) -> u16 {
        let mut count = 0;
        while budgets.spend(budget, now_ms).is_ok() {
            count += 1;
        }
        count
    }

    #[test]
    fn each_budget_is_exhausted_independently_at_its_burst() {
        let mut budgets = Budgets::new();
        budgets.begin(5_000_000);
        for budget in
            [Budget::Resets, Budget::Replies, Budget::Trifles, Budget::Windows, Budget::Heads]
        {
            let burst = ROWS[budget as usize].burst;
            assert_eq!(spend_all(&mut budgets, budget, 5_000_000), burst, "{budget:?}");
        }
    }

    #[test]
    fn time_and_work_refill_budgets_up_to_the_burst() {
        let mut budgets = Budgets::new();
        budgets.begin(1000);
        spend_all(&mut budgets, Budget::Resets, 1000);
        assert_eq!(spend_all(&mut budgets, Budget::Resets, 1999), 0);
        assert_eq!(spend_all(&mut budgets, Budget::Resets, 3000), 2 * RESETS.per_second);
        budgets.answered();
        assert_eq!(spend_all(&mut budgets, Budget::Resets, 3000), RESETS.per_response);
        budgets.sent_data(100_000);
        assert_eq!(spend_all(&mut budgets, Budget::Resets, 3000), RESETS.per_data);
        assert_eq!(spend_all(&mut budgets, Budget::Resets, u64::MAX), RESETS.burst);
        for _ in 0..1000 {
            budgets.answered();
        }
        assert_eq!(spend_all(&mut budgets, Budget::Resets, u64::MAX), RESETS.burst);
    }

    /// A client whose requests are refused again and again earns nothing by the responses that it
    /// gets.
    #[test]
    fn the_budget_of_refused_heads_refills_only_with_time() {
        let mut budgets = Budgets::new();
        spend_all(&mut budgets, Budget::Heads, 0);
        budgets.answered();
        budgets.sent_data(1 << 20);
        assert_eq!(spend_all(&mut budgets, Budget::Heads, 999), 0);
        assert_eq!(spend_all(&mut budgets, Budget::Heads, 2000), 2 * HEADS.per_second);
    }

    /// Windows may be opened for all DATA that was sent, however late.
    #[test]
    fn refilled_window_budgets_are_kept() {
        const FRAMES: u16 = 5000;
        let mut budgets = Budgets::new();
        (0..FRAMES).for_each(|_| budgets.sent_data(1));
        let earned = WINDOWS.burst + FRAMES * WINDOWS.per_data;
        budgets.answered();
        assert_eq!(spend_all(&mut budgets, Budget::Windows, 0), earned);
        budgets.answered();
        assert_eq!(spend_all(&mut budgets, Budget::Windows, 0), WINDOWS.per_response);
    }

    /// A clock that goes back gives nothing and takes nothing.
    #[test]
    fn time_does_not_go_back() {
        let mut budgets = Budgets::new();
        budgets.begin(10_000);
        spend_all(&mut budgets, Budget::Replies, 10_000);
        assert_eq!(spend_all(&mut budgets, Budget::Replies, 0), 0);
        assert_eq!(spend_all(&mut budgets, Budget::Replies, 11_000), REPLIES.per_second);
    }

    #[test]
    fn the_block_length_is_not_a_spendable_budget() {
        assert_eq!(Budgets::new().spend(Budget::Block, 0), Err(Budget::Block));
    }
}
