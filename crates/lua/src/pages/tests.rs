//! Pages through a VM: what they show.

use super::escape;
use super::test_site::{TestSite, alone, program};
use crate::bounded_output::BoundedResult;
use crate::site_program::SiteProgram;
use crate::source_names::SourceNames;

#[test]
fn values_are_escaped_by_their_context() {
    for (page, shown) in [
        ("#[['<b> & \"c\"']]#[[nil]] #[[5]] #[[true]]", "&lt;b&gt; &amp; &quot;c&quot; 5 true"),
        ("<p title='#[[\"it's <\"]]'>", "<p title='it&#39;s &lt;'>"),
        ("<p title='#[['']]' class=\"#[['a b']]\">", "<p title='' class=\"a b\">"),
        ("<p #[['onclick']] #[['x=y>']]>", "<p  xy>"),
        ("<a href='#[['javascript:alert(1)']]'>", "<a href='about:invalid'>"),
        ("<a href='#[['/a?b=c&d']]'>", "<a href='/a?b=c&amp;d'>"),
        ("<a href='/x/#[['a b/?']]?q=#[['a&b/']]'>", "<a href='/x/a%20b/%3F?q=a%26b%2F'>"),
        ("<script src='/#[['/evil/x.js']]'>", "<script src='/%2Fevil/x.js'>"),
        ("<a href='/#[[nil]]/#[['evil']]'>", "<a href='/./evil'>"),
        ("<script src='#[['javascript:x':trusted]]'>", "<script src='about:invalid'>"),
        ("<p @click=\"f('#[[\"it's\"]]')\">", "<p @click=\"f('it\\u0027s')\">"),
        ("#[[1700000000123456]] #[[-9007199254740992]]", "1700000000123456 -9007199254740992"),
        ("<p hx-vals='#[[{ a = '<' }]]'>", "<p hx-vals='{&quot;a&quot;:&quot;\\u003c&quot;}'>"),
        (
            "<script>x = #[[{ 'a</script>', 1 }]]</script>",
            "<script>x = [\"a\\u003c/script\\u003e\",1]</script>",
        ),
        (
            "<script>x = '#[[\"it's\"]]', #[[nil]]</script>",
            "<script>x = 'it\\u0027s', null</script>",
        ),
        ("<p onclick=\"f(#[['\"']])\">", "<p onclick=\"f(&quot;\\&quot;&quot;)\">"),
        ("<p style='color: #[['red;x']]'>", "<p style='color: red\\3b x'>"),
        ("<!-- #[['--> <b>']] -->", "<!--  b -->"),
        ("#[[!'<b>']]#[[!nil]]#[[!3]]", "<b>3"),
        (
            "#[[nil:s]]|#[[true:6s]]|#[[5:s]]|<?lu local t = setmetatable({}, { __tostring = \
             function() return '<' end }) ?>#[[t:3s]]#[[t]]",
            "|  true|5|  &lt;&lt;",
        ),
        ("#[[3.14159:.2f]] #[['<':3s]]|<b title='#[[7:03d]]'>", "3.14   &lt;|<b title='007'>"),
    ] {
        assert_eq!(alone(page), shown, "{page}");
    }
}

#[test]
fn each_ascii_character_is_escaped_in_text_and_attributes() {
    let page = "<?lu for sign = 0, 127 do local x = 'a' .. string.char(sign) .. 'b' ?>\
                #[[x]]<p title=\"#[[x]]\"><?lu end ?>";
    let mut expected = Vec::new();
    for sign in 0..=127 {
        let text = [b'a', sign, b'b'];
        let shown = |escaped: BoundedResult<Option<Vec<u8>>>| {
            escaped.expect("short").unwrap_or_else(|| text.to_vec())
        };
        expected.extend(shown(escape::html(&text)));
        expected.extend([b"<p title=\"", &*shown(escape::attribute(&text)), b"\">"].concat());
    }
    assert_eq!(alone(page).as_bytes(), expected);
}

#[test]
fn every_form_of_the_template_language_is_rendered() {
    for (page, shown) in [
        ("<?lu for i = 1, 3 do ?>(#[[i]])<?lu end ?>", "(1)(2)(3)"),
        ("<?lu\n  | <b>#[[query.name]]</b>\n?>", "<b>&lt;Ann&gt;</b>\n"),
        ("<?lu if query.n == '7' then ```\n  <p>\n  ``` end ?>", "  <p>\n"),
        ("a<?lua write('b')\n| #[[method]]\ndone() ?>c", "abGET\nc"),
        ("a<?lua pinion.sleep(0.01) write('b') done() ?>c", "abc"),
        ("#! parallel\n1<?lua write(2) done() ?>3<?lua write(4) done() ?>", "1234"),
        ("\u{feff}#! parallel\n1<?lua write(2) done() ?>3", "\u{feff}123"),
        ("\u{feff}#! parallel", "\u{feff}"),
        ("#[[await(function(done) done('x') end)]]#[[await(function() return 'y' end)]]", "xy"),
        (
            "<?lu local x = await(function(done) pinion.gather(function()
            pinion.sleep(0.01) done('x') end) end) ?>#[[x]]",
            "x",
        ),
        (
            "<?lu local a, b, c = await(function(done) done(1, nil, 3) end) ?>#[[a]]#[[b]]#[[c]]",
            "13",
        ),
        ("<?lu local a, b = await(function() return 1, 2 end) ?>#[[a]]#[[b]]", "12"),
        ("#[[select('#', await(function(done) done() end))]]", "0"),
        ("#[[type(fd)]]", "table"),
        (
            "#[[1700000000123456]]<a href='/#[[9007199254740992]]'>",
            "1700000000123456<a href='/9007199254740992'>",
        ),
        ("<?lu locals.x = 1 ?>#[[locals.x]]#[[session.y or 2]]#[[session:get('z')]]", "12"),
        ("#[[endpoint]] #[[headers['x-sign']]] #[[body]]", "/ &lt;x&gt; "),
        ("<?lu done() do return end ?>x", ""),
    ] {
        assert_eq!(alone(page), shown, "{page}");
    }
    let files = [
        (
            "/a/index.dyn.html",
            "<?layout /base.priv.html ?><?slot t ?>T<?/slot ?>[<?include b.html ?>]",
        ),
        ("/a/b.html", "#[[query.q]]"),
        ("/base.priv.html", "<h1><?yield t ?></h1><?yield ?>"),
    ];
    assert_eq!(TestSite::new(&files).body("/a/?q=%26"), "<h1>T</h1>[&amp;]");
}

#[test]
fn format_arguments_of_write_are_escaped() {
    for (code, shown) in [
        ("write('100%') write(5) write('<', '') write(0.5)", "100%5<0.5"),
        ("write('%s|%.3f|%d|%s', '<b>', 1/3, 7, nil)", "&lt;b&gt;|0.333|7|"),
        ("write('%s', '%d <')", "%d &lt;"),
        (
            "write(1700000000123456) write('|') write(-1700000000123456)",
            "1700000000123456|-1700000000123456",
        ),
        ("write({ a = '<' })", "{\"a\":\"<\"}"),
        ("write(escape('<') .. escape(nil) .. escape(1))", "&lt;1"),
    ] {
        assert_eq!(alone(&format!("<?lu {code} ?>")), shown, "{code}");
    }
}

/// Pages of 80s name the phrase.
#[test]
fn a_status_may_have_a_reason_phrase() {
    for (status, expected) in [("'400 Bad Request'", 400), ("'404 '", 404), ("201", 201)] {
        let page = format!("<?lu status({status}) ?>x");
        let shown = TestSite::new(&[("/x.dyn.html", &page)]).get("/x").expect("shown");
        assert_eq!((shown.status, shown.body.as_str()), (expected, "x"), "{status}");
    }
}

#[test]
fn pages_set_status_and_fields_until_the_headers_are_sent() {
    let page = "<?lu status(404) header('X-A', 'b') header('Set-Cookie', 'c=1', 'more') ?>gone";
    let shown = TestSite::new(&[("/x.dyn.html", page)]).get("/x").expect("shown");
    assert_eq!((shown.status, shown.body.as_str()), (404, "gone"));
    assert_eq!(
        shown.head,
        "Cache-Control: no-store\r\nContent-Type: text/html; charset=utf-8\r\nX-A: b\r\n\
         Set-Cookie: c=1\r\n"
    );
    let page = "<?lu header('Content-Type', 'text/calendar') ?>x";
    let shown = TestSite::new(&[("/x.dyn.json", page)]).get("/x.json").expect("shown");
    assert_eq!(shown.head, "Content-Type: text/calendar\r\n");
    let page = "<?lu for n = 1, 2000 do ?>#[[('x'):rep(100)]]<?lu end\nstatus(500) ?>";
    let mut site = TestSite::new(&[("/x.dyn.html", page)]);
    let report = site.report("/x");
    assert!(report.starts_with("/x.dyn.html:2: the headers have been sent already"), "{report}");
}

#[test]
fn an_error_about_a_too_long_value_names_its_line() {
    let page = "\n#[[('\"'):rep(2^22)]]";
    let report = TestSite::new(&[("/x.dyn.html", page)]).report("/x");
    let said = "a value of a page: the text or the result is longer than 16 MiB";
    assert!(report.contains(said) && report.contains("/x.dyn.html:2:"), "{report}");
}

#[test]
fn large_pages_are_sent_while_they_are_rendered() {
    let lines = "<?lu for n = 1, 3000 do ?>#[[n]] #[[('x'):rep(90)]]\n<?lu end ?>";
    let expected: String = (1..=3000).map(|n| format!("{n} {}\n", "x".repeat(90))).collect();
    let shown = TestSite::new(&[("/x.dyn.txt", lines)]).get("/x.txt").expect("shown");
    assert!(shown.body == expected, "{}", shown.body.len());
    assert!(shown.sent.len() >= 3, "{:?}", shown.sent);
    assert!(shown.sent.iter().all(|sent| (65_000..130_000).contains(sent)), "{:?}", shown.sent);
    let written =
        "<?lu for n = 1, 3000 do write(n, nil) write(' ' .. ('x'):rep(90) .. '\\n') end ?>";
    let shown = TestSite::new(&[("/x.dyn.txt", written)]).get("/x.txt").expect("shown");
    assert!(shown.body == expected && shown.sent.len() >= 3, "{:?}", shown.sent);
    // The function that changes the page gets all of it.
    let changed = format!("<?lu post_render(function(page) return #page .. '' end) ?>{lines}");
    let shown = TestSite::new(&[("/x.dyn.txt", &changed)]).get("/x.txt").expect("shown");
    assert_eq!((shown.body, shown.sent), (expected.len().to_string(), vec![]));
}

/// What the host calls cannot wait; the page is sent later.
#[test]
fn functions_that_cannot_wait_write_large_output() {
    let page = "<?lu local function f() for n = 1, 300 do ?>#[[('x'):rep(1000)]]<?lu end end
        ; ('ab'):gsub('.', f)
        table.sort({1, 2}, function(a, b) f() return a < b end) ?>";
    let shown = TestSite::new(&[("/x.dyn.txt", page)]).get("/x.txt").expect("shown");
    assert!(shown.body.len() >= 900_000, "{}", shown.body.len());
    let inner = "<?lu coroutine.wrap(function() for n = 1, 300 do ?>#[[('x'):rep(1000)]]<?lu end
        coroutine.yield() end)() ?>";
    let shown = TestSite::new(&[("/x.dyn.txt", inner)]).get("/x.txt").expect("shown");
    assert_eq!((shown.body.len(), shown.sent.is_empty()), (300_000, false));
}

#[test]
fn post_render_functions_change_the_page() {
    for (code, shown) in [
        ("post_render(function(page) return page:upper() end)", "BODY"),
        ("locals.x = '!' post_render(function(locals, page) return page .. locals.x end)", "body!"),
        ("post_render(function(locals, page) return page .. #locals end)", "body0"),
        ("post_render(function() end)", "body"),
        (
            "post_render(function(page) return page .. 1 end)
             post_render(function(_, page) return page .. 2 end)",
            "body12",
        ),
        ("post_render(function(...) return (...) .. select('#', ...) end)", "body1"),
        ("post_render(string.upper)", "BODY"),
    ] {
        assert_eq!(alone(&format!("<?lu {code} ?>body")), shown, "{code}");
    }
    let mut site =
        TestSite::new(&[("/x.dyn.txt", "<?lu post_render(function() return {} end) ?>")]);
    assert!(site.report("/x.txt").contains("returned a table, not the page"));
}

#[test]
fn errors_name_the_file_and_line_of_the_template() {
    let files = [
        ("/p.dyn.html", "one\n<?include inner.html ?>\n#[[query.x.y]]"),
        ("/inner.html", "two\n\n<?lu if query.inner then\nerror('why') end ?>"),
        ("/f.dyn.html", "\n<?lu local function f()\nlocal x = nil .. ''\nend ?>\n<?lu\nf() ?>"),
        ("/t.dyn.html", "\n#[[ {} ]]"),
        ("/fn.dyn.html", "\n#[[print]]"),
        ("/ts.dyn.html", "\n#[[ 1 ]]\n#[[ {}:s ]]"),
        ("/tn.dyn.html", "\n\n#[[setmetatable({}, { __tostring = function() return true end })]]"),
        ("/w.dyn.html", "\n\n<?lu write(nil) ?>"),
        ("/m.dyn.html", "\n<?lu write('%d', 'x') ?>"),
        ("/s.dyn.html", "\n\n<?lu status(1000) ?>"),
        ("/sa.dyn.html", "\n<?lu status('abc') ?>"),
        ("/ha.dyn.html", "\n<?lu header('X', {}) ?>"),
        ("/h.dyn.html", "\n<?lu header('X', 'a\\nb') ?>"),
        ("/c.dyn.html", "\n<?lu local _, why = pcall(error, 'x', 2) write(tostring(why)) ?>"),
        ("/j.dyn.html", "\n<script>#[[print]]</script>"),
    ];
    let mut site = TestSite::new(&files);
    for (target, place) in [
        ("/p", "/p.dyn.html:3: "),
        ("/p?inner=1", "/inner.html:4: why"),
        ("/f", "/f.dyn.html:3: "),
        ("/t", "/t.dyn.html:2: a table cannot be inserted; insert one of its fields, or use"),
        ("/ts", "/ts.dyn.html:3: a table cannot be inserted"),
        ("/fn", "/fn.dyn.html:2: a function cannot be inserted; call it: #[[name()]]"),
        ("/tn", "/tn.dyn.html:3: "),
        ("/w", "/w.dyn.html:3: bad argument #1 to 'write' (string, number or table expected, got"),
        ("/m", "/m.dyn.html:2: bad argument #2"),
        ("/s", "/s.dyn.html:3: 1000 is not a status"),
        ("/sa", "/sa.dyn.html:2: bad argument #1 to 'status' (number expected, got string)"),
        ("/ha", "/ha.dyn.html:2: bad argument #2 to 'header' (string expected, got table)"),
        ("/h", "/h.dyn.html:2: the value of the header X has a line break"),
        ("/j", "/j.dyn.html:2: "),
    ] {
        let report = site.report(target);
        assert!(report.starts_with(place), "{target}: {report}");
    }
    let report = site.report("/f");
    assert!(report.contains("\t/f.dyn.html:6: in"), "{report}");
    assert!(!report.contains("<page"), "{report}");
    site.body("/c");
    drop(site);
    // Also where the line is one of a file that the page includes.
    let files = [("/p.dyn.html", "<?include i ?>"), ("/i", "\n#[[query.x.y]]")];
    let report = TestSite::new(&files).report("/p");
    assert!(report.contains("\t/i:2: in the page"), "{report}");
}

#[test]
fn a_value_that_does_not_fit_its_format_is_named() {
    for (value, words) in [
        (
            "query.x:d",
            "the format `d` needs a number, the value is nil; write `tonumber(query.x) or 0`",
        ),
        ("tonumber(query.x):.2f", "the value is nil; write `tonumber(query.x) or 0`"),
        (
            "'a':x",
            "the format `x` needs a number, the value is a string; write `tonumber('a') or 0`",
        ),
        ("{}:d", "the format `d` needs a number, the value is a table"),
    ] {
        let page = format!("\n#[[1:d]]\n#[[{value}]]");
        let report = TestSite::new(&[("/x.dyn.html", &page)]).report("/x");
        let line = report.lines().next().expect("a line");
        let begins = format!("/x.dyn.html:3: #[[{value}]]: ");
        assert!(line.starts_with(&begins) && line.ends_with(words), "{value}: {report}");
    }
    let report = TestSite::new(&[("/x.dyn.html", "#[[1:d]] #[[query.x:d]]")]).report("/x");
    let words = "/x.dyn.html:1: the value of one of #[[1:d]], #[[query.x:d]] does not fit its ";
    assert!(report.starts_with(words), "{report}");
}

#[test]
fn errors_in_pages_are_found_before_the_first_request() {
    for (files, problem) in [
        (vec![("/x.dyn.html", "\n<?lu x = 1 ?>")], "/x.dyn.html:2: "),
        (vec![("/x.dyn.html", "<?include none.html ?>")], "/x.dyn.html:1: "),
        (vec![("/.dyn.html", "")], "/.dyn.html: a page needs a name"),
        (
            vec![("/a.dyn.htm", ""), ("/a.dyn.html", "")],
            "/a.dyn.html: GET /a is answered by /a.dyn.htm already; rename one of them",
        ),
    ] {
        let why = program(&files).expect_err(problem);
        assert!(why.starts_with(problem), "{why}");
    }
    let long = format!("/{}.dyn.html", "a/".repeat(600) + "b");
    let Err(why) = TestSite::of(&program(&[(&long, "")]).expect("compiled")) else {
        panic!("started")
    };
    assert!(why.contains("at most 1024 bytes"), "{why}");
}

#[test]
fn routes_of_the_main_script_take_precedence_over_pages() {
    let main = "pinion.get('/a', function() return 'script a' end)
        pinion.any('/b', function() return 'script b' end)
        pinion.get('/:any', function(req) return 'script ' .. req.params.any end)";
    let files = [
        ("//main.lua", main),
        ("/main.lua", "error('the one beside goes before')"),
        ("/a.dyn.html", "page a"),
        ("/post.a.dyn.html", "posted a: #[[body]]"),
        ("/b.dyn.html", "page b"),
        ("/c.dyn.html", "page c"),
        ("/:any.dyn.html", "page :any"),
        ("/d.priv.dyn.html", "page d"),
    ];
    let mut site = TestSite::new(&files);
    for (target, shown) in [
        ("/a", "script a"),
        ("/b", "script b"),
        ("/c", "page c"),
        ("/d", "script d"),
        ("/d.priv", "script d.priv"),
        ("/:any", "page :any"),
    ] {
        assert_eq!(site.body(target), shown, "{target}");
    }
    assert_eq!(site.post("/a", "<x>").expect("shown").body, "posted a: &lt;x&gt;");
    site.get("/a/").expect_err("another path");
}

#[test]
fn middleware_writes_before_and_after_a_page() {
    let main = "local function mark(name)
            return function(req, res, next)
                req.locals = req.locals or {}
                req.locals.marks = (req.locals.marks or '') .. name
                res:write(name, '(')
                local given = next()
                res:write(')')
                return given
            end
        end
        local deep = pinion.group('/a').group('/:any')
        deep.use(mark('deep'))
        pinion.use(mark('site'))
        pinion.group('/a').use(mark('a'))
        pinion.group('/other').use(mark('other'))";
    let files = [
        ("/main.lua", main),
        ("/x.dyn.html", "#[[locals.marks]]"),
        ("/a/b.dyn.html", "#[[locals.marks]]"),
        ("/a/r.dyn.html", "x<?lu post_render(function(own, page) return page .. own.marks end) ?>"),
        ("/a/p.dyn.html", "#! parallel\n1<?lua write(2) done() ?>3"),
        ("/whole.dyn.html", "<?lu for n = 1, 9000 do ?>line #[[n]]\n<?lu end ?>"),
    ];
    let mut site = TestSite::new(&files);
    for (target, shown) in [
        ("/x", "site(site)"),
        ("/a/b", "deep(site(a(deepsitea)))"),
        ("/a/r", "deep(site(a(xdeepsitea)))"),
        ("/a/p", "deep(site(a(123)))"),
    ] {
        assert_eq!(site.body(target), shown, "{target}");
    }
    let lines: String = (1..=9000).map(|line| format!("line {line}\n")).collect();
    let whole = site.get("/whole").expect("shown");
    assert_eq!((whole.body, whole.sent.len()), (format!("site({lines})"), 1));
}

#[test]
fn an_error_in_middleware_of_a_page_names_both_source_lines() {
    let main = "\npinion.use(function(req, res) return res:status(99) end)";
    let mut site = TestSite::new(&[("/main.lua", main), ("/x.dyn.html", "x")]);
    let why = site.get("/x").expect_err("no status");
    let begins = "/x.dyn.html:1: in the handler that starts at this line, or in its middleware: 99";
    assert!(why.starts_with(begins), "{why}");
    assert!(why.ends_with("/main.lua:2: its middleware starts here"), "{why}");
}

#[test]
fn invalid_middleware_of_pages_is_refused() {
    for (main, why) in [
        ("\npinion.group('admin')", "/main.lua:2: \"admin\": a pattern begins with a slash"),
        ("pinion.group('/a/*all')", "/main.lua:1: \"/a/*all\": `*name` takes all the rest"),
        (
            "pinion.use('/a')",
            "/main.lua:1: bad argument #1 to 'pinion.use' (function(req, res, next) expected",
        ),
    ] {
        let Err(problem) = TestSite::of(&program(&[("/main.lua", main)]).expect("compiled")) else {
            panic!("{main}: it started");
        };
        assert!(problem.starts_with(why), "{main}: {problem}");
    }
    let files = [
        ("/use.dyn.html", "<?lu pinion.use(write) ?>"),
        ("/group.dyn.html", "<?lu pinion.group('/a') ?>"),
        ("/special.dyn.html", "<?lu pinion.on_error(write) ?>"),
    ];
    let mut site = TestSite::new(&files);
    for target in ["/use", "/group", "/special"] {
        let report = site.report(target);
        let expected = format!("{target}.dyn.html:1: register routes and middleware while the");
        assert!(report.starts_with(&expected), "{report}");
    }
}

/// A name that was never declared is an error, not nil.
#[test]
fn an_error_about_a_misspelt_name_has_its_line() {
    let main = "known = 'global' flag = false";
    let files = [
        ("/main.lua", main),
        ("/a.dyn.html", "<?lu local title = 'x' ?>\n#[[titel]]"),
        ("/f.dyn.html", "\n<?lu local function f()\nreturn titel.x end\nf() ?>"),
        ("/w.dyn.html", "a<?lua\ntitel() done() ?>"),
        (
            "/fine.dyn.html",
            "#[[known]]#[[flag]]#[[_G.titel]]#[[query.x]]#[[locals.y]]#[[#_G.known]]",
        ),
        ("/set.dyn.html", "<?lu _G.made = 'made' ?>#[[made]]"),
    ];
    let mut site = TestSite::new(&files);
    for (target, place) in [("/a", 2), ("/f", 3), ("/w", 2)] {
        let report = site.report(target);
        let expected =
            format!("{target}.dyn.html:{place}: there is no variable \"titel\"; declare");
        assert!(report.starts_with(&expected), "{report}");
    }
    assert_eq!(site.body("/fine"), "globalfalse6");
    assert_eq!(site.body("/set"), "made");
}

#[test]
fn pages_can_read_forms_and_cookies() {
    let page = "#[[form.name]] #[[form.name and #form['name[]']]] #[[cookies.a]]";
    let files = [("/x.dyn.html", page), ("/post.x.dyn.html", page)];
    let mut site = TestSite::new(&files);
    assert_eq!(site.body("/x"), "  ");
    assert_eq!(site.post("/x", "name=a&name=%3C").expect("shown").body, "&lt; 2 ");
}

/// Functions that a main script puts into the places of Lua's own are not used.
#[test]
fn pages_do_not_depend_on_globals_of_the_main_script() {
    let main = "string.format, table.concat, tostring, type, error, pcall, unpack, ipairs = nil
        local globals = _G for key in pairs(globals) do
            if key ~= '_G' then globals[key] = nil end
        end";
    let page = "<?lu write('%s', '<') post_render(function(p) return p .. '.' end) ?>#[[5:03d]]";
    let mut site = TestSite::new(&[("/main.lua", main), ("/a.dyn.html", page)]);
    assert_eq!(site.body("/a"), "&lt;005.");
}

#[test]
fn the_main_script_is_optional_or_set_by_the_command_line() {
    let pages = [("/a.dyn.html", "a"), ("/main.lua", "error('not this one')")];
    let files = pages.iter().map(|(path, text)| ((*path).to_owned(), text.as_bytes().to_vec()));
    let main = b"#!/usr/bin/env pinion\npinion.get('/b', function() return 'b' end)".to_vec();
    let program = SiteProgram::of_code("site.lua", Some(main), SourceNames::default(), files)
        .expect("a program");
    let mut site = TestSite::of(&program).expect("started");
    assert_eq!((site.body("/a"), site.body("/b")), ("a".to_owned(), "b".to_owned()));
    drop(site);
    assert!(super::test_site::program(&[("/a.html", "")]).expect("a program").is_empty());
    let Err(why) =
        TestSite::of(&super::test_site::program(&[("/main.lua", "\nx()")]).expect("fine"))
    else {
        panic!("it started");
    };
    assert!(why.starts_with("/main.lua:2: "), "{why}");
}

#[test]
fn two_pages_and_two_requests_share_nothing() {
    let page = "<?lu locals.n = (locals.n or 0) + 1 ?>#[[locals.n]]";
    let mut site = TestSite::new(&[("/a.dyn.html", page), ("/b.dyn.html", page)]);
    for target in ["/a", "/a", "/b"] {
        assert_eq!(site.body(target), "1");
    }
}

/// The time is over, and more of it would not help.
#[test]
fn a_timeout_names_the_block_that_never_called_done() {
    let mut site = TestSite::new(&[
        ("/a.dyn.html", "a\n<?lua\nlocal x = 1 ?>b"),
        ("/p.dyn.html", "#! parallel\na\n<?lua local x = 1 ?>b"),
        ("/w.dyn.html", "a\n#[[await(function(done) end)]]"),
    ]);
    for (target, begins) in [
        ("/a", "/a.dyn.html:2: the block `<?lua` that starts at this line has not called done() "),
        ("/p", "/p.dyn.html:3: the block `<?lua` that starts at this line has not called done() "),
        ("/w", "/w.dyn.html:2: the function that starts at this line, which await has called, "),
    ] {
        let report = site.over_time(target);
        assert!(
            report.starts_with(begins) && report.contains("within 1.5 s"),
            "{target}: {report}"
        );
        assert!(!report.contains("--lua-time"), "{report}");
    }
    let report = site.part_over_time("/p");
    assert!(report.contains(" has not called done() within 600 s"), "{report}");
}

#[test]
fn using_req_or_res_in_a_page_names_the_replacement() {
    for (code, words) in [
        ("local x = req.query", "pages have no `req`, which only handlers get: write method,"),
        ("res:redirect('/')", "pages have no `res`, which only handlers get: write status(code)"),
        (
            "redirect('/')",
            "pages have no `redirect`: write status(303) and header(\"Location\", url)",
        ),
    ] {
        let page = format!("\n<?lu {code} ?>");
        let report = TestSite::new(&[("/x.dyn.html", &page)]).report("/x");
        assert!(report.starts_with("/x.dyn.html:2: ") && report.contains(words), "{report}");
    }
    let page = "<?lu status(303) header('Location', '/login') ?>";
    let shown = TestSite::new(&[("/x.dyn.html", page)]).get("/x").expect("shown");
    assert!(shown.status == 303 && shown.head.contains("Location: /login\r\n"), "{shown:?}");
}
