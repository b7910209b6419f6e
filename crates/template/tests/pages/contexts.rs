//! How a value is escaped, by where it stands.

use crate::site::{alone, compiled, page};

/// Each `$` is a value; the letters behind the page are what each one is escaped by.
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
fn text_and_attributes() {
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
fn urls() {
    check("<a href='$'><img src=\"$$\">", &["url", "url", "url_path"]);
    check(
        "<a href='/x/$/y?a=$&b=$#$' title='$'>",
        &["url_path", "url_query", "url_query", "url_query", "attr"],
    );
    check("<A HREF = ' $$?$'>", &["url", "url_path", "url_query"]);
    check("<form action='$' data-action='$'><use xlink:href='#$'>", &["url", "attr", "url_query"]);
}

#[test]
fn scripts() {
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
    check("<script type='$' src='$'>$</script>", &["attr", "url", "js"]);
    check(
        "<p onclick=\"f($, '$', &quot;$&quot;, &#39;$&#39;)\">",
        &["js_attr", "js_string", "js_string", "js_string"],
    );
    check("<p onclick='f(\"\\'$'>", &["name"]);
}

#[test]
fn styles() {
    check(
        "<style>a { color: $; background: url('$') } /* ' $ */ $</style>$",
        &["css", "css", "comment", "css"],
    );
    check("<p style='color: $; /* $ */' title='$'>", &["css", "comment", "attr"]);
}

#[test]
fn xml_has_what_browsers_run_in_it() {
    let text = "<a href='#[[1]]' onclick='#[[1]]' style='#[[1]]'>#[[1]]<style>#[[1]]</style>\
                <title><b x='#[[1]]'>#[[1]]</b></title></a><title/><p x='#[[1]]'/>#[[1]]";
    let shown = "<a href='{url 1}' onclick='{js_attr 1}' style='{css 1}'>1<style>{css 1}</style>\
                 <title><b x='{attr 1}'>1</b></title></a><title/><p x='{attr 1}'/>1";
    for path in ["/feed.dyn.xml", "/x.dyn.svg", "/x.dyn.xhtml"] {
        assert_eq!(page(&[(path, text)]), shown);
    }
}

#[test]
fn sugar_and_includes_stand_where_they_are_shown() {
    check("<a href='<?lu\n| $\n?>'>", &["url"]);
    check("<script>var x = <?lu ```$``` ?></script>", &["js"]);
    let files = [("/p.dyn.html", "<a href='<?include i ?>#[[1]]'>"), ("/i", "/x?")];
    assert_eq!(page(&files), "<a href='/x?{url_query 1}'>");
}

#[test]
fn branches_end_in_one_place() {
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
        assert!(problem.what.contains("different places"), "{torn}: {problem}");
    }
}

/// Whatever leaves a loop or a function, it leaves the page where the other ways do.
#[test]
fn jumps_end_in_one_place() {
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
        Err(problem) => !problem.what.contains("different places"),
        Ok(_) => true,
    })
    .collect();
    assert!(taken.is_empty(), "{taken:#?}");
}

#[test]
fn where_nothing_can_be_escaped_only_raw_values_stand() {
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
