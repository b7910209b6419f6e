//! Files → the drawing: a treemap of folders, coloured by type, as SVG.
//!
//! Folders and files that would be too small to see are not drawn; the folder they lie in shows
//! through, and has all of its bytes in its tooltip. That bounds the drawing for any site.

use std::fmt::Write as _;

use pinion_http::html_escape::escape;

use super::FileReport;
use super::treemap_layout::{TreemapArea, divide};
use crate::number_format::{percent, size};

/// The width of the drawing, in units of its own.
const WIDTH: f64 = 1200.0;
const HEIGHT: f64 = 640.0;
/// The space around the content of a folder, and for its name.
const BORDER: f64 = 2.0;
const NAME_HEIGHT: f64 = 14.0;
/// A folder smaller than this has no name and is drawn as one.
const NAMED_WIDTH: f64 = 46.0;
const NAMED_HEIGHT: f64 = 34.0;
/// Smaller files and folders are not drawn: at most 25 600 rectangles in all.
const LEAST_SIZE: f64 = 30.0;
/// Units that one character of a name takes.
const CHARACTER_WIDTH: f64 = 6.4;

/// The groups of media types: the colours of the drawing and its legend.
pub(super) const GROUPS: [&str; 8] =
    ["Pages", "Style sheets", "Scripts", "Images", "Fonts", "Sound and film", "Data", "Other"];

/// Returns the place of a media type in [`GROUPS`].
pub(super) fn group(essence: &str) -> usize {
    let (top, sub) = essence.split_once('/').unwrap_or((essence, ""));
    match (top, sub) {
        ("text", "html") | ("application", "xhtml+xml") => 0,
        ("text", "css") => 1,
        ("text" | "application", "javascript") | ("application", "wasm") => 2,
        ("image", _) => 3,
        ("font", _) => 4,
        ("audio" | "video", _) => 5,
        ("text", _) | ("application", "json" | "xml" | "pdf") => 6,
        ("application", sub) if sub.ends_with("+json") || sub.ends_with("+xml") => 6,
        _ => 7,
    }
}

/// Returns the drawing of files that are sorted by key.
pub(super) fn svg(files: &[FileReport]) -> String {
    let mut drawing = TreemapDrawing { text: String::new(), total: bytes_of(files) };
    let _ = write!(
        drawing.text,
        "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"Bytes by folder\">"
    );
    if drawing.total > 0 {
        let area = TreemapArea { x: 0.0, y: 0.0, width: WIDTH, height: HEIGHT };
        drawing.children(files, 1, area);
    }
    drawing.text.push_str("</svg>");
    drawing.text
}

struct TreemapDrawing {
    text: String,
    total: u64,
}

impl TreemapDrawing {
    /// Draws the content of a folder whose path has `depth` bytes, its slash included.
    fn children(&mut self, files: &[FileReport], depth: usize, area: TreemapArea) {
        let mut children: Vec<_> =
            children(files, depth).map(|files| (bytes_of(files), files)).collect();
        children.retain(|(bytes, _)| *bytes > 0);
        children.sort_by(|a, b| b.0.cmp(&a.0).then(a.1[0].key.cmp(&b.1[0].key)));
        let sizes: Vec<u64> = children.iter().map(|(bytes, _)| *bytes).collect();
        for ((bytes, files), area) in children.into_iter().zip(divide(area, &sizes)) {
            if area.size() < LEAST_SIZE {
                // They only get smaller.
                break;
            }
            match name_in(&files[0].key, depth) {
                (name, true) => self.folder(name, files, bytes, area),
                (_, false) => self.file(&files[0], area),
            }
        }
    }

    fn folder(&mut self, path: &[u8], files: &[FileReport], bytes: u64, area: TreemapArea) {
        let open = area.width >= NAMED_WIDTH && area.height >= NAMED_HEIGHT;
        let class = if open { "d".to_owned() } else { format!("t{}", most(files)) };
        let count = files.len();
        let description = format!("{count} files");
        self.rectangle(&class, path, &description, bytes, area);
        if !open {
            return;
        }
        let characters = ((area.width - 8.0) / CHARACTER_WIDTH) as usize;
        let name = path.strip_suffix(b"/").unwrap_or(path);
        let name = &name[name.iter().rposition(|&byte| byte == b'/').map_or(0, |at| at + 1)..];
        let name = String::from_utf8_lossy(name);
        let shown: String = if name.chars().count() <= characters {
            name.into_owned()
        } else {
            name.chars().take(characters.saturating_sub(1)).chain(['…']).collect()
        };
        let (x, y) = (area.x + 4.0, area.y + 12.0);
        let _ = write!(self.text, "<text x=\"{x:.1}\" y=\"{y:.1}\">{}</text>", escape(&shown));
        self.children(files, path.len(), area.within(BORDER, NAME_HEIGHT));
    }

    fn file(&mut self, file: &FileReport, area: TreemapArea) {
        self.rectangle(
            &format!("t{}", group(file.essence)),
            &file.key,
            file.essence,
            file.bytes,
            area,
        );
    }

    fn rectangle(
        &mut self,
        class: &str,
        path: &[u8],
        description: &str,
        bytes: u64,
        area: TreemapArea,
    ) {
        let TreemapArea { x, y, width, height } = area;
        let path = String::from_utf8_lossy(path);
        let _ = write!(
            self.text,
            "<rect class={class} x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" \
             height=\"{height:.1}\"><title>{}\n{}, {} ({})</title></rect>",
            escape(&path),
            escape(description),
            size(bytes),
            percent(bytes, self.total),
        );
    }
}

/// Returns the files that share their path up to the next slash after `depth` bytes, and single
/// files.
fn children(files: &[FileReport], depth: usize) -> impl Iterator<Item = &[FileReport]> {
    files.chunk_by(move |a, b| match (name_in(&a.key, depth), name_in(&b.key, depth)) {
        ((a, true), (b, true)) => a == b,
        _ => false,
    })
}

/// Returns the part of a key up to the next slash after `depth` bytes, and whether there is one.
fn name_in(key: &[u8], depth: usize) -> (&[u8], bool) {
    let rest = key.get(depth..).unwrap_or_default();
    match rest.iter().position(|&byte| byte == b'/') {
        Some(slash) => (key.get(..=depth + slash).unwrap_or_default(), true),
        None => (key, false),
    }
}

/// Returns the group with most bytes.
fn most(files: &[FileReport]) -> usize {
    let mut bytes = [0; GROUPS.len()];
    for file in files {
        bytes[group(file.essence)] += file.bytes;
    }
    (0..GROUPS.len()).max_by_key(|&group| (bytes[group], GROUPS.len() - group)).unwrap_or_default()
}

fn bytes_of(files: &[FileReport]) -> u64 {
    files.iter().map(|file| file.bytes).sum()
}

#[cfg(test)]
mod tests {
    use super::super::tests::file;
    use super::*;

    #[test]
    fn children_are_grouped_by_folder_and_files_are_single() {
        let keys = ["/a", "/b/c", "/b/d/e", "/b/d/f", "/b0", "/c/x"];
        let files = keys.map(|key| file(key, "text/css", 1));
        let names = |files: &[FileReport], depth| -> Vec<usize> {
            children(files, depth).map(<[_]>::len).collect()
        };
        assert_eq!(names(&files, 1), [1, 3, 1, 1]);
        assert_eq!(names(&files[1..4], 3), [1, 2]);
    }

    #[test]
    fn file_names_are_escaped_in_the_treemap() {
        let files = [file("/<script>alert(1)</script>/\"x.css", "text/css", 1000)];
        let svg = svg(&files);
        assert!(!svg.contains("<script"), "{svg}");
        assert!(svg.contains("&lt;script&gt;"), "{svg}");
    }

    #[test]
    fn the_number_of_treemap_rectangles_is_limited() {
        let many: Vec<_> =
            (0..50_000).map(|n| file(&format!("/{:03}/{n:05}", n / 100), "text/css", 1)).collect();
        assert!(svg(&many).matches("<rect").count() < 30_000);
        let deep = [file(&format!("{}x", "/d".repeat(4000)), "text/css", 1)];
        assert!(svg(&deep).matches("<rect").count() < 100);
        assert_eq!(svg(&[]).matches("<rect").count(), 0);
        assert_eq!(svg(&[file("/empty", "text/css", 0)]).matches("<rect").count(), 0);
    }

    #[test]
    fn every_type_has_a_colour() {
        for (essence, name) in [
            ("text/html", "Pages"),
            ("text/javascript", "Scripts"),
            ("image/svg+xml", "Images"),
            ("application/manifest+json", "Data"),
            ("text/plain", "Data"),
            ("font/woff2", "Fonts"),
            ("video/mp4", "Sound and film"),
            ("application/zip", "Other"),
        ] {
            assert_eq!(GROUPS[group(essence)], name, "{essence}");
        }
    }
}
