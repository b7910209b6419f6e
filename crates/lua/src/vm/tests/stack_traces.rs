//! Paths in messages and stacks, in both Luas: those of the files of the site, and no others.

use crate::pages::test_site::{TestSite, named};
use crate::source_names::SourceNames;

const MAIN: &str = "local shop = require('lib.shop')
local function fails() error('why') end
pinion.get('/handler', function() local value = fails() return value end)
pinion.get('/argument', function() pinion.sleep('x') end)
pinion.get('/tail', function() return pinion.send() end)
pinion.get('/written', function(req, res) local done = res:write({}) return done end)
pinion.get('/encoded', function() local text = pinion.codec.hex_encode({}) return text end)
pinion.get('/module', function() local value = shop.fails() return value end)
pinion.get('/missing', function() local value = require('lib.none') return value end)
pinion.get('/coroutine', function()
    local value = coroutine.wrap(function() local value = shop.fails() return value end)()
    return value
end)
pinion.get('/replaced', function() local text = ('x'):gsub('x', fails) return text end)
pinion.get('/sorted', function() table.sort({ 3, 1, 2 }, fails) end)
pinion.get('/returned', function() return nil, 'why' end)
pinion.get('/table', function() return {} end)
pinion.get('/gathered', function() local value = pinion.gather(shop.fails) return value end)";

/// A word of a message that says where something is: the file.
fn file_of(word: &str) -> Option<&str> {
    let (file, line) = word.trim_end_matches([':', '>', ')']).rsplit_once(':')?;
    line.parse::<u32>().is_ok().then(|| file.trim_start_matches(['<', '(']))
}

#[test]
fn tracebacks_name_only_files_of_the_site() {
    let files = [
        ("//main.lua", MAIN),
        ("//lib/shop.lua", "return { fails = function()\nerror('why') end }"),
        ("/page.dyn.html", "<?lu local none\nnone.x = 1 ?>"),
        ("/part.dyn.html", "<?include in.priv.html ?>"),
        ("/in.priv.html", "\n<?lu error('why') ?>"),
        ("/formatted.dyn.html", "\n#[['x':d]]"),
    ];
    for folder in ["shop".to_owned(), format!("/srv/{}/shop", "x".repeat(70))] {
        let names = SourceNames::of_folder(&folder, Some("public_html"));
        let known: Vec<_> = files.iter().map(|(path, _)| names.name(path)).collect();
        let program = named(&files, names).expect("compiled");
        let mut site = TestSite::of(&program).unwrap_or_else(|problem| panic!("{problem}"));
        for (target, first) in [
            ("/handler", "main.lua:2: why"),
            (
                "/argument",
                "main.lua:4: bad argument #1 to 'pinion.sleep' (number expected, got str",
            ),
            ("/tail", "line: bad argument #1 to 'pinion.send' (string expected, got nil)"),
            ("/written", "main.lua:6: bad argument #1 to 'res:write' (string or number expected,"),
            ("/encoded", "main.lua:7: bad argument #1 to 'pinion.codec.hex_encode' (string expec"),
            ("/module", "lib/shop.lua:2: why"),
            ("/missing", "main.lua:9: there is no module \"lib.none\": neither "),
            ("/coroutine", "lib/shop.lua:2: why"),
            ("/replaced", "main.lua:2: why"),
            ("/sorted", "main.lua:2: why"),
            ("/returned", "main.lua:16: the handler returned nil and an error: why"),
            ("/table", "main.lua:17: the handler returned a table; return a string"),
            ("/gathered", "lib/shop.lua:2: why"),
            ("/page", "public_html/page.dyn.html:2: "),
            ("/part", "public_html/in.priv.html:2: why"),
            ("/formatted", "public_html/formatted.dyn.html:2: #[['x':d]]: the format `d` needs"),
        ] {
            let report = site.report(target);
            let message = report.lines().next().unwrap_or_default();
            assert!(message.contains(first), "{target}: {report}");
            for ours in ["pinion:", "string:", "<page ", "__"] {
                assert!(!report.contains(ours), "{target}: {report}");
            }
            for file in report.split_whitespace().filter_map(file_of) {
                assert!(known.iter().any(|known| known == file), "{target}: {file}: {report}");
            }
        }
    }
}
