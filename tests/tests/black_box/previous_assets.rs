//! Assets of earlier releases: which of them `pinion build --previous` keeps, for how long, and
//! which other content has precedence.

use pinion_tests::request::Request;
use pinion_tests::response::Response;
use pinion_tests::server::{Ended, Start, build, run};
use pinion_tests::temporary_folder::Folder;
use std::fs;

/// Assets of the first three releases.
const ASSETS: [&str; 3] = [
    "/assets/app.3f2a9c1b57a0d79d.js",
    "/assets/app.4e5d6c7b57a0d79d.js",
    "/assets/app.5a6b7c8d57a0d79d.js",
];

/// Creates the sites of three releases; each has its own asset, and a page with its own name.
fn releases() -> Folder {
    let folder = Folder::new("previous");
    for (asset, number) in ASSETS.iter().zip(1..) {
        let site = format!("site{number}");
        folder.write(format!("{site}/index.html"), format!("<script src={asset}></script>"));
        folder.write(format!("{site}{asset}"), format!("release({number});\n").repeat(500));
        folder.write(format!("{site}/page{number}.html"), "a page");
        folder.write(format!("{site}/_headers"), format!("/assets/*\n  X-Release: {number}\n"));
    }
    folder
}

/// Names as Vite, esbuild and mkdocs-material make them, and one that a person has chosen. In the
/// next release the names with a hash differ.
#[test]
fn files_with_fingerprints_of_common_tools_are_kept_and_others_are_not() {
    let folder = Folder::new("previous-tools");
    let vite = |ends: [&str; 5]| ends.map(|end| format!("vite/assets/chunk-{end}.js"));
    let mkdocs = |hash: &str| {
        let (scripts, styles) = ("assets/javascripts", "assets/stylesheets");
        [format!("{scripts}/bundle.{hash}.min.js"), format!("{styles}/main.{hash}.min.css")]
    };
    let esbuild = |ends: [&str; 5]| ends.map(|end| format!("esbuild/out/e6-{end}.js"));
    let names = |one: bool| {
        let vite = vite(if one {
            ["BxKqJZ_a", "C-xTdF-Q", "DiwrgTda", "Dx7z1aPq", "CkFhGj_-"]
        } else {
            ["Ab3dEf_h", "Q-wErTyU", "ZxCvBnMa", "PoIuYtRe", "LkJhGf_-"]
        });
        let esbuild = esbuild(if one {
            ["Z7L2KB24", "4VNYEDBS", "IQ2JR5ZW", "6XQ3MUPM", "HBHD7XLE"]
        } else {
            ["OYTIE7BE", "3UQ6NDBX", "WLNJ5S2E", "K4FSGQ6P", "UE7IOFJB"]
        });
        let mkdocs = mkdocs(if one { "57a0d79d" } else { "83f73b43" });
        vite.into_iter().chain(esbuild).chain(mkdocs).collect::<Vec<_>>()
    };
    let photo = |one: bool| if one { "hero-iPhone15Pro.png" } else { "hero-iPhone16Pro.png" };
    for one in [true, false] {
        let site = if one { "site1" } else { "site2" };
        for name in names(one) {
            folder.write(format!("{site}/{name}"), format!("{name};\n").repeat(200));
        }
        folder.write(format!("{site}/{}", photo(one)), photo(one));
    }
    built(&folder, 1, &[]);
    built(&folder, 2, &["--previous", &archive(&folder, 1)]);
    let ended = run(&["ls", &archive(&folder, 2), "--json"]);
    for name in names(true) {
        assert!(ended.stdout.contains(&format!("\"/{name}\"")), "{name}: {}", ended.stdout);
    }
    assert!(!ended.stdout.contains(photo(true)), "{}", ended.stdout);
}

/// Builds `siteN` into `N.pinion`.
#[track_caller]
fn built(folder: &Folder, number: u32, flags: &[&str]) -> serde_json::Value {
    let (source, out) = (folder.join(format!("site{number}")), archive(folder, number));
    let source = source.display().to_string();
    let ended = run(&[&["build", &source, "-o", &out, "--json"], flags].concat());
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    serde_json::from_str(&ended.stdout).expect("one JSON document")
}

fn archive(folder: &Folder, number: u32) -> String {
    folder.join(format!("{number}.pinion")).display().to_string()
}

/// Returns the assets of an archive, each with the number of builds that have kept it.
#[track_caller]
fn assets(folder: &Folder, number: u32) -> Vec<(String, Option<u64>)> {
    let ended = run(&["ls", &archive(folder, number), "--json"]);
    let list: serde_json::Value = serde_json::from_str(&ended.stdout).expect("a document");
    let entries = list["entries"].as_array().expect("entries").iter();
    let path = |entry: &serde_json::Value| entry["path"].as_str().unwrap_or_default().to_owned();
    let mut found: Vec<_> = entries
        .map(|entry| (path(entry), entry["previous"].as_u64()))
        .filter(|(path, _)| path.starts_with("/assets/") && path.ends_with(".js"))
        .collect();
    found.sort();
    found
}

fn expected(assets: &[(usize, Option<u64>)]) -> Vec<(String, Option<u64>)> {
    assets.iter().map(|&(rank, age)| (ASSETS[rank].to_owned(), age)).collect()
}

#[track_caller]
fn is_sound(ended: &Ended) {
    assert_eq!(ended.code, Some(0), "{}{}", ended.stdout, ended.stderr);
}

/// Asserts that two servers have sent the same response to one request, except for the time.
fn same(one: &Response, other: &Response) {
    assert_eq!((one.status, &one.body), (other.status, &other.body));
    for name in ["ETag", "Content-Type", "Content-Encoding", "Cache-Control", "Vary", "X-Release"] {
        assert_eq!(one.field(name), other.field(name), "{name}");
    }
}

#[test]
fn a_previous_page_finds_its_assets() {
    let folder = releases();
    built(&folder, 1, &[]);
    let second = built(&folder, 2, &["--previous", &archive(&folder, 1)]);
    assert_eq!(second["previous_assets"], 1);
    let [before, after] =
        [1, 2].map(|number| Start::site(archive(&folder, number).as_ref()).start());
    for codings in ["identity", "gzip", "br", "gzip, br, zstd"] {
        let question = Request::get(ASSETS[0]).field("Accept-Encoding", codings);
        let response = after.exchange(&question);
        same(&before.exchange(&question), &response);
        assert_eq!((response.status, response.field("X-Release")), (200, Some("1")));
        let tag = response.field("ETag").expect("a tag").to_owned();
        let again = after.exchange(&question.field("If-None-Match", &tag));
        assert_eq!((again.status, again.field("X-Release")), (304, Some("1")));
    }
    assert_eq!(after.get(ASSETS[1]).field("X-Release"), Some("2"));
    // A page belongs to its own release only.
    assert_eq!((after.get("/page1").status, after.get("/page2").status), (404, 200));
    before.stop();
    after.stop();

    let two = archive(&folder, 2);
    is_sound(&run(&["verify", &two]));
    is_sound(&run(&["inspect", &two]));
    let list = run(&["ls", &two]);
    assert!(
        list.stdout.contains("/assets/app.3f2a9c1b57a0d79d.js  of an earlier release"),
        "{}",
        list.stdout
    );
    let out = folder.join("out").display().to_string();
    let extracted = run(&["extract", &two, "-o", &out]);
    is_sound(&extracted);
    assert!(
        extracted.stderr.contains("left out 1 asset of earlier releases"),
        "{}",
        extracted.stderr
    );
    assert!(!folder.join(format!("out{}", ASSETS[0])).exists());
    assert!(folder.join(format!("out{}", ASSETS[1])).exists());
    // The same input gives the same bytes, whichever archive is replaced.
    let bytes = fs::read(&two).expect("the archive");
    built(&folder, 2, &["--previous", &archive(&folder, 1), "--no-reuse"]);
    assert!(fs::read(&two).expect("the archive") == bytes);
}

#[test]
fn assets_are_dropped_after_the_kept_number_of_builds() {
    let folder = releases();
    built(&folder, 1, &[]);
    built(&folder, 2, &["--previous", &archive(&folder, 1)]);
    let two = archive(&folder, 2);
    built(&folder, 3, &["--previous", &two]);
    let all = expected(&[(0, Some(2)), (1, Some(1)), (2, None)]);
    assert_eq!(assets(&folder, 3), all);
    built(&folder, 3, &["--previous", &two, "--previous-keep", "1"]);
    assert_eq!(assets(&folder, 3), expected(&[(1, Some(1)), (2, None)]));
    // If several archives have an asset, the number of builds is that of the archive which had it
    // last as a file of its own.
    built(
        &folder,
        3,
        &["--previous", &two, "--previous", &archive(&folder, 1), "--previous-keep", "1"],
    );
    assert_eq!(assets(&folder, 3), expected(&[(0, Some(1)), (1, Some(1)), (2, None)]));
    // A file that is added again belongs to the site again.
    let source = folder.join(format!("site1{}", ASSETS[0]));
    fs::copy(source, folder.join(format!("site3{}", ASSETS[0]))).expect("a copy");
    built(&folder, 3, &["--previous", &two]);
    assert_eq!(assets(&folder, 3), expected(&[(0, None), (1, Some(1)), (2, None)]));
}

/// An old file may have the path of a folder of today.
#[test]
fn folders_with_a_response_precede_previous_files() {
    let folder = releases();
    for name in ["pages", "tiles", "list", "free"] {
        folder.write(format!("site1/{name}"), "a file of before");
    }
    built(&folder, 1, &[]);
    folder.write("site2/pages/index.html", "an index");
    folder.write("site2/tiles/_200.txt", "a page for whatever is missing");
    folder.write("site2/list/a.txt", "in a listing");
    let one = archive(&folder, 1);
    let flags = ["--listing", "--previous", &one, "--previous-for", "*"];
    built(&folder, 2, &flags);
    let after = Start::site(archive(&folder, 2).as_ref()).start();
    for name in ["pages", "tiles", "list"] {
        let response = after.get(&format!("/{name}"));
        let location = format!("/{name}/");
        assert_eq!((response.status, response.field("Location")), (308, Some(location.as_str())));
    }
    assert_eq!(after.get("/free").body, b"a file of before");
    after.stop();
}

#[test]
fn previous_files_that_match_the_flag_are_kept() {
    let folder = releases();
    folder.write("site1/fonts/plain.txt", "a font");
    folder.write("site1/other.txt", "not asked for");
    built(&folder, 1, &[]);
    let one = archive(&folder, 1);
    let globs = ["page*", "fonts/**", "/index.html"];
    let mut flags = vec!["--previous", &one];
    flags.extend(globs.iter().flat_map(|glob| ["--previous-for", glob]));
    let report = built(&folder, 2, &flags);
    // The asset, the page and the font are kept. Files of the site itself match, but are not kept.
    assert_eq!(
        (&report["previous_assets"], &report["warnings"]),
        (&3.into(), &serde_json::json!([]))
    );
    let two = archive(&folder, 2);
    is_sound(&run(&["verify", &two]));
    let [before, after] = [&one, &two].map(|archive| Start::site(archive.as_ref()).start());
    for path in [ASSETS[0], "/page1.html", "/fonts/plain.txt"] {
        same(&before.get(path), &after.get(path));
        assert_eq!(after.get(path).status, 200, "{path}");
    }
    assert!(after.get("/").text().contains(ASSETS[1]));
    // A kept file has no short path.
    for path in ["/page1", "/other.txt", "/fonts/"] {
        assert_eq!(after.get(path).status, 404, "{path}");
    }
    before.stop();
    after.stop();

    // Each build reports the assets that it keeps, including those that came from an earlier
    // release already.
    assert_eq!(built(&folder, 3, &["--previous", &two])["previous_assets"], 2);
    let again = ["--previous", &two, "--previous-for", "*.txt", "--previous-for", "*.gone"];
    let report = built(&folder, 3, &again);
    assert_eq!(report["previous_assets"], 3);
    let warning = "--previous-for *.gone: no file of an earlier archive matches; check its \
                   spelling and case";
    assert_eq!(report["warnings"], serde_json::json!([warning]));
    let excluding = [&again[..4], &["--exclude", "fonts"]].concat();
    assert_eq!(built(&folder, 3, &excluding)["previous_assets"], 2);
    // A forced rule has precedence, as over any asset.
    folder.write("site2/_redirects", "/fonts/* / 301!\n");
    assert_eq!(built(&folder, 2, &flags)["previous_assets"], 2);
}

#[test]
fn rules_and_files_of_the_site_precede_previous_assets() {
    let folder = releases();
    built(&folder, 1, &[]);
    let one = archive(&folder, 1);
    let flags = ["--previous", one.as_str()];
    let asked = |rules: &str| {
        folder.write("site2/_redirects", rules);
        built(&folder, 2, &flags);
        is_sound(&run(&["verify", &archive(&folder, 2)]));
        let server = Start::site(archive(&folder, 2).as_ref()).start();
        let response = server.get(ASSETS[0]);
        server.stop();
        response
    };
    // A rule for all missing paths does not apply to assets that old pages still load.
    assert!(asked("/* /index.html 200\n").text().starts_with("release(1);"));
    assert!(asked("/assets/* /gone 301\n").text().starts_with("release(1);"));
    assert_eq!(asked("/assets/* /gone 301!\n").status, 301);
    assert_eq!(asked("/assets/app.3f2a9c1b57a0d79d.js /gone 302\n").status, 302);
    assert_eq!(asked("/assets/app.3f2a9c1b57a0d79d.js /gone 302!\n").status, 302);
    assert!(asked("/assets/* host=x /gone 301!\n").text().starts_with("release(1);"));

    // The site has a file with the same path and other content.
    fs::remove_file(folder.join("site2/_redirects")).expect("removed");
    folder.write(format!("site2{}", ASSETS[0]), "new");
    assert_eq!(built(&folder, 2, &flags)["previous_assets"], 0);
    assert_eq!(assets(&folder, 2), expected(&[(0, None), (1, None)]));
    fs::remove_file(folder.join(format!("site2{}", ASSETS[0]))).expect("removed");
    // A file that is excluded from this build is not kept from another one.
    let excluding = [&flags[..], &["--exclude", "app.3*"]].concat();
    assert_eq!(built(&folder, 2, &excluding)["previous_assets"], 0);
}

#[test]
fn a_damaged_previous_archive_is_refused_or_its_asset_omitted() {
    let folder = releases();
    built(&folder, 1, &[]);
    let source = folder.join("site2").display().to_string();
    let (out, one) = (archive(&folder, 2), archive(&folder, 1));
    let whole = fs::read(&one).expect("the archive");
    let (mut refused, mut taken) = (0, 0);
    for at in (0..whole.len()).step_by(97) {
        let mut flipped = whole.clone();
        flipped[at] ^= 1;
        folder.write("flipped.pinion", flipped);
        let flipped = folder.join("flipped.pinion").display().to_string();
        let ended = run(&["build", &source, "-o", &out, "--previous", &flipped]);
        match ended.code {
            // A damaged asset is left out, or the written archive is correct.
            Some(0) => {
                is_sound(&run(&["verify", &out]));
                taken += 1;
            }
            _ => {
                assert_eq!(ended.code, Some(1), "{}", ended.stderr);
                assert!(ended.stderr.contains("flipped.pinion"), "{}", ended.stderr);
                refused += 1;
            }
        }
    }
    assert!(refused > 0 && taken > 0, "{refused} refused, {taken} taken");
    build(&folder.join("site2"), out.as_ref(), &[]);
    let missing = run(&["build", &source, "-o", &out, "--previous", "none.pinion"]);
    assert_eq!(missing.code, Some(1));
    for useless in [["--previous-keep", "2"], ["--previous-for", "*.js"]] {
        let ended = run(&[&["build", &source, "-o", &out], &useless[..]].concat());
        assert_eq!(ended.code, Some(2));
        let said = format!("pinion: {} has no effect without --previous\n", useless[0]);
        assert_eq!(ended.stderr, said);
    }
    let wrong = run(&["build", &source, "-o", &out, "--previous", &one, "--previous-for", "["]);
    assert_eq!(wrong.code, Some(2));
    assert!(
        wrong.stderr.starts_with("pinion: --previous-for: \"[\" is not a pattern: "),
        "{}",
        wrong.stderr
    );
}
