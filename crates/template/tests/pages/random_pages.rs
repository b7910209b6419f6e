//! For any files, a page is either refused or its code can be loaded by LuaJIT.

use mlua::{Lua, LuaOptions, StdLib};
use proptest::prelude::*;

use crate::compile_laws;

/// Words of the language, whole and in parts.
const WORDS: &[&str] = &[
    "<?lu ",
    "<?lua ",
    " ?>",
    "?>",
    "<?include 1 ?>",
    "<?include 2 ?>",
    "<?layout 1 ?>",
    "<?slot a ?>",
    "<?/slot ?>",
    "<?yield a ?>",
    "<?yield ?>",
    "#! parallel\n",
    "#[[",
    "]]",
    "#[[!",
    "#[[1]]",
    "#[[x:d]]",
    ":.2f]]",
    "\n| ",
    "\n",
    "\r\n",
    "\r",
    "```",
    "local x = 1 ",
    "x = 1 ",
    "x",
    "for i = 1, 2 do ",
    "if x then ",
    " else ",
    " end ",
    "local function f(a) ",
    "return ",
    "break ",
    "goto a ",
    "::a::",
    "f()",
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    "'",
    "\"",
    "--",
    "[[",
    "--[[",
    "=",
    ",",
    "..",
    "#",
    "\\",
    "<a href='",
    "'>",
    "<script>",
    "</script>",
    "<style>",
    "<p ",
    ">",
    "<!--",
    "-->",
    "on='",
    "`",
    "${",
    "/",
    "\u{1e}",
    "\u{1e}",
    "\0",
    "\u{e9}",
    "done() ",
    "repeat ",
    " until ",
];

/// Checks that an accepted page loads. LuaJIT may still refuse it because of its own limits.
fn check(lua: &Lua, data: &[u8]) {
    let Some(template) = compile_laws::check(data) else { return };
    if let Err(error) = lua.load(&template.lua[..]).set_name("=page").into_function() {
        let lua = String::from_utf8_lossy(&template.lua);
        panic!("{}\n{lua}", template.explained(&error.to_string(), "page"));
    }
}

fn lua() -> Lua {
    Lua::new_with(StdLib::NONE, LuaOptions::new()).expect("a VM")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8192))]

    #[test]
    fn pages_of_random_words_that_compile_are_loaded_by_lua(
        words in prop::collection::vec(prop::sample::select(WORDS), 0..24),
    ) {
        check(&lua(), words.concat().as_bytes());
    }

    #[test]
    fn pages_of_random_blocks_that_compile_are_loaded_by_lua(
        words in prop::collection::vec(prop::sample::select(WORDS), 0..12),
    ) {
        check(&lua(), format!("<?lu {} ?>", words.concat()).as_bytes());
    }

    #[test]
    fn pages_of_random_bytes_that_compile_are_loaded_by_lua(
        data in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        check(&lua(), &data);
    }
}

#[test]
fn repeated_words_compile_in_linear_time() {
    // Half a megabyte of any word: an algorithm with quadratic time would take hours.
    for word in WORDS {
        compile_laws::check(word.repeat(500_000 / word.len()).as_bytes());
        compile_laws::check(format!("<?lu {}", word.repeat(500_000 / word.len())).as_bytes());
        compile_laws::check(format!("<script>{}", word.repeat(500_000 / word.len())).as_bytes());
    }
}
