//! Figures of several rounds: the median counts, and the extremes show its reliability.

use serde_json::{Value, json};

/// The middle and the ends of a set of figures.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Spread {
    pub(crate) least: f64,
    pub(crate) median: f64,
    pub(crate) most: f64,
}

impl Spread {
    /// Returns the spread of `figures`; `None` if there are none or one is not a number.
    pub(crate) fn of(figures: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut sorted: Vec<f64> = figures.into_iter().collect();
        if sorted.iter().any(|figure| figure.is_nan()) {
            return None;
        }
        sorted.sort_by(f64::total_cmp);
        let (least, most) = (*sorted.first()?, *sorted.last()?);
        let upper = sorted[sorted.len() / 2];
        let lower = sorted[(sorted.len() - 1) / 2];
        Some(Self { least, median: f64::midpoint(lower, upper), most })
    }

    /// Returns `median (least–most)`, with `decimals` places.
    pub(crate) fn shown(&self, decimals: usize) -> String {
        let Self { least, median, most } = self;
        format!("{median:.decimals$} ({least:.decimals$}–{most:.decimals$})")
    }

    pub(crate) fn data(&self) -> Value {
        json!({ "least": self.least, "median": self.median, "most": self.most })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_odd_and_even_counts_is_exact() {
        let odd = Spread::of([3.0, 1.0, 2.0]).unwrap();
        assert_eq!(odd, Spread { least: 1.0, median: 2.0, most: 3.0 });
        assert_eq!(Spread::of([4.0, 1.0, 3.0, 2.0]).unwrap().median, 2.5);
        assert_eq!(odd.shown(1), "2.0 (1.0–3.0)");
    }

    #[test]
    fn no_values_and_nan_have_no_median() {
        assert_eq!(Spread::of([]), None);
        assert_eq!(Spread::of([1.0, f64::NAN]), None);
    }
}
