//! The escaping of a value depends on its context.

use crate::test_site::{alone, compiled, page};

/// Checks a page in which each `$` is a value; `expected` has the escaping of each.
fn check(text: &str, expected: &[&str]) {
    let shown = alone(&text.replace('$', "#[[1]]").replace('§', "$"));
    let mut found = Vec::new();
    for (at, _) in shown.match_indices('{') {
        let is_name = |name: &str| name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
        found.extend(
            shown[at + 1..].split_once(" 1}").map(|(name, _)| name).filter(|name| is_name(name)),
        );
    }
    assert_eq!(found, expected, "{text}\n{shown}");
}

#[test]
fn values_in_text_and_attributes_are_escaped() {
    check("$<p>$</p>$<!-- $ -->$<!--> $<!---> $", &["comment"]);
    check("<p title=\"$\" alt='$' x=a $ z$ disabled>$", &["attr", "attr", "name", "name"]);
    check("<h$ x='$'></h$>", &["name", "attr", "name"]);
    check("<p data-$='$' aria-$='$'>", &["name", "attr", "name", "attr"]);
    check("a < $ b > $ 1<2 $ <p>'$\"$</p>", &[]);
    check("<p x='>$' y=\">\">$", &["attr"]);
    check("<!doctype html $><?php $ ?>$", &["comment", "comment"]);
    check("<title>$<a href='$</title><a href='$'>", &["url"]);
    check("<TEXTAREA x='$'>$<script>$</textareas>$</TextArea x='$'>$", &["attr", "attr"]);
}

#[test]
fn values_in_urls_are_escaped() {
    check("<a href='$'><img src=\"$$\">", &["url", "url", "url_path"]);
    check(
        "<a href='/x/$/y?a=$&b=$#$' title='$'>",
        &["url_path", "url_query", "url_query", "url_query", "attr"],
    );
    check("<A HREF = ' $$?$'>", &["url", "url_path", "url_query"]);
    check("<area href='$' data-action='$'><use xlink:href='#$'>", &["url", "attr", "url_query"]);
}

#[test]
fn values_in_scripts_are_escaped() {
    check(
        "<script>var a = $, b = '$', c = \"\\\"$\", d = `$§{$}`; // $\n/* ' $ */ $</script>$",
        &["js", "js_string", "js_string", "js_string", "js", "comment", "comment", "js"],
    );
    check(
        "<script>x = a / $; y = '$'; z = /['\"]/.test('$') ? /[/]'/ : $</script>",
        &["js", "js_string", "js_string", "js"],
    );
    check(
        "<script>f(a) / 2;\ng = '$'; return /'/ + $; `§{ { '}' } + `§{$}$` }$`</script>",
        &["js_string", "js", "js", "js_string", "js_string"],
    );
    check("<script>'</script><p title='$'>", &["attr"]);
    check("<script>\n<!-- it's $\n$</script>", &["comment", "js"]);
    check("<script type='$' src='/$'>$</script>", &["attr", "url_root", "js"]);
    check(
        "<p onclick=\"f($, '$', &quot;$&quot;, &#39;$&#39;)\">",
        &["js_attr", "js_string", "js_string", "js_string"],
    );
    check("<p onclick='f(\"\\'$'>", &["name"]);
}

#[test]
fn values_in_styles_are_escaped() {
    check(
        "<style>a { color: $; background: url('$') } /* ' $ */ $</style>$",
        &["css", "css", "comment", "css"],
    );
    check("<p style='color: $; /* $ */' title='$'>", &["css", "comment", "attr"]);
}

#[test]
fn xml_pages_escape_urls_scripts_and_styles_like_html() {
    let text = "<a href='#[[1]]' onclick='#[[1]]' style='#[[1]]'>#[[1]]<style>#[[1]]</style>\
                <title><b x='#[[1]]'>#[[1]]</b></title></a><title/><p x='#[[1]]'/>#[[1]]";
    let shown = "<a href='{url 1}' onclick='{js_attr 1}' style='{css 1}'>1<style>{css 1}</style>\
                 <title><b x='{attr 1}'>1</b></title></a><title/><p x='{attr 1}'/>1";
    for path in ["/feed.dyn.xml", "/x.dyn.svg", "/x.dyn.xhtml"] {
        assert_eq!(page(&[(path, text)]), shown);
    }
}

#[test]
fn write_sugar_and_includes_have_the_context_of_their_position() {
    check("<a href='<?lu\n| $\n?>'>", &["url"]);
    check("<script>var x = <?lu ```$``` ?></script>", &["js"]);
    let files = [("/p.dyn.html", "<a href='<?include i ?>#[[1]]'>"), ("/i", "/x?")];
    assert_eq!(page(&files), "<a href='/x?{url_query 1}'>");
}

#[test]
fn branches_must_end_in_the_same_context() {
    check("<a <?lu if 1 then ?>href='x'<?lu else ?>title='y'<?lu end ?> id='$'>$", &["attr"]);
    check("<option <?lu if 1 then ?>selected<?lu end ?>>$", &[]);
    check("<a href='<?lu if 1 then ?>/a?b=1<?lu end ?>$'>", &["url_query"]);
    check("<a href='<?lu if 1 then ?>/<?lu else ?>/?<?lu end ?>$'>", &["url_query"]);
    check(
        "<a href='/<?lu for i = 1, 2 do ?>$/<?lu end ?>$'>",
        &["url_root", "url_root", "url_root"],
    );
    check("<?lu for i = 1, 2 do if i == 1 then ?><p title='$'><?lu break end end ?>", &["attr"]);
    check(
        "<?lu for i = 1, 2 do if i == 1 then goto x end ?><p title='$'><?lu ::x:: end ?>$",
        &["attr"],
    );
    for torn in [
        "<p <?lu if a then ?>title='<?lu end ?>>",
        "<?lu if a then ?><script><?lu else ?><style><?lu end ?>",
        "<?lu while a do ?><p <?lu end ?>>",
        "<?lu repeat ?><p <?lu until a ?>",
        "<?lu local function f() ?><p <?lu end ?>",
        "<script><?lu if a then ?>'<?lu elseif b then ?>`<?lu end ?>",
    ] {
        let problem = compiled(&[("/p.dyn.html", torn)]).unwrap_err();
        assert!(problem.message.contains("different contexts"), "{torn}: {problem}");
    }
}

#[test]
fn errors_name_the_contexts_of_branches() {
    for (torn, words) in [
        (
            "<p>\n<?lu if a then ?><a href='<?lu end ?>'>",
            "the branches of the `if` of line 2 end in different contexts (in the attribute \
             `href`, in HTML text): open and close a tag or attribute in the same branch",
        ),
        (
            "<?lu while a do ?><p <?lu end ?>>",
            "the text of the `while` of line 1 begins and ends in different contexts (in HTML \
             text, in the tag `p`)",
        ),
        ("<?lu local function f() ?><!-- <?lu end ?>", "(in HTML text, in a comment)"),
        ("<?lu for i = 1, 2 do ?><style><?lu end ?>", "(in HTML text, in a style)"),
        (
            "<?lu for i = 1, 2 do if a then ?><script><?lu break else ?><p <?lu break end end ?>",
            "the `break` of line 1 leaves the page in another context than the other ways (in a \
             script, in the tag `p`): close each tag and attribute before the `break`",
        ),
        (
            "<script><?lu if a then ?>'<?lu elseif b then ?>`<?lu end ?>",
            "the `if` of line 1 end in different contexts: open and",
        ),
        (
            "<?lu if a then goto x end ?><title><?lu ::x:: ?>",
            "different contexts (in the element `title`, in HTML text): put both",
        ),
        (
            "<?lu local function item(x) ?><li>#[[x]]</li><?lu end ?>\n<script><?lu item(1) ?>",
            "the output of `item` is escaped for HTML text, where it is defined, and cannot be \
             used in a script: return the value from `item` and write #[[item(…)]]",
        ),
    ] {
        let problem = compiled(&[("/p.dyn.html", torn)]).unwrap_err();
        assert!(problem.message.contains(words), "{torn}: {problem}");
    }
}

/// Jumps out of loops and functions must leave the page in the same context as the other ways.
#[test]
fn jumps_must_end_in_the_same_context() {
    let taken: Vec<_> = [
        "<?lu for i = 1, 2 do if i == 1 then ?><script>a = <?lu break end end ?>",
        "<?lu while a do if b then ?><p <?lu break else ?><a href='<?lu break end end ?>",
        "<?lu repeat ?><p <?lu break until a ?>",
        "<?lu local function f() if a then ?><script><?lu return end end ?>",
        "<?lu if a then goto x end ?><script><?lu ::x:: ?>",
        "<?lu do if a then goto x end end ?><p title='<?lu ::x:: ?>'>",
        "<?lu ::x:: ?><p <?lu if a then goto x end ?>>",
        "<?lu ::x:: do ?><p <?lu if a then goto x end end ?>>",
    ]
    .into_iter()
    .filter(|torn| match compiled(&[("/p.dyn.html", torn)]) {
        Err(problem) => !problem.message.contains("context"),
        Ok(_) => true,
    })
    .collect();
    assert!(taken.is_empty(), "{taken:#?}");
}

#[test]
fn only_raw_values_are_allowed_where_escaping_is_impossible() {
    for text in [
        "<iframe srcdoc='$'>",
        "<iframe>$</iframe>",
        "<xmp>$</xmp>",
        "<p $='$'>",
        "<p onclick=$>",
        "<p style=$>",
        "<p title=$>",
        "<p title= $ class=x>",
        "<p title=a$>",
        "<a href=$>",
        "<a href=/x/$ class=x>",
        "<script>x = /$/</script>",
    ] {
        let escaped = text.replace('$', "#[[1]]");
        assert!(compiled(&[("/p.dyn.html", &escaped)]).is_err(), "{text}");
        assert_eq!(alone(&text.replace('$', "#[[!1]]")), text.replace('$', "1"));
    }
    for text in ["<![CDATA[#[[1]] ]]>", "<a href=#[[1]]>"] {
        assert!(compiled(&[("/p.dyn.xml", text)]).is_err(), "{text}");
    }
}

/// Attributes by which a page loads code, or sends the input of its user.
const LOADING: &[&str] = &[
    "<script src='URL'>",
    "<SCRIPT async SRC='URL'>",
    "<svg><script href='URL'>",
    "<svg><script xlink:href='URL'>",
    "<base href='URL'>",
    "<link href='URL'>",
    "<link rel=stylesheet href='URL'>",
    "<link rel='alternate stylesheet' href='URL'>",
    "<link rel='&#115;tylesheet' href='URL'>",
    "<link rel='icon preload' href='URL'>",
    "<link rel=modulepreload href='URL'>",
    "<link rel='#[[1]]' href='URL'>",
    "<link rel=stylesheet rel=icon href='URL'>",
    "<link <?lu if 1 then ?>rel='icon'<?lu end ?> href='URL'>",
    "<link href='URL' rel=icon>",
    "<iframe src='URL'>",
    "<frame src='URL'>",
    "<object data='URL'>",
    "<embed src='URL'>",
    "<form action='URL'>",
    "<button formaction='URL'>",
    "<input type=submit formaction='URL'>",
    "<div hx-get='URL'>",
    "<div sse-connect='URL'>",
    "<div data-ws-connect='URL'>",
    "<a up-href='URL'>",
    "<turbo-frame src='URL'>",
    "<div data-hx-post='URL'>",
    "<h#[[1]] src='URL'>",
];

/// Values that are allowed in the place of `URL` there, and those that need `:trusted`.
#[test]
fn values_cannot_choose_the_host_of_script_urls() {
    for tag in LOADING {
        for fine in [
            "/js/#[[1]].js",
            "/#[[1]]",
            "js/#[[1]].js",
            "./#[[1]]",
            "?file=#[[1]]",
            "#part-#[[1]]",
            "https://cdn.example/#[[1]]",
            "//cdn.example/#[[1]].js?v=#[[1]]",
            "https://cdn.example?#[[1]]",
            "#[[1:trusted]]",
            "#[[1:trusted]]/#[[1]]",
            "https://#[[1:trusted]]/#[[1]].js",
            "#[[!1]]",
            "plain.js",
        ] {
            let text = tag.replace("URL", fine);
            assert!(compiled(&[("/p.dyn.html", &text)]).is_ok(), "{text}");
        }
        for open in [
            "#[[1]]",
            " #[[1]]",
            "&#32;#[[1]]",
            "#[[1]]/x.js",
            "//#[[1]]/x.js",
            "/\\#[[1]]/x.js",
            "/\t/#[[1]]",
            "https:#[[1]]",
            "https://#[[1]]",
            "https://cdn#[[1]]",
            "https://cdn.example:#[[1]]/",
            "#[[1:trusted]]#[[1]]",
            "<?lu if 1 then ?>/js/<?lu end ?>#[[1]]",
        ] {
            let text = tag.replace("URL", open);
            let refused = compiled(&[("/p.dyn.html", &text)]);
            let problem = refused.expect_err(&text);
            assert!(problem.message.contains(":trusted") && problem.line == 1, "{text}: {problem}");
        }
    }
    for fine in [
        "<link rel=canonical href='$'>",
        "<link REL='shortcut icon' href='$'>",
        "<a href='$'><img src='$'><video src='$' poster='$'><area href='$'>",
        "<link rel=icon rel=stylesheet href='$'>",
        "<p data-src='$' data-action='$'>",
    ] {
        let text = fine.replace('$', "#[[1]]");
        assert!(compiled(&[("/p.dyn.html", &text)]).is_ok(), "{text}");
    }
    // Feeds also have a `link` element, which is not that of HTML.
    let feed = "<feed xmlns='http://www.w3.org/2005/Atom'><link href='#[[1]]' rel='self'/></feed>";
    assert_eq!(page(&[("/feed.dyn.atom", feed)]).matches("{url 1}").count(), 1);
    let page = "<html xmlns='http://www.w3.org/1999/xhtml'><link href='#[[1]]'/></html>";
    assert!(compiled(&[("/p.dyn.xhtml", page)]).is_err());
    assert!(compiled(&[("/p.dyn.svg", "<svg:script href='#[[1]]'/>")]).is_err());
}

/// The page itself decides which page follows, and which modules are loaded.
#[test]
fn values_are_refused_in_meta_refresh_and_import_maps() {
    for (open, why) in [
        ("<meta http-equiv=refresh content='#[[1]]'>", ":trusted"),
        ("<meta http-equiv='Refresh' content='0;url=#[[1]]'>", ":trusted"),
        ("<META HTTP-EQUIV=' REFRESH ' CONTENT='5;url=/next/#[[1]]'>", ":trusted"),
        ("<meta http-equiv='re&#102;resh' content='#[[1]]'>", ":trusted"),
        ("<meta http-equiv='#[[1]]' content='#[[1]]'>", ":trusted"),
        ("<meta http-equiv=refresh http-equiv=x content='#[[1]]'>", ":trusted"),
        ("<meta #[[1]]='x' content='#[[1]]'>", ":trusted"),
        ("<meta <?lu if 1 then ?>http-equiv=refresh <?lu end ?> content='#[[1]]'>", ":trusted"),
        ("<meta content='#[[1]]' http-equiv=refresh>", ":trusted"),
        ("<meta content='#[[1]]' http-equiv='refresh'>#[[1]]", ":trusted"),
        ("<meta content='#[[1]]' http-equiv='#[[1]]'>", ":trusted"),
        (
            "<meta content='#[[1]]' name=x <?lu if 1 then ?>http-equiv=refresh <?lu end ?>>",
            ":trusted",
        ),
        ("<script type=importmap>{\"imports\": {\"a\": \"#[[1]]\"}}</script>", "import map"),
        ("<script type='ImportMap'>#[[1]]</script>", "import map"),
        ("<script async type=\" importmap \">{\"#[[1]]\": 1}</script>", "import map"),
        ("<script <?lu if 1 then ?>type=importmap <?lu end ?>>#[[1]]</script>", "import map"),
        ("<script type=importmap>#[[1:trusted]]</script>", "import map"),
    ] {
        let problem = compiled(&[("/p.dyn.html", open)]).expect_err(open);
        assert!(problem.message.contains(why) && problem.line == 1, "{open}: {problem}");
    }
    for (fine, expected) in [
        ("<meta name=description content='$'>", "attr"),
        ("<meta content='$' name=description>", "attr"),
        ("<meta property='og:title' content='$'><p title=refresh>", "attr"),
        ("<meta http-equiv=content-language content='$'>", "attr"),
        ("<meta http-equiv=x http-equiv=refresh content='$'>", "attr"),
        ("<p http-equiv=refresh content='$'>", "attr"),
        ("<script type=module>f($)</script>", "js"),
        ("<script type='module' type=importmap>f($)</script>", "js"),
        ("<script>f($)</script>", "js"),
        ("<script type=importmap>{}</script><script>f($)</script>", "js"),
        ("<input type='$'>", "attr"),
    ] {
        check(fine, &[expected]);
    }
    for trusted in [
        "<meta http-equiv=refresh content='#[[1:trusted]]'>",
        "<meta http-equiv=refresh content='0;url=#[[1:trusted]]'>",
    ] {
        assert_eq!(alone(trusted), trusted.replace("#[[1:trusted]]", "{attr 1}"));
    }
    alone("<meta http-equiv=refresh content='#[[!1]]'><script type=importmap>#[[!1]]</script>");
    alone("<meta content='#[[!1]]' http-equiv=refresh>");
    let idle = "<meta name=description content='#[[1:trusted]]'>";
    assert!(compiled(&[("/p.dyn.html", idle)]).is_err());
}

#[test]
fn trusted_is_refused_where_no_trust_is_needed() {
    for idle in [
        "#[[1:trusted]]",
        "<a href='#[[1:trusted]]'>",
        "<p title='#[[1:trusted]]'>",
        "<script>#[[1:trusted]]</script>",
        "<script src='/#[[1:trusted]]'></script>",
        "<p #[[1:trusted]]>",
        "<style>#[[1:trusted]]</style>",
    ] {
        let problem = compiled(&[("/p.dyn.html", idle)]).expect_err(idle);
        assert!(problem.message.contains("needs no trust"), "{idle}: {problem}");
    }
    for plain in ["/p.dyn.txt", "/p.dyn.css", "/p.dyn.js"] {
        assert!(compiled(&[(plain, "#[[1:trusted]]")]).is_err(), "{plain}");
    }
    // The value is still escaped, and its scheme is checked.
    check(
        "<script src='#[[1:trusted]]'></script><iframe src='https://#[[1 : trusted ]]'>",
        &["url", "url_path"],
    );
    assert_eq!(alone("#[[({ trusted = 7 }).trusted]]"), "7");
}

/// SVG can animate the address of a link.
#[test]
fn values_are_refused_in_svg_animations_of_links() {
    for attribute in ["values", "from", "to", "by"] {
        for tag in ["animate", "set", "animateColor", "animateTransform", "svg:animate"] {
            for name in ["", "href", "xlink:href", "#[[1]]"] {
                for value in ["#[[1]]", "https://example.org;#[[1]]", "/a/#[[1]]"] {
                    let front = match name {
                        "" => String::new(),
                        name => format!("attributeName='{name}'"),
                    };
                    let text = format!("<svg><a><{tag} {front} {attribute}='{value}'>");
                    let problem = compiled(&[("/p.dyn.html", &text)]).expect_err(&text);
                    assert!(problem.message.contains("SVG"), "{text}: {problem}");
                }
            }
        }
        let text = format!("<svg><animate attributeName='r' {attribute}='0;#[[1]];2'>");
        assert_eq!(alone(&text), text.replace("#[[1]]", "{attr 1}"));
        let text = format!("<my-element {attribute}='#[[1]]'>");
        assert_eq!(alone(&text), text.replace("#[[1]]", "{attr 1}"));
        let text = format!("<anim#[[1]] {attribute}='#[[1]]'>");
        assert!(compiled(&[("/p.dyn.html", &text)]).is_err(), "{text}");
    }
}

/// Attributes that frameworks execute are scripts, like `onclick`.
#[test]
fn attributes_that_frameworks_execute_are_scripts() {
    for name in [
        "hx-on:click",
        "hx-on::after-request",
        "hx-on--load",
        "hx-on",
        "data-hx-on:click",
        "hx-vals",
        "hx-vars",
        "hx-headers",
        "hx-trigger",
        "data-hx-vals",
        "x-on:click",
        "x-data",
        "x-init",
        "x-html",
        "x-bind:href",
        "@click",
        "@click.prevent",
        "@keyup.enter",
        "v-on:click",
        "v-html",
        "v-bind:src",
        "v-if",
        ":class",
        ":href",
        "(click)",
        "[innerHTML]",
        "*ngIf",
        "ng-click",
        "ng:click",
        "ng_click",
        "data-ng-click",
        "data-ng:click",
        "data-ng_click",
        "data-on-click",
        "data-on:click",
        "data-onclick",
        "data-on-click__debounce",
        "data-bind",
        "data-signals",
        "data-computed-x",
        "data-effect",
        "data-attr:title",
        "data-class:hidden",
        "data-style:color",
        "wire:click",
        "up-on-loaded",
        "up-watch",
        "data-init",
        "data-init__delay.500ms",
        "on:click",
        "onclick",
        "HX-ON:Click",
        "Data-On-Click",
    ] {
        let text = format!("<p {name}=\"f($, '$', `$`)\">");
        check(&text, &["js_attr", "js_string", "js_string"]);
        assert!(compiled(&[("/p.dyn.html", &format!("<p {name}=#[[1]]>"))]).is_err(), "{name}");
    }
    let plain = ["data-x", "data-user", "data-o", "data-class", "data-text", "aria-label", "x-ref"];
    let others = ["title", "hx-target", "up-watch-event", "data-initials", "data-ngo", "ngo"];
    for name in plain.into_iter().chain(others) {
        check(&format!("<p {name}=\"$\">"), &["attr"]);
    }
    for name in ["_", "script", "data-script"] {
        assert!(compiled(&[("/p.dyn.html", &format!("<p {name}='#[[1]]'>"))]).is_err(), "{name}");
    }
    // A value in the name could turn it into one of these attributes.
    check("<p data-$='$' data-user-$='$'>", &["name", "attr", "name", "attr"]);
    for name in
        ["#[[1]]", "hx-#[[1]]", "data-o#[[1]]", "data-on#[[1]]", "data-#[[1]]#[[1]]", "@#[[1]]"]
    {
        let text = format!("<p {name}='#[[1]]'>");
        assert!(compiled(&[("/p.dyn.html", &text)]).is_err(), "{text}");
    }
}

#[test]
fn values_are_refused_in_css_imports() {
    for text in [
        "@import '#[[1]]';",
        "@import url(#[[1]]);",
        "a {} @IMPORT \"/x/#[[1]]\" screen;",
        "@import /* ; */ '#[[1]]';",
    ] {
        assert!(compiled(&[("/p.dyn.css", text)]).is_err(), "{text}");
        let page = format!("<style>{text}</style>");
        assert!(compiled(&[("/p.dyn.html", &page)]).is_err(), "{page}");
    }
    check("<style>@import '/x.css'; a { color: $ }</style>", &["css"]);
    check("<style>@import /* $ */ 'x'; a { background: url($) }</style>", &["comment", "css"]);
}
