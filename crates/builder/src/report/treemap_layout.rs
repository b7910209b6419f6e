//! Sizes → rectangles whose areas are as the sizes, none of them long and thin: squarified treemaps
//! (Bruls, Huizing, van Wijk 2000).

/// A rectangle, in units of the drawing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct TreemapArea {
    pub(super) x: f64,
    pub(super) y: f64,
    pub(super) width: f64,
    pub(super) height: f64,
}

impl TreemapArea {
    pub(super) fn size(self) -> f64 {
        self.width * self.height
    }

    /// Returns the area without a border of this width, and this much more at the top; an empty
    /// one, if that is all of it.
    pub(super) fn within(self, border: f64, top: f64) -> TreemapArea {
        TreemapArea {
            x: self.x + border,
            y: self.y + border + top,
            width: (self.width - 2.0 * border).max(0.0),
            height: (self.height - 2.0 * border - top).max(0.0),
        }
    }
}

/// Divides `area` among `sizes`, which fall and are greater than 0; one part for each, in order.
pub(super) fn divide(area: TreemapArea, sizes: &[u64]) -> Vec<TreemapArea> {
    let total: f64 = sizes.iter().map(|&size| size as f64).sum();
    let mut parts = Vec::with_capacity(sizes.len());
    let mut rest = area;
    let mut left = sizes;
    // Units of area for each unit of size.
    let scale = area.size() / total;
    while !left.is_empty() {
        let side = rest.width.min(rest.height);
        let count = row_length(left, scale, side);
        let (row, behind) = left.split_at(count);
        rest = lay(rest, row, scale, &mut parts);
        left = behind;
    }
    parts
}

/// Returns how many of `sizes` stand beside each other along `side`: more, as long as that makes
/// the worst of them less thin.
fn row_length(sizes: &[u64], scale: f64, side: f64) -> usize {
    let (mut sum, mut best) = (0.0, f64::INFINITY);
    for (rank, &size) in sizes.iter().enumerate() {
        let (first, size) = (sizes[0] as f64 * scale, size as f64 * scale);
        sum += size;
        let (square, side) = (sum * sum, side * side);
        let worst = (side * first / square).max(square / (side * size));
        if worst > best {
            return rank;
        }
        best = worst;
    }
    sizes.len()
}

/// Puts a row along the shorter side of `area`; returns the rest of the area.
fn lay(area: TreemapArea, row: &[u64], scale: f64, parts: &mut Vec<TreemapArea>) -> TreemapArea {
    let sum: f64 = row.iter().map(|&size| size as f64 * scale).sum();
    let TreemapArea { mut x, mut y, width, height } = area;
    if width >= height {
        let thick = if height > 0.0 { (sum / height).min(width) } else { 0.0 };
        for &size in row {
            let long = if thick > 0.0 { size as f64 * scale / thick } else { 0.0 };
            parts.push(TreemapArea { x, y, width: thick, height: long });
            y += long;
        }
        TreemapArea { x: area.x + thick, y: area.y, width: width - thick, height }
    } else {
        let thick = if width > 0.0 { (sum / width).min(height) } else { 0.0 };
        for &size in row {
            let long = if thick > 0.0 { size as f64 * scale / thick } else { 0.0 };
            parts.push(TreemapArea { x, y, width: long, height: thick });
            x += long;
        }
        TreemapArea { x: area.x, y: area.y + thick, width, height: height - thick }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn areas_are_proportional_and_do_not_overlap(
            sizes in prop::collection::vec(1u64..1 << 40, 1..60),
            width in 1.0f64..2000.0,
            height in 1.0f64..2000.0,
        ) {
            let mut sizes = sizes;
            sizes.sort_unstable_by(|a, b| b.cmp(a));
            let area = TreemapArea { x: 3.0, y: 5.0, width, height };
            let parts = divide(area, &sizes);
            prop_assert_eq!(parts.len(), sizes.len());
            let total: f64 = sizes.iter().map(|&size| size as f64).sum();
            let slack = 1e-6 * area.size();
            for (part, &size) in parts.iter().zip(&sizes) {
                prop_assert!((part.size() - size as f64 / total * area.size()).abs() < slack);
                prop_assert!(part.x >= area.x - 1e-6 && part.y >= area.y - 1e-6);
                prop_assert!(part.x + part.width <= area.x + width + 1e-6);
                prop_assert!(part.y + part.height <= area.y + height + 1e-6);
            }
            for (rank, a) in parts.iter().enumerate() {
                for b in &parts[rank + 1..] {
                    let wide = (a.x + a.width).min(b.x + b.width) - a.x.max(b.x);
                    let high = (a.y + a.height).min(b.y + b.height) - a.y.max(b.y);
                    prop_assert!(wide.max(0.0) * high.max(0.0) < slack);
                }
            }
        }
    }

    /// The example of the paper: no part is thinner than 1 : 3.
    #[test]
    fn treemap_areas_are_not_thin() {
        let area = TreemapArea { x: 0.0, y: 0.0, width: 6.0, height: 4.0 };
        for part in divide(area, &[6, 6, 4, 3, 2, 2, 1]) {
            let ratio = part.width / part.height;
            assert!((0.33..3.01).contains(&ratio), "{part:?}");
        }
    }
}
