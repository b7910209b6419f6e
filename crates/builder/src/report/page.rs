//! The report as one HTML page: style inside, no script, nothing loaded.

use std::fmt::{self, Write as _};
use std::time::Duration;

use pinion_http::html_escape::escape;

use super::treemap_svg::{GROUPS, group, svg};
use super::{BuildReport, FileReport, PageReport, Sum};
use crate::limits::REPORT_ROWS_MAX;
use crate::number_format::{count, percent, size};
use crate::summary::Summary;

/// The mark that distinguishes a report from a page of a site; in its first bytes.
pub const REPORT_MARK: &str = "<meta name=generator content=\"pinion build --report\">";

/// Numbers beyond this are not counted one by one in a table.
const ROWS: usize = REPORT_ROWS_MAX;

pub(super) fn page(report: &BuildReport, title: &str, summary: &Summary) -> String {
    let mut page = ReportPage(String::new());
    // A string takes every write.
    let _ = page.write(report, title, summary);
    page.0
}

struct ReportPage(String);

impl ReportPage {
    fn write(&mut self, report: &BuildReport, title: &str, summary: &Summary) -> fmt::Result {
        let title = escape(title);
        write!(
            self.0,
            "<!doctype html>\n<html lang=en>\n<meta charset=utf-8>\n<meta name=viewport \
             content=\"width=device-width\">\n{REPORT_MARK}\n<title>{title} · build \
             report</title>\n<style>\n{}</style>\n<h1>{title}</h1>\n<p class=dim>{}</p>\n",
            include_str!("page.css"),
            summary.digest,
        )?;
        self.totals(report, summary)?;
        self.map(report)?;
        self.types(report)?;
        self.codings(summary)?;
        self.pages(report)?;
        self.repeated(report)?;
        self.slowest(summary)?;
        self.largest(report)
    }

    fn totals(&mut self, report: &BuildReport, summary: &Summary) -> fmt::Result {
        let mut all = Sum::default();
        report.files.iter().for_each(|file| all.add(file));
        self.0.push_str("<dl>\n");
        for (name, value) in [
            ("Files", count(all.files)),
            ("Folders", count(summary.folders)),
            ("URLs", count(summary.entries)),
            ("Bytes of the files", size(all.bytes)),
            (
                "Sent to a browser",
                format!(
                    "{} <small>{}</small>",
                    size(all.sent_bytes),
                    percent(all.sent_bytes, all.bytes)
                ),
            ),
            ("Repeated content, stored once", size(summary.repeated_bytes)),
            ("Archive", size(summary.archive_bytes)),
        ] {
            writeln!(self.0, "<div><dt>{name}</dt><dd>{value}</dd></div>")?;
        }
        self.0.push_str("</dl>\n");
        Ok(())
    }

    fn map(&mut self, report: &BuildReport) -> fmt::Result {
        self.0.push_str("<h2>Where the bytes are</h2>\n");
        self.0.push_str(&svg(&report.files));
        self.0.push_str("\n<ul class=legend>\n");
        let mut bytes = [0; GROUPS.len()];
        for file in &report.files {
            bytes[group(file.essence)] += file.bytes;
        }
        let total = bytes.iter().sum();
        for (number, name) in GROUPS.iter().enumerate().filter(|(number, _)| bytes[*number] > 0) {
            let share = percent(bytes[number], total);
            writeln!(self.0, "<li><i class=t{number}></i>{name} {share}</li>")?;
        }
        self.0.push_str("</ul>\n");
        Ok(())
    }

    fn types(&mut self, report: &BuildReport) -> fmt::Result {
        let types = report.by_type();
        let most = types.first().map_or(1, |(_, sum)| sum.bytes.max(1));
        self.begin("By type", &["Type", "", "Files", "Bytes", "Sent", ""])?;
        for (essence, sum) in types.iter().take(ROWS) {
            let width = 100.0 * sum.bytes as f64 / most as f64;
            writeln!(
                self.0,
                "<tr><td>{}<td class=bar><i class=t{} style=\"width:{width:.1}%\"></i>\
                 <td>{}<td>{}<td>{}<td>{}",
                escape(essence),
                group(essence),
                count(sum.files),
                size(sum.bytes),
                size(sum.sent_bytes),
                percent(sum.sent_bytes, sum.bytes),
            )?;
        }
        self.end(types.len(), "types", "Sent: bytes for a browser that supports every coding.")
    }

    fn codings(&mut self, summary: &Summary) -> fmt::Result {
        if summary.codings.is_empty() {
            return Ok(());
        }
        let head = ["Coding", "Level", "Contents", "Before", "Stored", "", "Saved"];
        self.begin("Savings by compression", &head)?;
        for coding in &summary.codings {
            let saved = coding.identity_bytes.saturating_sub(coding.stored_bytes);
            writeln!(
                self.0,
                "<tr><td>{}<td>{}<td>{}<td>{}<td>{}<td>{}<td>{}",
                coding.choice.method.name(),
                coding.choice.level,
                count(coding.bodies),
                size(coding.identity_bytes),
                size(coding.stored_bytes),
                percent(coding.stored_bytes, coding.identity_bytes),
                size(saved),
            )?;
        }
        self.end(0, "", "Contents that a coding does not make smaller are not counted.")
    }

    fn pages(&mut self, report: &BuildReport) -> fmt::Result {
        let pages = report.pages();
        if pages.is_empty() {
            return Ok(());
        }
        let head = ["Page", "Itself", "Files it loads", "First visit"];
        self.begin("Largest pages with what they load", &head)?;
        for page in pages.iter().take(ROWS) {
            self.0.push_str("<tr><td>");
            self.page_name(page)?;
            writeln!(
                self.0,
                "<td>{}<td>{}<td>{}",
                size(page.file.sent_bytes()),
                page.assets.len(),
                size(page.sent_bytes)
            )?;
        }
        let note = "Bytes as sent. Files that style sheets and scripts load are not counted.";
        self.end(pages.len(), "pages", note)
    }

    /// Writes the page's path; the assets that it loads follow, to be opened.
    fn page_name(&mut self, page: &PageReport<'_>) -> fmt::Result {
        let name = shown(&page.file.key);
        if page.assets.is_empty() && page.missing.is_empty() {
            return write!(self.0, "{name}");
        }
        write!(self.0, "<details><summary>{name}</summary><ul>")?;
        for asset in &page.assets {
            write!(
                self.0,
                "<li>{} <span class=dim>{}</span>",
                shown(&asset.key),
                size(asset.sent_bytes())
            )?;
        }
        for key in &page.missing {
            write!(self.0, "<li>{} <span class=dim>not in the site</span>", shown(key))?;
        }
        self.0.push_str("</ul></details>");
        Ok(())
    }

    fn repeated(&mut self, report: &BuildReport) -> fmt::Result {
        let groups = report.repeated();
        if groups.is_empty() {
            return Ok(());
        }
        self.begin("Equal files, stored once", &["Files", "Each", "Saved"])?;
        for group in groups.iter().take(ROWS) {
            let (first, others) = (&group[0], &group[1..]);
            let times = group.len() as u64 - 1;
            write!(
                self.0,
                "<tr><td><details><summary>{} and {times} more</summary><ul>",
                shown(&first.key)
            )?;
            for file in others.iter().take(ROWS) {
                write!(self.0, "<li>{}", shown(&file.key))?;
            }
            let bytes = first.bytes;
            writeln!(self.0, "</ul></details><td>{}<td>{}", size(bytes), size(bytes * times))?;
        }
        self.end(groups.len(), "groups", "")
    }

    fn slowest(&mut self, summary: &Summary) -> fmt::Result {
        if summary.slowest.is_empty() {
            return Ok(());
        }
        self.begin("Slowest files to compress", &["File", "CPU time"])?;
        for slow in &summary.slowest {
            let path = slow.path.to_string_lossy();
            writeln!(self.0, "<tr><td>{}<td>{}", escape(&path), time(slow.encoding))?;
        }
        self.end(0, "", "")
    }

    fn largest(&mut self, report: &BuildReport) -> fmt::Result {
        let mut files: Vec<&FileReport> = report.files.iter().collect();
        files.sort_by(|a, b| b.bytes.cmp(&a.bytes).then(a.key.cmp(&b.key)));
        self.begin("Largest files", &["File", "Type", "Bytes", "Sent", ""])?;
        for file in files.iter().take(ROWS) {
            writeln!(
                self.0,
                "<tr><td>{}<td>{}<td>{}<td>{}<td>{}",
                shown(&file.key),
                escape(file.essence),
                size(file.bytes),
                size(file.sent_bytes()),
                percent(file.sent_bytes(), file.bytes),
            )?;
        }
        self.end(files.len(), "files", "")
    }

    fn begin(&mut self, title: &str, columns: &[&str]) -> fmt::Result {
        write!(self.0, "<h2>{title}</h2>\n<div class=scroll><table>\n<thead><tr>")?;
        columns.iter().try_for_each(|column| write!(self.0, "<th>{column}"))?;
        self.0.push_str("\n<tbody>\n");
        Ok(())
    }

    /// Ends a table that has so many `rows` in all.
    fn end(&mut self, rows: usize, noun: &str, note: &str) -> fmt::Result {
        self.0.push_str("</table></div>\n");
        let more = rows.saturating_sub(ROWS);
        if more > 0 || !note.is_empty() {
            self.0.push_str("<p class=dim>");
            if more > 0 {
                write!(self.0, "And {} more {noun}. ", count(more as u64))?;
            }
            writeln!(self.0, "{note}")?;
        }
        Ok(())
    }
}

fn shown(key: &[u8]) -> String {
    escape(&String::from_utf8_lossy(key)).into_owned()
}

fn time(time: Duration) -> String {
    match time.as_secs_f64() {
        seconds if seconds >= 1.0 => format!("{seconds:.2} s"),
        seconds => format!("{:.1} ms", seconds * 1000.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_names_are_escaped_in_reports() {
        let file = super::super::tests::file("/<img src=x onerror=alert(1)>.html", "text/html", 5);
        let report = BuildReport { files: vec![file] };
        let page = page(&report, "a\"<b>", &Summary::default());
        assert!(!page.contains("<img") && !page.contains("<b>"), "{page}");
    }

    /// Nothing that a page could load: it is read without network, from a disk, under any policy.
    #[test]
    fn a_report_loads_no_other_resource() {
        let report = BuildReport { files: vec![super::super::tests::file("/a", "text/css", 5)] };
        let page = page(&report, "site.pinion", &Summary::default());
        for loading in ["<script", "<link", " src=", "url(", "@import", "http:", "https:"] {
            assert!(!page.contains(loading), "{loading}");
        }
    }
}
