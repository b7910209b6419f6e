//! Refused pages, and the positions of their errors.

use crate::test_site::compiled;

/// Asserts that a page is refused at a line, with some words.
fn refused(text: &str, line: u32, words: &str) {
    let files =
        [("/p.dyn.html", text), ("/deep", "\n<?lu x = 1 ?>"), ("/loop", "\n<?include loop ?>")];
    let problem = compiled(&files).expect_err(text);
    assert!(problem.message.contains(words), "{text:?}: {problem}");
    assert_eq!((problem.file.as_str(), problem.line), ("/p.dyn.html", line), "{text:?}: {problem}");
}

#[test]
fn global_assignments_are_refused() {
    refused("a\n<?lu\nx = 1 ?>", 3, "`x` would be global");
    refused("\n<?lu local a; a, b = 1, 2 ?>", 2, "`b` would be global");
    refused("<?lu\nfunction f() end ?>", 2, "write `local function f`");
    refused("<?lu do local x end\nx = 1 ?>", 2, "`x`");
    refused("<?lu local function f(x) end\nx = 1 ?>", 2, "`x`");
    refused("<?lu for i = 1, 2 do end\ni = 1 ?>", 2, "`i`");
    refused("<?lua local x done() ?>\n<?lu x = 1 ?>", 2, "`x`");
    refused("#[[(function() y = 1 end)()]]", 1, "`y`");
    refused("<?lu local x <const> = 1\nx = 2 ?>", 2, "constant");
    refused("<?lu local __x = 1 ?>", 1, "generated code");
    refused("#[[__o]]", 1, "generated code");
    for fine in [
        "<?lu local x; x = 1; x.y = 2; string.z = 3; query = {}; _G.a = 1 ?>",
        "<?lu local t = setmetatable({}, { __index = 1 }) t.__newindex = 2 function t.f() end ?>",
        "<?lu local function f(a, ...) a = 1; local b = ... ; b = a end for k in x do k = 1 end ?>",
        "<?lu repeat local x until x == nil ?>",
        "<?lu local x ?><?lua x = 1 ?><?lu x = 2 ?>",
    ] {
        assert_eq!(compiled(&[("/p.dyn.html", fine)]).map(|_| ()), Ok(()), "{fine}");
    }
}

#[test]
fn errors_in_an_include_name_the_included_file() {
    let problem = compiled(&[("/p.dyn.html", "a<?include i ?>"), ("/i", "\n<?lu x = 1 ?>")]);
    assert_eq!(problem.unwrap_err().to_string().split(' ').next(), Some("/i:2:"));
}

#[test]
fn syntax_of_other_languages_is_refused_with_the_lua_form() {
    for (code, words) in [
        ("loop x in y do", "Lua has no `loop`; write `for key, value in pairs(list) do`"),
        ("elif x then", "Lua has no `elif`; write `elseif`"),
        ("endif", "Lua has no `endif`; write `end`"),
        ("let x = 1", "Lua has no `let`; write `local`"),
        ("echo x", "Lua has no `echo`; write `write(text)`"),
        ("if !x then", "`!` is not valid in Lua; write `not`"),
        ("if x != 1 then", "`!=` is not valid in Lua; write `~=`"),
        ("if a && b then", "Lua has `and`, not `&&`"),
        ("if a || b then", "Lua has `or`, not `||`"),
        ("local x = 1 x += 1", "write `x = x + 1`"),
        ("local x = 1 x++", "write `x = x + 1`"),
        ("for i = 1, 3 {", "not braces"),
        ("while true {", "not braces"),
        ("local x = a ? b : c", "`condition and one or other`"),
    ] {
        refused(&format!("\n<?lu {code} ?>"), 2, words);
    }
}

#[test]
fn syntax_errors_are_refused_with_their_line() {
    refused("\n<?lu if x then ?>a", 2, "the `if` of line 2");
    refused(
        "\n<?lu for i = 1, 2 do ?>a",
        2,
        "expected `end` for the `for` of line 2, found the end",
    );
    refused("<?lu while x do ?>a", 1, "`end` for the `while` of line 1, found the end of the page");
    refused("\n#[[1 +]]", 2, "expected an expression, found the end of the value");
    refused("<?lu\nend ?>", 2, "`end`");
    refused("<?lu x( ?>a<?lu ) ?>", 1, "the text of the page");
    refused("\n#[[1 2]]", 2, "`2`");
    refused("\n#[[1) .. (2]]", 2, "`)`");
    refused("\n#[[x", 2, "without its `]]`");
    refused("\n#[[]]", 2, "no expression");
    refused("\n#[[x -- y\n]]", 2, "no comments");
    refused("\n#[[x:5]]", 2, "a name");
    refused("\n<?lu x", 2, "without its `?>`; write");
    refused("\n#[[x]\n<p>don't\n</p>", 2, "without its `]]`; write `#[[expression]]`");
    refused("\n<?lua f()\n<p>don't\n</p>", 2, "without its `?>`; write");
    refused("\n<?lu f()\n<p>don't\n<?lu g() ?>", 3, "the block begins in line 2");
    refused("\n<?lu x = 'a\n' ?>", 2, "string");
    refused("\n<?lu\n```x ?>", 3, "second ```");
    refused("\n<?lu x = [[ ?>", 2, "long string");
    refused("\n<?lua done() end) ?>", 2, "`end`");
    refused("\n<?lua if x then ?>a<?lu end ?>", 2, "`if`");
    refused("<?lu return ?>a", 1, "`return`");
    refused("<?lu while 1 do ?><?lua break ?><?lu end ?>", 1, "`break`");
    refused("\n<?lu goto x ?>", 2, "goto x");
    refused("<?lu local f = write ?><?lu\n(f)('x') ?>", 2, "`(`");
    refused("<?lu local f = function() return ... end ?>", 1, "`...`");
    refused("<?lu local a\n| x\n= 1 ?>", 3, "`=`");
    refused("<?lu return 1\n| x\n ?>", 2, "`return`");
}

/// An empty value without quotes would use the next attribute as its value.
#[test]
fn values_in_unquoted_attributes_are_refused() {
    refused("\n<a href=#[[x]] class=menu>", 2, "quotes around it");
    refused("<p\ntitle=a#[[x]]>", 2, "quotes around it");
    refused("<p\n#[[x]]=#[[y]]>", 2, "quotes around it");
}

#[test]
fn invalid_includes_are_refused() {
    refused(
        "\n<?include nothing.html ?>",
        2,
        "there is no file /nothing.html: /p.dyn.html → /nothing.html",
    );
    refused("\n<?include ../x ?>", 2, "above the root");
    refused("\n<?include p.dyn.html ?>", 2, "each other: /p.dyn.html → /p.dyn.html");
    refused("\n<?include ?>", 2, "the path");
    refused("\n<?include x", 2, "without its `?>`");
    let problem =
        compiled(&[("/a", "<?include b ?>"), ("/b", "\n<?include c ?>"), ("/c", "<?include a ?>")]);
    let problem = problem.unwrap_err();
    assert_eq!(problem.to_string(), "/c:1: files include each other: /a → /b → /c → /a");
    let bomb = "<?include x ?>".repeat(200);
    let problem = compiled(&[("/a", &bomb), ("/x", &bomb.replace('x', "y")), ("/y", "")]);
    assert!(problem.unwrap_err().message.contains("more than 10000 includes"));
}

#[test]
fn invalid_layouts_are_refused() {
    refused("x\n<?layout deep ?>", 2, "first thing");
    refused("\n<?slot a ?><?/slot ?>", 2, "without a layout; begin the page with `<?layout path");
    refused("<?/slot ?>", 1, "without a layout");
    refused("\n<?yield ?>", 2, "outside of a layout");
    let with = |text: &str, layout: &str| {
        compiled(&[("/p.dyn.html", text), ("/l", layout)]).unwrap_err().to_string()
    };
    assert!(with("<?layout l ?>\n<?slot a ?>", "<?yield a ?>").contains(":2: the slot `a`"));
    assert!(with("<?layout l ?><?slot a ?><?slot b ?>", "").contains("still open"));
    assert!(
        with("<?layout l ?><?slot a ?><?/slot ?>", "").contains("layout /l has no `<?yield a ?>`")
    );
    assert!(with("<?layout l ?>x", "").contains("layout /l has no `<?yield ?>` for"));
    assert!(with("<?layout l ?>x", "<?layout p.dyn.html ?>").contains("include each other"));
    let slot = "<?slot a ?><?/slot ?>";
    assert!(with(&format!("<?layout l ?>{slot}{slot}"), "<?yield a ?>").contains("a second slot"));
}

/// A slot is at its position in the layout: before the code that follows it there.
#[test]
fn slots_cannot_use_variables_that_are_declared_later() {
    let layout = "<title><?yield a ?></title><?yield ?>";
    let with = |text: &str| compiled(&[("/p.dyn.html", text), ("/l", layout)]);
    let page = "<?layout l ?>\n<p>body\n<?lu local t = \"x\" ?>\n<?slot a ?>#[[t]]<?/slot ?>";
    let expected = "/p.dyn.html:4: the slot `a` cannot use the variable \"t\" of line 3: declare \
                    it in a block before the first text or slot of the page";
    assert_eq!(with(page).unwrap_err().to_string(), expected);
    for page in [
        "<?layout l ?><p><?lu local function t() end ?><?slot a ?><?lu t() ?><?/slot ?>",
        "<?layout l ?><?slot a ?>#[[(function() return t end)()]]<?/slot ?><p><?lu local t = 1 ?>",
    ] {
        let problem = with(page).unwrap_err();
        assert!(problem.message.starts_with("the slot `a` cannot use the variable"), "{problem}");
    }
    // The layout has the slot after the text.
    let behind = [("/p.dyn.html", page), ("/l", "<?yield ?><title><?yield a ?></title>")];
    assert_eq!(compiled(&behind).map(|_| ()), Ok(()));
    for fine in [
        "<?layout l ?><?lu local t = 1 ?><?slot a ?>#[[t]]<?/slot ?><p>#[[t]]",
        "<?layout l ?><p><?lu local config = config ?><?slot a ?>#[[config]]<?/slot ?>",
        "<?layout l ?><p><?lu local print = 1 ?><?slot a ?><?lu print(1) ?><?/slot ?>",
        "<?layout l ?><p><?lu do local t end ?><?slot a ?>#[[t]]<?/slot ?>",
        "<?layout l ?><p><?lu local t ?><?slot a ?><?lu local t = 1 ?>#[[t]]<?/slot ?>",
        "<?layout l ?><p><?lu local t ?><?slot a ?>#[[_G.t]]<?/slot ?>",
    ] {
        assert_eq!(with(fine).map(|_| ()), Ok(()), "{fine}");
    }
}

#[test]
fn pages_beyond_the_limits_of_lua_are_refused() {
    let locals: String = (0..200).map(|n| format!("<?lu local v{n} ?>\n")).collect();
    let problem = compiled(&[("/p.dyn.html", &locals)]).unwrap_err();
    assert!(problem.message.contains("local variables") && problem.line > 150, "{problem}");
    let few: String = (0..70).map(|n| format!("<?lu local v{n} ?>")).collect();
    let used: String = (0..70).map(|n| format!("v{n},")).collect();
    let problem = compiled(&[("/p.dyn.html", &format!("{few}\n<?lua write({used} 0) ?>"))]);
    let problem = problem.unwrap_err();
    assert!(problem.message.contains("from outside") && problem.line == 2, "{problem}");
    let deep = format!("<?lu {} ?>", "do ".repeat(1000));
    assert!(compiled(&[("/p.dyn.html", &deep)]).unwrap_err().message.contains("levels"));
    let problem = compiled(&[("/p.dyn.html", &"x".repeat((1 << 20) + 1))]).unwrap_err();
    assert!(problem.message.contains("1 MiB"), "{problem}");
}
