//! `pinion.session`: sessions of visitors in the store, which all workers share.

use pinion_tests::external_programs::{program, stdout};
use pinion_tests::matrix::{Form, Io, Way};
use pinion_tests::protocol::Protocol;
use pinion_tests::request::Request;
use pinion_tests::response::Response;
use pinion_tests::server::{Server, Start};
use pinion_tests::temporary_folder::Folder;
use std::path::PathBuf;
use std::thread;

const SCRIPT: &str = r#"
pinion.use(function(req, res, next)
    req.locals = { session = pinion.session(req, res, { seconds = 3600 }) }
    return next()
end)

pinion.get("/read", function(req) return req.locals.session.user or "none" end)
pinion.get("/all", function(req)
    local values = {}
    for n = 1, 40 do values[n] = req.locals.session["n" .. n] or "-" end
    return table.concat(values, " ")
end)
pinion.get("/set/:name/:value", function(req)
    req.locals.session[req.params.name] = req.params.value
    return "written"
end)
pinion.get("/token", function(req) return req.locals.session:csrf() end)
pinion.post("/login", function(req, res)
    local session, form = req.locals.session, req:form()
    if not session:check_csrf(form.csrf) then return res:status(403):html("stale form") end
    session:rotate()
    session.user = form.user
    return res:redirect("/")
end)
pinion.post("/logout", function(req, res)
    req.locals.session:destroy()
    return res:redirect("/")
end)
"#;

const PAGE: &str = r##"<?lu local token = session:csrf() ?>
<p>#[[session.user or "nobody"]] #[[locals.session.user or "nobody"]]</p>
<input type="hidden" name="csrf" value="#[[token]]">
"##;

struct Site {
    server: Server,
    socket: PathBuf,
    _folder: Folder,
}

impl Site {
    fn start(io: Io, flags: &[&str]) -> Self {
        let files = [("site/main.lua", SCRIPT), ("site/form.dyn.html", PAGE)];
        let folder = Folder::with("lua-sessions", files);
        let socket = folder.join("store.sock");
        let address = format!("unix:{}", socket.display());
        let own = ["--io", io.as_str(), "--workers", "2", "--store", &address];
        let server = Start::site(&folder.join("site")).flags(&own).flags(flags).start();
        Self { server, socket, _folder: folder }
    }

    fn redis(&self, words: &[&str]) -> String {
        let mut command = program("redis-cli", "redis-tools");
        command.arg("-s").arg(&self.socket).args(words);
        String::from_utf8(stdout(&mut command)).expect("text").trim().to_owned()
    }

    /// Sends a request on a connection of its own, which is accepted by any of the workers.
    fn get(&self, target: &str, cookie: &str) -> Response {
        self.server.exchange(&Request::get(target).field("Cookie", format!("session={cookie}")))
    }

    fn post(&self, target: &str, cookie: &str, form: &str) -> Response {
        let request = Request::new("POST", target)
            .field("Cookie", format!("session={cookie}"))
            .field("Content-Type", "application/x-www-form-urlencoded");
        self.server.exchange(&request.body(form.as_bytes()))
    }

    /// Returns the user that several connections read, and thus both workers.
    #[track_caller]
    fn user(&self, cookie: &str) -> String {
        let users: Vec<_> = (0..6).map(|_| self.get("/read", cookie)).collect();
        for response in &users {
            assert_eq!(response.status, 200, "{response}");
            assert_eq!(response.text(), users[0].text());
        }
        users[0].text().to_owned()
    }
}

/// Returns the value of the only cookie that a response sets.
#[track_caller]
fn cookie(response: &Response) -> String {
    let cookies: Vec<_> = response.values("set-cookie").collect();
    let [cookie] = cookies[..] else { panic!("{response}") };
    let value = cookie.strip_prefix("session=").expect("a session");
    value.split(';').next().expect("a value").to_owned()
}

fn key(cookie: &str) -> String {
    format!("session:{}", cookie.split('.').next().expect("an ID"))
}

#[test]
fn a_visitor_logs_in_and_out_on_all_workers() {
    for io in Io::BOTH {
        let site = Site::start(io, &[]);
        let read = site.server.get("/read");
        assert_eq!((read.text(), read.field("set-cookie")), ("none", None));
        assert_eq!(site.redis(&["DBSIZE"]), "0");
        // The form begins a session, whose token its handler wants.
        let form = site.server.get("/form");
        let visitor = cookie(&form);
        let token = form.text().split("value=\"").nth(1).and_then(|text| text.split('"').next());
        let token = token.expect("a token").to_owned();
        assert!(form.text().contains("<p>nobody nobody</p>"), "{form}");
        let refused = site.post("/login", &visitor, "user=ann&csrf=x");
        assert_eq!((refused.status, site.user(&visitor).as_str()), (403, "none"));
        let stranger = cookie(&site.server.get("/token"));
        let refused = site.post("/login", &stranger, &format!("user=ann&csrf={token}"));
        assert_eq!(refused.status, 403, "a token of another session");
        let login = site.post("/login", &visitor, &format!("user=ann&csrf={token}"));
        assert_eq!(login.status, 303, "{login}");
        let ann = cookie(&login);
        assert_eq!((site.user(&ann).as_str(), site.user(&visitor).as_str()), ("ann", "none"));
        assert!(site.get("/form", &ann).text().contains("<p>ann ann</p>"));
        assert_eq!(site.redis(&["EXISTS", &key(&visitor)]), "0");
        assert_eq!(site.redis(&["HGET", &key(&ann), "user"]), "ann");
        assert_eq!(site.redis(&["TTL", &key(&ann)]).parse::<u32>().map(|s| s <= 3600), Ok(true));
        for token in [token, "x".repeat(65)] {
            let stale = site.post("/login", &ann, &format!("user=eve&csrf={token}"));
            assert_eq!((stale.status, site.user(&ann).as_str()), (403, "ann"));
        }
        let logout = site.post("/logout", &ann, "");
        assert_eq!((cookie(&logout).as_str(), site.user(&ann).as_str()), ("", "none"));
        assert_eq!(site.redis(&["EXISTS", &key(&ann)]), "0");
        // The ID of a session is a secret of its visitor.
        let lines = site.server.last_words().join("\n");
        for cookie in [&visitor, &stranger, &ann] {
            let id = cookie.split('.').next().expect("an ID");
            assert!(!lines.contains(id), "{lines}");
        }
    }
}

#[test]
fn a_forged_cookie_causes_no_lookup() {
    for io in Io::BOTH {
        let site = Site::start(io, &[]);
        let ann = cookie(&site.server.get("/set/user/ann"));
        let other = Site::start(io, &[]);
        let foreign = cookie(&other.server.get("/set/user/eve"));
        // To read a string as a hash is an error.
        site.redis(&["RENAME", &key(&ann), "kept"]);
        for cookie in [&ann, &foreign] {
            site.redis(&["SET", &key(cookie), "trap"]);
        }
        assert_eq!(site.get("/read", &ann).status, 500);
        let flip = |at: usize| {
            let mut bytes = ann.clone().into_bytes();
            bytes[at] = if bytes[at] == b'A' { b'B' } else { b'A' };
            String::from_utf8(bytes).expect("ASCII")
        };
        let mut wrong: Vec<String> = (0..ann.len()).map(flip).collect();
        wrong.extend([0, 1, 43, 44, 86].map(|end| ann[..end].to_owned()));
        wrong.extend([foreign, format!("{ann}x"), "x".repeat(4096), "\u{fc}".repeat(87)]);
        wrong.extend([format!("{ann}; session=x"), format!("x; session={ann}")]);
        wrong.push(format!("{ann}; session={ann}"));
        for cookie in &wrong {
            let read = site.get("/read", cookie);
            assert_eq!((read.status, read.text()), (200, "none"), "{cookie}");
        }
        // The server itself refuses these.
        for cookie in [format!("{}\0{}", &ann[..20], &ann[21..]), "x".repeat(65_536)] {
            let read = site.get("/read", &cookie);
            assert!((400..500).contains(&read.status), "{read}");
        }
        site.redis(&["RENAME", "kept", &key(&ann)]);
        assert_eq!(site.user(&ann), "ann");
        other.server.stop();
    }
}

#[test]
fn a_session_ends_with_its_time_in_the_store() {
    let site = Site::start(Io::BOTH[0], &[]);
    let ann = cookie(&site.server.get("/set/user/ann"));
    assert_eq!(site.user(&ann), "ann");
    assert_eq!(site.redis(&["EXPIRE", &key(&ann), "-1"]), "1");
    assert_eq!(site.user(&ann), "none");
    // Its ID is not used again.
    let written = cookie(&site.get("/set/user/bob", &ann));
    assert_ne!(key(&written), key(&ann));
    assert_eq!((site.user(&written).as_str(), site.user(&ann).as_str()), ("bob", "none"));
    // A use renews both the cookie and the time in the store.
    site.redis(&["EXPIRE", &key(&written), "60"]);
    let read = site.get("/read", &written);
    assert_eq!(cookie(&read), written);
    assert!(read.field("set-cookie").is_some_and(|line| line.contains("Max-Age=3600;")));
    assert_ne!(site.redis(&["TTL", &key(&written)]), "60");
}

#[test]
fn concurrent_session_writes_are_not_lost() {
    for io in Io::BOTH {
        let site = Site::start(io, &[]);
        let ann = cookie(&site.server.get("/set/user/ann"));
        let (site_of, cookie_of) = (&site, &ann);
        thread::scope(|scope| {
            for thread in 0..4 {
                scope.spawn(move || {
                    for n in (1..=10).map(|n| thread * 10 + n) {
                        let written = site_of.get(&format!("/set/n{n}/{n}"), cookie_of);
                        assert_eq!(written.text(), "written");
                    }
                });
            }
        });
        let expected: Vec<_> = (1..=40).map(|n| n.to_string()).collect();
        assert_eq!(site.get("/all", &ann).text(), expected.join(" "));
        assert_eq!(site.redis(&["HLEN", &key(&ann)]), "42");
    }
}

#[test]
fn over_tls_the_cookie_is_secure() {
    for protocol in [Protocol::Http1, Protocol::Http1Tls, Protocol::Http2, Protocol::Http3] {
        let folder = Folder::with("lua-sessions-tls", [("site/main.lua", SCRIPT)]);
        let way = Way { io: Io::BOTH[0], protocol, form: Form::Folder };
        let start = Start::site(&folder.join("site")).flags(&["--store-memory", "16"]);
        let server = start.in_way(way).start();
        let written = server.get("/set/user/ann");
        let line = written.field("set-cookie").expect("a cookie");
        let secure = if protocol == Protocol::Http1 { "" } else { " Secure;" };
        let end = format!("; Path=/; Max-Age=3600; HttpOnly;{secure} SameSite=Lax");
        assert!(line.ends_with(&end), "{protocol:?}: {line}");
        let cookie = cookie(&written);
        let read = Request::get("/read").field("Cookie", format!("session={cookie}"));
        assert_eq!(server.exchange(&read).text(), "ann");
    }
}
