//! The time limit of a request: its own time runs out, but is paused while its client reads the
//! response slowly, which has a limit too.

use pinion_engine::backend::sim::Faults;
use pinion_jobs::confined_folders::Folders;
use pinion_lua::limits::{ROOM_WAIT_MAX_MS, WALL_MAX_MS};
use pinion_lua::script_quotas::Allowance;
use pinion_lua::site_program::SiteProgram;

use crate::http1_client::{Heard, Talk};
use crate::reload_scenarios::{ask, program, text};
use crate::script_files;
use crate::simulated_worker::Stage;

/// Milliseconds between two reads of a slow client: if it read less often, the engine would close
/// it as stalled.
const PAUSE_MS: u64 = 20_000;
/// The most reads.
const PAUSES_MAX: u32 = 1_000;

/// The bytes that a handler writes, and those of the file: more than is on its way at once, so that
/// a slow client takes minutes to read it.
const RESPONSE_BYTES: usize = 1_000_000;

const SCRIPT: &str = r#"
local function stream(res)
    for _ = 1, 10 do
        for _ = 1, 10 do res:write(("s"):rep(10000)):flush() end
        pinion.sleep(0.1)
    end
end
pinion.get("/stream", function(req, res) stream(res) end)
pinion.get("/late", function(req, res)
    stream(res)
    pinion.keep.state = "written"
    pinion.sleep(40)
    pinion.keep.state = "slept"
end)
pinion.get("/file", function(req, res) return res:file("files/large") end)
pinion.get("/behind-file", function(req, res)
    res:file("files/large")
    pinion.keep.state = "sent"
    pinion.sleep(1.5)
    pinion.keep.state = "slept"
end)
pinion.get("/endless", function(req, res) while true do res:write(("e"):rep(10000)) end end)
pinion.get("/events", function(req, res)
    for number = 1, 100 do
        res:write(("%09d\n"):format(number)):flush()
        pinion.sleep(25)
    end
end)
pinion.get("/silence", function(req, res)
    for number = 1, 100 do
        if number < 10 then res:write(("%09d\n"):format(number)) end
        res:flush()
        pinion.sleep(25)
    end
end)
pinion.get("/state/:n", function() return tostring(pinion.keep.state) end)
"#;

fn with_file(program: SiteProgram) -> SiteProgram {
    let folder = script_files::folder("times", "large", &"f".repeat(RESPONSE_BYTES));
    program.with_folders(Folders::open(&[folder], |_| None).expect("opened"))
}

/// Returns the result of a request, and the milliseconds until it, for a client that reads slowly.
fn taken_slowly(stage: &mut Stage<true>, mut talk: Talk) -> (Heard, u64) {
    let from_ms = stage.now_ms();
    for _ in 0..PAUSES_MAX {
        stage.rest(PAUSE_MS);
        match talk.hear() {
            Heard::Nothing => {}
            heard => return (heard, stage.now_ms() - from_ms),
        }
    }
    panic!("no end of an answer");
}

/// Returns whether a response with this many bytes of content has arrived.
fn is_whole(heard: &Heard, bytes: usize) -> bool {
    matches!(
        heard,
        Heard::Response(response) if response.status == 200 && response.body.len() == bytes
    )
}

/// A script that is replaced meanwhile does not affect the response.
#[test]
fn a_slow_client_gets_a_whole_written_response() {
    let mut stage = Stage::new(1, Faults::default(), program(SCRIPT));
    let talk = ask(&mut stage, "/stream");
    assert!(stage.reload(program(SCRIPT)));
    let (heard, ms) = taken_slowly(&mut stage, talk);
    assert!(is_whole(&heard, RESPONSE_BYTES), "after {ms} ms");
    assert!(ms > 10 * WALL_MAX_MS, "{ms} ms are no time");
}

/// A handler only gets back the time for which it has waited for its client.
#[test]
fn a_handler_with_a_slow_client_still_has_a_time_limit() {
    let mut stage = Stage::new(1, Faults::default(), program(SCRIPT));
    let talk = ask(&mut stage, "/late");
    let (heard, ms) = taken_slowly(&mut stage, talk);
    assert!(matches!(heard, Heard::Closed), "it is whole after {ms} ms");
    assert_eq!(text(&mut stage, "/state/1"), "written");
}

#[test]
fn a_slow_client_gets_a_whole_file() {
    let mut stage = Stage::new(1, Faults::default(), with_file(program(SCRIPT)));
    let talk = ask(&mut stage, "/file");
    let (heard, ms) = taken_slowly(&mut stage, talk);
    assert!(is_whole(&heard, RESPONSE_BYTES), "after {ms} ms");
    assert!(ms > 10 * WALL_MAX_MS, "{ms} ms are no time");
}

/// After a file a handler has its time limit once more, as the operator has set it.
#[test]
fn a_handler_has_one_time_limit_after_a_file() {
    for (wall_ms, state) in [(1_000, "sent"), (2_000, "slept")] {
        let allowance = Allowance { wall_ms, ..Allowance::default() };
        let program = with_file(program(SCRIPT)).allowed(allowance);
        let mut stage = Stage::new(1, Faults::default(), program);
        let mut talk = ask(&mut stage, "/behind-file");
        for _ in 0..PAUSES_MAX {
            stage.rest(1);
            if is_whole(&talk.hear(), RESPONSE_BYTES) {
                break;
            }
        }
        stage.rest(5_000);
        assert_eq!(text(&mut stage, "/state/1"), state, "with {wall_ms} ms");
    }
}

/// The time of a stream counts from one write to the next. A stream without writes ends, however
/// often it is flushed.
#[test]
fn each_write_restarts_the_time_limit_of_a_stream() {
    for (target, is_complete) in [("/events", true), ("/silence", false)] {
        let mut stage = Stage::new(1, Faults::default(), program(SCRIPT));
        let mut talk = ask(&mut stage, target);
        let from_ms = stage.now_ms();
        let heard = (0..PAUSES_MAX).find_map(|_| {
            stage.rest(5_000);
            Some(talk.hear()).filter(|heard| !matches!(heard, Heard::Nothing))
        });
        let (heard, ms) = (heard.expect("an end"), stage.now_ms() - from_ms);
        if is_complete {
            assert!(is_whole(&heard, 100 * 10) && ms > 80 * WALL_MAX_MS, "{ms} ms");
        } else {
            assert!(matches!(heard, Heard::Closed) && ms < 10 * WALL_MAX_MS, "{ms} ms");
        }
    }
}

/// A client that reads a little now and then, and never all of it, does not keep its handler.
#[test]
fn a_response_to_a_client_that_never_finishes_is_aborted() {
    let mut stage = Stage::new(1, Faults::default(), program(SCRIPT));
    let talk = ask(&mut stage, "/endless");
    let (heard, ms) = taken_slowly(&mut stage, talk);
    assert!(matches!(heard, Heard::Closed), "{ms} ms");
    let most_ms = ROOM_WAIT_MAX_MS + WALL_MAX_MS;
    assert!((ROOM_WAIT_MAX_MS..=most_ms + 2 * PAUSE_MS).contains(&ms), "{ms} ms");
    // Its worker still responds.
    assert_eq!(text(&mut stage, "/state/1"), "nil");
}
