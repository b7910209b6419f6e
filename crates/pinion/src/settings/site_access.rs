//! The access settings of a part of a site, from its `[[site.access]]`.

use super::{field_value, networks, number, path, read, row, single};
use crate::cidr_network::Network;
use crate::directive_value_parsers::{self, http_values};
use crate::directives::config_file_tables::Table;
use crate::failure::Failure;
use crate::raw_settings::Low;
use crate::server::access::cors::{AllowedOrigins, CorsPolicy};
use crate::server::access::limits::RULES_MAX;
use crate::server::access::path_scope::PathScope;
use pinion_http::gcra::RateLimit;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The access settings of a site.
#[derive(Clone, Debug, Default)]
pub(crate) struct SiteAccess {
    /// The tables, in the order of the file.
    pub(crate) tables: Vec<AccessTable>,
    /// Whether each request gets a number.
    pub(crate) gives_request_ids: bool,
}

/// One `[[site.access]]`.
#[derive(Clone, Debug)]
pub(crate) struct AccessTable {
    /// The text as written.
    pub(crate) path: String,
    pub(crate) password: Option<PasswordSettings>,
    /// Empty: every client.
    pub(crate) allow: Vec<Network>,
    /// They come before those of `allow`.
    pub(crate) deny: Vec<Network>,
    pub(crate) rate: Option<RateSettings>,
    /// Requests that one client may have open.
    pub(crate) concurrent_max: Option<u32>,
    pub(crate) cors: Option<CorsPolicy>,
}

/// The password file of a part of a site, and its realm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PasswordSettings {
    pub(crate) file: PathBuf,
    pub(crate) realm: String,
}

/// The number of requests that a client may send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RateSettings {
    pub(crate) limit: RateLimit,
    /// The rate in words.
    pub(crate) shown: String,
}

impl SiteAccess {
    /// Reads the settings of a site.
    ///
    /// # Errors
    /// [`Failure::Usage`] that names the key.
    pub(crate) fn from_low(low: &Low) -> Result<Self, Failure> {
        let tables = low.tables(Table::Access).iter().map(AccessTable::from_low);
        let tables = tables.collect::<Result<_, _>>()?;
        Ok(Self { tables, gives_request_ids: low.given("request-id") })
    }

    /// Returns whether there is nothing to do for a request.
    pub(crate) fn is_empty(&self) -> bool {
        self.tables.is_empty() && !self.gives_request_ids
    }

    /// Returns the password files, each of them once.
    pub(crate) fn password_files(&self) -> Vec<&Path> {
        let passwords = self.tables.iter().filter_map(|table| table.password.as_ref());
        let files: BTreeSet<&Path> = passwords.map(|password| password.file.as_path()).collect();
        files.into_iter().collect()
    }
}

impl AccessTable {
    fn from_low(low: &Low) -> Result<Self, Failure> {
        // The file has reported it already, with its place.
        if let Some((_, message)) = access_faults(low).into_iter().next() {
            return Err(Failure::usage(format!("[[site.access]] {message}")));
        }
        let realm = field_value(low, "access-realm")?.unwrap_or_default();
        let password = path(low, "access-password-file")?;
        let password = password.map(|file| PasswordSettings { file, realm });
        Ok(Self {
            path: single(low, "access-path", http_values::url_path)?.unwrap_or_default(),
            password,
            allow: networks(low, "access-allow")?,
            deny: networks(low, "access-deny")?,
            rate: rate(low)?,
            concurrent_max: number(low, "access-max-concurrent-requests")?,
            cors: cors(low)?,
        })
    }
}

#[cfg(test)]
impl AccessTable {
    /// Returns a table that sets nothing but its path.
    pub(crate) fn for_tests(path: &str) -> Self {
        let path = path.to_owned();
        let (allow, deny) = (Vec::new(), Vec::new());
        Self { path, password: None, allow, deny, rate: None, concurrent_max: None, cors: None }
    }

    /// Returns the table with the password file of this path. The realm is the name of the file.
    pub(crate) fn with_password_file(self, file: PathBuf) -> Self {
        let realm = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Self { password: Some(PasswordSettings { file, realm }), ..self }
    }
}

fn rate(low: &Low) -> Result<Option<RateSettings>, Failure> {
    let Some((count, period_ns)) =
        single(low, "access-request-rate", directive_value_parsers::rate)?
    else {
        return Ok(None);
    };
    let burst: u64 = number(low, "access-request-burst")?.unwrap_or(count);
    let limit = RateLimit::new(count, period_ns, burst);
    let limit = limit.ok_or_else(|| Failure::usage("request-burst: too many at this rate"))?;
    let text = low.values("access-request-rate").next().unwrap_or_default().to_string_lossy();
    let shown = format!("{text} of one client, {burst} at once");
    Ok(Some(RateSettings { limit, shown }))
}

fn cors(low: &Low) -> Result<Option<CorsPolicy>, Failure> {
    let texts = |name: &'static str| -> Result<Vec<String>, Failure> {
        low.values(name).map(|text| read(row(name), text, |text| Ok(text.to_owned()))).collect()
    };
    let origins = texts("access-cors-origins")?;
    if origins.is_empty() {
        return Ok(None);
    }
    let is_any = origins.iter().any(|origin| origin == "*");
    Ok(Some(CorsPolicy {
        origins: if is_any { AllowedOrigins::Any } else { AllowedOrigins::Only(origins) },
        methods: texts("access-cors-methods")?,
        headers: texts("access-cors-headers")?,
        exposed_headers: texts("access-cors-exposed-headers")?,
        max_age_seconds: number(low, "access-cors-max-age")?,
        allows_credentials: low.given("access-cors-credentials"),
    }))
}

/// Keys that mean nothing without another one.
const NEEDS: &[(&str, &str)] = &[
    ("access-realm", "access-password-file"),
    ("access-request-burst", "access-request-rate"),
    ("access-cors-methods", "access-cors-origins"),
    ("access-cors-headers", "access-cors-origins"),
    ("access-cors-exposed-headers", "access-cors-origins"),
    ("access-cors-max-age", "access-cors-origins"),
    ("access-cors-credentials", "access-cors-origins"),
];

/// Keys of which a table has at least one.
const EFFECTS: &[&str] = &[
    "access-password-file",
    "access-allow",
    "access-deny",
    "access-request-rate",
    "access-max-concurrent-requests",
    "access-cors-origins",
];

/// Returns the contradictions between the keys of a table: the row that each fault is about, and
/// its message. Each single value is right, or its fault is reported elsewhere.
pub(crate) fn access_faults(low: &Low) -> Vec<(&'static str, String)> {
    let key = |name: &'static str| row(name).file.map_or(name, |key| key.name);
    let texts = |name: &'static str| low.values(name).filter_map(|text| text.to_str());
    let mut faults = Vec::new();
    for &(name, needed) in
        NEEDS.iter().filter(|(name, needed)| low.given(name) && !low.given(needed))
    {
        faults.push((name, format!("{}: has no effect without {}", key(name), key(needed))));
    }
    if !EFFECTS.iter().any(|name| low.given(name)) {
        let keys = EFFECTS.iter().map(|name| key(name)).collect::<Vec<_>>().join(", ");
        faults.push(("access-path", format!("the table has no effect; give one of {keys}")));
    }
    if let Some(path) = texts("access-path").next()
        && let Some(front) = path.strip_suffix('*')
    {
        let front = front.trim_end_matches('/');
        let shown = if front.is_empty() { "/" } else { front };
        let message = format!("path: write {shown}, which covers all paths below it");
        faults.push(("access-path", message));
    }
    let is_any = texts("access-cors-origins").any(|origin| origin == "*");
    if is_any && texts("access-cors-origins").count() > 1 {
        let message = "cors-origins: * is every origin; give it alone".to_owned();
        faults.push(("access-cors-origins", message));
    }
    if low.given("access-cors-credentials") {
        let message = "with cors-credentials browsers take no *; name each one";
        for name in ["access-cors-origins", "access-cors-headers", "access-cors-exposed-headers"] {
            if texts(name).any(|text| text == "*") {
                faults.push((name, format!("{}: {message}", key(name))));
            }
        }
    }
    if let Some(both) =
        texts("access-deny").find(|text| texts("access-allow").any(|it| it == *text))
    {
        let message = format!("deny: {both} is in allow, too; remove it from one of them");
        faults.push(("access-deny", message));
    }
    let burst = low.values("access-request-burst").next().is_some();
    if burst && low.given("access-request-rate") && rate(low).is_err() {
        faults.push(("access-request-burst", "request-burst: too many at this rate".to_owned()));
    }
    faults
}

/// Returns the tables that contradict others: the number of each, and the message.
pub(crate) fn access_tables_faults(tables: &[&Low]) -> Vec<(usize, String)> {
    let mut faults = Vec::new();
    if tables.len() > RULES_MAX {
        let message = format!("[[site.access]] is one too many: {RULES_MAX} are the most");
        faults.push((RULES_MAX, message));
    }
    let path = |low: &Low| low.values("access-path").next().map_or("/".into(), ToOwned::to_owned);
    let scopes = tables.iter().map(|low| PathScope::new(&path(low).to_string_lossy()));
    let scopes: Vec<PathScope> = scopes.collect();
    for (number, scope) in scopes.iter().enumerate() {
        if scopes.iter().take(number).any(|earlier| earlier == scope) {
            let message = "path: an earlier table of the site is about the same path; write all \
                           keys in one of them";
            faults.push((number, message.to_owned()));
        }
    }
    faults
}

#[cfg(test)]
mod tests {
    use crate::config;
    use std::path::Path;

    /// The faults of a table with these lines.
    fn faults(lines: &str) -> Vec<String> {
        let text = format!("[[site]]\npath = \"a\"\n[[site.access]]\n{lines}\n");
        let (_, faults) = config::parse(&text, Path::new("p")).expect("TOML");
        faults.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn contradictory_keys_are_errors_with_their_positions() {
        for (lines, expected) in [
            ("realm = \"a\"", "p:4:9: realm: has no effect without password-file"),
            ("request-burst = 3", "p:4:17: request-burst: has no effect without request-rate"),
            ("cors-max-age = 3", "p:4:16: cors-max-age: has no effect without cors-origins"),
            ("path = \"/a\"", "p:4:8: the table has no effect; give one of password-file,"),
            ("path = \"/a/*\"\ndeny = \"unix\"", "p:4:8: path: write /a, which covers all paths"),
            (
                "cors-origins = [\"*\", \"https://a.test\"]",
                "p:4:17: cors-origins: * is every origin; give it alone",
            ),
            (
                "cors-origins = \"*\"\ncors-credentials = true",
                "p:4:16: cors-origins: with cors-credentials browsers take no *",
            ),
            (
                "cors-origins = \"https://a.test\"\ncors-headers = \"*\"\ncors-credentials = true",
                "p:5:16: cors-headers: with cors-credentials browsers take no *",
            ),
            (
                "allow = [\"10.0.0.0/8\"]\ndeny = [\"10.0.0.0/8\"]",
                "p:5:9: deny: 10.0.0.0/8 is in allow, too",
            ),
            ("request-rate = \"10\"", "p:4:16: request-rate: \"10\" is not a rate: 10/s, 100/min"),
            ("request-rate = \"0/s\"", "\"0/s\" is not a rate"),
            ("request-rate = \"+1/s\"", "\"+1/s\" is not a rate"),
            ("request-rate = 10", "a string (10/s, 100/min, 1000/h) is needed, not a number"),
            ("allow = \"10.0.0.1/8\"", "allow: \"10.0.0.1/8\" has bits behind its prefix"),
            ("cors-origins = \"a.test\"", "\"a.test\" is not an origin: https://example.org"),
            ("cors-origins = \"https://a.test/\"", "an origin has no path; write https://a.test"),
            ("cors-origins = \"https://a.test:443\"", "leave this port out; write https://a.test"),
            ("cors-origins = \"https://A.test\"", "small letters; write https://a.test"),
            ("cors-origins = \"https://*.a.test\"", "is not an origin"),
            ("cors-origins = \"null\"", "is not an origin"),
            ("realm = \"\u{fc}\"\npassword-file = \"u\"", "is not a header value"),
            ("password = \"u\"", "unknown key password in [[site.access]]; did you mean"),
        ] {
            let faults = faults(lines);
            assert!(faults.iter().any(|fault| fault.contains(expected)), "{lines}: {faults:?}");
        }
    }

    #[test]
    fn two_tables_are_about_two_paths() {
        let text = "[[site]]\npath = \"a\"\n[[site.access]]\ndeny = \"unix\"\n[[site.access]]\n\
                    path = \"/A\"\ndeny = \"unix\"\n\
                    [[site.access]]\npath = \"/a/\"\ndeny = \"unix\"\n";
        let (_, faults) = config::parse(text, Path::new("p")).expect("TOML");
        let faults: Vec<String> = faults.iter().map(ToString::to_string).collect();
        let [fault] = faults.as_slice() else { panic!("{faults:?}") };
        assert!(fault.starts_with("p:9:8: path: an earlier table of the site is about"), "{fault}");
        let many = "[[site.access]]\npath = \"/N\"\ndeny = \"unix\"\n";
        let many = (0..65).map(|number| many.replace('N', &format!("p{number}")));
        let text = format!("[[site]]\npath = \"a\"\n{}", many.collect::<String>());
        let (_, faults) = config::parse(&text, Path::new("p")).expect("TOML");
        assert_eq!(faults.len(), 1, "{faults:?}");
        assert!(faults[0].to_string().ends_with("is one too many: 64 are the most"));
    }
}
