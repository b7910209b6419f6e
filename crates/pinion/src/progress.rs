//! The bar that shows how far a long verb is: on stderr, for people alone.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal as _;

/// A bar over bytes; draws nothing unless somebody watches.
#[derive(Debug)]
pub(crate) struct Bar(ProgressBar);

impl Bar {
    /// A bar for a verb; `quiet` when its output is for programs.
    pub(crate) fn new(quiet: bool) -> Self {
        let watched = !quiet && std::io::stderr().is_terminal();
        let target = match watched {
            true => ProgressDrawTarget::stderr(),
            false => ProgressDrawTarget::hidden(),
        };
        let bar = ProgressBar::with_draw_target(Some(0), target);
        let style = "{bar:32} {percent:>3} %  {binary_bytes} of {binary_total_bytes}  {msg}";
        // The template is a constant that a test tries; a bar without style would do too.
        if let Ok(style) = ProgressStyle::with_template(style) {
            bar.set_style(style.progress_chars("━╸ "));
        }
        Self(bar)
    }

    /// So many bytes are done.
    pub(crate) fn set(&self, done: u64, total: u64, message: String) {
        self.0.set_length(total);
        self.0.set_position(done.min(total));
        self.0.set_message(message);
    }

    /// Takes the bar off the screen.
    pub(crate) fn clear(&self) {
        self.0.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_template_is_one() {
        let style = "{bar:32} {percent:>3} %  {binary_bytes} of {binary_total_bytes}  {msg}";
        assert!(ProgressStyle::with_template(style).is_ok());
    }

    #[test]
    fn a_bar_that_nobody_watches_is_hidden() {
        let bar = Bar::new(true);
        bar.set(1, 2, "x".to_owned());
        assert!(bar.0.is_hidden());
        bar.clear();
    }
}
