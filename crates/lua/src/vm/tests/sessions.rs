//! Sessions of visitors, with a store that is the VM's own.

use super::handlers::site_with_store;
use super::*;

/// What a handler has sent: its text, or the first line of its error, and its cookies.
struct Sent {
    text: String,
    cookies: Vec<String>,
}

impl Sent {
    /// The value of the only cookie.
    #[track_caller]
    fn cookie(&self) -> &str {
        let [cookie] = &self.cookies[..] else { panic!("{}: {:?}", self.text, self.cookies) };
        let (_, value) = cookie.split_once('=').expect("a value");
        value.split(';').next().expect("a part")
    }
}

impl Room {
    /// A request with a `Cookie` field, if it is not empty.
    fn sends(&mut self, path: &str, cookie: &str) -> Sent {
        let lines = if cookie.is_empty() { String::new() } else { format!("Cookie: {cookie}\r\n") };
        let asked = self.asks_with(path, &lines);
        let id = asked.id;
        let mut head = Vec::new();
        if let Some(task) = self.vm.tasks().request(id) {
            task.response.head_lines(b"", &mut head);
        }
        let text = match self.ends_with(asked) {
            Ok(text) => text,
            Err(fault) => fault.text().lines().next().unwrap_or_default().to_owned(),
        };
        let head = String::from_utf8(head).expect("text");
        let cookies = head.lines().filter_map(|line| line.strip_prefix("Set-Cookie: "));
        Sent { text, cookies: cookies.map(str::to_owned).collect() }
    }

    /// The same with the cookie of a session.
    fn of_session(&mut self, path: &str, cookie: &str) -> Sent {
        self.sends(path, &format!("session={cookie}"))
    }
}

/// Handlers, each with `session`, `store` and `id()`, the key in the store of the only session.
fn site_of(handlers: &[(&str, &str)]) -> Room {
    let handlers = handlers.iter().map(|(path, code)| {
        format!(
            "pinion.get('{path}', function(req, res) local session = pinion.session(req, res)
            {code} end)\n"
        )
    });
    let begins = "local store = pinion.store
        local function key() return store.keys('session:*')[1] end
        local function looks() return store.dbsize() end\n";
    site_with_store(&[begins.to_owned()].into_iter().chain(handlers).collect::<String>())
}

#[test]
fn reading_a_session_creates_none() {
    let mut room = site_of(&[
        ("/read", "return tostring(session.user) .. tostring(session:get('a')) .. looks()"),
        ("/refused", "return tostring(session:check_csrf(('x'):rep(65)))"),
        ("/delete", "session.user = nil return tostring(session:set('a', nil)) .. looks()"),
        ("/destroy", "session:destroy() return 'x' .. looks()"),
        ("/rotate", "return tostring(session:rotate()) .. looks()"),
    ]);
    let expected = [
        ("/read", "nilnil0"),
        ("/refused", "false"),
        ("/delete", "true0"),
        ("/destroy", "x0"),
        ("/rotate", "true0"),
    ];
    for (path, text) in expected {
        let sent = room.sends(path, "");
        assert_eq!((sent.text.as_str(), sent.cookies.len()), (text, 0), "{path}");
    }
}

#[test]
fn values_are_read_by_the_requests_that_follow() {
    let mut room = site_of(&[
        ("/write", "session.user = 'ann' session:set('n', 0.1) session.big = 2^53 return 'x'"),
        (
            "/read",
            "local n = session.n
            return session.user .. session:get('n') .. type(n) .. session.big + 0",
        ),
        ("/delete", "session.user = nil return tostring(session.user)"),
        ("/gone", "return tostring(session.user) .. session.n"),
        ("/seconds", "return store.ttl(key()) .. ''"),
        ("/born", "return tostring(session[':born'])"),
        ("/bytes", "session.bytes = '\\0\\r\\n\\255;' return (session.bytes:gsub('.', '%0 '))"),
        ("/length", "return #session.bytes .. ''"),
    ]);
    let written = room.sends("/write", "");
    let cookie = written.cookie();
    assert_eq!(cookie.len(), 87, "{cookie}");
    let expected = format!("session={cookie}; Path=/; Max-Age=1209600; HttpOnly; SameSite=Lax");
    assert_eq!(written.cookies, [expected]);
    let read = room.of_session("/read", cookie);
    assert!(read.text.starts_with("ann0.1string90071992547409") && read.cookies.is_empty());
    assert_eq!(room.of_session("/delete", cookie).text, "nil");
    assert_eq!(room.of_session("/gone", cookie).text, "nil0.1");
    assert_eq!(room.of_session("/seconds", cookie).text, "1209600");
    assert_eq!(room.of_session("/born", cookie).text, "nil");
    room.of_session("/bytes", cookie);
    assert_eq!(room.of_session("/length", cookie).text, "5");
}

#[test]
fn a_cookie_with_an_invalid_signature_is_ignored() {
    let mut room = site_of(&[
        ("/write", "session.user = 'ann' return key()"),
        // Were the key looked up, the command would fail: it is a string.
        ("/trap", "local k = key() store.rename(k, 'kept') store.set(k, 'trap') return 'x'"),
        ("/read", "return tostring(session.user)"),
        ("/free", "store.rename('kept', key()) return 'x'"),
    ]);
    let written = room.sends("/write", "");
    let cookie = written.cookie().to_owned();
    assert_eq!(room.of_session("/read", &cookie).text, "ann");
    room.sends("/trap", "");
    let looked_up = room.of_session("/read", &cookie).text;
    assert!(looked_up.contains("WRONGTYPE"), "the trap works: {looked_up}");
    let mut wrong = Vec::new();
    for at in 0..cookie.len() {
        for other in ['A', 'B', '.', '-'] {
            let mut text: Vec<char> = cookie.chars().collect();
            if text[at] != other {
                text[at] = other;
                wrong.push(text.into_iter().collect::<String>());
            }
        }
    }
    let (id, signature) = cookie.split_once('.').expect("two parts");
    wrong.extend((0..cookie.len()).map(|end| cookie[..end].to_owned()));
    wrong.extend([format!("{signature}.{id}"), format!("{id}.{id}"), format!("{cookie}x")]);
    wrong.extend([format!("{cookie}.{cookie}"), "x".repeat(4000)]);
    // One cookie too many, wherever it stands.
    for other in ["", "x", id, &cookie] {
        wrong.push(format!("{cookie}; session={other}"));
        wrong.push(format!("{cookie};\tsession={other}"));
        wrong.push(format!("{other}; session={cookie}"));
    }
    for text in &wrong {
        assert_eq!(room.of_session("/read", text).text, "nil", "{text}");
    }
    for line in [format!("Session={cookie}"), format!("a=session={cookie}")] {
        assert_eq!(room.sends("/read", &line).text, "nil", "{line}");
    }
    room.sends("/free", "");
    for line in [format!("a=b; session={cookie}; c"), format!("xsession=a; session=\"{cookie}\"")] {
        assert_eq!(room.sends("/read", &line).text, "ann", "{line}");
    }
}

#[test]
fn a_different_key_or_cookie_name_is_a_different_session() {
    let mut room = site_with_store(
        "local function handler(path, options)
            pinion.get('/write' .. path, function(req, res)
                pinion.session(req, res, options).user = path
                return 'x'
            end)
            pinion.get('/read' .. path, function(req, res)
                return tostring(pinion.session(req, res, options).user)
            end)
        end
        handler('/a', { key = ('a'):rep(16) })
        handler('/b', { key = ('b'):rep(16) })
        handler('/c', { name = '__Host-c', key = ('a'):rep(16), secure = true, seconds = 60 })
        handler('/d')",
    );
    let cookies = ["/a", "/b", "/c", "/d"].map(|path| {
        let sent = room.sends(&format!("/write{path}"), "");
        (path, sent.cookie().to_owned(), sent.cookies[0].clone())
    });
    let end = "; Path=/; Max-Age=60; HttpOnly; Secure; SameSite=Lax";
    assert!(cookies[2].2.starts_with("__Host-c=") && cookies[2].2.ends_with(end));
    for (reader, ..) in &cookies {
        for (writer, cookie, _) in &cookies {
            let line = format!("session={cookie}; __Host-c={cookie}");
            let read = room.sends(&format!("/read{reader}"), &line).text;
            assert_eq!(read, if reader == writer { writer } else { "nil" }, "{reader} {writer}");
        }
    }
}

#[test]
fn the_old_cookie_of_a_rotated_or_destroyed_session_is_invalid() {
    let mut room = site_of(&[
        ("/write", "session.user = 'ann' return 'x'"),
        ("/rotate", "session.level = 2 session:rotate() session.level = 3 return looks() .. ''"),
        ("/read", "return tostring(session.user) .. tostring(session.level)"),
        ("/destroy", "session:destroy() return looks() .. tostring(session.user)"),
        ("/again", "session:destroy() session.user = 'bob' return looks() .. ''"),
    ]);
    let first = room.sends("/write", "").cookie().to_owned();
    let rotated = room.of_session("/rotate", &first);
    assert_eq!(rotated.text, "1");
    let second = rotated.cookie().to_owned();
    assert_ne!(first, second);
    assert_eq!(room.of_session("/read", &second).text, "ann3");
    assert_eq!(room.of_session("/read", &first).text, "nilnil");
    // It rotates nothing, and writes another session.
    let third = room.of_session("/rotate", &first).cookie().to_owned();
    assert_eq!(room.of_session("/read", &third).text, "nil3");
    assert_eq!(room.of_session("/read", &second).text, "ann3");
    let destroyed = room.of_session("/destroy", &second);
    assert_eq!(destroyed.text, "1nil");
    assert_eq!(destroyed.cookies, ["session=; Path=/; Max-Age=0; HttpOnly; SameSite=Lax"]);
    assert_eq!(room.of_session("/read", &second).text, "nilnil");
    let again = room.of_session("/again", &third);
    assert_eq!(again.text, "1");
    assert_eq!(room.of_session("/read", again.cookie()).text, "bobnil");
}

#[test]
fn a_session_expires_and_each_use_renews_it() {
    let mut room = site_with_store(
        "local store, options = pinion.store, { seconds = 100, max_seconds = 1000 }
        local function key() return store.keys('session:*')[1] or 'none' end
        local function get(path, run)
            pinion.get(path, function(req, res)
                local text = run(pinion.session(req, res, options))
                return tostring(text) .. ' ' .. store.ttl(key())
            end)
        end
        get('/write', function(session) session.user = 'ann' end)
        get('/read', function(session) return session.user end)
        get('/older', function()
            store.hset(key(), ':born', store.hget(key(), ':born') - 950)
        end)
        get('/wrong', function() store.hset(key(), ':born', 'x') end)
        get('/idle', function() store.expire(key(), 80) end)
        get('/used', function() store.expire(key(), 95) end)",
    );
    let first = room.sends("/write", "").cookie().to_owned();
    room.of_session("/used", &first);
    let read = room.of_session("/read", &first);
    assert_eq!((read.text.as_str(), read.cookies.len()), ("ann 95", 0));
    room.of_session("/idle", &first);
    let read = room.of_session("/read", &first);
    assert_eq!((read.text.as_str(), read.cookie()), ("ann 100", &*first));
    assert!(read.cookies[0].contains("Max-Age=100;"));
    // What is left of its time is less than what use gives it, by some seconds of the test.
    room.of_session("/older", &first);
    room.of_session("/idle", &first);
    let read = room.of_session("/read", &first).text;
    assert!(read.starts_with("ann "), "{read}");
    let written = room.of_session("/write", &first);
    let seconds = written.text.strip_prefix("nil ").and_then(|text| text.parse::<u64>().ok());
    assert!(seconds.is_some_and(|seconds| (1..=50).contains(&seconds)), "{}", written.text);
    room.of_session("/older", &first);
    assert_eq!(room.of_session("/read", &first).text, "nil -2");
    // Without its birth, a hash is no session.
    let second = room.sends("/write", "").cookie().to_owned();
    room.of_session("/wrong", &second);
    assert_eq!(room.of_session("/read", &second).text, "nil 100");
}

#[test]
fn a_session_that_another_request_has_ended_is_not_written() {
    let mut room = site_of(&[
        ("/write", "session.user = 'ann' return 'x'"),
        (
            "/gone",
            "local user, key = session.user, key()
            store.del(key)
            local is_written, why = session:set('late', 1)
            local is_rotated, again = session:rotate()
            return user .. tostring(is_written) .. store.exists(key) .. why",
        ),
        (
            "/rotate",
            "local user = session.user store.del(key()) return select(2, session:rotate())",
        ),
        ("/raised", "local user = session.user store.del(key())\nsession.late = 1"),
        ("/token", "local user = session.user store.del(key())\nsession:rotate() session:csrf()"),
    ]);
    let ended = "the session has ended: another request has destroyed it or given it another ID";
    for (path, text) in [
        ("/gone", format!("annnil0{ended}")),
        ("/rotate", ended.to_owned()),
        ("/raised", format!("site.lua:N: {ended}")),
        ("/token", format!("site.lua:N: {ended}")),
    ] {
        let cookie = room.sends("/write", "").cookie().to_owned();
        let sent = room.of_session(path, &cookie);
        let line = sent.text.split(':').nth(1).filter(|line| line.parse::<u32>().is_ok());
        let text_without_line =
            line.map_or(sent.text.clone(), |line| sent.text.replacen(line, "N", 1));
        assert_eq!((text_without_line, sent.cookies.len()), (text, 0), "{path}");
    }
}

#[test]
fn a_csrf_token_is_valid_only_for_its_session() {
    let mut room = site_of(&[
        ("/token", "return session:csrf()"),
        ("/rotate", "session:rotate() return 'x'"),
        ("/destroy", "session:destroy() return 'x'"),
        ("/check/:token", "return tostring(session:check_csrf(req.params.token))"),
        (
            "/odd",
            "for _, odd in ipairs({ false, 5, {}, '', 'x', ('x'):rep(65), ('x'):rep(70000) }) do
                if session:check_csrf(odd or nil) then return 'taken' end
            end
            local token = session:csrf()
            for at = 1, #token do
                local other = token:sub(at, at) == 'A' and 'B' or 'A'
                local wrong = token:sub(1, at - 1) .. other .. token:sub(at + 1)
                if session:check_csrf(wrong) then return 'taken' end
            end
            return tostring(session:check_csrf(token))",
        ),
    ]);
    let first = room.sends("/token", "");
    let (token, cookie) = (first.text.clone(), first.cookie().to_owned());
    let again = room.of_session("/token", &cookie);
    assert!(again.text != token && again.cookies.is_empty());
    let other = room.sends("/token", "").cookie().to_owned();
    let checked = |room: &mut Room, token: &str, cookie: &str| {
        room.of_session(&format!("/check/{token}"), cookie).text
    };
    assert_eq!(checked(&mut room, &token, &cookie), "true");
    assert_eq!(checked(&mut room, &again.text, &cookie), "true");
    assert_eq!(checked(&mut room, &token, &other), "false");
    assert_eq!(checked(&mut room, &token, ""), "false");
    assert_eq!(room.of_session("/odd", &cookie).text, "true");
    let rotated = room.of_session("/rotate", &cookie).cookie().to_owned();
    assert_eq!(checked(&mut room, &token, &rotated), "false");
    assert_eq!(checked(&mut room, &token, &cookie), "false");
    let token = room.of_session("/token", &rotated).text;
    assert_eq!(checked(&mut room, &token, &rotated), "true");
    room.of_session("/destroy", &rotated);
    assert_eq!(checked(&mut room, &token, &rotated), "false");
}

#[test]
fn names_values_and_size_of_a_session_are_limited() {
    let mut room = site_of(&[
        (
            "/name",
            "session:set(('n'):rep(128), 1) return select(2, session:set(('n'):rep(129), 1))",
        ),
        (
            "/value",
            "session.a = ('v'):rep(2^14) return select(2, session:set('b', ('v'):rep(2^14 + 1)))",
        ),
        (
            "/values",
            "for n = 1, 64 do session['n' .. n] = n end
            session.n1 = 'other'
            return select(2, session:set('more', 1))",
        ),
        (
            "/bytes",
            "for n = 1, 3 do session[n .. ''] = ('v'):rep(2^14) end
            session['4'] = ('v'):rep(2^14 - 4)
            session['4'] = ('w'):rep(2^14 - 4)
            return select(2, session:set('4', ('v'):rep(2^14 - 3)))",
        ),
        ("/raised", "session.a = ('v'):rep(2^15)"),
    ]);
    let value = "a value of a session has at most 16384 bytes, not ";
    let hint = "; keep the value in the store, and its key in the session";
    for (path, text) in [
        ("/name", "the name of a value of a session has at most 128 bytes, not 129".to_owned()),
        ("/value", format!("{value}16385{hint}")),
        ("/values", "a session has at most 64 values".to_owned()),
        ("/bytes", "the names and values of a session have at most 65536 bytes together".into()),
    ] {
        assert_eq!(room.sends(path, "").text, text, "{path}");
    }
    let raised = room.sends("/raised", "").text;
    assert!(raised.starts_with("site.lua:") && raised.ends_with(&format!("{value}32768{hint}")));
}

#[test]
fn errors_about_sessions_have_the_line_of_the_call() {
    let cases = [
        (
            "session.a = true",
            "bad argument #2 to 'session:set' (string, number or nil expected, go",
        ),
        (
            "session:set('a', {})",
            "bad argument #2 to 'session:set' (string, number or nil expected",
        ),
        ("session.a = 0 / 0", "a value of a session is a finite number, not "),
        ("session:set(5, 1)", "bad argument #1 to 'session:set' (string expected, got number)"),
        ("session:get()", "bad argument #1 to 'session:get' (string expected, got nil)"),
        (
            "session[':born'] = 1",
            "the name of a value of a session is not empty and begins with no",
        ),
        ("session:set('', 1)", "the name of a value of a session is not empty and begins with no"),
        ("session.get = 1", "session.get is a method; a value of this name is written by session:"),
        ("session.csrf()", "call it with a colon: session:csrf(), not session.csrf()"),
        (
            "pinion.session(res, req)",
            "bad argument #1 to 'pinion.session' (req expected, got table)",
        ),
        ("pinion.session(req)", "bad argument #2 to 'pinion.session' (res expected, got nil)"),
        (
            "pinion.session(req, res, 5)",
            "bad argument #3 to 'pinion.session' (table expected, got ",
        ),
        ("pinion.session(req, res, { x = 1 })", "a session has no option \"x\"; its options are"),
        (
            "pinion.session(req, res, { key = 1 })",
            "the option key of a session is a string, not a ",
        ),
        (
            "pinion.session(req, res, { key = 'x' })",
            "the option key of a session has at least 16 r",
        ),
        ("pinion.session(req, res, { name = 'a b' })", "\"a b\" is not a valid name of a cookie"),
        (
            "pinion.session(req, res, { seconds = 0 })",
            "the option seconds of a session is a whole ",
        ),
        (
            "pinion.session(req, res, { seconds = 1.5 })",
            "the option seconds of a session is a whol",
        ),
        ("pinion.session(req, res, { max_seconds = 1e9 })", "the option max_seconds of a session "),
        ("pinion.session(req, res, { secure = 1 })", "the option secure of a session is a boolean"),
        (
            "res:write('x'):flush() session.a = 1",
            "the headers have been sent already, so no session",
        ),
        (
            "res:write('x'):flush() session:csrf()",
            "the headers have been sent already, so no sessi",
        ),
        (
            "session.a = 1 res:write('x'):flush() session:rotate()",
            "the headers have been sent alre",
        ),
    ];
    for (code, why) in cases {
        let mut room = site_of(&[("/", &format!("\n{code}"))]);
        let message = room.sends("/", "").text;
        let rest =
            message.strip_prefix("site.lua:6: ").unwrap_or_else(|| panic!("{code}: {message}"));
        assert!(rest.starts_with(why), "{code}: {message}");
    }
    let main = "pinion.get('/', function(req, res)
        pinion.session(req, res).a = 1 end)";
    let message = handlers::failure(&mut handlers::site(main), "/");
    assert!(
        message.starts_with("site.lua:2: there is no store: start the server with"),
        "{message}"
    );
}

#[test]
fn session_values_set_after_the_headers_are_stored() {
    let mut room = site_of(&[
        ("/write", "session.a = 1 res:write('x'):flush() session.b = 2 session.a = nil"),
        ("/read", "return tostring(session.a) .. session.b .. store.ttl(key())"),
        ("/destroy", "res:write('x'):flush() session:destroy()"),
        ("/size", "return looks() .. ''"),
    ]);
    let written = room.sends("/write", "");
    let read = room.of_session("/read", written.cookie());
    assert_eq!(read.text, "nil21209600");
    room.of_session("/destroy", written.cookie());
    assert_eq!(room.sends("/size", "").text, "0");
}
