//! Splits the head of a response into its headers, each with where it comes from.

use super::explanation::{FileLine, HeaderShown, HeaderSource, RemovedHeader};
use super::rule_lines::RuleLines;
use pinion_builder::rules::archived_rules::FieldLine;
use pinion_http::error_page::SECURITY_FIELDS;

/// The inputs that the headers of a response depend on.
#[derive(Default)]
pub(super) struct HeaderOrigins<'o> {
    /// The rules of the site; none without a site.
    pub(super) rules: Option<&'o RuleLines>,
    /// The path of the request, decoded; none if it is not known.
    pub(super) path: Option<&'o [u8]>,
    /// The path that a rewrite leads to.
    pub(super) sent: Option<&'o [u8]>,
    /// The response is an error, which has no headers about caching but its own.
    pub(super) is_error: bool,
    /// Where a `Location` comes from.
    pub(super) location: Option<(String, Vec<FileLine>)>,
    /// The file that is sent; none for content that Pinion makes.
    pub(super) file: Option<String>,
    /// `--cache-control`, if it was given.
    pub(super) cache_control: Option<&'o str>,
}

/// The headers of a response, and the headers that rules have removed.
pub(super) type Headers = (Vec<HeaderShown>, Vec<RemovedHeader>);

impl HeaderOrigins<'_> {
    /// Splits the lines of a head, without its status line.
    pub(super) fn of(&self, lines: &[u8]) -> Headers {
        let text = String::from_utf8_lossy(lines);
        let pairs = text.lines().filter_map(|line| line.split_once(": "));
        let pairs: Vec<(&str, &str)> = pairs.collect();
        let about = self.rules.map(|rules| rules.fields_about(self.path, self.sent));
        let about = about.unwrap_or_default();
        let headers = pairs.iter().map(|(name, value)| self.header(name, value, &about)).collect();
        (headers, self.removed(&pairs, &about))
    }

    fn header(&self, name: &str, value: &str, about: &[FieldLine]) -> HeaderShown {
        let lines = self.givers(name, value, about);
        let (source, reason) = if lines.is_empty() {
            self.without_rule(&name.to_ascii_lowercase(), value)
        } else {
            (HeaderSource::Rule, "a rule for headers".to_owned())
        };
        let lines = match &self.location {
            Some((_, lines)) if name == "Location" => lines.clone(),
            _ => lines,
        };
        let (name, value) = (name.to_owned(), value.to_owned());
        HeaderShown { name, value, source, reason, lines }
    }

    /// Returns the lines of `_headers` that give a field its value.
    fn givers(&self, name: &str, value: &str, about: &[FieldLine]) -> Vec<FileLine> {
        let Some(rules) = self.rules else { return Vec::new() };
        if self.is_error && is_storing(name) {
            return Vec::new();
        }
        let mut givers: Vec<&FieldLine> = Vec::new();
        for line in about.iter().filter(|line| line.name.eq_ignore_ascii_case(name)) {
            match &line.value {
                None => givers.clear(),
                Some(given) if is_in(given, value) => givers.push(line),
                // Of several types the last one applies; a line of a listing is of another page.
                Some(_) => {}
            }
        }
        givers.into_iter().map(|line| rules.place_of_field(line.line)).collect()
    }

    /// Returns the fields that a rule has removed, and that the response does not have.
    fn removed(&self, sent: &[(&str, &str)], about: &[FieldLine]) -> Vec<RemovedHeader> {
        let Some(rules) = self.rules else { return Vec::new() };
        let is_sent = |name: &str| sent.iter().any(|(other, _)| other.eq_ignore_ascii_case(name));
        let mut removed: Vec<RemovedHeader> = Vec::new();
        for line in about.iter().filter(|line| line.value.is_none() && !is_sent(&line.name)) {
            removed.retain(|other| !other.name.eq_ignore_ascii_case(&line.name));
            let place = rules.place_of_field(line.line);
            removed.push(RemovedHeader { name: line.name.clone(), line: place });
        }
        removed
    }

    /// Returns where a field comes from that no rule gives.
    fn without_rule(&self, name: &str, value: &str) -> (HeaderSource, String) {
        use HeaderSource::{Archive, BuiltIn, File, Flag, Rule, Server};
        let (source, reason) = match name {
            "accept-ranges" => (BuiltIn, "built in"),
            _ if SECURITY_FIELDS.iter().any(|(known, _)| known.eq_ignore_ascii_case(name)) => {
                (BuiltIn, "built in")
            }
            "content-security-policy" => (BuiltIn, "built in, for listings"),
            "allow" => (Server, "the methods that there are"),
            "cache-control" => match value {
                _ if self.cache_control == Some(value) => (Flag, "--cache-control"),
                "no-store" | "max-age=0, must-revalidate" => (BuiltIn, "built in"),
                "public, max-age=31536000, immutable" => (File, "the fingerprint in the name"),
                _ => (Archive, "the archive"),
            },
            "connection" => (Server, "the connection is closed"),
            "content-encoding" => (File, "the coding that is sent"),
            "content-length" => (File, "the size of what is sent"),
            "content-location" => (File, "the path of the file"),
            "content-range" => (Server, "the Range of the request"),
            "content-type" => match &self.file {
                Some(file) => return (File, format!("the type of {file}")),
                None => (BuiltIn, "built in"),
            },
            "date" => (Server, "the time of the response"),
            "etag" => (File, "content, type and coding"),
            "last-modified" => (File, "the modification time"),
            "location" => match &self.location {
                Some((reason, lines)) if lines.is_empty() => return (Server, reason.clone()),
                Some((reason, _)) => return (Rule, reason.clone()),
                None => (Archive, "the archive"),
            },
            "server" => (Flag, "--server-name"),
            "strict-transport-security" => (Flag, "--hsts"),
            "alt-svc" => (Flag, "the HTTP/3 listeners, or --alt-svc"),
            "vary" if self.is_error => (Server, "Accept selects the format of errors"),
            "vary" => (File, "the stored forms"),
            _ => (Archive, "the archive"),
        };
        (source, reason.to_owned())
    }
}

fn is_storing(name: &str) -> bool {
    ["cache-control", "expires"].iter().any(|other| name.eq_ignore_ascii_case(other))
}

/// Returns whether a value that a rule gives is a part of the value that is sent: values are
/// appended without the members that are there.
fn is_in(given: &str, sent: &str) -> bool {
    let members = |text: &str| -> Vec<String> {
        text.split(',').map(|member| member.trim().to_ascii_lowercase()).collect()
    };
    let sent_members = members(sent);
    sent.contains(given) || members(given).iter().all(|member| sent_members.contains(member))
}
