//! Every form of the language, with its output.

use crate::test_site::{alone, compiled, page, shown};

#[test]
fn text_is_sent_unchanged() {
    for text in
        ["", "plain", "a\r\nb\0\u{e9} ]] %d | x ``` ?> <? <?xml version='1'?> #[ [", "<?luau"]
    {
        assert_eq!(alone(text), text);
    }
    assert_eq!(compiled(&[("/a.dyn.txt", "a")]).unwrap().segments, [b"a"]);
}

#[test]
fn values_are_converted_and_escaped() {
    assert_eq!(alone("Hi, #[[query.name]]!"), "Hi, &lt;Ann&gt;!");
    assert_eq!(alone("#[[!query.name]]"), "<Ann>");
    assert_eq!(alone("#[[1]]#[[nil]]#[[ 'a' .. [[b]] ]]"), "1ab");
    assert_eq!(alone("#[[ ({ ['a:b'] = { [1] = 'x' } })[\"a:b\"][1]]]"), "x");
    assert_eq!(alone("#[[[[]]]]x"), "x");
    assert_eq!(alone("#[['?>' .. \"]]\"]]"), "?&gt;]]");
    assert_eq!(alone("#[[\n 1 +\n 2\n]]"), "3");
    assert_eq!(alone("#[[('a'):gsub('a', 'b')]]"), "b");
    assert_eq!(alone("#[[query:x()]]<?lu ?>".replace("query:x()", "('x'):rep(3)").as_str()), "xxx");
}

#[test]
fn formats_follow_the_last_colon() {
    assert_eq!(
        alone("#[[3.14159:.2f]] #[[7:05d]] #[[7:%x]] #[['<':5s]]|"),
        "3.14 00007 7     &lt;|"
    );
    assert_eq!(alone("<?lu local o = { d = function() return 'm' end } ?>#[[o:d()]]"), "m");
    assert_eq!(alone("<?lu local t = { ['a:d'] = 1 } ?>#[[t['a:d']]] #[[t['a:d'] : d ]]"), "1 1");
    assert_eq!(alone("<?lu local s = { s = function() return 4 end } ?>#[[s:s():d]]"), "4");
    assert_eq!(alone("<b x='#[[2:d]]' y='#[[2:d]]' z='#[[2:s]]'>"), "<b x='2' y='2' z='{attr 2}'>");
}

#[test]
fn blocks_share_one_scope_and_may_stay_open() {
    assert_eq!(alone("<?lu local x = 1 ?>a<?lu x = x + 1 ?>#[[x]]"), "a2");
    assert_eq!(alone("<?lu for i = 1, 3 do ?>(#[[i]])<?lu end ?>"), "(1)(2)(3)");
    assert_eq!(
        alone("<?lu if false then ?>a<?lu elseif true then ?>b<?lu else ?>c<?lu end ?>"),
        "b"
    );
    assert_eq!(
        alone("<?lu local function row(x) ?><i>#[[x]]</i><?lu end row(1) row '<' ?>"),
        "<i>1</i><i>&lt;</i>"
    );
    assert_eq!(alone("<?lu write('<b>%d', 1) ?>"), "<b>%d");
    assert_eq!(alone("a<?lu do return end ?>b"), "a");
    assert_eq!(alone("<?lu local a = 1 -- note ?>#[[a]]<?lu --[[ ?> ]] a = '?>' ?>#[[!a]]"), "1?>");
    assert_eq!(alone("<?lu?><?lu\n?><?lu -- ?>x"), "x");
    assert_eq!(alone("<?lu goto out ?>lost<?lu ::out:: ?>"), "");
    assert_eq!(alone("<?lu locals.x = 1; (write)('y') ?>"), "y");
    assert_eq!(alone("<?lu local f = write ?><?lu ;(f)('z') ?>"), "z");
}

#[test]
fn output_of_a_value_expression_precedes_its_value() {
    let text = "<?lu local function f(x) write(x) return x end ?>1#[[query.n]]#[[f(2)]]3#[[f(4)]]5";
    assert_eq!(alone(text), "1223445");
}

#[test]
fn lines_with_a_bar_are_written() {
    assert_eq!(alone("<?lu\n  | <b>#[[query.name]]</b>\n?>"), "<b>&lt;Ann&gt;</b>\n");
    assert_eq!(
        alone("<?lu for i = 1, 2 do\n| #[[i]]: it's \"x\"\n|\n end ?>."),
        "1: it's \"x\"\n\n2: it's \"x\"\n\n."
    );
    assert_eq!(alone("<?lu | a #[['?>']] b ?>c"), "a ?&gt; bc");
    assert_eq!(alone("<?lu\r\n\t| a\r\nwrite('b')\r\n?>"), "a\r\nb");
    assert_eq!(alone("<?lu\n|   in\n?>"), "  in\n");
}

#[test]
fn blocks_between_backticks_are_written() {
    assert_eq!(alone("<?lu ```a ?> #[[1]]``` write('b') ?>"), "a ?> 1b");
    assert_eq!(
        alone("<?lu\n  if true then ```\n  <p>\n    #[[2]]\n  </p>\n  ``` end ?>"),
        "  <p>\n    2\n  </p>\n"
    );
    assert_eq!(alone("<?lu ``` ``````x``` ?>"), "x");
}

#[test]
fn async_blocks_continue_after_done() {
    let text = "a<?lua write('b')\n| #[[method]]\ndone() ?>c";
    assert_eq!(alone(text), "abGET\nc");
    let template = compiled(&[("/a.dyn.html", text)]).unwrap();
    assert!(template.has_async && !template.parallel);
    // The block is a function with its own local variables.
    assert_eq!(alone("<?lu local x = 1 ?><?lua local x = 2 done() return ?>#[[x]]"), "1");
    let never = compiled(&[("/a.dyn.html", "\n<?lua write('x') ?>")]).unwrap();
    assert!(shown(&never).unwrap_err().contains("never done"));
}

#[test]
fn the_first_line_makes_a_page_parallel() {
    let blocks = "<?lu local n = 0 ?>\n<?lua n = n + 1 | #[[n]]\n?>-<?lua n = n + 1 write(n) ?>";
    let line = "#! parallel\n";
    assert_eq!(alone(&format!("{line}{}", blocks.replace(" | ", "\n| "))), "\n2\n-1");
    let blocks = "<?lua write(1) done() ?>";
    for (parallel, files) in [
        (true, vec![("/p.dyn.html", "#! parallel\nx")]),
        (true, vec![("/p.dyn.html", "#!parallel\r\nx")]),
        (true, vec![("/p.dyn.html", "#! parallel")]),
        (false, vec![("/p.dyn.html", " #! parallel\n")]),
        (false, vec![("/p.dyn.html", "#! parallel x\n")]),
        (false, vec![("/p.dyn.html", "x<?include h ?>"), ("/h", "#! parallel\n")]),
        (true, vec![("/p.dyn.html", "<?include h ?>x"), ("/h", "#! parallel\n")]),
        (
            true,
            vec![
                ("/p.dyn.html", "<?include g ?>"),
                ("/g", "<?include h ?>"),
                ("/h", "#! parallel"),
            ],
        ),
        (true, vec![("/p.dyn.html", "<?layout h ?>"), ("/h", "#! parallel\n<?yield ?>")]),
        (true, vec![("/p.dyn.html", "#! parallel\n<?layout h ?>"), ("/h", "<?yield ?>")]),
    ] {
        let template = compiled(&files).unwrap();
        assert_eq!(template.parallel, parallel, "{files:?} {blocks}");
        let taken = template.segments.iter().any(|text| text.windows(2).any(|two| two == b"#!"));
        assert_eq!(taken, files[0].1.contains(" #!") || files[0].1.contains("parallel x"));
    }
}

#[test]
fn includes_are_expanded() {
    let files = [
        ("/a/index.dyn.html", "[<?include parts/one.html ?>|<?include \"/two.html\"?>]#[[x]]"),
        ("/a/parts/one.html", "1<?include ../parts/three.html ?><?include 'three.html' ?>"),
        ("/a/parts/three.html", "3<?lu local x = 'x' ?>"),
        ("/two.html", "2#[[query.name]]"),
    ];
    assert_eq!(page(&files), "[133|2&lt;Ann&gt;]x");
    let template = compiled(&files).unwrap();
    let expected = ["/a/index.dyn.html", "/a/parts/one.html", "/a/parts/three.html", "/two.html"];
    assert_eq!(template.files, expected);
}

#[test]
fn includes_nest_64_levels_deep() {
    let chain = |depth: usize| {
        let path = |n: usize| if n == 0 { "/p.dyn.html".to_owned() } else { format!("/{n}") };
        let text =
            |n: usize| if n == depth { "x".to_owned() } else { format!("<?include {} ?>", n + 1) };
        let files: Vec<_> = (0..=depth).map(|n| (path(n), text(n))).collect();
        let files: Vec<_> =
            files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
        compiled(&files).map(|template| template.files.len())
    };
    assert_eq!(chain(64), Ok(65));
    let problem = chain(65).unwrap_err();
    assert!(problem.message.contains("more than 64") && problem.file == "/64", "{problem}");
}

#[test]
fn layouts_are_filled_with_slots() {
    let base = "<title><?yield title ?></title><body><?yield ?></body><?yield foot ?>";
    let text = "<?layout /base.html ?>\n<?lu local t = 'T' ?>\n<?lua t = t .. '!' done() ?>\n\
                <?slot title ?>#[[t]]<?/slot ?><p>#[[t]]</p>";
    let files = [("/a/p.dyn.html", text), ("/base.html", base)];
    assert_eq!(page(&files), "<title>T!</title><body><p>T!</p></body>");
    let middle = "<?layout base.html ?><?slot foot ?>F<?yield foot ?><?/slot ?>\
                  <main><?yield ?></main><?slot title ?><?yield title ?> - site<?/slot ?>";
    let files = [
        ("/p.dyn.html", "<?layout middle.html ?>content<?slot title ?>Page<?/slot ?>"),
        ("/middle.html", middle),
        ("/base.html", base),
    ];
    let expected = "<title>Page - site</title><body><main>content</main></body>F";
    assert_eq!(page(&files), expected);
}

#[test]
fn values_are_escaped_by_the_file_type() {
    let text = "#[[query.name]] \"#[[query.name]]\"";
    for (path, shown) in [
        ("/a.dyn.txt", "<Ann> \"<Ann>\""),
        ("/a.dyn.xml", "&lt;Ann&gt; \"&lt;Ann&gt;\""),
        ("/a.dyn.svg", "&lt;Ann&gt; \"&lt;Ann&gt;\""),
        ("/a.dyn.json", "{js <Ann>} \"{js_string <Ann>}\""),
        ("/a.dyn.js", "{js <Ann>} \"{js_string <Ann>}\""),
        ("/a.dyn.css", "{css <Ann>} \"{css <Ann>}\""),
        ("/a.dyn.unheard", "&lt;Ann&gt; \"&lt;Ann&gt;\""),
    ] {
        assert_eq!(page(&[(path, text)]), shown, "{path}");
    }
}

#[test]
fn lua_errors_have_file_and_line_of_the_source() {
    let fails = "error('E')";
    for (text, at) in [
        (format!("a\n\n<?lu {fails} ?>"), "/p.dyn.html:3: E"),
        (format!("a\n<?lu\n\n  local x = [[\n\n]]\n {fails} ?>"), "/p.dyn.html:7: E"),
        (format!("a\r\n<?lu\r\n\r\n {fails} ?>"), "/p.dyn.html:4: E"),
        ("a\n#[[1]]\n#[[\nnil + 1]]".to_owned(), "/p.dyn.html:4: "),
        ("a\n<?lu\n| x\n| #[[nil .. 1]]\n ?>".to_owned(), "/p.dyn.html:4: "),
        ("<?include i ?>\n\n#[[query.x.y]]".to_owned(), "/p.dyn.html:3: "),
        ("\n<?include j ?>\n".to_owned(), "/j:2: "),
        (format!("<?lua\n\n{fails} ?>"), "/p.dyn.html:3: E"),
        ("<?lu local f = ```x``` \n\n | y".to_owned() + "\n" + fails + "?>", "is refused"),
    ] {
        let files =
            [("/p.dyn.html", text.as_str()), ("/i", "\n\n1\n"), ("/j", "\n#[[(nil)[1]]]\n")];
        match compiled(&files) {
            Ok(template) => {
                let error = shown(&template).unwrap_err();
                assert!(error.contains(at), "{text:?}: {error}");
            }
            Err(problem) => assert_eq!(at, "is refused", "{text:?}: {problem}"),
        }
    }
}

#[test]
fn the_names_that_a_page_uses_are_recorded() {
    let names = |text: &str| compiled(&[("/p.dyn.html", text)]).unwrap().value_names;
    assert_eq!(names("x"), [""; 0]);
    assert_eq!(names("<?lu post_render(function() return query end) ?>"), ["query", "post_render"]);
    assert_eq!(names("<?lu local query = 1 ?>#[[query]]"), [""; 0]);
    assert_eq!(names("<?lua write('x') done() ?>"), [""; 0]);
    assert_eq!(names("<?lua header('x', session) ?>"), ["session", "header"]);
}

#[test]
fn large_pages_compile_and_share_equal_segments() {
    let values = 20_000;
    let text = "<b>#[[method]]</b>".repeat(values);
    assert_eq!(alone(&text), "<b>GET</b>".repeat(values));
    let text: String = (0..values).map(|n| format!("{n},#[[{n}]]")).collect();
    let expected: String = (0..values).map(|n| format!("{n},{n}")).collect();
    assert_eq!(alone(&text), expected);
    let template = compiled(&[("/p.dyn.html", &"<i>#[[1]]\n".repeat(1000))]).unwrap();
    assert!(template.segments.len() <= 2 + 1000 / 8, "equal segments are one");
}
