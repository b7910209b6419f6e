//! Scripts that replace each other while clients send requests. One seed decides the requests and
//! their times, the replacements and their times, and the speed of the network and the disk.
//!
//! 1. Every request gets exactly one whole response. Only a request whose script was replaced too
//!    often since it began may get an error, or an incomplete response if that had begun.
//! 2. A response comes from one version, the current one when the request was received: never from
//!    an earlier version than the current one when its first byte was sent.
//! 3. A script that does not start changes nothing.
//! 4. The number of replaced scripts never exceeds its limit, and each of them has work.
//! 5. Kept values are preserved: each counting request finds the count of the one before.
//! 6. At the end nothing is left: tasks, times, jobs, replaced scripts, connections.

use std::collections::VecDeque;
use std::env;
use std::panic::{AssertUnwindSafe, catch_unwind};

use pinion_engine::backend::sim::{Faults, Random};
use pinion_engine::stepped_worker::Holdings as EngineHoldings;
use pinion_jobs::confined_folders::Folders;
use pinion_lua::limits::OLD_VMS_MAX;
use pinion_lua::site_program::SiteProgram;
use pinion_lua::worker_scripts::ObjectCounts;

use crate::http1_client::{Heard, Response, Talk};
use crate::script_files;
use crate::simulated_worker::Stage;

/// Seeds of an ordinary run of the tests.
const SEEDS: u64 = 300;
/// The time in which clients connect and scripts replace each other.
const BUSY_MS: u64 = 6_000;
/// Longer than any work that the script begins.
const WORK_MAX_MS: u64 = 5_000;
/// Longer than the longest time limit of a task.
const TIMES_MAX_MS: u64 = 660_000;
/// A run that takes longer has hung.
const RUN_MAX_MS: u64 = 60_000;

/// `@` is replaced by the version.
const SCRIPT: &str = r#"
local LINE = "version @\n"
local function last(req) return "end " .. req.params.id .. "\n" end
pinion.use(function(req, res, next)
    res:field("Version", "@")
    return next()
end)
pinion.get("/now/:id", function(req) return LINE .. last(req) end)
pinion.get("/sleep/:id", function(req, res)
    res:write(LINE)
    pinion.sleep(tonumber(req.query.s))
    return LINE .. last(req)
end)
pinion.get("/stream/:id", function(req, res)
    for _ = 1, 20 do
        res:write(LINE:rep(300)):flush()
        pinion.sleep(0.05)
    end
    return last(req)
end)
pinion.post("/body/:id", function(req, res)
    local bytes = 0
    for piece in req:pieces(1000) do bytes = bytes + #piece end
    assert(bytes == tonumber(req.query.bytes))
    return LINE .. last(req)
end)
pinion.get("/gather/:id", function(req, res)
    local function part() pinion.sleep(0.2) return LINE end
    local first, second = pinion.gather(part, part)
    return first .. second .. last(req)
end)
pinion.get("/cached/:id", function(req, res)
    return pinion.cached("line", 1, function() pinion.sleep(0.1) return LINE end) .. last(req)
end)
pinion.get("/file/:id", function(req, res)
    assert(pinion.fs.read("files/text") == "text\n")
    return LINE .. last(req)
end)
pinion.get("/spawn/:id", function(req, res)
    pinion.spawn(function()
        pinion.sleep(1)
        pinion.keep.spawned = (pinion.keep.spawned or 0) + 1
    end)
    return LINE .. last(req)
end)
pinion.get("/send/:id", function(req, res)
    pinion.send("channel", 1)
    return LINE .. last(req)
end)
pinion.on("channel", function(more) pinion.keep.heard = (pinion.keep.heard or 0) + more end)
pinion.get("/count/:id", function(req, res)
    pinion.keep.count = (pinion.keep.count or 0) + 1
    res:field("Count", pinion.keep.count)
    return LINE .. last(req)
end)
pinion.get("/kept", function(req, res)
    local keep = pinion.keep
    return ("%d %d %d"):format(keep.count or 0, keep.spawned or 0, keep.heard or 0)
end)
pinion.every(60, function() pinion.keep.minutes = (pinion.keep.minutes or 0) + 1 end)
"#;

/// Suffixes of a script that make its start fail.
const BROKEN: [&str; 3] = ["\nthis is no Lua", "\nerror('not today')", "\npinion.sleep(1)"];

/// The kinds of requests, and the number of lines with the version in their responses.
const KINDS: [(&str, usize); 10] = [
    ("now", 1),
    ("sleep", 2),
    ("stream", 6_000),
    ("body", 1),
    ("gather", 2),
    ("cached", 1),
    ("file", 1),
    // The following kinds count something, so a client that disconnects early sends none of them.
    ("spawn", 1),
    ("send", 1),
    ("count", 1),
];
/// The kind that waits for a given time.
const SLEEP: usize = 1;
/// The number of kinds that count nothing.
const COUNTING_NOTHING: u64 = 7;

/// A request and the data of its client about it.
struct Ask {
    kind: usize,
    path: String,
    /// The current version when its first byte was sent.
    since_version: u32,
}

/// A client that sends one request after the other.
struct Guest {
    talk: Option<Talk>,
    asked: Option<Ask>,
    left: u32,
    /// The time of its next action without an event.
    acts_at_ms: u64,
    /// The time at which it resets its connection.
    quits_at_ms: Option<u64>,
}

/// The counts of a run.
#[derive(Debug, Default)]
struct Tally {
    responses: u32,
    /// Complete responses by kind.
    whole: [u32; KINDS.len()],
    /// The counts in the responses of counting requests.
    counts: Vec<usize>,
    /// Requests whose script was replaced too often.
    ended: u32,
    replaced: u32,
    refused: u32,
}

struct Run<const READINESS: bool> {
    stage: Stage<READINESS>,
    random: Random,
    folders: Folders,
    guests: Vec<Guest>,
    /// The times of the next replacements, and the number of scripts in each; if it is 0, one
    /// script comes that does not start.
    replacing: VecDeque<(u64, u32)>,
    asked: u32,
    made: u32,
    tally: Tally,
}

fn folders() -> Folders {
    let folder = script_files::folder("reload", "text", "text\n");
    Folders::open(&[folder], |_| None).expect("opened")
}

fn program(version: u32, folders: &Folders, behind: &str) -> SiteProgram {
    let script = SCRIPT.replace('@', &version.to_string()) + behind;
    SiteProgram::new("site.lua", script.into_bytes()).with_folders(folders.clone())
}

impl<const READINESS: bool> Run<READINESS> {
    fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let faults = Faults {
            short: *random.pick(&[0, 100, 500]),
            late: *random.pick(&[0, 100]),
            late_ms: 20,
            interrupt: *random.pick(&[0, 50]),
            batch: *random.pick(&[0, 0, 2]),
            ..Faults::default()
        };
        let folders = folders();
        let stage = Stage::new(seed, faults, program(1, &folders, ""));
        let from_ms = stage.now_ms();
        let guests = (0..random.between(2, 20)).map(|_| {
            let acts_at_ms = from_ms + random.below(BUSY_MS / 2);
            let quits = random.chance(200);
            let quits_at_ms = quits.then(|| acts_at_ms + random.below(BUSY_MS / 2));
            let left = random.between(1, 12) as u32;
            Guest { talk: None, asked: None, left, acts_at_ms, quits_at_ms }
        });
        let guests = guests.collect();
        let mut replacing: Vec<_> = (0..random.between(1, 4))
            .map(|_| (from_ms + random.below(BUSY_MS), *random.pick(&[0, 1, 1, 2])))
            .collect();
        // Many replacements in a row, at once or with requests in between.
        let row_ms = from_ms + random.below(BUSY_MS / 2);
        let apart_ms = *random.pick(&[0, 50, 100, 200]);
        let row = random.below(2) * (OLD_VMS_MAX as u64 + 2);
        replacing.extend((0..row).map(|at| (row_ms + at * apart_ms, 1)));
        replacing.sort_unstable();
        let (asked, made, tally) = (0, 1, Tally::default());
        let replacing = replacing.into();
        Self { stage, random, folders, guests, replacing, asked, made, tally }
    }

    /// Replaces the script if it is time; returns the time of the next replacement.
    fn replace(&mut self) -> Option<u64> {
        while let Some((at_ms, scripts)) = self.replacing.front().copied() {
            if at_ms > self.stage.now_ms() {
                return Some(at_ms);
            }
            self.replacing.pop_front();
            if scripts == 0 {
                let behind = *self.random.pick(&BROKEN);
                let broken = program(self.made + 1, &self.folders, behind);
                assert!(!self.stage.reload(broken), "it starts: {behind}");
                self.tally.refused += 1;
            }
            for _ in 0..scripts {
                self.made += 1;
                let next = program(self.made, &self.folders, "");
                assert!(self.stage.reload(next), "a whole script starts");
                self.tally.replaced += 1;
            }
        }
        None
    }

    /// Creates the request of a client.
    fn request(&mut self, is_counted: bool) -> (Ask, Vec<u8>) {
        let kinds = if is_counted { KINDS.len() as u64 } else { COUNTING_NOTHING };
        // A request that waits for long keeps the scripts that are replaced meanwhile.
        let is_long = self.random.chance(300);
        let kind = if is_long { SLEEP } else { self.random.below(kinds) as usize };
        self.asked += 1;
        let path = format!("/{}/{}", KINDS[kind].0, self.asked);
        let request = match KINDS[kind].0 {
            "sleep" => {
                let seconds = self.random.below(3_000) as f64 / 1000.0;
                format!("GET {path}?s={seconds} HTTP/1.1\r\nHost: a\r\n\r\n")
            }
            "body" => {
                let bytes = self.random.between(1, 100_000) as usize;
                let head = format!("POST {path}?bytes={bytes} HTTP/1.1\r\nHost: a\r\n");
                format!("{head}Content-Length: {bytes}\r\n\r\n{}", "x".repeat(bytes))
            }
            _ => format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n"),
        };
        let since_version = self.stage.worker.app().version;
        (Ask { kind, path, since_version }, request.into_bytes())
    }

    /// Performs the actions of a client that are possible now; returns false when it has finished.
    fn act(&mut self, guest: &mut Guest) -> bool {
        let now_ms = self.stage.now_ms();
        if guest.acts_at_ms > now_ms {
            return true;
        }
        if guest.quits_at_ms.is_some_and(|at_ms| at_ms <= now_ms) {
            if let Some(talk) = guest.talk.take() {
                talk.reset();
            }
            return false;
        }
        let talk = guest.talk.get_or_insert_with(|| Talk::new(&self.stage.network));
        let heard = talk.hear();
        // A client that only waits for a response acts when a part of it arrives.
        if !(matches!(heard, Heard::Nothing) && guest.asked.is_some() && talk.has_sent()) {
            guest.acts_at_ms = now_ms + self.random.between(1, 20);
        }
        match (heard, guest.asked.take()) {
            (Heard::Nothing, Some(ask)) => guest.asked = Some(ask),
            (Heard::Response(response), Some(ask)) => self.check(&ask, &response),
            (Heard::Closed, Some(ask)) => {
                assert!(self.was_ended(&ask), "{} is cut off", ask.path);
                guest.talk = None;
            }
            (Heard::Nothing, None) if guest.left == 0 => {
                guest.talk.take().expect("a connection").leave();
                return false;
            }
            (Heard::Nothing, None) => {
                guest.left -= 1;
                let (ask, request) = self.request(guest.quits_at_ms.is_none());
                talk.ask(&request);
                guest.asked = Some(ask);
            }
            (heard, None) => panic!("nothing was asked for: {heard:?}"),
        }
        if let Some(talk) = guest.talk.as_mut().filter(|talk| !talk.has_sent()) {
            talk.send(self.random.between(1, 40_000) as usize);
        }
        true
    }

    /// Returns whether the script of a request has been replaced too often meanwhile.
    fn was_ended(&mut self, ask: &Ask) -> bool {
        let site = self.stage.worker.app();
        let begun = site.begun.get(&ask.path).copied();
        let is_ended = begun.is_some_and(|begun| begun + (OLD_VMS_MAX as u32) < site.version);
        self.tally.ended += u32::from(is_ended);
        is_ended
    }

    /// Laws 1, 2 and 5.
    fn check(&mut self, ask: &Ask, response: &Response) {
        let path = &ask.path;
        self.tally.responses += 1;
        if response.status != 200 {
            assert_eq!(response.status, 503, "{path}: {response:?}");
            assert!(self.was_ended(ask), "{path} is given up too early");
            return;
        }
        let (name, lines) = KINDS[ask.kind];
        let version = self.stage.worker.app().begun[path];
        assert!(version >= ask.since_version, "{path}: version {version} is an earlier one");
        assert_eq!(response.field("Version"), Some(&*version.to_string()), "{path}");
        let number = path.rsplit('/').next().expect("a number");
        let whole = format!("version {version}\n").repeat(lines) + &format!("end {number}\n");
        assert!(response.text() == whole, "{path} of version {version}: {}", response.text());
        self.tally.whole[ask.kind] += 1;
        if name == "count" {
            let count = response.field("Count").expect("a count");
            self.tally.counts.push(count.parse().expect("a number"));
        }
    }

    /// Runs clients and replacements until all have finished.
    fn play(&mut self) {
        let until_ms = self.stage.now_ms() + RUN_MAX_MS;
        let mut guests = std::mem::take(&mut self.guests);
        while !guests.is_empty() || !self.replacing.is_empty() {
            guests.retain_mut(|guest| self.act(guest));
            let now_ms = self.stage.now_ms();
            assert!(now_ms < until_ms, "{} guests wait for ever", guests.len());
            let mut next_ms = self.replace().unwrap_or(until_ms);
            if self.random.chance(700) && self.stage.jobs.run_one() {
                next_ms = now_ms;
            }
            for guest in &guests {
                let times = [Some(guest.acts_at_ms), guest.quits_at_ms];
                let next = times.into_iter().flatten().filter(|&at_ms| at_ms > now_ms).min();
                next_ms = next_ms.min(next.unwrap_or(until_ms));
            }
            // A job that was not run now is run soon.
            let jobs = self.object_counts().jobs;
            let next_ms = if jobs > 0 { next_ms.min(now_ms + 1) } else { next_ms };
            self.stage.pass(next_ms);
            let holdings = self.object_counts();
            assert!(holdings.old_vms <= OLD_VMS_MAX, "{holdings:?}");
            assert!(holdings.vms == 1 && holdings.schedules == 1, "{holdings:?}");
        }
    }

    fn object_counts(&mut self) -> ObjectCounts {
        self.stage.worker.app().scripts.object_counts()
    }

    /// Checks laws 4, 5 and 6 after all clients have finished.
    fn end(&mut self) {
        self.stage.rest(WORK_MAX_MS);
        let nothing = ObjectCounts { vms: 1, schedules: 1, ..ObjectCounts::default() };
        let holdings = self.object_counts();
        assert_eq!(ObjectCounts { timers: 0, ..holdings }, nothing, "soon");
        self.stage.rest(TIMES_MAX_MS);
        assert_eq!(self.object_counts(), nothing, "in the end");
        assert_eq!(self.stage.worker.holdings(), EngineHoldings::default());

        let mut talk = Talk::new(&self.stage.network);
        talk.ask(b"GET /kept HTTP/1.1\r\nHost: a\r\n\r\n");
        talk.send(usize::MAX);
        self.stage.rest(1_000);
        let Heard::Response(response) = talk.hear() else { panic!("no answer at the end") };
        assert_eq!(response.field("Version"), Some(&*self.made.to_string()));
        let kept: Vec<u32> =
            response.text().split(' ').map(|count| count.parse().expect("a number")).collect();
        let [.., spawned, sent, counted] = self.tally.whole;
        assert_eq!(kept[0], counted, "what was counted");
        self.tally.counts.sort_unstable();
        assert!(self.tally.counts.iter().copied().eq(1..=counted as usize), "each is counted once");
        // Work of a script that was replaced too often ends with it.
        let may_be_lost = self.made > OLD_VMS_MAX as u32 + 1;
        for (kept, done) in [(kept[1], spawned), (kept[2], sent)] {
            assert!(kept == done || (may_be_lost && kept < done), "{kept} of {done}");
        }
    }
}

fn play<const READINESS: bool>(seed: u64) -> Tally {
    let mut run = Run::<READINESS>::new(seed);
    run.play();
    run.end();
    run.tally
}

fn run(seed: u64) -> Tally {
    if seed.is_multiple_of(2) { play::<true>(seed) } else { play::<false>(seed) }
}

fn number(variable: &str) -> Option<u64> {
    let text = env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable} must be a number, not {text}")))
}

/// Every seed keeps all laws. `PINION_SIM_SEED` selects one, `PINION_SIM_SEEDS` sets their number.
#[test]
fn every_seed_keeps_all_laws_of_reloads() {
    if let Some(seed) = number("PINION_SIM_SEED") {
        println!("{:?}", run(seed));
        return;
    }
    let mut all = Tally::default();
    for seed in 0..number("PINION_SIM_SEEDS").unwrap_or(SEEDS) {
        let tally = catch_unwind(AssertUnwindSafe(|| run(seed))).unwrap_or_else(|_| {
            panic!(
                "seed {seed} breaks a law; to repeat, with all that happened: PINION_SIM_TRACE=1 \
                 PINION_SIM_SEED={seed} cargo test -p pinion-lua --test sim seeds -- --nocapture"
            )
        });
        all.responses += tally.responses;
        all.ended += tally.ended;
        all.replaced += tally.replaced;
        all.refused += tally.refused;
        all.whole.iter_mut().zip(tally.whole).for_each(|(all, one)| *all += one);
    }
    let counts = [all.responses, all.ended, all.replaced, all.refused];
    let shows_something = counts.iter().chain(&all.whole).all(|&count| count > 0);
    assert!(shows_something, "a simulation without some of this shows nothing: {all:?}");
}
