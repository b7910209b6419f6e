//! Handlers of a main script, as the owner of a VM runs them.

use pinion_http::h1::head_parser::{HeadStorage, Parsed, parse};
use pinion_http::limits::Limits;

use super::*;
use crate::limits::{BACKGROUND_MAX, FEW_PIECES, MANY_PIECES};
use crate::router::FoundRoute;
use crate::task::{BackgroundTaskKind, Waits};
use crate::vm::response_text::PREFIXES;

/// A VM with a main script.
pub(super) fn site(main: &str) -> Room {
    site_at(main, Now::read())
}

/// The same with a store of its own.
pub(super) fn site_with_store(main: &str) -> Room {
    let mut watchdog = CpuWatchdogs::new(1).watchdog(0).expect("watched");
    let program = SiteProgram::new("site.lua", main.into());
    let place = ScriptSite::default().as_in_a_worker();
    let vm = Vm::start(&program, &mut watchdog, place, Now::read()).expect("started");
    Room { vm, watchdog }
}

/// The same at a time that is not the system's.
pub(super) fn site_at(main: &str, now: Now) -> Room {
    let mut watchdog = CpuWatchdogs::new(1).watchdog(0).expect("watched");
    let program = SiteProgram::new("site.lua", main.into());
    let vm = Vm::start(&program, &mut watchdog, WorkerSite::default(), now).expect("started");
    Room { vm, watchdog }
}

/// A request that has begun.
pub(super) struct Asked {
    pub(super) id: TaskId,
    coroutine: Coroutine,
    left: TaskBudget,
    step: CoroutineStep,
}

impl Room {
    /// Lets the handler of a path run until it waits for the first time. There is content that has
    /// not come.
    fn asks(&mut self, path: &str) -> Asked {
        self.asks_with(path, "")
    }

    /// The same for a request with these header lines.
    pub(super) fn asks_with(&mut self, path: &str, lines: &str) -> Asked {
        let FoundRoute::Route(found) = self.vm.router().find(b"GET", path.as_bytes()) else {
            panic!("{path} leads nowhere");
        };
        let head = format!("GET {path} HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n{lines}\r\n");
        let mut storage = HeadStorage::reserved();
        let parsed = parse(head.as_bytes(), 0, &mut storage, &Limits::default());
        let Ok(Parsed::Head { head, .. }) = parsed else { panic!("{path}: it is no request") };
        let id = self.vm.tasks().begin_without_exchange().expect("a place");
        let start = (id, found.route as f64);
        if let Some(task) = self.vm.tasks().request(id) {
            task.request.fill(&head, path.as_bytes(), Some(found));
        }
        let coroutine = self.vm.coroutine().expect("a coroutine");
        let mut left = TaskBudget { cpu: PATIENT_CPU, ..TaskBudget::default() };
        let step = self.vm.resume(id, &coroutine, start, &mut self.watchdog, &mut left);
        Asked { id, coroutine, left, step }
    }

    /// Lets it run to its end, whatever it waits for.
    pub(super) fn ends_with(&mut self, asked: Asked) -> Result<String, ScriptFault> {
        let Asked { id, coroutine, mut left, mut step } = asked;
        let ended = loop {
            match step {
                CoroutineStep::Done(unsent) => {
                    let bytes = unsent.to_vec(self.vm.lua());
                    break Ok(String::from_utf8_lossy(&bytes).into_owned());
                }
                CoroutineStep::Failed(fault) => break Err(fault),
                CoroutineStep::Waits(_) => {
                    step = self.vm.resume(id, &coroutine, true, &mut self.watchdog, &mut left);
                }
            }
        };
        self.vm.host().end(id);
        ended
    }

    pub(super) fn response(&mut self, path: &str) -> Result<String, ScriptFault> {
        let asked = self.asks(path);
        self.ends_with(asked)
    }

    /// Answers a request whose content comes when its handler waits for it, as do the messages that
    /// it has sent. Returns the steps that it has taken.
    pub(super) fn steps_of(
        &mut self,
        path: &str,
        content_type: &str,
        content: &[u8],
    ) -> Result<u64, ScriptFault> {
        let mut asked = self.asks_with(path, &format!("Content-Type: {content_type}\r\n"));
        loop {
            let Asked { id, coroutine, left, step } = &mut asked;
            match step {
                CoroutineStep::Waits(WaitOperation::Content) => {
                    let mut tasks = self.vm.tasks();
                    tasks.request(*id).expect("it lives").content.arrive(content);
                }
                CoroutineStep::Waits(WaitOperation::Await(_)) => {
                    let sent = self.vm.host().work.sent.take();
                    assert!(!sent.is_empty(), "{path}: it waits for what never comes");
                    sent.into_iter().for_each(|sent| self.vm.host().deliver(&Arc::new(sent)));
                }
                _ => break,
            }
            *step = self.vm.resume(*id, coroutine, true, &mut self.watchdog, left);
        }
        let steps = TaskBudget::default().steps - asked.left.steps;
        self.ends_with(asked).map(|_| steps)
    }
}

#[test]
fn requests_are_answered_while_all_background_tasks_wait() {
    let mut room = site("pinion.get('/', function() return 'here' end)");
    let sleep = "return function() pinion.sleep(1) end";
    let work: Function = room.vm.lua.load(sleep).eval().expect("a function");
    for count in 0..BACKGROUND_MAX {
        let begun =
            room.vm.host().spawn(&room.vm.lua, work.clone(), BackgroundTaskKind::Every, None);
        let (id, why) = begun.unwrap_or_else(|error| panic!("the {count}th: {error}"));
        assert!(id.is_some(), "the {count}th: {why:?}");
    }
    assert_eq!(room.response("/").expect("answered"), "here");
    for id in room.vm.host().work.ready.take() {
        let coroutine = room.vm.tasks().take_coroutine(id).expect("it has not begun");
        let mut left = TaskBudget::default();
        let step = room.vm.resume(id, &coroutine, (), &mut room.watchdog, &mut left);
        assert!(matches!(step, CoroutineStep::Waits(WaitOperation::Sleep(_))));
        room.vm.tasks().park(id, coroutine, Waits::Wake).expect("parked");
    }
    assert_eq!(room.response("/").expect("answered"), "here");
}

#[test]
fn responses_of_many_pieces_equal_the_written_text() {
    let mut room = site(
        "local pieces = 0
        pinion.get('/as-many', function(req, res)
            for piece = 1, pieces do res:write(piece % 10) end
        end)
        pinion.get('/one-more', function() pieces = pieces + 1 end)
        pinion.get('/none', function() pieces = 0 end)",
    );
    let mut response = |path: &str| room.response(path).expect("answered");
    let written = |pieces| (1..=pieces).map(|piece: usize| (piece % 10).to_string()).collect();
    for pieces in 0..=MANY_PIECES + 2 {
        let expected: String = written(pieces);
        assert_eq!(response("/as-many"), expected);
        response("/one-more");
    }
    // There is more room than is needed.
    response("/none");
    assert_eq!(response("/as-many"), "");
    for _ in 0..FEW_PIECES {
        response("/one-more");
    }
    // Each number stands in front once, and the first one once more.
    let expected: String = written(FEW_PIECES);
    for again in 0..=PREFIXES.len() {
        assert_eq!(response("/as-many"), expected, "answer {again}");
    }
}

#[test]
fn coroutines_of_ended_tasks_are_collected() {
    let room = site("");
    let sleep = "local all = setmetatable({}, { __mode = 'k' })
        return function() end, function(work) all[work] = true end,
            function() local n = 0 for _ in pairs(all) do n = n + 1 end return n end";
    let (work, note, count): (Function, Function, Function) =
        room.vm.lua.load(sleep).eval().expect("functions");
    let coroutine = room.vm.lua.create_thread(work).expect("a coroutine");
    note.call::<()>(&coroutine).expect("noted");
    let id = room.vm.tasks().begin_without_exchange().expect("a place");
    room.vm.tasks().park(id, coroutine, Waits::Wake).expect("parked");
    room.vm.lua.gc_collect().expect("collected");
    assert_eq!(count.call::<usize>(()).expect("counted"), 1);
    room.vm.host().end(id);
    // The first one finds it.
    room.vm.lua.gc_collect().expect("collected");
    room.vm.lua.gc_collect().expect("collected");
    assert_eq!(count.call::<usize>(()).expect("counted"), 0);
}

#[test]
fn the_response_of_another_request_cannot_be_sent() {
    let mut room = site(
        "local others, requests = {}, {}
        pinion.get('/listen', function(req, res)
            others[1], requests[1] = res, req
            res:write('mine')
            pinion.sleep(1)
            return ' alone'
        end)
        pinion.get('/flush', function() others[1]:write('of another'):flush() end)
        pinion.get('/write', function() others[1]:write(('x'):rep(100000)) end)
        pinion.get('/file', function() others[1]:file('name') end)
        pinion.get('/body', function() local body = requests[1]:body() end)",
    );
    for path in ["/flush", "/write", "/file", "/body"] {
        let listener = room.asks("/listen");
        assert!(matches!(listener.step, CoroutineStep::Waits(WaitOperation::Sleep(_))));
        let asked = room.asks(path);
        let CoroutineStep::Failed(ScriptFault::Error(text)) = &asked.step else {
            panic!("{path}: it is not refused");
        };
        assert!(text.contains("pinion.send"), "{path}: {text}");
        assert!(text.contains("site.lua:"), "{path}: {text}");
        let _over = room.ends_with(asked);
        let _sent = room.ends_with(listener);
    }
}

#[test]
fn middleware_applies_to_routes_registered_after_it() {
    let mut room = site(
        "local group = pinion.group('/a')
        local inner = group.group('/in')
        group.get('/before', function() return 'before' end)
        pinion.use(function(req, res, next) return 'outer(' .. tostring(next()) .. ')' end)
        group.get('/x', function() return 'x' end)
        group.use(function(req, res, next) return 'group(' .. tostring(next()) .. ')' end)
        inner.get('/y', function() return 'y' end)
        inner.use(function(req, res, next) return 'inner(' .. tostring(next()) .. ')' end)
        inner.get('/z', function() return 'z' end)
        pinion.get('/w', function() return 'w' end)",
    );
    for (path, text) in [
        ("/a/before", "before"),
        ("/a/x", "outer(x)"),
        ("/a/in/y", "outer(group(y))"),
        ("/a/in/z", "outer(group(inner(z)))"),
        ("/w", "outer(w)"),
    ] {
        assert_eq!(room.response(path).expect(path), text, "{path}");
    }
}

#[test]
fn garbage_does_not_count_against_the_memory_limit() {
    let mut room = site(
        "local kept = {}
        for n = 1, 60 do kept[n] = ('x'):rep(2^20 - 100) .. n end
        pinion.get('/garbage', function()
            for n = 1, 400 do local text = ('x'):rep(100000) .. n end
            return 'well'
        end)
        pinion.get('/kept', function()
            local mine = {}
            for n = 1, 400 do mine[n] = ('x'):rep(100000) .. n end
            return 'too well'
        end)",
    );
    for _ in 0..5 {
        // TaskBudget alone, the collector would begin when there is twice as much.
        room.vm.lua.gc_collect().expect("collected");
        assert!(matches!(room.response("/kept"), Err(ScriptFault::OverBudget(_))));
        room.vm.lua.gc_collect().expect("collected");
        assert_eq!(room.response("/garbage").expect("it keeps nothing"), "well");
    }
}

#[test]
fn a_handler_may_return_the_response_object() {
    let mut room = site(
        "pinion.get('/redirect', function(req, res) return res:redirect('/x') end)
        pinion.get('/json', function(req, res) return res:json({ 1 }) end)
        pinion.get('/table', function(req, res) return {} end)",
    );
    assert_eq!(room.response("/redirect").expect("answered"), "");
    assert_eq!(room.response("/json").expect("answered"), "[1]");
    assert!(
        matches!(room.response("/table"), Err(ScriptFault::Error(text)) if text.contains("table"))
    );
}

#[test]
fn a_streamed_response_is_sent_piece_by_piece() {
    let mut room = site(
        "pinion.get('/', function(req, res)
            local pieces, at = { 'one, ', 2, '', ', three' }, 0
            res:write('first ')
            res:stream(function() at = at + 1 return pieces[at] end)
            return ' and the rest'
        end)
        pinion.get('/iterator', function(req, res) return res:stream(('a b'):gmatch('%a')) end)
        pinion.get('/text', function(req, res)
            res:stream('text')
        end)
        pinion.get('/table', function(req, res)
            res:stream(function() return {} end)
        end)
        pinion.get('/fails', function(req, res) res:stream(function() error('why') end) end)",
    );
    for (path, sent, rest) in [
        ("/", &["first one, ", "2", "", ", three"][..], " and the rest"),
        ("/iterator", &["a", "b"], ""),
    ] {
        let Asked { id, coroutine, mut left, mut step } = room.asks(path);
        for piece in sent {
            let CoroutineStep::Waits(WaitOperation::Flush(text)) = step else {
                panic!("{piece} is missing")
            };
            assert_eq!(&*text.as_bytes(), piece.as_bytes(), "{path}");
            step = room.vm.resume(id, &coroutine, true, &mut room.watchdog, &mut left);
        }
        let CoroutineStep::Done(unsent) = step else { panic!("{path} goes on") };
        assert_eq!(unsent.to_vec(room.vm.lua()), rest.as_bytes(), "{path}");
        room.vm.host().end(id);
    }
    for (path, why) in [
        ("/text", "site.lua:9: bad argument #1 to 'res:stream' (function expected, got string)"),
        ("/table", "site.lua:12: the function of res:stream returned a table"),
        ("/fails", "site.lua:14: why"),
    ] {
        let Err(ScriptFault::Error(text)) = room.response(path) else { panic!("{path}: no error") };
        assert!(text.starts_with(why), "{path}: {text}");
    }
}

#[test]
fn a_cached_value_that_needs_itself_is_an_error() {
    let mut room = site(
        "local function value() return pinion.cached('key', 60, value) end
        pinion.get('/', function() return pinion.cached('key', 60, value) end)",
    );
    let asked = room.asks("/");
    assert!(matches!(asked.step, CoroutineStep::Waits(WaitOperation::Wake)));
    let [maker] = room.vm.host().work.ready.take()[..] else { panic!("one makes the value") };
    let coroutine = room.vm.tasks().take_coroutine(maker).expect("it has not begun");
    let mut left = TaskBudget::default();
    let step = room.vm.resume(maker, &coroutine, (), &mut room.watchdog, &mut left);
    assert!(matches!(step, CoroutineStep::Done(_)), "it waits");
    room.vm.host().end(maker);
    let Err(ScriptFault::Error(text)) = room.ends_with(asked) else { panic!("there is no value") };
    assert!(text.contains("\"key\"") && text.contains("itself"), "{text}");
}

#[cfg(not(feature = "luajit"))]
#[test]
fn coroutines_that_cannot_be_closed_do_not_evade_the_cpu_limit() {
    let mut room = Room::new();
    for code in [
        "local outer = coroutine.running()
        coroutine.wrap(function() pcall(coroutine.close, outer) while true do end end)()",
        "pcall(coroutine.close, coroutine.running()) while true do end",
    ] {
        let fault = room.ends(code, MEMORY_MAX_BYTES).expect_err(code);
        assert!(matches!(fault, ScriptFault::OverBudget(_)), "{code}: {fault:?}");
    }
}

/// The error of a tail call has no line of the script: the message has a position all the same.
#[test]
fn an_error_in_a_tail_call_has_the_position_of_the_handler() {
    let mut room = site(
        "local kept
        pinion.get('/first', function(req, res) kept = res return 'first' end)
        pinion.get('/split', function(req, res)
            return res:redirect('a\\r\\nb')
        end)
        pinion.get('/status', function(req, res) return res:status(99) end)
        pinion.get('/field', function(req, res) return res:field('X', {}) end)
        pinion.get('/cookie', function(req, res) return res:cookie('a b', 'c') end)
        pinion.get('/json', function(req, res) local t = {} t.t = t return res:json(t) end)
        pinion.get('/html', function(req, res) return res:html({}) end)
        pinion.get('/write', function(req, res) return res:write({}) end)
        pinion.get('/over', function() return kept:write('x') end)
        pinion.get('/hex', function() return pinion.codec.hex_encode({}) end)
        pinion.get('/read', function() return pinion.fs.read(1) end)
        pinion.get('/yield', function() return coroutine.yield() end)
        pinion.get('/helper', function(req, res)
            local function go() return res:status(99) end
            go()
        end)
        pinion.get('/thrown', function() return error('as it is', 0) end)",
    );
    room.response("/first").expect("answered");
    for (path, line, why) in [
        ("/split", 3, "the value of the header Location has a line break"),
        ("/status", 6, "99 is not a status"),
        ("/field", 7, "bad argument #2 to 'res:field' (string expected, got table)"),
        ("/cookie", 8, "cookie"),
        ("/json", 9, "JSON cannot contain circular"),
        ("/html", 10, "bad argument #1 to 'res:html' (string expected, got table)"),
        ("/write", 11, "bad argument #1 to 'res:write' (string or number expected, got"),
        ("/over", 12, "the response is complete"),
        ("/hex", 13, "bad argument #1 to 'pinion.codec.hex_encode' (string expected"),
        ("/read", 14, "bad argument #1 to 'pinion.fs.read' (path such as"),
    ] {
        let Err(ScriptFault::Error(text)) = room.response(path) else { panic!("{path}: no error") };
        let begins = format!("site.lua:{line}: in the handler that starts at this line: ");
        let (message, stack) = text.split_once('\n').expect("a stack");
        assert!(message.starts_with(&begins) && message.contains(why), "{path}: {text}");
        let begins = format!("site.lua:{line}: the handler starts here");
        assert!(stack.lines().any(|line| line.trim_start() == begins), "{path}: {text}");
        assert!(!text.contains("pinion:"), "{path}: {text}");
    }
    // Lua 5.4 knows the line here.
    let Err(ScriptFault::Error(text)) = room.response("/yield") else { panic!("no error") };
    assert!(text.starts_with("site.lua:15: "), "{text}");
    assert!(text.contains("coroutine.yield in a handler"), "{text}");
    let Err(ScriptFault::Error(text)) = room.response("/helper") else { panic!("no error") };
    assert!(text.starts_with("site.lua:18: 99 is not a status"), "{text}");
    assert!(!text.contains("starts "), "{text}");
    // What a script throws without a place is what its `on_error` gets. The stack has one: Lua 5.4
    // knows the line, and LuaJIT where the handler begins.
    let Err(ScriptFault::Error(text)) = room.response("/thrown") else { panic!("no error") };
    let shows = if cfg!(feature = "luajit") { "the handler starts here" } else { "in " };
    assert!(text.starts_with("as it is\n"), "{text}");
    assert!(text.contains(&format!("\n\tsite.lua:20: {shows}")), "{text}");
}

#[test]
fn an_error_in_middleware_names_the_lines_of_handler_and_middleware() {
    let mut room = site(
        "pinion.use(function(req, res, next)
            if req.path ~= '/well' then return next() end
            return res:status(99)
        end)
        pinion.get('/well', function() return 'well' end)
        pinion.get('/tail', function(req, res) return res:status(99) end)
        local group = pinion.group('/in')
        group.use(function(req, res, next)
            local said = next()
            return said
        end)
        group.get('/x', function(req, res) return res:status(99) end)",
    );
    let around = "site.lua:1: its middleware starts here";
    for (path, line) in [("/well", 5), ("/tail", 6)] {
        let Err(ScriptFault::Error(text)) = room.response(path) else { panic!("{path}: no error") };
        let begins = format!(
            "site.lua:{line}: in the handler that starts at this line, or in its middleware: 99 is"
        );
        assert!(text.starts_with(&begins) && text.ends_with(around), "{path}: {text}");
    }
    // The stack shows the inner one alone.
    let Err(ScriptFault::Error(text)) = room.response("/in/x") else { panic!("no error") };
    assert!(text.starts_with("site.lua:9: 99 is not a status"), "{text}");
    assert!(text.contains("site.lua:12: the handler starts here"), "{text}");
    assert!(text.ends_with(around), "{text}");
}

#[test]
fn an_error_of_a_background_task_has_the_position_of_its_function() {
    let room = &mut site("");
    let fails = |room: &mut Room, work: &str| {
        let work = room.vm.lua.load(work).set_name("@work.lua").eval().expect("a function");
        let begun = room.vm.host().spawn(&room.vm.lua, work, BackgroundTaskKind::Every, None);
        let id = begun.expect("begun").0.expect("a place");
        let coroutine = room.vm.tasks().take_coroutine(id).expect("it has not begun");
        let mut left = TaskBudget::default();
        let step = room.vm.resume(id, &coroutine, (), &mut room.watchdog, &mut left);
        room.vm.host().end(id);
        let CoroutineStep::Failed(ScriptFault::Error(text)) = step else { panic!("no error") };
        text
    };
    let codec = "return function()\nreturn pinion.codec.hex_encode({}) end";
    let helper = "local function helps() return pinion.sleep('x') end
        return function() return helps() end";
    for (work, line, why) in [
        (codec, 1, "bad argument #1 to 'pinion.codec.hex_encode' (string expected, got table)"),
        (helper, 2, "bad argument #1 to 'pinion.sleep' (number expected, got string)"),
    ] {
        let text = fails(room, work);
        let begins = format!(
            "work.lua:{line}: in the function of pinion.every that starts at this line: {why}"
        );
        assert!(text.starts_with(&begins), "{text}");
        assert!(
            text.contains(&format!(
                "\n\twork.lua:{line}: the function of pinion.every starts here"
            )),
            "{text}"
        );
        assert!(!text.contains("pinion:"), "{text}");
    }
    // An error with a position keeps it, and one that is thrown without is logged as it is.
    let text = fails(room, "return function()\nerror('why') end");
    assert!(text.starts_with("work.lua:2: why\n") && !text.contains("starts "), "{text}");
    assert!(text.contains("\n\twork.lua:2: in function <work.lua:1>"), "{text}");
    let text = fails(room, "return function() return error('as it is', 0) end");
    assert!(text.starts_with("as it is\n") && text.contains("\n\twork.lua:1: "), "{text}");
}

/// A file that is not there is a matter of the request, folders that are not there are none.
#[test]
fn sending_a_file_without_folders_fails_and_names_the_option() {
    let mut room = site("pinion.get('/', function(_, res)\nlocal _ = res:file('data/x.txt') end)");
    let Err(ScriptFault::Error(text)) = room.response("/") else { panic!("no error") };
    let expected = "site.lua:2: the site has no folders for files; name one with --lua-folder";
    assert!(text.starts_with(expected), "{text}");
}

/// How the request for a path fails, in the first line.
pub(super) fn failure(room: &mut Room, path: &str) -> String {
    match room.response(path) {
        Err(ScriptFault::Error(text)) => text.lines().next().unwrap_or_default().to_owned(),
        Ok(response) => panic!("{path}: it answers {response:?}"),
        Err(other) => panic!("{path}: {other:?}"),
    }
}

#[test]
fn integers_are_written_with_all_digits() {
    let mut room = site(
        "local n = 1700000000123456
        pinion.get('/write', function(req, res) res:write(n, ' ', -n, ' ', 2^53) end)
        pinion.get('/text', function() return n .. ' ' .. tostring(-n) .. ' ' .. 2^53 end)
        pinion.get('/list', function() return table.concat({ n, -n, 2^53 }, ' ') end)
        pinion.get('/json', function(req, res)
            return pinion.json.encode({ n, -n, 2^53 }):gsub('[%[%]]', ''):gsub(',', ' ')
        end)
        pinion.get('/query', function() return (pinion.codec.query({ n = n })) end)",
    );
    let is_new = cfg!(not(feature = "luajit"));
    for path in ["/write", "/text", "/list", "/json"] {
        let response = room.response(path).expect("answered");
        // In Lua 5.4 a power is a number with a fraction.
        let response = if is_new {
            response.replace("9.007199254741e+15", "9007199254740992")
        } else {
            response
        };
        let response = response.replace(".0", "");
        assert_eq!(response, "1700000000123456 -1700000000123456 9007199254740992", "{path}");
    }
    assert_eq!(room.response("/query").expect("answered"), "n=1700000000123456");
}

#[test]
fn a_table_thrown_as_an_error_is_shown_in_the_message() {
    let mut room = site(
        "local thrown = { code = 404, 'gone', deep = { deeper = { deepest = {} } }, f = print }
        pinion.get('/table', function() error(thrown) end)
        pinion.get('/again', function() local _, why = pcall(error, thrown) error(why, 0) end)
        pinion.get('/many', function()
            local many = {}
            for n = 1, 100 do many['name ' .. n] = ('x'):rep(1000) end
            error(many)
        end)
        pinion.get('/text', function()
            error(setmetatable({}, { __tostring = function() return 'a text' end }))
        end)
        pinion.get('/other', function() pcall(error, thrown) error(print) end)
        pinion.get('/assert', function() local x = assert(nil, { code = 5 }) return x end)
        pinion.get('/nothing', function() error() end)
        pinion.get('/true', function() error(true) end)",
    );
    let expected = "{ [1] = \"gone\", code = 404, deep = { deeper = { deepest = {…} } }, \
        f = a function }";
    assert_eq!(failure(&mut room, "/table"), format!("site.lua:2: {expected}"));
    assert_eq!(failure(&mut room, "/again"), format!("site.lua:3: {expected}"));
    assert_eq!(failure(&mut room, "/assert"), "site.lua:13: { code = 5 }");
    let unnamed = "an error without a message: error() or error(nil) was called";
    assert_eq!(failure(&mut room, "/nothing"), format!("site.lua:14: {unnamed}"));
    assert!(failure(&mut room, "/true").starts_with("site.lua:15: error(true) was called"));
    let many = failure(&mut room, "/many");
    assert!(many.len() < 4000 && many.ends_with(", … }"), "{}: {many}", many.len());
    assert!(failure(&mut room, "/text").ends_with("a text"));
    let other = failure(&mut room, "/other");
    assert!(other.starts_with("site.lua:12: a function was thrown"), "{other}");
}

#[test]
fn a_handler_that_returns_nil_and_an_error_fails() {
    let mut room = site(
        "pinion.get('/why', function() return nil, 'there is no such file' end)
        pinion.get('/behind', function(req, res) res:write('x') return nil, 'why' end)
        pinion.get('/use', function() return nil, 'within' end)",
    );
    let why = failure(&mut room, "/why");
    let expected = "site.lua:1: the handler returned nil and an error: there is no such file";
    assert_eq!(why, expected);
    assert_eq!(room.response("/behind").expect("answered"), "x");
    assert!(failure(&mut room, "/use").contains("within"));
}

/// What a handler has lost on the way is not sent as an empty response with status 200.
#[test]
fn a_handler_that_returns_nil_and_set_nothing_fails() {
    let expected = "the handler returned nil; return the content, or \"\" for an empty response";
    let bodies = [
        ("return nil", false),
        ("local text = nil return text", false),
        ("return nil, nil", false),
        ("return req.params.other", false),
        ("local found = pinion.json.decode('?') return found", false),
        // They have set something, or return nothing or an empty text.
        ("", true),
        ("return", true),
        ("return \"\"", true),
        ("return print('x')", true),
        ("res:write('') return nil", true),
        ("res:status(204) return nil", true),
        ("res:field('X', 'y') return nil", true),
        ("res:cookie('x', 'y') return nil", true),
        ("res:redirect('/x') return nil", true),
        ("res:flush() return nil", true),
        ("return res", true),
    ];
    let around = [
        "",
        "pinion.use(function(req, res, next) return next() end)",
        "pinion.use(function(req, res, next) local one, two = next() return one, two end)",
        "pinion.use(function(req, res, next) local one = next() return one end)
        pinion.use(function(req, res, next) return next() end)",
    ];
    for around in around {
        for (body, is_well) in bodies {
            let main = format!("{around}\npinion.get('/', function(req, res)\n{body}\nend)");
            let mut room = site(&main);
            if is_well {
                assert_eq!(room.response("/").expect(&main), "", "{main}");
            } else {
                let why = failure(&mut room, "/");
                assert!(why.starts_with("site.lua:") && why.ends_with(expected), "{main}: {why}");
            }
        }
    }
    // A middleware may respond instead, with what it likes.
    for body in ["return r or 'mended'", "if not r then res:status(404) end return r"] {
        let mut room = site(&format!(
            "pinion.use(function(req, res, next) local r = next() {body} end)
            pinion.get('/', function() return nil end)"
        ));
        room.response("/").expect(body);
    }
}
