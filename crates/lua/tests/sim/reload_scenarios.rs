//! The shortest scenarios of the laws for scripts that replace each other.

use pinion_engine::backend::sim::Faults;
use pinion_lua::limits::{OLD_VMS_MAX, TASKS_PER_PASS};
use pinion_lua::site_program::SiteProgram;

use crate::http1_client::{Heard, Response, Talk};
use crate::simulated_worker::Stage;

fn stage(script: &str) -> Stage<true> {
    Stage::new(1, Faults::default(), program(script))
}

pub(crate) fn program(script: &str) -> SiteProgram {
    SiteProgram::new("site.lua", script.as_bytes().to_vec())
}

pub(crate) fn ask(stage: &mut Stage<true>, path: &str) -> Talk {
    let mut talk = Talk::new(&stage.network);
    talk.ask(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes());
    talk.send(usize::MAX);
    stage.settle();
    talk
}

fn heard(talk: &mut Talk) -> Response {
    match talk.hear() {
        Heard::Response(response) => response,
        other => panic!("no answer: {other:?}"),
    }
}

pub(crate) fn text(stage: &mut Stage<true>, path: &str) -> String {
    heard(&mut ask(stage, path)).text().to_owned()
}

/// The time in scripts is that of the worker's clocks.
#[test]
fn scripts_use_the_clock_of_the_worker() {
    let key = "0123456789abcdef".repeat(2);
    let mut stage = stage(&format!(
        r#"
        local jwt, count = pinion.crypto.jwt, 0
        local at_start = jwt.sign({{ sub = "a" }}, "{key}", {{ expires_in = 60 }})
        pinion.get("/cached/:n", function()
            return tostring(pinion.cached("key", 60, function() count = count + 1 return count end))
        end)
        pinion.get("/token/:n", function()
            local claims, why = jwt.verify(at_start, "{key}", {{ alg = "HS256" }})
            return claims and tostring(claims.iat) or why
        end)
        "#
    ));
    let iat = stage.network.now().unix_seconds.to_string();
    assert_eq!(text(&mut stage, "/cached/1"), "1");
    assert_eq!(text(&mut stage, "/token/1"), iat);
    stage.rest(59_000);
    assert_eq!(text(&mut stage, "/cached/2"), "1");
    assert_eq!(text(&mut stage, "/token/2"), iat);
    stage.rest(2_000);
    assert_eq!(text(&mut stage, "/cached/3"), "2");
    assert_eq!(text(&mut stage, "/token/3"), "the token has expired");
}

/// Each minute of the clock causes one run of cron, and a run that takes longer than its interval
/// is not started a second time.
#[test]
fn scheduled_functions_run_when_due_and_never_overlap() {
    let mut stage = stage(
        r#"
        local cron, runs, now, most = 0, 0, 0, 0
        pinion.cron("* * * * *", function() cron = cron + 1 end)
        pinion.every(1, function()
            runs, now = runs + 1, now + 1
            most = math.max(most, now)
            pinion.sleep(3.5)
            now = now - 1
        end)
        pinion.get("/seen", function() return ("%d %d %d"):format(cron, runs, most) end)
        "#,
    );
    stage.rest(600_000);
    let seen = text(&mut stage, "/seen");
    // Of every four times at which a run is due it starts at the first, and is still running at the
    // others.
    assert_eq!(seen, "10 150 1");
}

/// A replaced script is dropped when its last work ends, however late that work could have been.
#[test]
fn a_replaced_script_is_dropped_after_its_last_task() {
    let script = r#"
        pinion.get("/spawn", function()
            pinion.spawn(function() pinion.sleep(2) pinion.keep.done = true end)
            return "begun"
        end)
        pinion.get("/done/:n", function() return tostring(pinion.keep.done) end)
    "#;
    let mut stage = stage(script);
    assert_eq!(text(&mut stage, "/spawn"), "begun");
    assert!(stage.reload(program(script)));
    stage.rest(1_000);
    assert_eq!(text(&mut stage, "/done/1"), "nil");
    assert_eq!(stage.worker.app().scripts.object_counts().old_vms, 1);
    stage.rest(2_000);
    assert_eq!(text(&mut stage, "/done/2"), "true");
    assert_eq!(stage.worker.app().scripts.object_counts().old_vms, 0);
}

/// If one script too many is replaced, the requests of the oldest one get an error; its work after
/// the responses is not begun.
#[test]
fn the_oldest_of_too_many_replaced_scripts_is_ended() {
    let script = |version: u32| {
        program(&format!(
            r#"
            pinion.get("/sleep/:n", function()
                pinion.spawn(function()
                    pinion.sleep(1)
                    pinion.keep.behind = (pinion.keep.behind or 0) + 1
                end)
                pinion.sleep(5)
                return "version {version}"
            end)
            pinion.get("/behind", function() return tostring(pinion.keep.behind) end)
            "#
        ))
    };
    let mut stage: Stage<true> = Stage::new(1, Faults::default(), script(1));
    let mut talks = Vec::new();
    for version in 1..=OLD_VMS_MAX as u32 + 1 {
        talks.push(ask(&mut stage, &format!("/sleep/{version}")));
        assert!(stage.reload(script(version + 1)));
        stage.rest(100);
    }
    assert_eq!(heard(&mut talks[0]).status, 503);
    assert_eq!(stage.worker.app().scripts.object_counts().old_vms, OLD_VMS_MAX);
    stage.rest(5_000);
    for (talk, version) in talks.iter_mut().zip(1..).skip(1) {
        assert_eq!(heard(talk).text(), format!("version {version}"));
    }
    stage.rest(2_000);
    assert_eq!(text(&mut stage, "/behind"), OLD_VMS_MAX.to_string());
    assert_eq!(stage.worker.app().scripts.object_counts().old_vms, 0);
}

/// Work without requests that is due at once takes as many passes as it has shares, without waits
/// in between; then the worker waits for the next due work.
#[test]
fn tasks_that_are_due_at_once_are_spread_over_several_passes() {
    const SHARES: usize = 10;
    let mut stage = stage(&format!(
        r#"
        local function work()
            pinion.sleep(1)
            pinion.keep.done = (pinion.keep.done or 0) + 1
        end
        pinion.get("/begin", function()
            for _ = 1, {} do pinion.spawn(work) end
            return "begun"
        end)
        pinion.get("/done", function() return tostring(pinion.keep.done) end)
        "#,
        SHARES * TASKS_PER_PASS
    ));
    assert_eq!(text(&mut stage, "/begin"), "begun");
    stage.rest(500);
    let until_ms = stage.now_ms() + 1_000;
    let mut passes = 0;
    while stage.now_ms() < until_ms {
        stage.pass(until_ms);
        passes += 1;
    }
    // A pass does no more than its share, and less if its time ends earlier. The last pass finds
    // nothing left.
    assert!((SHARES + 1..=SHARES * 3).contains(&passes), "{passes}");
    assert_eq!(stage.worker.app().scripts.object_counts().ready, 0);
    assert_eq!(text(&mut stage, "/done"), (SHARES * TASKS_PER_PASS).to_string());
}

/// A script without work when it is replaced does not count as a replaced one.
#[test]
fn a_replaced_script_without_tasks_does_not_count() {
    let script = |version: u32| {
        program(&format!(
            r#"pinion.get("/sleep/:n", function() pinion.sleep(5) return "version {version}" end)"#
        ))
    };
    let mut stage: Stage<true> = Stage::new(1, Faults::default(), script(1));
    let mut talks = Vec::new();
    for version in 1..=OLD_VMS_MAX as u32 {
        talks.push(ask(&mut stage, &format!("/sleep/{version}")));
        assert!(stage.reload(script(version + 1)));
        stage.settle();
    }
    for version in OLD_VMS_MAX as u32 + 2..OLD_VMS_MAX as u32 + 5 {
        assert!(stage.reload(script(version)));
        stage.settle();
        assert_eq!(stage.worker.app().scripts.object_counts().old_vms, OLD_VMS_MAX);
    }
    stage.rest(6_000);
    for (talk, version) in talks.iter_mut().zip(1..) {
        assert_eq!(heard(talk).text(), format!("version {version}"));
    }
}
