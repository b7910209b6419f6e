//! A page with hostile values in Chromium: none of their scripts runs, in any context, and each
//! value is displayed unchanged.

use pinion_tests::browser::Browser;
use pinion_tests::server::Start;
use pinion_tests::temporary_folder::Folder;

/// A page with a value in each kind of context.
const PAGE: &str = r##"<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>#[[query.x]]</title>
<style>.a { color: #[[query.x]]; font-family: "#[[query.x]]" }</style>
<script>var kept = [], keep = value => kept.push(value)</script>
<!-- #[[query.x]] -->
<h1>#[[query.x]]</h1>
<textarea>#[[query.x]]</textarea>
<p id="p" title="#[[query.x]]" data-x='#[[query.x]]' style="color: #[[query.x]]">text</p>
<p #[[query.x]]>name of an attribute</p>
<h#[[query.x]]>rest of the name of a tag</h1>
<a href="#[[query.x]]">whole</a>
<a href="/a/#[[query.x]]">path</a>
<a href="/?q=#[[query.x]]#there">query</a>
<a href="/#[[query.x]]">behind the first slash</a>
<svg><title>#[[query.x]]</title><a href="#[[query.x]]"><text>in svg</text></a></svg>
<img src="/#[[query.x]]" alt="#[[query.x]]">
<button onclick="keep(#[[query.x]])">code</button>
<button onclick="keep('#[[query.x]]')">string</button>
<button onclick="keep(&#39;#[[query.x]]&#39;)">string between references</button>
<script>
    keep(#[[query.x]]); keep("#[[query.x]]"); keep('#[[query.x]]'); keep(`#[[query.x]]`)
</script>
<script type="application/json" id="json">{ "x": #[[query.x]] }</script>
"##;

/// Values of which each would set `ran` in some context without escaping.
const HOSTILE: &[&str] = &[
    "<script>ran=1</script>",
    "</script><script>ran=1</script>",
    "</title></style></textarea><img src=x onerror=ran=1>",
    "\"><img src=x onerror=ran=1>",
    "'><img src=x onerror=ran=1>",
    "--><img src=x onerror=ran=1>",
    "--!><img src=x onerror=ran=1>",
    "]]><img src=x onerror=ran=1>",
    "javascript:ran=1",
    " javascript:ran=1",
    "java\tscript:ran=1",
    "JAVASCRIPT:ran=1//",
    "data:text/html,<script>opener.ran=1</script>",
    "//evil.example/x",
    "/evil.example/x",
    "\\\\evil.example/x",
    "onclick=ran=1",
    "x onload=ran=1 autofocus onfocus=ran=1",
    "cript onload=ran=1",
    "');ran=1;//",
    "\");ran=1;//",
    "`);ran=1;//",
    "\\');ran=1;//",
    "\\\");ran=1;//",
    "&#39;);ran=1;//",
    "&quot;);ran=1;//",
    "%27);ran=1;//",
    "${ran=1}",
    "{ran=1}",
    "*/ran=1/*",
    "\u{2028}ran=1//",
    "x\nran=1//",
    "<!--<script>ran=1//",
    "red;background:url(javascript:ran=1)",
    "red} </style><img src=x onerror=ran=1>",
    "@import 'javascript:ran=1'",
];

/// JavaScript that returns the errors of the page in words; empty if there are none.
const VERDICT: &str = "(x => {
    document.querySelectorAll('button').forEach(button => button.click());
    const wrong = [];
    if (window.ran !== undefined) wrong.push('it ran');
    if (document.querySelector('[onload], [onerror], [onfocus], p[onclick]')) {
        wrong.push('a handler stands there');
    }
    for (const link of document.querySelectorAll('a')) {
        const url = new URL(link.getAttribute('href'), location);
        const leads = ['http:', 'https:', 'about:'].includes(url.protocol);
        if (!leads) wrong.push('a link to ' + url.protocol);
    }
    const whole = document.querySelector('a');
    for (const link of document.querySelectorAll('body > a, img')) {
        const url = new URL(link.href ?? link.src);
        if (link !== whole && url.host !== location.host) wrong.push('it leads to ' + url.host);
    }
    const p = document.getElementById('p');
    const shown = {
        title: document.querySelector('head > title').textContent,
        heading: document.querySelector('h1').textContent,
        textarea: document.querySelector('textarea').value,
        attribute: p.title,
        data: p.dataset.x,
        svg: document.querySelector('svg title').textContent,
        alt: document.querySelector('img').alt,
        json: JSON.parse(document.getElementById('json').textContent).x,
    };
    kept.forEach((value, at) => shown['script ' + at] = value);
    for (const place in shown) {
        if (shown[place] !== x) wrong.push(place + ' has ' + JSON.stringify(shown[place]));
    }
    if (kept.length !== 7) wrong.push(kept.length + ' of 7 scripts ran');
    return wrong.join('; ');
})";

#[test]
fn hostile_values_are_shown_as_text_and_never_executed() {
    let folder = Folder::with("escaping", [("index.dyn.html", PAGE)]);
    let server = Start::site(folder.path()).start();
    let mut browser = Browser::start();
    for value in HOSTILE {
        let encoded: String = value.bytes().map(|byte| format!("%{byte:02x}")).collect();
        browser.visit(&server.url(&format!("/?x={encoded}")));
        let text = serde_json::Value::from(*value);
        let wrong = browser.evaluate(&format!("{VERDICT}({text})"));
        assert_eq!(wrong, "", "{value:?}");
    }
    server.stop();
}
