//! Sites for benches: the same bytes on every machine, made once below the build folder.

use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};

/// A site and the number of its files.
pub(crate) struct Tree {
    pub(crate) root: PathBuf,
    pub(crate) files: u64,
}

/// Makes 100 000 pages: text of median 1.5 KiB, in 1 000 folders.
pub(crate) fn pages(state: &Path) -> Result<Tree> {
    let words = Words::new();
    tree(state, "pages", 1000, 100, |noise, number| {
        let extension = match noise.below(20) {
            0..14 => "html",
            14..17 => "json",
            17..19 => "txt",
            _ => "css",
        };
        let bytes = size(noise, 128);
        let text = words.text(noise, bytes);
        let content = match extension {
            "html" => format!(
                "<!doctype html>\n<html lang=en>\n<head><title>Page {number}</title>\
                 <link rel=stylesheet href=/style.css></head>\n<body><h1>Page {number}</h1>\n\
                 <p>{text}</p>\n</body></html>\n"
            ),
            _ => text,
        };
        (extension, content.into_bytes())
    })
}

/// Makes 100 000 files of 256 B to 16 KiB, evenly spread, in 1 000 folders.
pub(crate) fn files(state: &Path) -> Result<Tree> {
    let words = Words::new();
    tree(state, "files", 1000, 100, |noise, _| {
        let bytes = 256 + noise.below(16 * 1024 - 256 + 1) as usize;
        of_a_site(&words, noise, bytes)
    })
}

/// Makes 1 000 000 files of 10.5 KiB on average, in 1 000 folders, and returns the length of the
/// largest possible one: 10 GiB.
pub(crate) fn million(state: &Path) -> Result<(Tree, u64)> {
    const LEAST_BYTES: u64 = 640;
    let words = Words::new();
    let tree = tree(state, "million", 1000, 1000, |noise, _| {
        let bytes = size(noise, LEAST_BYTES);
        of_a_site(&words, noise, bytes)
    })?;
    Ok((tree, LEAST_BYTES << 7))
}

/// Returns a file of a site, which consists mostly of pages.
fn of_a_site(words: &Words, noise: &mut Noise, bytes: usize) -> (&'static str, Vec<u8>) {
    let extension = match noise.below(20) {
        0..12 => "html",
        12..15 => "json",
        15..17 => "js",
        17..18 => "css",
        _ => return ("png", noise.bytes(bytes)),
    };
    let mut text = words.text(noise, bytes);
    text.truncate(bytes);
    (extension, text.into_bytes())
}

/// 250 000 map tiles: 3 of 5 are one of few blank ones, of 103 bytes; the others differ and have
/// 3 KiB on average. So it is with the tiles of real maps, where most of the world is water.
pub(crate) fn tiles(state: &Path) -> Result<Tree> {
    const BLANK: u64 = 64;
    const BLANK_BYTES: usize = 103;
    tree(state, "tiles", 500, 500, |noise, _| {
        let mut tile = b"\x89PNG\r\n\x1a\n".to_vec();
        if noise.below(5) < 3 {
            let mut blank = Noise(1 + noise.below(BLANK));
            tile.extend(blank.bytes(BLANK_BYTES - tile.len()));
        } else {
            let bytes = size(noise, 192);
            tile.extend(noise.bytes(bytes));
        }
        ("png", tile)
    })
}

/// Makes 1 000 000 notes: about 100 bytes each, all different, in 1 000 folders. Their type has no
/// further addresses; a page `x.html` would respond to `/x` too, and take two entries.
pub(crate) fn notes(state: &Path) -> Result<Tree> {
    let words = Words::new();
    tree(state, "notes", 1000, 1000, |noise, number| {
        let bytes = 20 + noise.below(112) as usize;
        let text = words.text(noise, bytes).replace('\n', " ");
        ("json", format!("{{\"number\":{number},\"text\":\"{text}\"}}\n").into_bytes())
    })
}

/// Makes `folders` with `files` files each, unless they exist.
fn tree(
    state: &Path,
    name: &str,
    folders: u64,
    files: u64,
    content: impl Fn(&mut Noise, u64) -> (&'static str, Vec<u8>),
) -> Result<Tree> {
    let tree = Tree { root: state.join(name), files: folders * files };
    // Written last: where both are, the files are complete.
    let mark = state.join(format!("{name}.made"));
    if mark.exists() && tree.root.is_dir() {
        return Ok(tree);
    }
    eprintln!("  making the {} files of {name}", tree.files);
    let mut noise = Noise(0x9e37_79b9_7f4a_7c15);
    for folder in 0..folders {
        let at = tree.root.join(format!("{folder:03}"));
        fs::create_dir_all(&at).with_context(|| at.display().to_string())?;
        for file in 0..files {
            let (extension, content) = content(&mut noise, folder * files + file);
            let path = at.join(format!("{file:03}.{extension}"));
            fs::write(&path, content).with_context(|| path.display().to_string())?;
        }
    }
    fs::write(mark, "")?;
    Ok(tree)
}

/// Returns a size: most are a few times `least_bytes`, few are much larger (its median is 12 times,
/// its mean 17 times, its most 128 times as large).
fn size(noise: &mut Noise, least_bytes: u64) -> usize {
    let octave = least_bytes << noise.below(64).count_ones();
    (octave + noise.below(octave)) as usize
}

/// Words that do not exist, some of them far more frequent than others.
struct Words(Vec<String>);

impl Words {
    fn new() -> Self {
        const COUNT: usize = 4096;
        const SYLLABLES: [&str; 32] = [
            "a", "al", "an", "be", "ca", "de", "di", "el", "en", "er", "fi", "ga", "hi", "in",
            "ka", "la", "ma", "ne", "no", "or", "pe", "qua", "ra", "re", "si", "ta", "ti", "tor",
            "un", "ve", "wo", "zu",
        ];
        let mut noise = Noise(1);
        let word = |noise: &mut Noise| -> String {
            let count = 1 + noise.below(4);
            (0..count).map(|_| SYLLABLES[noise.below(32) as usize]).collect()
        };
        Self((0..COUNT).map(|_| word(&mut noise)).collect())
    }

    fn text(&self, noise: &mut Noise, bytes: usize) -> String {
        let mut text = String::with_capacity(bytes + 16);
        while text.len() < bytes {
            let reach = 1 + noise.below(self.0.len() as u64);
            text.push_str(&self.0[noise.below(reach) as usize]);
            text.push(if noise.below(12) == 0 { '\n' } else { ' ' });
        }
        text
    }
}

/// Numbers without a pattern, the same every time: xorshift64*.
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, end: u64) -> u64 {
        (self.next() >> 16) % end
    }

    fn bytes(&mut self, count: usize) -> Vec<u8> {
        std::iter::repeat_with(|| (self.next() >> 56) as u8).take(count).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sample_sites_are_deterministic() {
        let text = || Words::new().text(&mut Noise(7), 300);
        assert_eq!(text(), text());
        let mut noise = Noise(7);
        let sizes: Vec<usize> = (0..1000).map(|_| size(&mut noise, 128)).collect();
        assert!(sizes.iter().all(|bytes| (128..128 * 128).contains(bytes)));
        let small = sizes.iter().filter(|bytes| **bytes < 1536).count();
        assert!((350..650).contains(&small), "the median is off: {small} of 1000");
    }
}
