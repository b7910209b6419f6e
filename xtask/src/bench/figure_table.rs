//! Single figures and their goals, as a table.

use super::statistics::Spread;
use std::borrow::Cow;
use std::fmt::Write;

/// A figure and the most or the least it may be.
pub(super) struct Figure {
    pub(super) name: Cow<'static, str>,
    pub(super) value: f64,
    pub(super) shown: String,
    pub(super) goal: Option<Goal>,
}

/// A bound, which is included.
#[derive(Clone, Copy)]
pub(super) enum Goal {
    AtMost(f64),
    AtLeast(f64),
}

impl Figure {
    pub(super) fn of(name: impl Into<Cow<'static, str>>, value: f64) -> Self {
        Self { name: name.into(), value, shown: format!("{value:.1}"), goal: None }
    }

    /// Returns the median of a spread, shown with its ends.
    pub(super) fn spread(name: impl Into<Cow<'static, str>>, spread: &Spread) -> Self {
        Self { name: name.into(), value: spread.median, shown: spread.shown(2), goal: None }
    }

    pub(super) fn at_most(self, goal: f64) -> Self {
        Self { goal: Some(Goal::AtMost(goal)), ..self }
    }

    pub(super) fn at_least(self, goal: f64) -> Self {
        Self { goal: Some(Goal::AtLeast(goal)), ..self }
    }

    fn is_met(&self) -> bool {
        match self.goal {
            None => true,
            Some(Goal::AtMost(most)) => self.value <= most,
            Some(Goal::AtLeast(least)) => self.value >= least,
        }
    }
}

/// Returns a table with one line for each figure.
pub(super) fn table(figures: &[Figure]) -> String {
    let mut text = String::from("| Figure | | goal | |\n|---|---|---|---|\n");
    for figure in figures {
        let goal = match figure.goal {
            Some(Goal::AtMost(most)) => format!("≤ {most}"),
            Some(Goal::AtLeast(least)) => format!("≥ {least}"),
            None => String::new(),
        };
        let verdict = match (figure.goal, figure.is_met()) {
            (None, _) => "",
            (_, true) => "met",
            (_, false) => "**missed**",
        };
        let _ = writeln!(text, "| {} | {} | {goal} | {verdict} |", figure.name, figure.shown);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_beyond_its_goal_is_missed() {
        let figures = [
            Figure::of("small", 1.0).at_most(2.0),
            Figure::of("large", 3.0).at_most(2.0),
            Figure::of("busy", 0.9).at_least(0.9),
            Figure::of("idle", 0.5).at_least(0.9),
            Figure::of("free", 9.0),
        ];
        let text = table(&figures);
        for line in [
            "| small | 1.0 | ≤ 2 | met |",
            "| large | 3.0 | ≤ 2 | **missed** |",
            "| busy | 0.9 | ≥ 0.9 | met |",
            "| idle | 0.5 | ≥ 0.9 | **missed** |",
        ] {
            assert!(text.contains(line), "{text}");
        }
        assert!(text.ends_with("| free | 9.0 |  |  |\n"), "{text}");
    }
}
