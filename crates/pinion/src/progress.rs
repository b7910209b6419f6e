//! The bar that shows the progress of a long verb: on stderr, for people alone. Also handles the
//! signals that end a verb early.

use crate::failure::Failure;
use crate::terminal::{count, size};
use anyhow::Context as _;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use pinion_builder::Progress;
use pinion_engine::signals;
use std::io::IsTerminal as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

/// Columns of the bar itself.
const BAR_COLUMNS: usize = 32;

/// The line is cut off where the terminal ends: a line that wraps is torn when the next is drawn.
const TEMPLATE: &str = "{wide_msg}";

/// A bar over bytes; it draws nothing unless stderr is watched.
#[derive(Debug)]
pub(crate) struct Bar(ProgressBar);

impl Bar {
    /// Makes a bar for a verb; `quiet` when its output is for programs.
    pub(crate) fn new(quiet: bool) -> Self {
        let watched = !quiet && std::io::stderr().is_terminal();
        let target =
            if watched { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(None, target);
        // The template is a constant that a test tries; a bar without style would do too.
        if let Ok(style) = ProgressStyle::with_template(TEMPLATE) {
            bar.set_style(style);
        }
        Self(bar)
    }

    /// Shows that so many bytes are done. Not every state is drawn, but the last one is.
    pub(crate) fn set(&self, done: u64, total: u64, message: &str) {
        self.0.set_message(line(done, total, message));
        if done >= total {
            self.0.force_draw();
        }
    }

    /// Takes the bar off the screen.
    pub(crate) fn clear(&self) {
        self.0.finish_and_clear();
    }
}

/// Shows the bar over files and passes Ctrl-C on.
pub(crate) struct Watcher {
    bar: Bar,
    cancelled: Arc<AtomicBool>,
    /// The progress.
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Files and bytes that there are.
    total: (u64, u64),
    /// Files and bytes that are done. Bytes of files that are under way count in part.
    done: (u64, u64),
}

impl State {
    /// Records that more is done; a report that comes too late changes nothing.
    fn advance(&mut self, files: u64, bytes: u64) {
        self.done = (self.done.0.max(files), self.done.1.max(bytes));
    }

    fn show(&self, bar: &Bar) {
        let (all_files, all_bytes) = self.total;
        let (files, bytes) = self.done;
        let message = format!("{} of {} files", count(files), count(all_files));
        bar.set(bytes, all_bytes, &message);
    }
}

impl Watcher {
    /// Makes a watcher for a verb; `quiet` when its output is for programs.
    pub(crate) fn new(quiet: bool) -> Result<Self, Failure> {
        let (bar, cancelled) = (Bar::new(quiet), hear_signals()?);
        Ok(Self { bar, cancelled, state: Mutex::default() })
    }

    fn advance(&self, files: u64, bytes: u64) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.advance(files, bytes);
        state.show(&self.bar);
    }

    /// Takes the bar off the screen.
    pub(crate) fn clear(&self) {
        self.bar.clear();
    }
}

impl Progress for Watcher {
    fn found(&self, files: u64, bytes: u64) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).total = (files, bytes);
    }

    fn advanced(&self, files: u64, bytes: u64) {
        self.advance(files, bytes);
    }

    fn worked(&self, bytes: u64) {
        self.advance(0, bytes);
    }

    fn cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }
}

/// Lets Ctrl-C end a verb in good order: nothing half is left behind. A second one ends it at once.
///
/// # Errors
/// Signals cannot be blocked, or there is no thread.
pub(crate) fn hear_signals() -> Result<Arc<AtomicBool>, Failure> {
    let signals = signals::block_ends().context("cannot block signals")?;
    let cancelled = Arc::new(AtomicBool::new(false));
    let set = Arc::clone(&cancelled);
    let ears = move || {
        signals.wait();
        set.store(true, Ordering::Relaxed);
        signals.wait();
        std::process::exit(1);
    };
    let thread = thread::Builder::new().name("signals".to_owned()).spawn(ears);
    thread.context("cannot start the thread for signals")?;
    Ok(cancelled)
}

/// Returns the line of a bar: ` 50 %  ━━━━━━━━╸         1.00 MiB of 2.00 MiB, …`. The most
/// important parts come first.
fn line(done: u64, total: u64, message: &str) -> String {
    let part_of = |whole: usize| match total {
        0 => whole,
        _ => (u128::from(done.min(total)) * whole as u128 / u128::from(total)) as usize,
    };
    let bar = match part_of(BAR_COLUMNS) {
        BAR_COLUMNS => "━".repeat(BAR_COLUMNS),
        filled => "━".repeat(filled) + "╸",
    };
    let (percent, done, total) = (part_of(100), size(done), size(total));
    let comma = if message.is_empty() { "" } else { ", " };
    format!("{percent:>3} %  {bar:BAR_COLUMNS$}  {done} of {total}{comma}{message}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_template_is_valid() {
        assert!(ProgressStyle::with_template(TEMPLATE).is_ok());
    }

    #[test]
    fn without_a_terminal_the_bar_is_hidden() {
        let bar = Bar::new(true);
        bar.set(1, 2, "x");
        assert!(bar.0.is_hidden());
        bar.clear();
    }

    #[test]
    fn late_updates_do_not_decrease_the_progress() {
        let mut state = State::default();
        let mut steps = Vec::new();
        for (files, bytes) in [(0, 10), (1, 5), (0, 30), (0, 20), (2, 30)] {
            state.advance(files, bytes);
            steps.push(state.done);
        }
        assert_eq!(steps, [(0, 10), (1, 10), (1, 30), (1, 30), (2, 30)]);
    }

    #[test]
    fn a_line_shows_percentage_bar_and_sizes() {
        let (full, half) = ("━".repeat(32), "━".repeat(16) + "╸" + &" ".repeat(15));
        let none = "╸".to_owned() + &" ".repeat(31);
        for (done, total, expected) in [
            (0, 2048, format!("  0 %  {none}  0 B of 2.00 KiB, x")),
            (1024, 2048, format!(" 50 %  {half}  1.00 KiB of 2.00 KiB, x")),
            (2048, 2048, format!("100 %  {full}  2.00 KiB of 2.00 KiB, x")),
            (0, 0, format!("100 %  {full}  0 B of 0 B, x")),
            (u64::MAX, u64::MAX, format!("100 %  {full}  16.0 EiB of 16.0 EiB, x")),
        ] {
            assert_eq!(line(done, total, "x"), expected);
        }
    }
}
