//! Pages in which a value could become a script: each was one that a browser ran.

use crate::test_site::{alone, compiled};

/// Each `$` is a value, and `§` a `$`; the pages are refused with these words.
fn refused_in(path: &str, words: &str, pages: &[&str]) {
    let taken: Vec<_> = pages
        .iter()
        .filter_map(|page| {
            match compiled(&[(path, &page.replace('$', "#[[query.x]]").replace('§', "$"))]) {
                Err(problem) if problem.message.contains(words) => None,
                other => Some((page, other.map(|_| "taken"))),
            }
        })
        .collect();
    assert!(taken.is_empty(), "{taken:#?}");
}

fn refused(words: &str, pages: &[&str]) {
    refused_in("/p.dyn.html", words, pages);
}

/// Each `$` is a value, and each page shows it as that; `§` is a `$`.
fn shown(pages: &[(&str, &str)]) {
    let wrong: Vec<_> = pages
        .iter()
        .filter_map(|(page, expected)| {
            let shown = alone(&page.replace('$', "#[[1]]").replace('§', "$"));
            (!shown.contains(expected)).then_some((page, shown))
        })
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn a_function_cannot_write_in_another_context() {
    let show = "local function show(v) ```$``` end";
    let pages = [
        format!("<?lu {show} ?><script>var n = <?lu show(query.x) ?>;</script>"),
        format!("<?lu {show} ?><a href=\"<?lu show(query.x) ?>\">"),
        format!("<?lu {show} ?><p title='#[[show(1)]]'>"),
        format!("<?lu {show} local function f() show(1) end ?><script><?lu f() ?></script>"),
        format!(
            "<?lu {show} local function f() return function() show(1) end end ?>\
             <!--<?lu f()()?>"
        ),
        "<?lu local show = function(v) ```$``` end ?><script><?lu show(1) ?></script>".into(),
        "<?lu local show show = function(v) ```$``` end ?><script><?lu show(1) ?></script>".into(),
        "<?lu local show function show(v) ```$``` end ?><script><?lu show(1) ?></script>".into(),
        "<?lu local f, ui = 1, {} function ui.a.show() ```$``` end ?><script>\
         <?lu ui.show() ?>"
            .into(),
        "<?lu local ui = { show = function() ```$``` end } ?><script><?lu ui:show() ?>".into(),
        "<?lu local f local function g() f() end function f() ```$``` end ?><script>\
         <?lu g() ?>"
            .into(),
        "<?lu local function f(n) ?><p title='<?lu f(n) ?>'>$<?lu end ?>".into(),
        "<?lu local t = {} t.f = function() ```$``` end ?><script>\
         <?lu function t.f() ```$``` end\nt.f() ?>"
            .into(),
    ];
    refused("cannot be used in ", &pages.each_ref().map(String::as_str));
    shown(&[
        (
            "<?lu local function f(v) ```<b>#[[v]]</b>``` end ?><ul><?lu f(1) f(2) ?></ul>",
            "<b>2</b>",
        ),
        (
            "<p class=x><?lu local function f(v) ?><li id='$'><?lu end ?></p>\n<?lu f(1) ?>",
            "{attr 1}",
        ),
        (
            "<?lu local function f(v) return v end ?><script>x = #[[f(1)]]; <?lu f(1) ?></script>",
            "{js 1}",
        ),
        ("<?lu local f = function(v) ?>\n<?lu end ?><script><?lu f(1) ?>$</script>", "{js 1}"),
        ("<script><?lu local function f(v) ```#[[v]];``` end f(1) f(2) ?></script>", "{js 2}"),
        (
            "<?lu local function f(n) if n > 0 then ```<b>#[[n]]</b>``` f(n - 1) end end f(2) ?>",
            "<b>1",
        ),
    ]);
}

#[test]
fn values_are_refused_in_script_and_data_urls() {
    refused(
        "browsers undo that",
        &[
            "<a href=\"javascript:del('$')\">",
            "<a href='JavaScript:$'>",
            "<a href=' \n\u{1}java\tscript\r\n:$'>",
            "<a href='&#106;avascript:$'>",
            "<a href='&#x6A;ava&#115cript&colon;$'>",
            "<a href='java&Tab;script&#58;x/?$'>",
            "<form action='vbscript:$'><button formaction='$'>",
            "<iframe src='data:text/html,$'>",
            "<use xlink:href='data:x,$'>",
        ],
    );
    refused(
        "scheme of this URL",
        &[
            "<a href='$:alert($)'>",
            "<a href='java$:$'>",
            "<a href='&foo;:$'>",
            "<a href='<?lu if a then ?>javascript<?lu else ?>/x<?lu end ?>:$'>",
            "<a href='<?lu if a then ?>javascript<?lu end ?>:$'>",
        ],
    );
    shown(&[
        ("<a href='https://$/$?$'>", "https://{url_path 1}/{url_path 1}?{url_query 1}"),
        ("<a href='x?a&$&amp;$'>", "{url_query 1}&amp;{url_query 1}"),
        ("<a href='mailto:$'>", "mailto:{url_path 1}"),
    ]);
}

#[test]
fn a_value_after_a_slash_begins_no_host() {
    shown(&[
        ("<script src='/$'></script>", "/{url_root 1}"),
        ("<script src=' \\$/$'></script>", "\\{url_root 1}/{url_path 1}"),
        ("<a href='&#47;$'>", "{url_root 1}"),
        ("<a href='$/$'>", "{url 1}/{url_root 1}"),
        ("<a href='/a/$'>", "/a/{url_path 1}"),
        ("<a href='//$/'>", "//{url_path 1}/"),
    ]);
}

#[test]
fn links_in_svg_are_escaped_as_urls() {
    shown(&[("<svg><a x:href='$'></svg>", "{url 1}")]);
}

#[test]
fn elements_in_svg_and_math_end_where_browsers_end_them() {
    refused(
        "closed depends",
        &["<svg><title/></svg><a href='$'>", "<math><style /><p>$</p></math>"],
    );
    refused("what is around", &["<svg><title><a href='$'></title>", "<svg><![CDATA[>]]>$"]);
    refused("within `svg`", &["<svg><script>$</script></svg>", "<SVG><g><math/><script>'$'"]);
    shown(&[
        ("<svg><title>$</title><style>a{$}</style></svg><title>$</title>", "{css 1}"),
        ("<svg><path/><svg/></svg><script>$</script>", "{js 1}"),
        ("<svg><svg></svg></svg><script src='a' /> $</script>", "{js 1}"),
    ]);
}

#[test]
fn character_references_to_quotes_delimit_script_strings() {
    for (sign, words) in [
        ("'", "&#039; &#39 &#x27 &#X0027; &apos;"),
        ("\"", "&#34; &#0000000034; &#x22; &quot; &quot &QUOT"),
        ("`", "&#96; &grave; &DiacriticalGrave; &#x60"),
    ] {
        for word in words.split(' ') {
            let page = format!("<p onclick=\"f({word} #[[1]] {word}, #[[1]])\">");
            let expected = format!("f({word} {{js_string 1}} {word}, {{js_attr 1}})");
            assert!(alone(&page).contains(&expected), "{sign} as {word}: {}", alone(&page));
        }
    }
    refused("a sign of ASCII", &["<p onclick='f(&copy;$)'>", "<p style='&zwj;$'>"]);
    refused(
        "may become a reference",
        &[
            "<p onclick='f(\"&$\")'>",
            "<p onclick='\"&#$\"'>",
            "<p onclick='\"&#x2$\"'>",
            "<p style='&$'>",
        ],
    );
    refused("regular expression", &["<p onclick='x = &sol;&bsol;&#47;$&sol;'>"]);
    shown(&[
        ("<p onclick='a&&b&c&lt=d&amp;\"&bsol;\"$\"'>", "{js_string 1}"),
        ("<p onclick='f(a &#x3c; b, $)' title='&$'>", "{js_attr 1}"),
    ]);
}

#[test]
fn strings_of_scripts_end_where_browsers_end_them() {
    shown(&[
        ("<script>a = \"abc\\\r\n$\"</script>", "{js_string 1}"),
        ("<script>a = \"abc\\<?lu ?>\"$\"</script>", "{js_string 1}"),
        ("<script>// it's\r$\n// it's\u{2028}$</script>", "{js 1}\n// it's\u{2028}{js 1}"),
        ("<script>a = `\\§$`</script>", "{js_string 1}"),
    ]);
    refused("after a `\\`", &["<script>a = '\\$' + '$'</script>"]);
    refused("after a `$`", &["<script>a = `§$`</script>"]);
    refused("right after `</`", &["<script>a = '</$>'</script>", "<title></TIT$></title>"]);
    refused("`-->`", &["<script>\n--> `\n$</script>"]);
}

#[test]
fn an_ambiguous_slash_after_a_bracket_is_refused() {
    refused(
        "cannot be told apart",
        &[
            "<script>if (q) /[\"]/.test($)</script>",
            "<script>f(a) / 2; g = '$'</script>",
            "<script>{} /'/.test($)</script>",
            "<script>a = x++ /'/.test($)</script>",
            "<script>for (x of /'/.y($)) {}</script>",
            "<script>a.in /'/.y($)</script>",
            "<script>if (q) /`/.test(x)\n$</script>",
            "<script>if (q) /a/ + (r) /'/.test($)</script>",
        ],
    );
    shown(&[
        ("<script>if (q) /[\"]/.test(x)\ny = '$'</script>", "{js_string 1}"),
        ("<script>y = (a + b) / 2\ny = '$'</script>", "{js_string 1}"),
        ("<script>y = (a) / (b) / (c) / (d) / (e)\ny = $</script>", "{js 1}"),
        ("<script>y = (a) // '\ny = (b) /* ' */ + $</script>", "{js 1}"),
    ]);
}

#[test]
fn values_cannot_name_executable_elements() {
    refused(
        "the name of a tag",
        &["<$ src='$'>", "</$>", "<s$>", "<ifr$ src=x>", "<SCR$>", "a <$", "<m$>", "</title$>"],
    );
    refused_in("/p.dyn.svg", "the name of a tag", &["<h$>", "<a:$>"]);
    shown(&[("<h$ class='$'>$</h$><x-$>", "<h{name 1} class='{attr 1}'>1</h{name 1}>")]);
}

#[test]
fn values_are_refused_in_scripts_of_xml() {
    for path in ["/p.dyn.xml", "/p.dyn.svg", "/p.dyn.xhtml"] {
        refused_in(
            path,
            "script of XML",
            &[
                "<script>$</script>",
                "<h:script x='/'>a<b/>$</h:script>",
                "<SCRIPT><script/><![CDATA[</script>]]>$",
            ],
        );
        refused_in(path, "browsers undo that", &["<a href='javascript:$'>"]);
    }
}

#[test]
fn comments_end_where_browsers_end_them() {
    shown(&[("<!-- --!><a href='$'>", "{url 1}"), ("<!-- --! $ -->", "{comment 1}")]);
}
