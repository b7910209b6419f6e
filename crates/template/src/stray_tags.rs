//! Tags in the text of a page that look like code and are sent as they are: `<?= x ?>`, `<?php`.

use std::collections::BTreeSet;

use crate::compile_error::quoted;
use crate::escaping::PageContext;
use crate::source_pieces::PieceKind;
use crate::source_splitter::split;

/// A tag that is sent to the client as text.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct StrayTag {
    /// Its line, from 1.
    pub line: u32,
    /// The beginning of the tag: `<?php`.
    pub tag: String,
    /// The replacement of the tag.
    pub instead: &'static str,
}

const VALUE: &str = "write `#[[expression]]` for a value";
const BLOCK: &str = "write `<?lu code ?>` for code";
const TAGS: &str = "the tags are lu, lua, include, layout, slot and yield";

/// Finds the tags `<?…` in the text of a page of HTML that belong neither to pages nor to XML: the
/// first one of each name. For a file with another mistake the result is empty.
#[must_use]
pub fn stray_tags(path: &str, bytes: &[u8]) -> Vec<StrayTag> {
    if !PageContext::of_file(path).is_html() {
        return Vec::new();
    }
    let Ok(source) = split(path, bytes) else { return Vec::new() };
    let (mut known, mut found) = (BTreeSet::new(), Vec::new());
    for piece in &source.pieces {
        let PieceKind::Text(range) = &piece.kind else { continue };
        let (mut line, mut rest) = (piece.line, &bytes[range.clone()]);
        while let Some(at) = rest.windows(2).position(|pair| pair == b"<?") {
            line += rest[..at].iter().filter(|&&byte| byte == b'\n').count() as u32;
            rest = &rest[at + 2..];
            let is_of_name = |byte: &&u8| byte.is_ascii_alphanumeric() || b"-_:/".contains(byte);
            let length = match rest.first() {
                Some(b'=') => 1,
                _ => rest.iter().take_while(is_of_name).count(),
            };
            let name = &rest[..length];
            let is_xml = name.get(..3).is_some_and(|front| front.eq_ignore_ascii_case(b"xml"));
            if is_xml || !known.insert(name) {
                continue;
            }
            let instead = match name {
                b"=" => VALUE,
                b"" | b"php" | b"PHP" => BLOCK,
                _ => TAGS,
            };
            found.push(StrayTag { line, tag: format!("<?{}", quoted(name)), instead });
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_of_other_languages_are_found_only_in_text() {
        for (text, expected) in [
            ("<p>\n<?= $name ?>", &["2 <?="][..]),
            ("<?php echo 1 ?>\n<?php ?>\n<?foo x ?>", &["1 <?php", "3 <?foo"]),
            ("a\n\nb<? echo 1 ?>", &["3 <?"]),
            ("<?LU x() ?>", &["1 <?LU"]),
            ("<?xml version='1.0'?><?xml-stylesheet href='a'?><?lu local x = '<?php' ?>", &[]),
            ("<?include a ?><?lu\n| <?= 1\n?>", &["2 <?="]),
            ("#[['<?php']] < ? <p>", &[]),
            ("<?= 1 ?><?lu '", &[]),
        ] {
            let found = stray_tags("/a.dyn.html", text.as_bytes());
            let shown: Vec<_> =
                found.iter().map(|found| format!("{} {}", found.line, found.tag)).collect();
            assert_eq!(shown, expected, "{text}");
        }
        assert_eq!(stray_tags("/feed.dyn.xml", b"<?php ?>"), []);
        assert_eq!(stray_tags("/a.dyn.txt", b"<?php ?>"), []);
    }
}
