//! Recorded responses of kawipiko's own server, compared with the responses of this server from the
//! same archives. All files are in `crates/kawipiko/tests/archives`: `requests.tsv` has the
//! requests to both, `responses.tsv` the recorded responses, and `differences.tsv` the intended
//! differences with their reasons. `made/README.md` describes the recording.

use pinion_tests::binary::source_root;
use pinion_tests::external_programs::{program, stdout};
use pinion_tests::request::Request;
use pinion_tests::response::Response;
use pinion_tests::server::{Start, run};
use pinion_tests::temporary_folder::Folder;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::path::PathBuf;

fn archives() -> PathBuf {
    source_root().join("crates/kawipiko/tests/archives")
}

/// Returns the cells of a table, without its comments.
fn table(name: &str) -> Vec<Vec<String>> {
    let text = fs::read_to_string(archives().join(name)).expect(name);
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines.map(|line| line.split('\t').map(str::to_owned).collect()).collect()
}

/// Returns the names of all archives, without their extension.
fn names() -> BTreeSet<String> {
    let files = fs::read_dir(archives().join("made")).expect("a folder");
    let files = files.map(|file| file.expect("a file").file_name().into_string().expect("UTF-8"));
    files.filter_map(|file| Some(file.strip_suffix(".cdb")?.to_owned())).collect()
}

/// The parts of a response that are compared.
#[derive(Clone, Debug, PartialEq, Eq)]
struct KawipikoResponse {
    status: u16,
    /// `-` if there is none, as in the other fields.
    location: String,
    media: String,
    /// The first 16 digits of the SHA-256 of the decoded content; `built-in` for a page that the
    /// server makes itself.
    content: String,
}

impl KawipikoResponse {
    fn of_cells(cells: &[String]) -> KawipikoResponse {
        let [status, location, media, content] = cells else { panic!("{cells:?}") };
        let [location, media, content] = [location, media, content].map(String::to_owned);
        KawipikoResponse { status: status.parse().expect("a status"), location, media, content }
    }

    /// Converts a response. The content of a redirect and the words of a built-in page differ
    /// between servers, so they are not compared.
    fn of(response: &Response, digests: &HashMap<Vec<u8>, String>) -> KawipikoResponse {
        let field = |name| response.field(name).unwrap_or("-").replace("; ", ";");
        let (status, location) = (response.status, field("Location"));
        let is_redirect = location != "-";
        let heading = format!("<h1>{status} {}</h1>", response.reason);
        let is_built_in = String::from_utf8_lossy(&response.body).contains(&heading);
        let content = match is_redirect {
            true => "-",
            false if is_built_in => "built-in",
            false => &digests[&response.body],
        };
        let has_media = !is_redirect && !is_built_in;
        let media = if has_media { field("Content-Type") } else { "-".to_owned() };
        KawipikoResponse { status, location, media, content: content.to_owned() }
    }
}

/// A request as in a row: the one of kawipiko's two addresses that got it, the host, and the
/// target.
type Asked = [String; 3];

/// Returns the recorded responses of each archive.
fn recorded() -> BTreeMap<String, Vec<(Asked, KawipikoResponse)>> {
    let mut recorded: BTreeMap<String, Vec<(Asked, KawipikoResponse)>> = BTreeMap::new();
    for row in table("responses.tsv") {
        let (names, rest) = row.split_first().expect("cells");
        let (asked, response) = rest.split_first_chunk::<3>().expect("cells");
        let mut response = KawipikoResponse::of_cells(response);
        if response.location != "-" || response.content == "built-in" {
            response.media = "-".to_owned();
        }
        if response.location != "-" {
            response.content = "-".to_owned();
        }
        for name in names.split(' ') {
            let rows = recorded.entry(name.to_owned()).or_default();
            rows.push((asked.clone(), response.clone()));
        }
    }
    recorded
}

/// A row of `differences.tsv`.
struct Difference {
    /// Names of archives; a `*` at the end matches all names with that prefix.
    names: Vec<String>,
    asked: Asked,
    ours: KawipikoResponse,
    reason: String,
}

impl Difference {
    fn all() -> Vec<Difference> {
        let of_row = |row: Vec<String>| {
            let [names, by, host, target, response @ .., reason] = row.as_slice() else {
                panic!("{row:?}");
            };
            Difference {
                names: names.split(' ').map(str::to_owned).collect(),
                asked: [by, host, target].map(String::to_owned),
                ours: KawipikoResponse::of_cells(response),
                reason: reason.to_owned(),
            }
        };
        table("differences.tsv").into_iter().map(of_row).collect()
    }

    fn is_about(&self, archive: &str, asked: &Asked) -> bool {
        let matches = |name: &String| match name.strip_suffix('*') {
            Some(begin) => archive.starts_with(begin),
            None => archive == name,
        };
        self.asked == *asked && self.names.iter().any(matches)
    }
}

/// Returns the responses of this server from an archive.
fn responses(name: &str, asked: &[(Asked, KawipikoResponse)]) -> Vec<KawipikoResponse> {
    let folder = Folder::new("import-answers");
    let file = archives().join("made").join(format!("{name}.cdb"));
    let out = folder.join("site.pinion");
    let [file, out] = [&file, &out].map(|path| path.to_str().expect("UTF-8"));
    let imported = run(&["import", file, "-o", out]);
    assert_eq!(imported.code, Some(0), "{name}: {}", imported.stderr);
    let server = Start::serve(&[out]).start();
    let responses: Vec<Response> = asked
        .iter()
        .map(|([_, host, target], _)| {
            let request = Request::get(target);
            server.exchange(&match host.as_str() {
                "-" => request,
                host => request.host(host),
            })
        })
        .collect();
    server.stop();
    let digests = digests(&folder, responses.iter().map(|response| response.body.as_slice()));
    responses.iter().map(|response| KawipikoResponse::of(response, &digests)).collect()
}

/// Returns the first 16 digits of the SHA-256 of each of these bodies; `-` for an empty one.
fn digests<'a>(
    folder: &Folder,
    bodies: impl Iterator<Item = &'a [u8]>,
) -> HashMap<Vec<u8>, String> {
    let bodies: Vec<&[u8]> = bodies.collect::<BTreeSet<_>>().into_iter().collect();
    let file = |number: usize| folder.join(format!("{number}.body"));
    for (number, body) in bodies.iter().enumerate() {
        fs::write(file(number), body).expect("a file");
    }
    let sums = stdout(program("sha256sum", "coreutils").args((0..bodies.len()).map(file)));
    let sums = String::from_utf8(sums).expect("text");
    let digest = |(body, sum): (&&[u8], &str)| {
        if body.is_empty() {
            (Vec::new(), "-".to_owned())
        } else {
            (body.to_vec(), sum[..16].to_owned())
        }
    };
    bodies.iter().zip(sums.lines()).map(digest).collect()
}

#[test]
fn responses_equal_those_of_kawipiko_or_a_known_difference() {
    let (recorded, differences) = (recorded(), Difference::all());
    assert!(recorded.keys().eq(names().iter()), "every archive was recorded");
    let mut wrong = Vec::new();
    let mut used = BTreeSet::new();
    for (name, rows) in &recorded {
        for ((asked, theirs), ours) in rows.iter().zip(responses(name, rows)) {
            let about = |(_, difference): &(usize, &Difference)| difference.is_about(name, asked);
            let known: Vec<_> = differences.iter().enumerate().filter(about).collect();
            let right = match known.as_slice() {
                [] => *theirs == ours,
                [(_, only)] => *theirs != ours && only.ours == ours,
                _ => false,
            };
            used.extend(known.iter().map(|(number, _)| *number));
            if !right {
                let [by, host, target] = asked;
                wrong.push(format!(
                    "{name} {by} {host} {target}\n  theirs {theirs:?}\n  ours   {ours:?}\n  \
                     {} known differences",
                    known.len()
                ));
            }
        }
    }
    let unused = differences.iter().enumerate().filter(|(number, _)| !used.contains(number));
    wrong.extend(unused.map(|(_, difference)| format!("never asked: {:?}", difference.asked)));
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

/// The recorded requests are the same as those of `requests.tsv`, so that neither file can be older
/// than the other.
#[test]
fn every_request_has_a_recorded_response() {
    let requests = table("requests.tsv");
    for (name, rows) in recorded() {
        let of_source = |row: &&Vec<String>| name.starts_with(&format!("{}-", row[0]));
        let expected: BTreeSet<_> =
            requests.iter().filter(of_source).map(|row| (&row[1], &row[2])).collect();
        let found: BTreeSet<_> = rows.iter().map(|([_, host, target], _)| (host, target)).collect();
        assert_eq!(found, expected, "{name}");
    }
}

#[test]
fn every_known_difference_is_documented() {
    let document = fs::read_to_string(source_root().join("docs/coming-from-kawipiko.md"));
    let document = document.expect("a document");
    let document: Vec<&str> = document.split_whitespace().collect();
    let document = document.join(" ");
    for Difference { reason, asked, .. } in Difference::all() {
        assert!(document.contains(&format!("| {reason} |")), "{reason}: {asked:?}");
    }
}

/// The archives can be made again: the files from which they are made have not changed either.
#[test]
fn the_archives_have_the_digests_of_their_recipe() {
    let made = archives().join("made");
    let recipe = fs::read_to_string(made.join("README.md")).expect("a recipe");
    let is_digest = |text: &str| text.len() == 64 && text.bytes().all(|b| b.is_ascii_hexdigit());
    let lines = recipe.lines().filter_map(|line| line.split_once("  "));
    let recorded: BTreeMap<&str, &str> = lines
        .filter(|(digest, _)| is_digest(digest))
        .map(|(digest, file)| (file, digest))
        .collect();
    let files: Vec<String> = names().iter().map(|name| format!("{name}.cdb")).collect();
    assert!(recorded.keys().copied().eq(files.iter().map(String::as_str)), "{:?}", recorded.keys());
    let sums = stdout(program("sha256sum", "coreutils").args(&files).current_dir(made));
    for line in String::from_utf8(sums).expect("text").lines() {
        let (digest, file) = line.split_once("  ").expect("a line of sha256sum");
        assert_eq!(recorded[file], digest, "{file}");
    }
}
