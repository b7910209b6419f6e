//! The report of `pinion build --report`: where the bytes of a site are.
//!
//! **In:** the facts of the build about each file, and its summary. **Out:** one HTML page that
//! needs nothing else: no network, no script. The treemaps are SVG.
//!
//! | Module | Does |
//! |---|---|
//! | `page_assets` | a page → the other files of the site that a browser loads for it |
//! | `treemap_layout` | sizes → rectangles |
//! | `treemap_svg` | files → the drawing, by folder, coloured by type |
//! | `page` | everything → HTML |

mod page;
pub(crate) mod page_assets;
mod treemap_layout;
mod treemap_svg;

pub use page::REPORT_MARK;

use std::collections::BTreeMap;

use pinion_http::content_coding::Coding;

use crate::summary::Summary;

/// Everything that a report shows beside the summary. Made when
/// [`Options::report`](crate::Options::report) asks for it: some 200 bytes for each file.
#[derive(Clone, Debug, Default)]
pub struct BuildReport {
    /// Sorted by path.
    pub(crate) files: Vec<FileReport>,
}

/// One file of the site.
#[derive(Clone, Debug)]
pub(crate) struct FileReport {
    /// Below the source, with a slash in front.
    pub(crate) key: Box<[u8]>,
    /// Media type without parameters.
    pub(crate) essence: &'static str,
    /// Length of the content.
    pub(crate) bytes: u64,
    /// The codings that were worth keeping, and their lengths.
    pub(crate) coded: Vec<(Coding, u64)>,
    /// Equal numbers are equal contents.
    pub(crate) content: usize,
    /// Keys that the content names as parts of a page; they need not exist.
    pub(crate) assets: Vec<Box<[u8]>>,
}

impl FileReport {
    /// Returns the bytes that a client with every coding gets.
    fn sent_bytes(&self) -> u64 {
        self.coded.iter().map(|(_, bytes)| *bytes).min().unwrap_or(self.bytes).min(self.bytes)
    }
}

impl BuildReport {
    /// Returns the page. `title` is the archive's name; the same build gives the same page, apart
    /// from times.
    #[must_use]
    pub fn page(&self, title: &str, summary: &Summary) -> String {
        page::page(self, title, summary)
    }

    /// Returns the files by media type: type, files, bytes, bytes sent; most bytes first.
    fn by_type(&self) -> Vec<(&'static str, Sum)> {
        let mut types: BTreeMap<&'static str, Sum> = BTreeMap::new();
        for file in &self.files {
            types.entry(file.essence).or_default().add(file);
        }
        let mut types: Vec<_> = types.into_iter().collect();
        types.sort_by(|a, b| b.1.bytes.cmp(&a.1.bytes).then(a.0.cmp(b.0)));
        types
    }

    /// Returns groups of files with equal content, those that would cost most first.
    fn repeated(&self) -> Vec<Vec<&FileReport>> {
        let mut groups: BTreeMap<usize, Vec<&FileReport>> = BTreeMap::new();
        for file in self.files.iter().filter(|file| file.bytes > 0) {
            groups.entry(file.content).or_default().push(file);
        }
        let mut groups: Vec<_> = groups.into_values().filter(|group| group.len() > 1).collect();
        let saved = |group: &[&FileReport]| group[0].bytes * (group.len() as u64 - 1);
        groups.sort_by(|a, b| saved(b).cmp(&saved(a)).then(a[0].key.cmp(&b[0].key)));
        groups
    }

    /// Returns pages with the assets that they load, those that cost a first visitor most first.
    fn pages(&self) -> Vec<PageReport<'_>> {
        let mut pages: Vec<PageReport<'_>> = self
            .files
            .iter()
            .filter(|file| file.essence == "text/html")
            .map(|f| self.of(f))
            .collect();
        pages.sort_by(|a, b| b.sent_bytes.cmp(&a.sent_bytes).then(a.file.key.cmp(&b.file.key)));
        pages
    }

    fn of<'r>(&'r self, file: &'r FileReport) -> PageReport<'r> {
        let (mut assets, mut missing) = (Vec::new(), Vec::new());
        for key in &file.assets {
            match self.files.binary_search_by(|known| known.key.cmp(key)) {
                Ok(at) => assets.extend(self.files.get(at)),
                Err(_) => missing.push(&**key),
            }
        }
        let sent_bytes = file.sent_bytes() + assets.iter().map(|a| a.sent_bytes()).sum::<u64>();
        PageReport { file, assets, missing, sent_bytes }
    }
}

/// A page and the assets that a browser loads for it.
struct PageReport<'r> {
    file: &'r FileReport,
    /// The assets, in the order in which the page names them, each once.
    assets: Vec<&'r FileReport>,
    /// Keys that the page names and no file has.
    missing: Vec<&'r [u8]>,
    /// The bytes of the page and all of them.
    sent_bytes: u64,
}

/// Some files together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sum {
    files: u64,
    bytes: u64,
    sent_bytes: u64,
}

impl Sum {
    fn add(&mut self, file: &FileReport) {
        self.files += 1;
        self.bytes += file.bytes;
        self.sent_bytes += file.sent_bytes();
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn file(key: &str, essence: &'static str, bytes: u64) -> FileReport {
        FileReport {
            key: key.as_bytes().into(),
            essence,
            bytes,
            coded: Vec::new(),
            content: bytes as usize,
            assets: Vec::new(),
        }
    }

    #[test]
    fn the_size_of_a_page_includes_its_assets() {
        let mut page = file("/a.html", "text/html", 1000);
        page.coded = vec![(Coding::Gzip, 400), (Coding::Brotli, 300)];
        page.assets = ["/s.css", "/gone.js"].map(|key| key.as_bytes().into()).to_vec();
        let style = file("/s.css", "text/css", 50);
        let report = BuildReport { files: vec![page, file("/b.html", "text/html", 340), style] };
        let pages = report.pages();
        let shown: Vec<_> =
            pages.iter().map(|p| (p.sent_bytes, p.assets.len(), p.missing.len())).collect();
        assert_eq!(shown, [(350, 1, 1), (340, 0, 0)]);
    }

    #[test]
    fn files_with_equal_content_are_grouped() {
        let empty = file("/empty", "text/css", 0);
        let twice = [file("/c", "text/css", 9), file("/d", "text/css", 9)];
        let thrice = ["/e", "/f", "/g"].map(|key| file(key, "text/css", 5));
        let mut files = vec![file("/a", "text/css", 100), empty];
        files.extend(twice.into_iter().chain(thrice));
        let groups = BuildReport { files }.repeated().iter().map(Vec::len).collect::<Vec<_>>();
        assert_eq!(groups, [3, 2]);
    }
}
