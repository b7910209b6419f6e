//! Links through the pages that make and take them.

use super::NAME;
use crate::pages::test_site::{TestSite, program};

const KEY: &[u8] = b"sixteen bytes or more";

/// Two pages that show what they were asked with, and one that makes a link by Lua.
fn site(link: &str, key: Option<&[u8]>) -> TestSite {
    let shows = "#[[query.name]]|#[[query['name[]'] and #query['name[]']]]|#[[type(query.e)]]|\
                 #[[query.e and query.e.name]]|#[[query.more]]|#[[query['e[]']]]";
    let make = format!("<?lu write(to_url({link})) ?>");
    let files = [("/a/é'.dyn.txt", shows), ("/b.dyn.txt", shows), ("/make.dyn.txt", &*make)];
    let program = program(&files).expect("compiled");
    let program = match key {
        Some(key) => program.with_master_key(key).expect("long enough"),
        None => program,
    };
    TestSite::of(&program).expect("started")
}

const LINK: &str = "'/a/é\\'.txt', { name = { '<x>', 'y&z' } }";

#[test]
fn encrypted_parameters_are_readable_only_on_the_page_of_the_link() {
    let mut site = site(LINK, Some(KEY));
    let link = site.body("/make.txt");
    let (path, sealed) = link.split_once("?e=").expect("sealed");
    assert_eq!(path, "/a/%C3%A9%27.txt");
    assert!(sealed.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b)), "{sealed}");
    assert_eq!(site.body("/make.txt"), link, "the same link for the same parameters");
    assert_eq!(site.body(&link), "y&z|2|table|y&z||");
    // What the client adds goes behind it.
    let added = format!("{link}&name=p&more=m");
    assert_eq!(site.body(&added), "y&z|2|table|y&z|m|");
    let before = format!("{path}?name=p&name=q&{NAME}={sealed}");
    assert_eq!(site.body(&before), "y&z|2|table|y&z||");
    assert_eq!(site.body(&format!("/b.txt?e={sealed}&name=p")), "p||nil|||", "another page");
    for at in 0..sealed.len() {
        let mut torn = sealed.to_owned();
        let other = if torn.as_bytes()[at] == b'A' { "B" } else { "A" };
        torn.replace_range(at..=at, other);
        assert_eq!(site.body(&format!("{path}?e={torn}&name=p")), "p||nil|||", "byte {at}");
    }
    for torn in ["", "e", "%00", "====", &sealed[1..], &sealed[..sealed.len() - 1]] {
        assert_eq!(site.body(&format!("{path}?e={torn}&e=x&e=y")), "||nil|||", "{torn}");
    }
    drop(site);
    let mut other = self::site(LINK, Some(b"another key of the same site"));
    assert_eq!(other.body(&link), "||nil|||");
}

#[test]
fn a_page_rendered_twice_decrypts_the_same_parameters() {
    let files = [
        ("/main.lua", "pinion.use(function(_, _, next) next() next() end)"),
        (
            "/make.dyn.txt",
            "<?lu if not locals.made then locals.made = 1 write(to_url('/b.txt', \
          { x = '1' })) end ?>",
        ),
        ("/b.dyn.txt", "#[[query.e and query.e.x]]#[[query.x]]#[[query['e[]'] ]];"),
    ];
    let program = program(&files).expect("compiled").with_master_key(KEY).expect("long enough");
    let mut site = TestSite::of(&program).expect("started");
    let link = site.body("/make.txt");
    assert_eq!(site.body(&link), "11;11;");
    assert_eq!(site.body("/b.txt?e=forged&e=twice"), ";;");
}

#[test]
fn links_follow_their_options() {
    let mut random = site("'/b.txt', { name = 'x', iv = true }, 'a b'", Some(KEY));
    let (one, two) = (random.body("/make.txt"), random.body("/make.txt"));
    assert_ne!(one, two);
    for link in [one, two] {
        let target = link.strip_suffix("#a%20b").expect("a fragment");
        assert_eq!(random.body(target), "x||table|x||");
    }
    drop(random);
    for (link, key, shown) in [
        ("'/b.txt', { name = 'x&', n = 1, e = false }", Some(KEY), "/b.txt?n=1&name=x%26"),
        ("'/b.txt', { name = 'x', iv = true }", None, "/b.txt?name=x"),
        ("'/b.txt', { iv = 'text', e = true }", None, "/b.txt?iv=text"),
        ("'/b.txt', {}", Some(KEY), "/b.txt"),
        ("'/b.txt'", Some(KEY), "/b.txt"),
        ("'/a b', nil, 'x'", Some(KEY), "/a%20b#x"),
    ] {
        assert_eq!(site(link, key).body("/make.txt"), shown, "{link}");
    }
    let sealed = site("'/b.txt', { name = 'x' }", Some(KEY)).body("/make.txt");
    let sealed = sealed.strip_prefix("/b.txt").expect("sealed").to_owned();
    assert_eq!(site(LINK, None).body(&format!("/b.txt{sealed}&name=p")), "p||nil|||");
}

#[test]
fn to_url_refuses_invalid_paths_and_parameters() {
    for (link, why) in [
        ("'b'", "is not a path of this site"),
        ("'//b'", "is not a path of this site"),
        ("'https://example.org/'", "is not a path of this site"),
        ("'/b?x=1'", "is not a path of this site"),
        ("nil", "bad argument #1 to 'to_url' (path expected, got nil)"),
        ("'/b', 'x'", "bad argument #2 to 'to_url' (table of parameters expected"),
        ("'/b', { e = 'x' }", "the parameter \"e\""),
        ("'/b', { x = print }", "\"x\" is a function"),
    ] {
        let report = site(link, Some(KEY)).report("/make.txt");
        let is_placed = report.starts_with("/make.dyn.txt:1: ");
        assert!(is_placed && report.contains(why), "{link}: {report}");
    }
    let short = program(&[]).expect("nothing").with_master_key(b"short").expect_err("too short");
    assert!(short.to_string().contains("5 bytes"), "{short}");
    let kept = program(&[]).expect("nothing").with_master_key(KEY).expect("long enough");
    assert!(format!("{kept:?}").contains("Some(LinkKey)"), "the key is not shown");
}
