//! Pages of templates, as clients see them: over every protocol and backend, from a folder and from
//! an archive.

use pinion_tests::body::decoded;
use pinion_tests::matrix::Matrix;
use pinion_tests::request::Request;
use pinion_tests::server::{Server, Start, build, run, run_under};
use pinion_tests::temporary_folder::Folder;
use rustix::process::Signal;
use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::Command;

const FILES: &[(&str, &str)] = &[
    (
        "main.lua",
        "local names = require('lib.names')
        pinion.get('/handler', function() return names.greet('you') end)",
    ),
    ("lib/names.lua", "return { greet = function(name) return 'Hi, ' .. name end }"),
    ("index.dyn.html", "<?layout /base.priv.html ?><?slot title ?>Start<?/slot ?><p>#[[query.q]]"),
    ("base.priv.html", "<title><?yield title ?></title><body><?yield ?></body>"),
    ("about/index.dyn.html", "<?include ../nav.priv.html ?>About"),
    ("nav.priv.html", "<nav>#[[endpoint]]</nav>"),
    ("feed.dyn.xml", "<?xml version=\"1.0\"?><feed>#[[method]]</feed>"),
    ("form.dyn.html", "<form method=post>"),
    ("post.form.dyn.html", "<?lu local form = body ?>got #[[form]]"),
    ("put.form.dyn.html", "<?lu status(201) header('X-Own', 'yes') ?>put"),
    (
        "parallel.dyn.html",
        "#! parallel
        <?lu locals.log = {} local log = locals.log ?>\
        a<?lua pinion.sleep(0.05) log[#log + 1] = 1 write('1') done() ?>\
        b<?lua pinion.sleep(0.001) log[#log + 1] = 2 write('2') done() ?>\
        c<?lu post_render(function(locals, page)
            return page:match('a.*') .. table.concat(locals.log) end) ?>",
    ),
    (
        "broken-part.dyn.html",
        "#! parallel
        <?lua pinion.sleep(0.001) error('in a part') ?>x<?lua pinion.sleep(10) done() ?>",
    ),
    ("waits.dyn.html", "a<?lua pinion.spawn(done) pinion.sleep(0.001) write('b') done() ?>c"),
    ("large.dyn.html", "<?lu for n = 1, 20000 do ?>line #[[n]]\n<?lu end ?>"),
    ("long.dyn.html", "<?lu for n = 1, 1000 do ?>line #[[n]]\n<?lu end ?>"),
    ("error.dyn.html", "<p>\n<?lu local nothing = nil ?>\n#[[nothing.more]]"),
    ("link.dyn.html", "<a href=\"#[[to_url('/link', { id = 7 })]]\">#[[query.e and query.e.id]]"),
    ("forms.dyn.html", FORMS),
    ("rendered.dyn.html", RENDERED),
    ("plain.html", "<?lu not a template ?>"),
];

/// A page with all syntax forms and all objects of pages that no other page here uses.
const FORMS: &str = r##"<?lu
  local tea = { name = "Tea & <b>", price = 2.5 }
  for at, word in ipairs({ "one", "<two>" }) do
    | <li>#[[at]]. #[[word]]</li>
    |
  end
  if tea.price > 2 then ```
    <p title="#[[tea.name]]">#[[tea.name]]
       ?> #[[tea.price:.2f]]</p>
  ``` end
  write("%s costs %05.1f, %d of %s\n", "<i>", tea.price, 3, tea.name)
  write("<hr> %d\n") write(7) write({ list = { 1, "<" } })
?>

<b>#[[7:03d]] #[["<":5s]] #[[!tea.name]] #[["#[["]]</b>
<i>#[[!escape("<&")]] #[[escape("<&")]]</i>
<p>#[[await(function(done)
  pinion.gather(function() pinion.sleep(0.001) done("<later>") end)
end)]] #[[await(function() return "now" end)]] #[[await("<itself>")]]</p>
<?lu local count = (session.count or 0) + 1 ?>
<p>#[[count]] #[[headers["x-own"]]] #[[headers["x-other"]]]#[[cookies.who]]</p>
<?lua
  pinion.sleep(0.001)
  | <p>#[[method]] waits</p>
  ``` <u>#[[tea.price]]</u>
  ``` done()
?>
<?lu header("Set-Cookie", "a=1") header("Set-Cookie", "b=2", "more") ?>
"##;

const FORMS_SHOWN: &str = r#"<li>1. one</li>

<li>2. &lt;two&gt;</li>

    <p title="Tea &amp; &lt;b&gt;">Tea &amp; &lt;b&gt;
       ?> 2.50</p>
&lt;i&gt; costs 002.5, 3 of Tea &amp; &lt;b&gt;
<hr> %d
7{"list":[1,"<"]}

<b>007     &lt; Tea & <b> #[[</b>
<i>&lt;&amp; &amp;lt;&amp;amp;</i>
<p>&lt;later&gt; now &lt;itself&gt;</p>

<p>1 &lt;own&gt; you</p>
<p>GET waits</p>
 <u>2.5</u>


"#;

/// The page must not be sent before it is complete, and its functions run in order.
const RENDERED: &str = r##"<?lu
  post_render(function(page) return page:upper() end)
  post_render(function(page) return "[" .. page .. "]" end)
  post_render(function() end)
?><p title="#[[query.q]]">#[[query.q]]</p>"##;

const RENDERED_SHOWN: &str = r#"[<P TITLE="&LT;B&GT;">&LT;B&GT;</P>]"#;

/// A site whose access rules are in `main.lua`, without code for them in its pages.
const GUARDED: &[(&str, &str)] = &[
    (
        "main.lua",
        "pinion.use(function(req, res, next)
            if req.cookies.who == nil and req.path ~= '/' then
                res:status(401)
                return 'who are you?'
            end
            req.locals = { who = req.cookies.who }
            res:field('X-Guard', 'site')
            return next()
        end)
        local admin = pinion.group('/admin')
        admin.use(function(req, res, next)
            if req.cookies.who ~= 'ann' then res:redirect('/') return end
            res:write('[')
            next()
            res:write(']')
        end)",
    ),
    ("index.dyn.html", "everybody"),
    ("notes.dyn.html", "#[[cookies.who]] #[[locals.who]]"),
    ("admin/index.dyn.html", "secret"),
    ("admin/large.dyn.html", "<?lu for n = 1, 20000 do ?>line #[[n]]\n<?lu end ?>"),
    ("administrator.dyn.html", "not below it"),
    ("admin/rendered.dyn.html", "x<?lu post_render(function(page) return page:upper() end) ?>"),
    ("post.notes.dyn.html", "#[[form.text]], #[[cookies.who]]"),
];

#[test]
fn middleware_of_the_main_script_runs_around_pages() {
    let site = Folder::with("guarded", GUARDED.iter().copied());
    Matrix::of(site.path()).serve(&["--workers", "1"]).run(|server| {
        let get = |target: &str, who: &str| {
            server.exchange(&Request::get(target).field("Cookie", format!("who={who}")))
        };
        assert_eq!(server.get("/").text(), "everybody");
        for target in ["/notes", "/admin/", "/admin/large", "/administrator", "/admin/rendered"] {
            let refused = server.get(target);
            assert_eq!((refused.status, refused.text()), (401, "who are you?"), "{target}");
        }
        let notes = get("/notes", "bob");
        assert_eq!((notes.text(), notes.field("x-guard")), ("bob bob", Some("site")));
        for target in ["/admin/", "/admin/large", "/admin/rendered"] {
            let refused = get(target, "bob");
            assert_eq!((refused.status, refused.text()), (303, ""), "{target}");
        }
        assert_eq!(get("/administrator", "bob").text(), "not below it");
        assert_eq!(get("/admin/", "ann").text(), "[secret]");
        assert_eq!(get("/admin/rendered", "ann").text(), "[X]");
        let large: String = (1..=20_000).map(|line| format!("line {line}\n")).collect();
        assert_eq!(get("/admin/large", "ann").text(), format!("[{large}]"));
        let posted =
            Request::new("POST", "/notes").field("Cookie", "who=bob").body(b"text=%3Cb%3E");
        assert_eq!(server.exchange(&posted).text(), "&lt;b&gt;, bob");
    });
}

/// Pages that are sent as a whole, and those that are sent while they are generated.
#[test]
fn pages_are_compressed_if_the_client_accepts_it() {
    in_every_way(|server| {
        for (target, coding) in [("/long", "gzip"), ("/long", "br"), ("/large", "gzip")] {
            let asked = Request::get(target).field("Accept-Encoding", coding);
            let response = server.exchange(&asked);
            assert_eq!(response.field("content-encoding"), Some(coding), "{target}");
            assert_eq!(response.field("vary"), Some("Accept-Encoding"), "{target}");
            let plain = server.get(target);
            assert_eq!(plain.field("content-encoding"), None, "{target}");
            assert_eq!(decoded(&response), plain.body, "{target}");
            assert!(response.body.len() * 2 < plain.body.len(), "{target}");
        }
    });
}

fn site() -> Folder {
    Folder::with("pages", FILES.iter().copied())
}

#[track_caller]
fn in_every_way(case: impl Fn(&Server)) {
    let site = site();
    Matrix::of(site.path()).serve(&["--workers", "1"]).run(case);
}

#[test]
fn pages_respond_alike_over_every_protocol() {
    in_every_way(|server| {
        for (target, media, content) in [
            ("/?q=%3Cb%3E", "html", "<title>Start</title><body><p>&lt;b&gt;</body>"),
            ("/about/", "html", "<nav>/about/</nav>About"),
            ("/form", "html", "<form method=post>"),
            ("/parallel", "html", "a1b2c21"),
            ("/waits", "html", "abc"),
            ("/plain.html", "html", "<?lu not a template ?>"),
        ] {
            let response = server.get(target);
            assert_eq!((response.status, response.text()), (200, content), "{target}");
            assert_eq!(response.field("x-content-type-options"), Some("nosniff"), "{target}");
            let expected = format!("text/{media}; charset=utf-8");
            assert_eq!(response.field("content-type"), Some(&*expected), "{target}");
            let head = server.exchange(&Request::head(target));
            assert_eq!((head.status, head.body.len()), (200, 0), "{target}");
        }
        assert_eq!(server.get("/handler").text(), "Hi, you");
        let feed = server.get("/feed.xml");
        assert_eq!(feed.text(), "<?xml version=\"1.0\"?><feed>GET</feed>");
        let posted = server.exchange(&Request::new("POST", "/form").body(b"a=1&b=<2>"));
        assert_eq!(posted.text(), "got a=1&amp;b=&lt;2&gt;");
        let put = server.exchange(&Request::new("PUT", "/form"));
        assert_eq!((put.status, put.field("x-own"), put.text()), (201, Some("yes"), "put"));
        assert_eq!(server.exchange(&Request::new("DELETE", "/form")).status, 405);
        let expected: String = (1..=20_000).map(|line| format!("line {line}\n")).collect();
        assert_eq!(server.get("/large").text(), expected);
    });
}

#[test]
fn every_template_construct_renders_alike_over_every_protocol() {
    in_every_way(|server| {
        let asked = |method| {
            let request = Request::new(method, "/forms").field("Cookie", "who=you");
            server.exchange(&request.field("X-Own", "<own>"))
        };
        // The request is repeated, because the objects of a page belong to one request.
        for _ in 0..2 {
            let response = asked("GET");
            assert_eq!((response.status, response.text()), (200, FORMS_SHOWN));
            assert_eq!(response.values("set-cookie").collect::<Vec<_>>(), ["a=1", "b=2"]);
        }
        let head = asked("HEAD");
        assert_eq!((head.status, head.body.len()), (200, 0));
        assert_eq!(head.values("set-cookie").collect::<Vec<_>>(), ["a=1", "b=2"]);
        assert_eq!(server.get("/rendered?q=%3Cb%3E").text(), RENDERED_SHOWN);
    });
}

#[test]
fn the_source_of_a_page_is_never_sent() {
    in_every_way(|server| {
        for (path, _) in FILES.iter().filter(|(path, _)| *path != "plain.html") {
            let response = server.get(&format!("/{path}"));
            assert!([404, 405].contains(&response.status), "{path}: {}", response.status);
        }
    });
}

#[test]
fn errors_in_a_page_are_logged_with_their_line() {
    in_every_way(|server| {
        let response = server.get("/error");
        assert_eq!(response.status, 500);
        assert!(!response.text().contains("nothing"), "{}", response.text());
        server.wait_for_line(0, |line| line.contains("/error.dyn.html:3"));
        assert_eq!(server.get("/broken-part").status, 500);
        server.wait_for_line(0, |line| line.contains("in a part"));
        assert_eq!(server.get("/parallel").text(), "a1b2c21");
    });
}

#[test]
fn links_carry_values_encrypted_with_the_master_key() {
    let site = site();
    let open = Start::site(site.path()).flags(&["--workers", "1"]).start();
    assert!(open.get("/link").text().starts_with("<a href=\"/link?id=7\">"));
    open.stop();
    let link = |key: &str| {
        let server = Start::site(site.path()).under(with_key(key)).start();
        let page = server.get("/link").text().to_owned();
        let link = page.split('"').nth(1).expect("a link").to_owned();
        let read = server.get(&link).text().rsplit('>').next().expect("what is read").to_owned();
        server.stop();
        (link, read)
    };
    let (one, read) = link("0123456789abcdef");
    assert!(one.starts_with("/link?e=") && !one.contains("id"), "{one}");
    assert_eq!(read, "7");
    assert_eq!(link("0123456789abcdef").0, one);
    assert_ne!(link("fedcba9876543210").0, one);
    let mut short = Start::site(site.path()).under(with_key("short")).begin();
    assert!(!short.wait().success());
    short.wait_for_line(0, |line| line.contains("MASTER_KEY"));
}

/// A handler that shows a key which is derived from the master key.
const KEY_SHOWN: &str = "pinion.get('/', function()
    return pinion.codec.hex_encode(pinion.crypto.key('a'))
end)";

/// With a master key they are the same on each server, and after each start: for a folder, an
/// archive and a single script, and in `pinion run`.
#[test]
fn the_keys_of_a_site_are_derived_from_its_master_key() {
    let site = Folder::with("keys", [("main.lua", KEY_SHOWN)]);
    let archive = site.join("site.pinion");
    build(site.path(), &archive, &[]);
    let script = site.join("main.lua");
    let printing = Folder::with(
        "printed-key",
        [("a.lua", "print(pinion.codec.hex_encode(pinion.crypto.key('a')))")],
    );
    let served = |source: &Path, master: &str| {
        let server = Start::site(source).under(with_key(master)).start();
        let key = server.get("/").text().to_owned();
        server.stop();
        key
    };
    let printed = |master: &str| {
        let ended =
            run_under(with_key(master), &[OsString::from("run"), printing.join("a.lua").into()]);
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        ended.stdout.trim_end().to_owned()
    };
    let (master, other) = ("0123456789abcdef", "fedcba9876543210");
    let one = served(site.path(), master);
    assert_eq!(one.len(), 64);
    for source in [site.path(), &archive, &script] {
        assert_eq!(served(source, master), one, "{}", source.display());
        assert_ne!(served(source, other), one, "{}", source.display());
    }
    assert_eq!(printed(master), one);
    assert_ne!(printed(other), one);
}

/// A key that is too short or not valid Base64 ends every command that runs scripts, in one line.
#[test]
fn a_malformed_master_key_is_an_error_of_every_command_that_runs_scripts() {
    let site = Folder::with("malformed-key", [("main.lua", "")]);
    let script = site.join("main.lua");
    let commands: [&[OsString]; 3] = [
        &["run".into(), script.clone().into()],
        &["check".into(), script.clone().into()],
        &["check".into(), site.path().into()],
    ];
    for (key, part) in [
        (
            "b64:!!!!",
            r#"MASTER_KEY is not valid base64 after "b64:" (invalid symbol 33, offset 0)"#,
        ),
        ("short", "MASTER_KEY in the environment: the master key has 5 bytes"),
    ] {
        for command in commands {
            let ended = run_under(with_key(key), command);
            assert_ne!(ended.code, Some(0), "{command:?}");
            let said = ended.stdout + &ended.stderr;
            assert!(said.contains(part), "{command:?}: {said}");
        }
        for source in [site.path(), &script] {
            let mut server = Start::site(source).under(with_key(key)).begin();
            assert!(!server.wait().success(), "{}", source.display());
            server.wait_for_line(0, |line| line.contains(part));
        }
    }
}

/// Runs a program with a master key in its environment.
fn with_key(key: &str) -> Command {
    with_variables(&[&format!("MASTER_KEY={key}")])
}

fn with_variables(variables: &[&str]) -> Command {
    let mut env = Command::new("env");
    env.args(variables);
    env
}

#[test]
fn the_environment_names_a_site_and_has_it_watched() {
    let site = site();
    let named = format!("PUBLIC_HTML={}", site.path().display());
    let server = Start::serve::<&str>(&[]).under(with_variables(&[&named, "RELOAD=true"])).start();
    assert_eq!(server.get("/form").text(), "<form method=post>");
    fs::write(site.path().join("form.dyn.html"), "<form>").expect("written");
    let line = server.wait_for_line(0, |line| line.starts_with("reloaded"));
    // One file is plain; all others are code.
    let code = FILES.len() - 1;
    assert!(line.ends_with(&format!(": 1 file, {code} files of code")), "{line}");
    while server.get("/form").text() != "<form>" {}
    server.stop();
}

#[test]
fn a_page_error_ends_a_start_but_not_a_running_server() {
    let site = site();
    let server = Start::site(site.path()).start();
    let wrong = "<p>\n<?lu local = 1 ?>";
    fs::write(site.path().join("nav.priv.html"), wrong).expect("written");
    server.signal(Signal::HUP);
    server.wait_for_line(0, |line| line.contains("nav.priv.html:2"));
    assert_eq!(server.get("/about/").text(), "<nav>/about/</nav>About");
    server.stop();
    let ended = run(&["check".as_ref(), site.path().as_os_str()]);
    assert!(ended.stdout.contains("nav.priv.html:2"), "{}", ended.stdout);
}
