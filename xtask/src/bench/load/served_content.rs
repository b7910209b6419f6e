//! The content that all servers serve: created once, below the build folder.

use anyhow::{Context, Result};
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

/// The page of the small site, at every path: only the paths differ.
const PAGE: &str = "hello world!\n";

/// The size of the large file.
pub(crate) const LARGE_BYTES: usize = 100 * 1024;

/// The size of the very large one.
pub(crate) const HUGE_BYTES: usize = 10 * 1024 * 1024;

/// The size of the file that floods request; see `tests/src/floods`.
const FLOODED_BYTES: usize = 3 * 1024 * 1024;

/// The size of the page that has many values.
pub(crate) const ROWS_BYTES: usize = 16 * 1024;

/// The folders of the large site and the files in each: 250 000 in all.
const MANY: usize = 500;

/// The size of the medium file.
pub(crate) const MEDIUM_BYTES: usize = 15 * 1024;

/// Small files of the small site that are requested one after the other.
const PAGES: usize = 1000;

/// Returns the paths of these files.
pub(crate) fn page_paths() -> impl Iterator<Item = String> {
    (0..PAGES).map(|number| format!("/pages/{number:03}.txt"))
}

/// Creates the small site below `state`: the page as a plain file, at a clean URL, as the index,
/// also of a folder, and as the fallback page; and the large files.
pub(crate) fn small(state: &Path) -> Result<PathBuf> {
    let root = state.join("site");
    fs::create_dir_all(root.join("guide"))?;
    fs::create_dir_all(root.join("large"))?;
    for name in ["hello.txt", "about.html", "index.html", "404.html", "guide/index.html"] {
        fs::write(root.join(name), PAGE)?;
    }
    for (name, bytes) in [
        ("large/file.bin", LARGE_BYTES),
        ("large/medium.bin", MEDIUM_BYTES),
        ("large/huge.bin", HUGE_BYTES),
        ("large.bin", FLOODED_BYTES),
    ] {
        fs::write(root.join(name), noise(bytes))?;
    }
    fs::create_dir_all(root.join("pages"))?;
    for path in page_paths() {
        fs::write(root.join(&path[1..]), format!("This is {path}.\n"))?;
    }
    Ok(root)
}

/// Creates a file of rules with the given numbers of paths and of patterns that lead to the page.
/// Each is a rewrite, so that the response is that of the page itself.
pub(crate) fn rules(state: &Path) -> Result<PathBuf> {
    const PATHS: usize = 2000;
    const PATTERNS: usize = 100;
    let mut text = String::new();
    for number in 0..PATHS {
        let _ = writeln!(text, "/old/{number} /hello.txt 200");
    }
    for number in 0..PATTERNS {
        let _ = writeln!(text, "/{number:02}-blog/* /hello.txt 200");
    }
    let file = state.join("rules");
    fs::write(&file, text)?;
    Ok(file)
}

/// Creates a handler in Lua that greets.
pub(crate) fn script(state: &Path) -> Result<PathBuf> {
    let text = "pinion.get(\"/hello/:name\", function(req, res)\n    \
                res:write(\"Hi, \", req.params.name, \"!\\n\")\nend)\n";
    let file = state.join("hello.lua");
    fs::write(&file, text)?;
    Ok(file)
}

/// Creates pages of templates with 200 values in them, one text repeatedly or 200 others for each
/// request, and the first of them as a file.
pub(crate) fn pages(state: &Path) -> Result<PathBuf> {
    const ROWS: usize = 200;
    const NAME: &str = "you";
    let root = state.join("pages");
    fs::create_dir_all(&root)?;
    let row = |value: &str, filler: usize| {
        format!("<p class=\"row\">{value}, {}</p>\n", ".".repeat(filler))
    };
    let bare = row(NAME, 0).len();
    let page = |value: &dyn Fn(usize) -> String| -> String {
        // The remainder of the division is added to the last ones.
        let (each, more) = (ROWS_BYTES / ROWS - bare, ROWS_BYTES % ROWS);
        (0..ROWS).map(|at| row(&value(at), each + usize::from(at < more))).collect()
    };
    fs::write(root.join("plain.html"), page(&|_| NAME.to_owned()))?;
    fs::write(root.join("rows.dyn.html"), page(&|_| "#[[query.name]]".to_owned()))?;
    // The names are as long as the single one, and more than a server could remember.
    let names = "local names = {}\nfor at = 0, 0xfff do\n    \
                 names[at] = (\"%03x\"):format(at)\nend\nreturn names\n";
    fs::write(root.join("names.lua"), names)?;
    let begin =
        format!("<?lu local names, at = require \"names\", math.random(0, 0xfff - {ROWS}) ?>");
    let rows = page(&|at| format!("#[[names[at + {at}]]]"));
    fs::write(root.join("names.dyn.html"), begin + &rows)?;
    Ok(root)
}

/// Many small files below `state`, created only once, with a list of their paths and a list of only
/// the first of them.
pub(crate) struct Many {
    pub(crate) root: PathBuf,
    pub(crate) all: PathBuf,
    pub(crate) hot: PathBuf,
}

pub(crate) fn many(state: &Path) -> Result<Many> {
    let many = Many {
        root: state.join("many"),
        all: state.join("many.paths"),
        hot: state.join("hot.paths"),
    };
    // The lists are written last: if they exist, the files do.
    if many.all.exists() && many.hot.exists() {
        return Ok(many);
    }
    let mut paths = String::new();
    for folder in 0..MANY {
        let at = many.root.join(format!("{folder:03}"));
        fs::create_dir_all(&at).with_context(|| at.display().to_string())?;
        for file in 0..MANY {
            let name = format!("page-{file:03}.txt");
            let text = format!(
                "This is page {file} of folder {folder}. It is as small as the \
                pages of such sites are: about a hundred bytes.\n"
            );
            fs::write(at.join(&name), text)?;
            let _ = writeln!(paths, "/{folder:03}/{name}");
        }
    }
    fs::write(&many.hot, paths.lines().next().unwrap_or_default())?;
    fs::write(&many.all, paths)?;
    Ok(many)
}

/// Returns incompressible bytes, the same every time.
fn noise(count: usize) -> Vec<u8> {
    let mut state: u64 = 0x9e37_79b9_7f4a_7c15;
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    };
    std::iter::repeat_with(next).take(count).collect()
}
