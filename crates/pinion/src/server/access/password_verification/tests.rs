use super::*;
use crate::server::access::limits::{
    FAILURES_AT_ONCE, UNIX_FAILURES_AT_ONCE, UNIX_FAILURES_PER_SECOND,
};
use crate::server::access::path_scope::PathReadings;
use crate::settings::{AccessTable, SiteAccess};
use pinion_http::h1::head_parser::{HeadStorage, Parsed, parse};
use pinion_http::limits::Limits;
use pinion_lua::library::passwords::PasswordLimits;
use std::path::{Path, PathBuf};
use std::{env, fs, process};

/// Made by `htpasswd -nbB -C 4`. The password of both is `open`.
const ANN: &str = "ann:$2y$04$sbOc4hgK..xPRVSwN38OlOp3uM7RQLbWx/TM7d.TH76bkRcwE7Iju\n";
const BOB: &str = "bob:$2y$04$sbOc4hgK..xPRVSwN38OlOp3uM7RQLbWx/TM7d.TH76bkRcwE7Iju\n";

/// The credentials `ann:open` in a request.
const ANN_OPEN: &str = "Basic YW5uOm9wZW4=";

/// Password files in a folder that is removed in the end.
struct PasswordFiles(PathBuf);

impl PasswordFiles {
    fn new(name: &str, files: &[(&str, &str)]) -> Self {
        let folder = env::temp_dir().join(format!("pinion-{name}-{}", process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let folder = Self(folder);
        for (file, users) in files {
            fs::write(folder.0.join(file), users).expect("a file");
        }
        folder
    }

    /// Makes rules of these paths and files. The realm of each is its file.
    fn rules(&self, tables: &[(&str, &str)]) -> Arc<AccessRules> {
        let table = |(path, file): &(&str, &str)| {
            AccessTable::for_tests(path).with_password_file(self.0.join(file))
        };
        let tables = tables.iter().map(table).collect();
        let settings = SiteAccess { tables, ..SiteAccess::default() };
        let rules = AccessRules::load(&settings, Path::new("missing"), &[], false);
        Arc::new(rules.ok().flatten().expect("rules"))
    }
}

impl Drop for PasswordFiles {
    fn drop(&mut self) {
        let _removed = fs::remove_dir_all(&self.0);
    }
}

fn shared() -> Arc<AccessShared> {
    AccessShared::new(Arc::default(), PasswordLimits::default(), 1).expect("random bytes")
}

fn request(path: &str, credentials: &str, rules: &Arc<AccessRules>) -> WaitingRequest {
    let text = format!("GET {path} HTTP/1.1\r\nHost: a\r\nAuthorization: {credentials}\r\n\r\n");
    let mut storage = HeadStorage::new();
    let parsed = parse(text.as_bytes(), 0, &mut storage, &Limits::default());
    let Ok(Parsed::Head { head, .. }) = parsed else { panic!("a head") };
    WaitingRequest {
        head: OwnedRequestHead::new(&head),
        site: SiteId(0),
        client: ClientIdentity { peer: None, is_secured: false },
        began: None,
        is_oversized: false,
        rules: Arc::clone(rules),
        checked: CheckedAccess::default(),
    }
}

fn address(exchange: u32) -> Address {
    Address { worker: 0, slot: 0, generation: 0, exchange }
}

/// The rule of a path alone: that of its longest table.
fn rule_of(rules: &AccessRules, path: &str) -> (RuleSet, Arc<PasswordRule>) {
    let covering = rules.covering(&PathReadings::of_sent(path.as_bytes()));
    let (one, rule) = rules.of(covering).last().expect("a rule");
    (one, Arc::clone(rule.password.as_ref().expect("a password")))
}

/// A job that verifies `ann:open` for requests of two sites, until it is done by hand. The users
/// `everyone` are those of the second table of one site, and of the first of the other.
struct HeldJob {
    shared: Arc<AccessShared>,
    verifications: Verifications,
    sites: [Arc<AccessRules>; 2],
}

impl HeldJob {
    const NUMBER: u64 = 7;

    fn new(name: &str) -> Self {
        let files = [("everyone", ANN), ("admins", BOB), ("others", BOB), ("same", ANN)];
        let files = PasswordFiles::new(name, &files);
        let sites = [
            files.rules(&[("/others", "others"), ("/", "same")]),
            files.rules(&[("/", "everyone"), ("/admin", "admins")]),
        ];
        let shared = shared();
        let mut verifications = Verifications::default();
        for (number, (site, rules)) in (0..).zip(&sites).enumerate() {
            let (rule, password) = rule_of(rules, "/");
            let digest = shared.cache.digest(password.file.digest(), "ann", "open");
            if number == 0 {
                let running = Verification {
                    digest,
                    guesser: (1, ClientPrefix::Unix),
                    user: "ann".into(),
                    requests: Vec::new(),
                    _job: CancelOnDrop::default(),
                    _permits: shared.take_permits((1, ClientPrefix::Unix)).expect("permits"),
                };
                verifications.running.insert(Self::NUMBER, running);
            }
            let job = verifications.job_of(&digest).expect("the same job for the same content");
            let request = request("/", ANN_OPEN, rules);
            let guesser = shared.guesser(&request).expect("a password");
            let bytes = request.head.held_bytes();
            let waiting = WaitingLogin { request, rule, password, guesser, job, bytes };
            verifications.hold(address(site), waiting);
        }
        Self { shared, verifications, sites }
    }

    fn finish(&mut self, outcome: &JobOutcome<PasswordVerdict>) -> Vec<ResumedRequest> {
        let resumed = self.verifications.finish(Self::NUMBER, outcome, &self.shared, 0);
        assert_eq!(resumed.len(), 2);
        assert_eq!(self.verifications.waiting_bytes, 0);
        assert_eq!(self.shared.verifications.load(Ordering::Relaxed), 0);
        assert_eq!(self.shared.unix_verifications.load(Ordering::Relaxed), 0);
        resumed
    }
}

/// The number of a rule means another rule in another site.
#[test]
fn requests_of_several_sites_wait_for_one_job_and_get_their_own_rule_verified() {
    let mut job = HeldJob::new("held-right");
    let resumed = job.finish(&Ok(PasswordVerdict(true)));
    for (one, rules) in resumed.iter().zip(&job.sites) {
        assert_eq!(one.outcome, Ok(()));
        let checked = &one.request.checked;
        assert_eq!(checked.verified, rule_of(rules, "/").0);
        assert_eq!(checked.user.as_deref(), Some("ann"));
    }
    let admin = rule_of(&job.sites[1], "/admin").0;
    let verified = resumed[1].request.checked.verified;
    assert_eq!(verified.without(admin), verified, "no password of /admin was verified");
}

#[test]
fn requests_of_several_sites_get_the_challenge_of_their_own_site() {
    let mut job = HeldJob::new("held-wrong");
    let resumed = job.finish(&Ok(PasswordVerdict(false)));
    for (one, realm) in resumed.iter().zip(["same", "everyone"]) {
        let refusal = one.outcome.clone().expect_err("a wrong password");
        assert_eq!(refusal.status, 401);
        assert!(refusal.fields.contains(&format!("realm=\"{realm}\"")), "{refusal:?}");
        assert!(one.request.checked.verified.is_empty());
    }
}

#[test]
fn requests_of_a_failed_job_get_503() {
    let mut job = HeldJob::new("held-failed");
    for one in job.finish(&Err("no memory".to_owned())) {
        assert_eq!(one.outcome, Err(GateRefusal::unavailable()));
        assert!(one.request.checked.verified.is_empty());
    }
}

/// A reload reads all files again. Passwords that were verified with the same content stay
/// verified, and no others.
#[test]
fn a_password_stays_verified_as_long_as_the_content_of_its_file_is_the_same() {
    let shared = shared();
    let check = |users: &str| {
        let rules = PasswordFiles::new("reread", &[("users", users)]).rules(&[("/", "users")]);
        let (_, password) = rule_of(&rules, "/");
        let request = request("/", ANN_OPEN, &rules);
        let digest = shared.cache.digest(password.file.digest(), "ann", "open");
        (shared.look_up(&password, &request.head.head(), 1), digest)
    };
    let (before, digest) = check(ANN);
    assert_eq!(before, PasswordCheck::Unknown);
    shared.cache.insert(digest, 0);
    assert_eq!(check(ANN).0, PasswordCheck::Verified("ann".into()));
    assert_eq!(check(&format!("#\n{ANN}")).0, PasswordCheck::Unknown);
}

const TCP: Guesser = (0, ClientPrefix::Ipv4([192, 0, 2, 1]));

fn unix(user: u64) -> Guesser {
    (user, ClientPrefix::Unix)
}

fn status_of<T>(refusal: Result<T, GateRefusal>) -> u16 {
    refusal.err().map_or(200, |refusal| refusal.status)
}

#[test]
fn clients_on_unix_sockets_that_invent_names_have_a_limit() {
    let shared = shared();
    let charge = |guesser, now_ms| status_of(shared.charge_attempt(guesser, now_ms));
    for user in 1..=UNIX_FAILURES_AT_ONCE {
        assert_eq!(charge(unix(user), 0), 200, "{user}");
    }
    assert_eq!(charge(unix(1000), 0), 429);
    assert_eq!(charge(TCP, 0), 200, "a client with an address");
    let next_ms = 1000 / UNIX_FAILURES_PER_SECOND;
    assert_eq!(charge(unix(1000), next_ms), 200);
    assert_eq!(charge(unix(1001), next_ms), 429);
    // A right password is no attempt.
    shared.forgive(unix(1000));
    assert_eq!(charge(unix(1001), next_ms), 200);
}

#[test]
fn a_locked_out_user_uses_no_attempts_of_others() {
    let shared = shared();
    let charge = |guesser| status_of(shared.charge_attempt(guesser, 0));
    for _ in 0..FAILURES_AT_ONCE {
        assert_eq!(charge(unix(1)), 200);
    }
    for _ in 0..2 * UNIX_FAILURES_AT_ONCE {
        assert_eq!(charge(unix(1)), 429);
    }
    let others = UNIX_FAILURES_AT_ONCE - FAILURES_AT_ONCE;
    assert!((2..2 + others).all(|user| charge(unix(user)) == 200));
    assert_eq!(charge(unix(1000)), 429);
}

#[test]
fn clients_on_unix_sockets_leave_threads_to_others() {
    let shared = shared();
    let many: Vec<_> = (1..).map_while(|user| shared.take_permits(unix(user))).collect();
    assert_eq!(many.len(), UNIX_VERIFICATIONS_MAX);
    let others: Vec<_> = std::iter::from_fn(|| shared.take_permits(TCP)).collect();
    assert_eq!(others.len(), VERIFICATIONS_MAX - UNIX_VERIFICATIONS_MAX);
    drop((many, others));
    assert!(shared.take_permits(unix(1)).is_some());
}

#[test]
fn unix_socket_requests_leave_queue_space_to_others() {
    let rules = PasswordFiles::new("room", &[("users", ANN)]).rules(&[("/", "users")]);
    let (rule, password) = rule_of(&rules, "/");
    let held = |bytes: usize| {
        let mut verifications = Verifications::default();
        let mut count = 0;
        while verifications.check_room(unix(u64::from(count) + 1), bytes).is_ok() {
            let waiting = WaitingLogin {
                request: request("/", ANN_OPEN, &rules),
                rule,
                password: Arc::clone(&password),
                guesser: unix(u64::from(count) + 1),
                job: 0,
                bytes,
            };
            verifications.hold(address(count), waiting);
            count += 1;
        }
        assert_eq!(verifications.check_room(unix(1000), bytes), Err(GateRefusal::unavailable()));
        assert_eq!(verifications.check_room(TCP, bytes), Ok(()));
        count as usize
    };
    assert_eq!(held(1), UNIX_WAITING_MAX);
    assert_eq!(held(16 << 10), UNIX_WAITING_MAX_BYTES / (16 << 10));
}
