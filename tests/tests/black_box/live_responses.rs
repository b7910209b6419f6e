//! Live files compared with files of the archive that have the same content: a client gets the same
//! responses.

use crate::live_files::{MODIFIED, write_at};
use pinion_tests::body::{Part, noise, parts};
use pinion_tests::matrix::Matrix;
use pinion_tests::request::Request;
use pinion_tests::response::Response;
use pinion_tests::temporary_folder::Folder;

/// Returns the parts of a response that must be equal: all fields except those that depend on other
/// data about the file than its content.
fn meaning(response: &Response) -> (u16, Vec<(String, String)>, Vec<Vec<u8>>) {
    let is_multipart =
        response.field("Content-Type").is_some_and(|kind| kind.starts_with("multipart/"));
    let mut fields: Vec<(String, String)> = Vec::new();
    for (name, value) in &response.fields {
        let name = name.to_ascii_lowercase();
        let value = match name.as_str() {
            // A build only keeps codings that make a file smaller.
            "vary" if response.field("Vary") == Some("Accept-Encoding") => continue,
            "date" => continue,
            "vary" => value.replace("Accept-Encoding, ", ""),
            "etag" => "a tag".to_owned(),
            "content-type" | "content-length" if is_multipart => continue,
            _ => value.replace("/live/", "/archive/"),
        };
        fields.push((name, value));
    }
    fields.sort();
    let content = if is_multipart {
        let found = parts(response).into_iter();
        let part = |part: Part| {
            [part.content_type.into_bytes(), part.content_range.into_bytes(), part.content].concat()
        };
        found.map(part).collect()
    } else {
        vec![response.body.clone()]
    };
    (response.status, fields, content)
}

/// Generates numbers that repeat with their seed (splitmix64).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % bound
    }

    fn one_of<'a>(&mut self, values: &[&'a str]) -> &'a str {
        values[self.below(values.len() as u64) as usize]
    }

    fn range(&mut self, bytes: u64) -> String {
        let mut position = || match self.below(4) {
            0 => bytes.saturating_sub(self.below(4)),
            1 => self.below(4),
            _ => self.below(bytes + 10),
        };
        let (first, second) = (position(), position());
        match self.below(5) {
            0 => format!("-{first}"),
            1 => format!("{first}-"),
            _ => format!("{}-{}", first.min(second), first.max(second)),
        }
    }

    /// Returns conditions and ranges in any combination. `tag` is that of the file.
    fn fields(&mut self, bytes: u64, tag: &str) -> Vec<(&'static str, String)> {
        let mut fields = Vec::new();
        let weak = format!("W/{tag}");
        let tags = [tag, "*", "\"x\"", &weak, "\"x\", \"y\""];
        let dates =
            [MODIFIED, "Sun, 06 Nov 1994 08:49:36 GMT", "Mon, 07 Nov 1994 08:49:37 GMT", "x"];
        for name in ["If-Match", "If-None-Match"] {
            if self.below(5) == 0 {
                fields.push((name, self.one_of(&tags).to_owned()));
            }
        }
        for name in ["If-Modified-Since", "If-Unmodified-Since"] {
            if self.below(5) == 0 {
                fields.push((name, self.one_of(&dates).to_owned()));
            }
        }
        if self.below(3) > 0 {
            let ranges: Vec<String> = (0..=self.below(4)).map(|_| self.range(bytes)).collect();
            fields.push(("Range", format!("bytes={}", ranges.join(", "))));
            if self.below(3) == 0 {
                let value = match self.below(2) {
                    0 => self.one_of(&tags),
                    _ => self.one_of(&dates),
                };
                fields.push(("If-Range", value.to_owned()));
            }
        }
        fields
    }
}

/// Files with sizes around the limits at which the server sends them in another way.
const FILES: [(&str, usize); 7] = [
    ("empty.bin", 0),
    ("one.bin", 1),
    ("small.png", 900),
    ("held.bin", 32 << 10),
    ("open.bin", (32 << 10) + 1),
    ("large.bin", 300_000),
    ("external.bin", (1 << 20) + 7),
];

/// Any request for a live file gets the same response as for the same file of an archive.
#[test]
fn a_live_file_has_the_response_of_a_file_of_the_archive() {
    let folder = Folder::with("live-differential", [("404.html", "not here")]);
    for (name, bytes) in FILES {
        let content = noise(bytes);
        write_at(&folder, &format!("archive/{name}"), &content, 0);
        write_at(&folder, &format!("live/{name}"), &content, 0);
    }
    folder.write(
        "_headers",
        "/*\n  X-All: a\n  Cache-Control: max-age=60\n/archive/:name\n  X-Name: :name\n  \
         ! Referrer-Policy\n/live/:name\n  X-Name: :name\n  ! Referrer-Policy\n/*/one.bin\n  \
         Cache-Control: no-cache\n  Vary: X-B\n  Content-Language: de\n",
    );
    let matrix = Matrix::of(folder.path()).folder_only("a live folder is one of a folder");
    matrix.build(&["--live", "live"]).run(|server| {
        let mut client = server.client();
        let mut numbers = Numbers(7);
        for (name, bytes) in FILES {
            let pair = [format!("/archive/{name}"), format!("/live/{name}")];
            let tags = pair.each_ref().map(|target| {
                let whole = client.exchange(&Request::get(target));
                assert_eq!(whole.status, 200, "{target}: {whole}");
                whole.field("ETag").expect("an entity tag").to_owned()
            });
            for _ in 0..60 {
                let seed = numbers.below(u64::MAX);
                let method = numbers
                    .one_of(&["GET", "GET", "GET", "HEAD", "OPTIONS", "POST", "DELETE", "FOO"]);
                let [archive, live] = [0, 1].map(|side| {
                    let request = Request::new(method, &pair[side]);
                    let fields = Numbers(seed).fields(bytes as u64, &tags[side]);
                    let request = fields
                        .iter()
                        .fold(request, |request, (name, value)| request.field(name, value));
                    (client.exchange(&request), fields)
                });
                let ((archive, _), (live, fields)) = (archive, live);
                assert!(
                    meaning(&live) == meaning(&archive),
                    "{method} {name} {fields:?}:\n{live}\n{archive}"
                );
            }
        }
    });
}
