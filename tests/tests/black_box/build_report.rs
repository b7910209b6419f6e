//! The report of a build in Chromium: the area of each drawn part must be proportional to its size.

use pinion_tests::browser::Browser;
use pinion_tests::server::build;
use pinion_tests::temporary_folder::Folder;
use serde_json::Value;

/// Units of the drawing.
const WIDTH: f64 = 1200.0;
const HEIGHT: f64 = 640.0;
/// Positions and lengths are written with one decimal.
const ROUNDING: f64 = 0.051;
/// Smaller parts are not drawn.
const LEAST_SIZE: f64 = 30.0;
/// A window that shows the whole drawing at once.
const WINDOW: (u32, u32) = (1280, 1600);

/// Files, each with its length and the name of its type in the legend. They are not in the order of
/// their sizes.
const FILES: &[(&str, u64, &str)] = &[
    ("index.html", 40_000, "Pages"),
    ("about us.html", 15_000, "Pages"),
    ("a<b>&\"c\".html", 9_000, "Pages"),
    ("assets/site.css", 30_000, "Style sheets"),
    ("assets/app.js", 70_000, "Scripts"),
    ("assets/img/one.png", 120_000, "Images"),
    ("assets/img/two.png", 60_000, "Images"),
    ("assets/img/deep/three.png", 33_000, "Images"),
    ("assets/img/deep/four.svg", 21_000, "Images"),
    ("assets/fonts/text.woff2", 25_000, "Fonts"),
    ("films/first.mp4", 200_000, "Sound and film"),
    ("data/all.json", 45_000, "Data"),
    ("data/notes.txt", 5_000, "Data"),
    ("data/old/archive.zip", 52_000, "Other"),
    ("small/a.txt", 600, "Data"),
    ("small/b.txt", 500, "Data"),
    ("tiny.txt", 3, "Data"),
    ("empty.txt", 0, "Data"),
];

/// JavaScript that returns the drawn rectangles: positions in units of the drawing, texts, and the
/// topmost element in their middle.
const RECTANGLES: &str = r#"
[...document.querySelectorAll('svg rect')].map(rect => {
    const box = rect.getBBox();
    const [path, about] = rect.querySelector('title').textContent.split('\n');
    const seen = rect.getBoundingClientRect();
    const top = document.elementFromPoint(seen.x + seen.width / 2, seen.y + seen.height / 2);
    return {
        path, about, x: box.x, y: box.y, width: box.width, height: box.height,
        fill: getComputedStyle(rect).fill,
        top: top.querySelector('title')?.textContent.split('\n')[0] ?? top.tagName,
    };
})"#;

/// JavaScript that returns the names of the legend with their colours.
const LEGEND: &str = r#"
[...document.querySelectorAll('.legend li')].map(item =>
    [item.textContent, getComputedStyle(item.querySelector('i')).backgroundColor])"#;

/// JavaScript that returns the types, the widths of their bars, and the width available for a bar.
const BARS: &str = r#"
[...document.querySelectorAll('td.bar')].map(cell => {
    const bar = cell.querySelector('i').getBoundingClientRect();
    return [cell.previousElementSibling.textContent, bar.width];
})"#;

#[derive(Clone, Debug)]
struct Rectangle {
    path: String,
    about: String,
    x: f64,
    y: f64,
    width: f64,
    height: f64,
    fill: String,
    top: String,
}

impl Rectangle {
    fn read(rectangle: &Value) -> Rectangle {
        let text = |name: &str| rectangle[name].as_str().expect(name).to_owned();
        let number = |name: &str| rectangle[name].as_f64().expect(name);
        Rectangle {
            path: text("path"),
            about: text("about"),
            x: number("x"),
            y: number("y"),
            width: number("width"),
            height: number("height"),
            fill: text("fill"),
            top: text("top"),
        }
    }

    fn area(&self) -> f64 {
        self.width * self.height
    }

    /// Returns how much rounding may have changed the area.
    fn slack(&self) -> f64 {
        (self.width + self.height) * ROUNDING + 0.01
    }

    /// Returns the overlap in both directions.
    fn overlap(&self, other: &Rectangle) -> (f64, f64) {
        let across = |from: f64, length: f64, other_from: f64, other_length: f64| {
            (from + length).min(other_from + other_length) - from.max(other_from)
        };
        (
            across(self.x, self.width, other.x, other.width),
            across(self.y, self.height, other.y, other.height),
        )
    }

    fn is_within(&self, x: f64, y: f64, width: f64, height: f64) -> bool {
        let slack = 2.0 * ROUNDING;
        self.x >= x - slack
            && self.y >= y - slack
            && self.x + self.width <= x + width + slack
            && self.y + self.height <= y + height + slack
    }

    /// Returns the folder that contains it, with a slash at its end.
    fn parent(&self) -> &str {
        let path = self.path.strip_suffix('/').unwrap_or(&self.path);
        &path[..=path.rfind('/').expect("a slash in front")]
    }

    /// Returns the bytes of the files at its path and below it.
    fn bytes(&self) -> u64 {
        let of = |(path, bytes, _): &(&str, u64, &str)| if self.covers(path) { *bytes } else { 0 };
        FILES.iter().map(of).sum()
    }

    fn covers(&self, file: &str) -> bool {
        let file = format!("/{file}");
        file == self.path || self.path.ends_with('/') && file.starts_with(&self.path)
    }
}

/// Opens the report of the files above in a browser.
fn open() -> (Browser, Folder) {
    let folder = Folder::new("report");
    for (path, bytes, _) in FILES {
        folder.write(format!("site/{path}"), noise(path.len() as u64, *bytes));
    }
    let report = folder.join("report.html");
    let flags = ["--report", report.to_str().expect("a plain path")];
    build(&folder.join("site"), &folder.join("site.pinion"), &flags);
    let mut browser = Browser::start();
    browser.resize(WINDOW.0, WINDOW.1);
    let url = format!("file://{}", report.display());
    let visit = browser.visit(&url);
    assert!(visit.complaints.is_empty(), "{:#?}", visit.complaints);
    let asked: Vec<&str> = visit.responses.iter().map(|response| response.url.as_str()).collect();
    assert_eq!(asked, [url.as_str()], "it asks for something");
    (browser, folder)
}

fn noise(seed: u64, bytes: u64) -> Vec<u8> {
    let byte = |number: u64| ((number + seed).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8;
    (0..bytes).map(byte).collect()
}

fn rectangles(browser: &mut Browser) -> Vec<Rectangle> {
    let drawn = browser.evaluate(RECTANGLES);
    drawn.as_array().expect("a list").iter().map(Rectangle::read).collect()
}

#[test]
fn areas_are_proportional_to_bytes_and_do_not_overlap() {
    let (mut browser, _folder) = open();
    let drawn = rectangles(&mut browser);
    let total: u64 = FILES.iter().map(|(_, bytes, _)| bytes).sum();
    // Both directions have one scale, so proportions in units are those on the screen.
    let seen = browser
        .evaluate("(({a, b, c, d}) => [a, b, c, d])(document.querySelector('svg').getScreenCTM())");
    let seen: Vec<f64> = seen.as_array().expect("four").iter().filter_map(Value::as_f64).collect();
    assert!((seen[0] - seen[3]).abs() < 1e-6 && seen[1] == 0.0 && seen[2] == 0.0, "{seen:?}");

    for one in &drawn {
        assert!(one.is_within(0.0, 0.0, WIDTH, HEIGHT), "outside: {one:?}");
        assert!(one.width > 0.0 && one.height > 0.0, "{one:?}");
        let siblings: Vec<_> = drawn.iter().filter(|two| two.parent() == one.parent()).collect();
        let is_top = one.parent() == "/";
        // A folder has less space for its parts than its own area; the scale is that of its largest
        // part.
        let largest = siblings.iter().max_by_key(|two| two.bytes()).expect("itself");
        let scale = if is_top {
            WIDTH * HEIGHT / total as f64
        } else {
            largest.area() / largest.bytes() as f64
        };
        let share = one.bytes() as f64 / largest.bytes() as f64;
        let slack = one.slack() + if is_top { 0.0 } else { largest.slack() * share };
        let expected = one.bytes() as f64 * scale;
        assert!((one.area() - expected).abs() <= slack, "not {expected}: {one:?}");
        for two in siblings.iter().filter(|two| two.path != one.path) {
            let (wide, high) = one.overlap(two);
            let apart = wide.min(high) <= 2.0 * ROUNDING;
            assert!(apart, "overlap by {wide} and {high}: {one:?} {two:?}");
        }
        if !is_top {
            let parent = drawn.iter().find(|two| two.path == one.parent()).expect("its folder");
            let fits = one.is_within(parent.x, parent.y, parent.width, parent.height);
            assert!(fits, "{one:?} in {parent:?}");
        }
    }
}

/// A file is drawn unless it would be too small to see, or is in a folder that is too small.
#[test]
fn every_visible_file_is_drawn_with_its_path_type_and_share() {
    let (mut browser, _folder) = open();
    let drawn = rectangles(&mut browser);
    let total: u64 = FILES.iter().map(|(_, bytes, _)| bytes).sum();
    let colours = browser.evaluate(LEGEND);
    let colours = colours.as_array().expect("a list");
    for (file, bytes, group) in FILES {
        let own = drawn.iter().find(|one| one.path == format!("/{file}"));
        let Some(own) = own else {
            let smallest = drawn.iter().filter(|one| one.covers(file)).map(Rectangle::area);
            // The area is that of the root if the file is in no drawn folder.
            let around = smallest.fold(WIDTH * HEIGHT, f64::min);
            let is_small = *bytes as f64 / total as f64 * around < LEAST_SIZE;
            assert!(is_small || file.starts_with("small/"), "{file} is not drawn");
            continue;
        };
        assert_eq!(own.top, own.path, "something lies over it");
        let colour = colours.iter().find(|item| item[0].as_str().unwrap_or("").starts_with(group));
        assert_eq!(colour.expect(group)[1], own.fill, "{file} has another colour than {group}");
        let percent = *bytes as f64 / total as f64 * 100.0;
        let shown = own.about.rsplit_once(" (").and_then(|(_, share)| share.strip_suffix("%)"));
        let shown = shown.and_then(|share| share.trim().parse::<f64>().ok());
        let shown = shown.unwrap_or_else(|| panic!("{file}: {}", own.about));
        assert!((shown - percent).abs() <= 0.0501, "{file}: {shown} % is not {percent} %");
    }
    let folder = drawn.iter().find(|one| one.path == "/assets/img/").expect("a folder");
    assert!(folder.about.starts_with("4 files, "), "{}", folder.about);
    for path in ["/films/first.mp4", "/a<b>&\"c\".html", "/assets/img/deep/four.svg"] {
        assert!(drawn.iter().any(|one| one.path == path), "{path} is not drawn");
    }
    for path in ["/empty.txt", "/tiny.txt"] {
        assert!(drawn.iter().all(|one| one.path != path), "{path} cannot be seen");
    }
    let name = browser.evaluate("document.querySelector('svg').getAttribute('aria-label')");
    assert_eq!(name, "Bytes by folder");
}

#[test]
fn bars_are_proportional_to_the_bytes_of_their_types() {
    let (mut browser, _folder) = open();
    let of = |types: &[&str]| -> f64 {
        let files = FILES.iter().filter(|(path, ..)| types.iter().any(|end| path.ends_with(end)));
        files.map(|(_, bytes, _)| *bytes as f64).sum()
    };
    let bars = browser.evaluate(BARS);
    let bars: Vec<(&str, f64)> = bars
        .as_array()
        .expect("a list")
        .iter()
        .map(|bar| (bar[0].as_str().expect("a type"), bar[1].as_f64().expect("a width")))
        .collect();
    let (first, widest) = bars[0];
    assert_eq!(first, "image/png");
    for (media_type, ends) in [
        ("image/png", &[".png"][..]),
        ("video/mp4", &[".mp4"]),
        ("text/html", &[".html"]),
        ("text/javascript", &[".js"]),
        ("text/css", &[".css"]),
        ("image/svg+xml", &[".svg"]),
        ("application/zip", &[".zip"]),
    ] {
        let (_, width) = bars.iter().find(|(name, _)| *name == media_type).expect(media_type);
        let expected = widest * of(ends) / of(&[".png"]);
        // Widths are whole tenths of a percent, and of a pixel on the screen.
        assert!((width - expected).abs() <= widest * 0.001 + 0.1, "{media_type}: {width}");
    }
}
