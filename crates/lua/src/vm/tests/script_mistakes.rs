//! Mistakes that authors of scripts make: what the first line of the log says about each.

use super::handlers::{failure, site};
use super::*;

/// The dot in the place of a colon gives the method what should be its first argument, or nothing.
#[test]
fn calling_a_method_with_a_dot_names_the_colon() {
    const CHECK: &str = "local classes, count, wrong = (...), 0, {}
        for object, methods in pairs(classes) do
            for name, method in pairs(methods) do
                count = count + 1
                for _, value in ipairs({ false, 'x', 5, {}, setmetatable({}, {}) }) do
                    local _, why = pcall(method, value or nil)
                    local call = object .. ':' .. name .. '('
                    local words = 'call it with a colon: ' .. call
                    if not (tostring(why):find(words, 1, true)
                        and why:find('not ' .. object .. '.' .. name .. '(', 1, true)) then
                        wrong[#wrong + 1] = call .. ' ' .. tostring(why)
                    end
                end
            end
        end
        return count, table.concat(wrong, '; ')";
    let mut room = site(
        "pinion.get('/json', function(req, res)\nres.json({}) end)
        pinion.get('/body', function(req, res) return req.json() end)",
    );
    let classes: mlua::Table = room.vm.lua.named_registry_value("pinion.classes").expect("classes");
    let checked = room.vm.lua.load(CHECK).call::<(usize, String)>(classes).expect("checked");
    assert_eq!(checked.1, "");
    assert!(checked.0 >= 22, "{} methods", checked.0);
    let why = failure(&mut room, "/json");
    assert_eq!(why, "site.lua:2: call it with a colon: res:json(value), not res.json(value)");
    let why = failure(&mut room, "/body");
    assert!(why.starts_with("site.lua:3: ") && why.contains("req:json()"), "{why}");
}

/// A middleware that leaves out `next` is what is wrong, and not the handler behind it.
#[test]
fn a_middleware_that_never_calls_next_is_reported() {
    let begins = "pinion.use(function(req, res, next)\n";
    for (body, why) in [
        ("", "site.lua:1: the middleware returned nothing and did not call `next()`"),
        ("local x = 1", "site.lua:1: the middleware returned nothing and did not call `next()`"),
        ("next()", "site.lua:1: the middleware called `next()` and returned nothing, so what"),
        ("return next", "site.lua:1: the middleware returned its `next` without calling it"),
        ("return true", "site.lua:1: the middleware returned a boolean; write `return next()` to "),
        ("next() return false", "site.lua:1: the middleware returned a boolean; write `return "),
        // A header is no response.
        ("next() res:field('X-A', '1')", "site.lua:1: the middleware called `next()` and returned"),
        ("res:field('X-A', '1') next()", "site.lua:1: the middleware called `next()` and returned"),
        ("res:cookie('a', 'b') next()", "site.lua:1: the middleware called `next()` and returned"),
        ("next() res:status(401)", "site.lua:1: the middleware called `next()` and returned"),
        ("res:field('X-A', '1')", "site.lua:1: the middleware returned nothing and did not call"),
    ] {
        let main = format!("{begins}{body} end)\npinion.get('/', function() return 'x' end)");
        let report = failure(&mut site(&main), "/");
        assert!(report.starts_with(why), "{body}: {report}");
        assert!(report.contains("write `return next()`"), "{report}");
    }
    let main = "pinion.use(function(req, res)\nreturn next() end)
        pinion.get('/', function() return 'x' end)";
    let report = failure(&mut site(main), "/");
    let words =
        "bad argument #1 to 'next' (table expected, got no value) (this is Lua's own `next`";
    assert!(report.contains(words), "{report}");
    // These have something to say, or nothing is lost.
    for (body, response) in [
        ("return next()", "x"),
        ("return ''", ""),
        ("res:status(401)", ""),
        ("res:redirect('/y')", ""),
        ("res:write('y')", "y"),
        ("local said = next() res:write(said, 'y')", "xy"),
        ("return res", ""),
        ("next() return 'y'", "y"),
        ("next() return ''", ""),
        ("local said, why = next() res:field('X-A', '1') return said, why", "x"),
    ] {
        let main = format!("{begins}{body} end)\npinion.get('/', function() return 'x' end)");
        assert_eq!(site(&main).response("/").expect(body), response, "{body}");
    }
    let main = format!("{begins}next() end)\npinion.get('/', function() end)");
    assert_eq!(site(&main).response("/").expect("nothing is lost"), "");
}

/// `return nil, why` says that a handler has failed, whatever a middleware does with it.
#[test]
fn a_middleware_that_loses_an_error_is_reported() {
    let begins = "pinion.use(function(req, res, next)\n";
    let handler = "pinion.get('/', function() return nil, 'reason' end)";
    let report =
        failure(&mut site(&format!("{begins}local r = next() return r end)\n{handler}")), "/");
    let why = "site.lua:1: the middleware called `next()` and lost the error that the handler \
               returned (reason); write `return next()`, or keep both results, `local result, why \
               = next()`, and end with `return result, why`";
    assert_eq!(report, why);
    let report = failure(&mut site(&format!("{begins}return next() end)\n{handler}")), "/");
    assert!(report.ends_with("the handler returned nil and an error: reason"), "{report}");
    for (body, response) in [
        ("local r, why = next() if why then return 'mended' end return r", "mended"),
        ("local r, why = next() if why then res:status(404) end return r", ""),
    ] {
        let main = format!("{begins}{body} end)\n{handler}");
        assert_eq!(site(&main).response("/").expect(body), response, "{body}");
    }
}

/// Patterns of other servers match only their own text.
#[test]
fn a_parameter_of_another_server_in_a_pattern_is_warned_of() {
    let main = "pinion.get('/a/:id', print)\npinion.get('/b/<int:id>', function() end)\n\
                pinion.group('/c').post('/{id}', function() end)";
    let program = SiteProgram::new("site.lua", main.into());
    let warnings =
        crate::worker_scripts::prove(&program, &ScriptSite::default(), Now::read()).expect("fine");
    let expected = [
        "site.lua:2: the pattern \"/b/<int:id>\" matches the text `<int:id>` itself; write `:id` \
         for a parameter",
        "site.lua:3: the pattern \"/c/{id}\" matches the text `{id}` itself; write `:id` for a \
         parameter",
    ];
    assert_eq!(warnings, expected);
}

#[test]
fn settings_without_effect_on_a_response_are_errors() {
    let mut room = site(
        "pinion.get('/status', function(req, res)\nres.status = 404 return 'x' end)
        pinion.get('/body', function(req, res) res.body = 'x' end)
        pinion.get('/headers', function(req, res) res.headers = { a = 'b' } end)
        pinion.get('/json', function(req, res) res:json() end)
        pinion.get('/compress', function(req, res) res:compress('no') return 'x' end)
        pinion.get('/option', function(req, res) res:file('data/x', { form = 1 }) end)
        pinion.get('/null', function(req, res) return res:json(nil) end)
        pinion.get('/two', function(req, res) return 'x', 404 end)",
    );
    for (path, why) in [
        ("/status", "the handler has set res.status, which has no effect; write res:status(404)"),
        ("/body", "the handler has set res.body, which has no effect; write res:write(text)"),
        ("/headers", "write res:field(name, value) instead"),
        ("/json", "bad argument #1 to 'res:json' (value expected, got no value"),
        ("/compress", "bad argument #1 to 'res:compress' (boolean expected, got string)"),
        ("/option", "res:file has no option \"form\"; its options are `download` and `type`"),
    ] {
        let report = failure(&mut room, path);
        assert!(report.starts_with("site.lua:") && report.contains(why), "{path}: {report}");
    }
    assert_eq!(room.response("/null").expect("null"), "null");
    // `text:gsub` returns a number behind the text: that is logged and no error.
    assert_eq!(room.response("/two").expect("a text"), "x");
}

#[test]
fn waiting_in_the_main_script_names_the_line_and_the_function() {
    for (code, place, function) in [
        ("\npinion.sleep(1)", "site.lua:2", "pinion.sleep"),
        ("local function f()\npinion.wait(1) end\nf()", "site.lua:2", "pinion.wait or"),
        ("\n\nlocal x = pinion.gather(function() end)", "site.lua:3", "pinion.gather, "),
        ("\nlocal x = pinion.fetch('http://example.org/')", "site.lua:2", "or pinion.fetch"),
        ("\nlocal x = pinion.fs.read('a/b')", "site.lua:2", "a function of pinion.fs or"),
    ] {
        let mut watchdog = CpuWatchdogs::new(1).watchdog(0).expect("watched");
        let program = SiteProgram::new("site.lua", code.into());
        let started = Vm::start(&program, &mut watchdog, WorkerSite::default(), Now::read());
        let problem = started.err().expect(code).to_string();
        let begins = format!("{place}: the main script cannot wait while it starts, and calls ");
        assert!(problem.starts_with(&begins) && problem.contains(function), "{problem}");
    }
}

#[test]
fn an_error_of_a_c_function_in_a_tail_call_has_its_name() {
    let mut room = site(
        "pinion.get('/ipairs', function() return ipairs() end)
        pinion.get('/floor', function() return math.floor() end)
        pinion.get('/stack', function()
            local function inner(x) local y = x.name.first return y end
            local y = inner({})
            return y
        end)",
    );
    for (path, name) in [("/ipairs", "to 'ipairs' ("), ("/floor", "floor' (number")] {
        let report = failure(&mut room, path);
        assert!(report.contains(name) && !report.contains("'?'"), "{report}");
    }
    // The innermost function has a line too, which LuaJIT does not tell.
    let Err(ScriptFault::Error(text)) = room.response("/stack") else { panic!("no error") };
    let mut frames = text.lines().skip(2);
    assert!(frames.next().expect("a frame").starts_with("\tsite.lua:4: in "), "{text}");
    assert!(!text.contains("starts here"), "{text}");
}
