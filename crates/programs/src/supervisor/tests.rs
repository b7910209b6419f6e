//! The supervisor with a model of the spawner, for any order of events.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::limits::{RESTART_DELAY_MAX_MS, RESTART_JITTER_DIVISOR, STABLE_RUN_MS};

/// Longest time until a restart, with its jitter.
const LONGEST_MS: u64 = RESTART_DELAY_MAX_MS + RESTART_DELAY_MAX_MS / RESTART_JITTER_DIVISOR;

fn program(name: &str, start: u16, revision: u64) -> SupervisedProgram {
    SupervisedProgram { name: name.into(), start, revision }
}

fn outputs(supervisor: &mut Supervisor) -> Vec<SupervisorOutput> {
    std::iter::from_fn(|| supervisor.next_output()).collect()
}

fn log(line: &str) -> SupervisorOutput {
    SupervisorOutput::Log(line.to_owned())
}

fn start(id: u64, start: u16) -> SupervisorOutput {
    SupervisorOutput::Start { id, start }
}

/// A supervisor with a program that runs since the time 0.
fn running() -> Supervisor {
    let mut supervisor = Supervisor::new(1);
    supervisor.set_programs(&[program("web", 3, 1)], 0);
    assert_eq!(outputs(&mut supervisor), [start(1, 3)]);
    supervisor.on_reply(SpawnerReply::Started { id: 1, pid: 70 }, 0);
    assert_eq!(outputs(&mut supervisor), [log("web[70]: started")]);
    supervisor
}

fn status(supervisor: &Supervisor) -> ProgramStatus {
    supervisor.status().next().expect("a program")
}

#[test]
fn a_program_is_started_and_restarted_after_its_exit() {
    let mut supervisor = running();
    assert_eq!(
        (status(&supervisor).phase, supervisor.deadline_ms()),
        (ProgramPhase::Running, None)
    );
    supervisor.on_reply(SpawnerReply::Signaled { id: 1, signal: 11 }, 5000);
    let until_ms = supervisor.deadline_ms().expect("a restart");
    assert!((5100..=5125).contains(&until_ms), "{until_ms}");
    let line = format!("web[70]: ended by SIGSEGV; next start in {} ms", until_ms - 5000);
    assert_eq!(outputs(&mut supervisor), [log(&line)]);
    let waiting = status(&supervisor);
    assert_eq!(waiting.phase, ProgramPhase::Waiting { until_ms });
    assert_eq!((waiting.since_ms, waiting.pid, waiting.restarts), (5000, None, 0));
    assert_eq!(waiting.last_end, Some(ProgramEnd::Signaled(11)));
    supervisor.tick(until_ms - 1);
    assert_eq!(outputs(&mut supervisor), []);
    supervisor.tick(until_ms);
    assert_eq!(outputs(&mut supervisor), [start(2, 3)]);
    assert_eq!(status(&supervisor).restarts, 1);
}

#[test]
fn a_failed_start_is_logged_with_its_reason_and_retried() {
    let mut supervisor = Supervisor::new(1);
    supervisor.set_programs(&[program("web", 0, 1)], 0);
    outputs(&mut supervisor);
    supervisor.on_reply(SpawnerReply::Failed { id: 1, stage: StartStage::Exec, errno: 2 }, 0);
    let [SupervisorOutput::Log(line)] = &outputs(&mut supervisor)[..] else { panic!("one line") };
    let why = "web: cannot execute the program: No such file or directory; next start";
    assert!(line.starts_with(why), "{line}");
    supervisor.tick(supervisor.deadline_ms().expect("a restart"));
    assert_eq!(outputs(&mut supervisor), [start(2, 0)]);
    supervisor.on_reply(SpawnerReply::Rejected { id: 2, reason: Reason::Descriptors }, 200);
    let [SupervisorOutput::Log(line)] = &outputs(&mut supervisor)[..] else { panic!("one line") };
    assert!(line.starts_with("web: cannot start: "), "{line}");
    assert!(line.contains("; next start in "), "{line}");
}

/// A start that is rejected because too many programs run is not a failure of the program.
#[test]
fn a_start_rejected_for_too_many_programs_is_retried_soon() {
    let mut supervisor = Supervisor::new(1);
    supervisor.set_programs(&[program("web", 0, 1)], 0);
    outputs(&mut supervisor);
    let mut now_ms = 0;
    for id in 1..20 {
        supervisor.on_reply(SpawnerReply::Rejected { id, reason: Reason::TooManyRunning }, now_ms);
        let line = log("web: cannot start yet: too many programs are running");
        let lines = if id == 1 { vec![line] } else { Vec::new() };
        assert_eq!(outputs(&mut supervisor), lines);
        assert_eq!(supervisor.deadline_ms(), Some(now_ms + RESTART_DELAY_MS));
        now_ms += RESTART_DELAY_MS;
        supervisor.tick(now_ms);
        assert_eq!(outputs(&mut supervisor), [start(id + 1, 0)]);
        assert_eq!(status(&supervisor).restarts, 0);
    }
}

#[test]
fn a_changed_program_is_stopped_before_it_is_started() {
    let mut supervisor = running();
    supervisor.set_programs(&[program("web", 3, 1)], 10);
    assert_eq!(outputs(&mut supervisor), [], "it is the same");
    supervisor.set_programs(&[program("web", 5, 2)], 20);
    let stopping = log("web[70]: stopping, its settings have changed");
    assert_eq!(outputs(&mut supervisor), [stopping, SupervisorOutput::Stop { id: 1 }]);
    assert_eq!(status(&supervisor).phase, ProgramPhase::Stopping);
    supervisor.on_reply(SpawnerReply::Exited { id: 1, status: 0 }, 30);
    assert_eq!(outputs(&mut supervisor), [log("web[70]: exited with status 0"), start(2, 5)]);
}

#[test]
fn a_removed_program_is_stopped() {
    let mut supervisor = running();
    supervisor.set_programs(&[], 20);
    let stopping = log("web[70]: stopping, it was removed from the configuration");
    assert_eq!(outputs(&mut supervisor), [stopping, SupervisorOutput::Stop { id: 1 }]);
    // One that comes back waits for the end of the process that stops.
    supervisor.set_programs(&[program("web", 4, 1)], 20);
    assert_eq!(outputs(&mut supervisor), []);
    supervisor.set_programs(&[], 20);
    supervisor.on_reply(SpawnerReply::Signaled { id: 1, signal: 9 }, 30);
    assert_eq!(outputs(&mut supervisor), [log("web[70]: ended by SIGKILL")]);
    assert_eq!((supervisor.status().count(), supervisor.deadline_ms()), (0, None));
}

#[test]
fn a_rejection_for_a_stale_table_is_not_a_failure() {
    let mut supervisor = Supervisor::new(1);
    supervisor.set_programs(&[program("web", 0, 1)], 0);
    outputs(&mut supervisor);
    supervisor.on_reply(SpawnerReply::Rejected { id: 1, reason: Reason::StaleTable }, 0);
    assert_eq!((outputs(&mut supervisor), supervisor.deadline_ms()), (vec![], Some(100)));
    assert_eq!(status(&supervisor).last_end, None);
}

#[test]
fn no_program_is_started_after_the_end_of_the_spawner() {
    let mut supervisor = running();
    supervisor.on_spawner_end(50);
    supervisor.set_programs(&[program("other", 0, 1)], 60);
    supervisor.tick(1_000_000);
    assert_eq!((outputs(&mut supervisor), supervisor.deadline_ms()), (vec![], None));
    let stopped = status(&supervisor);
    assert_eq!((stopped.phase, stopped.since_ms, stopped.pid), (ProgramPhase::Stopped, 50, None));
}

/// An event of a random sequence.
#[derive(Clone, Copy, Debug)]
enum Event {
    /// So much time passes, and due programs are started.
    Pass(u64),
    /// The spawner answers a request, one of those that wait: the numbers choose which and how.
    Reply(usize, u8),
    /// A running program ends.
    End(usize),
    /// The configuration has these revisions of the programs a, b and c; 0 for none.
    Configure([u64; 3]),
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let pass = prop_oneof![0..300_u64, 0..2 * STABLE_RUN_MS];
    let event = prop_oneof![
        4 => pass.prop_map(Event::Pass),
        4 => (any::<usize>(), any::<u8>()).prop_map(|(which, how)| Event::Reply(which, how)),
        4 => any::<usize>().prop_map(Event::End),
        1 => any::<[u8; 3]>().prop_map(|revisions| {
            Event::Configure(revisions.map(|revision| u64::from(revision % 3)))
        }),
    ];
    prop::collection::vec(event, 0..200)
}

/// A process in the model of the spawner.
#[derive(Clone, Copy, Debug)]
struct Process {
    name: usize,
    /// Whether the spawner has answered its start.
    is_started: bool,
    is_stopping: bool,
}

const NAMES: [&str; 3] = ["a", "b", "c"];

/// The model: the spawner and the configuration.
struct Model {
    supervisor: Supervisor,
    now_ms: u64,
    revisions: [u64; 3],
    processes: BTreeMap<u64, Process>,
    last_id: u64,
    /// The time at which a program has exited without a request to stop, with the revision that it
    /// still has.
    ended_ms: [Option<u64>; 3],
}

impl Model {
    fn new() -> Self {
        Self {
            supervisor: Supervisor::new(7),
            now_ms: 0,
            revisions: [0; 3],
            processes: BTreeMap::new(),
            last_id: 0,
            ended_ms: [None; 3],
        }
    }

    fn configure(&mut self, revisions: [u64; 3]) {
        for (at, revision) in revisions.into_iter().enumerate() {
            if self.revisions[at] != revision {
                self.ended_ms[at] = None;
            }
        }
        self.revisions = revisions;
        let programs = (0..3).filter(|at| revisions[*at] > 0);
        let programs = programs.map(|at| program(NAMES[at], at as u16, revisions[at]));
        self.supervisor.set_programs(&programs.collect::<Vec<_>>(), self.now_ms);
        self.carry_out();
    }

    fn tick(&mut self) {
        self.supervisor.tick(self.now_ms);
        self.carry_out();
    }

    /// Carries out the actions of the supervisor, and checks that each of them is allowed.
    fn carry_out(&mut self) {
        while let Some(output) = self.supervisor.next_output() {
            match output {
                SupervisorOutput::Start { id, start } => {
                    let name = usize::from(start);
                    assert!(id > self.last_id, "a number is used twice");
                    self.last_id = id;
                    let is_running = self.processes.values().any(|process| process.name == name);
                    assert!(!is_running, "two instances of one program");
                    assert_ne!(self.revisions[name], 0, "it is not configured");
                    if let Some(ended_ms) = self.ended_ms[name] {
                        assert!(self.now_ms >= ended_ms + RESTART_DELAY_MS, "it starts too soon");
                    }
                    let process = Process { name, is_started: false, is_stopping: false };
                    self.processes.insert(id, process);
                }
                SupervisorOutput::Stop { id } => {
                    let process = self.processes.get_mut(&id).expect("it was started");
                    assert!(!process.is_stopping, "it is stopped twice");
                    process.is_stopping = true;
                }
                SupervisorOutput::Log(_) => {}
            }
        }
    }

    /// Chooses one of the processes that fulfil a condition.
    fn chosen(&self, which: usize, is_meant: impl Fn(&Process) -> bool) -> Option<(u64, Process)> {
        let meant = self.processes.iter().filter(|(_, process)| is_meant(process));
        let meant: Vec<(u64, Process)> = meant.map(|(id, process)| (*id, *process)).collect();
        let at = which.checked_rem(meant.len())?;
        meant.get(at).copied()
    }

    /// Lets the spawner answer the request for a start.
    fn reply(&mut self, which: usize, how: u8) {
        let Some((id, process)) = self.chosen(which, |process| !process.is_started) else { return };
        let reply = match how % 8 {
            0 => SpawnerReply::Failed { id, stage: StartStage::Exec, errno: 2 },
            1 => SpawnerReply::Rejected { id, reason: Reason::TooManyRunning },
            2 => SpawnerReply::Rejected { id, reason: Reason::StaleTable },
            _ => {
                self.processes.entry(id).and_modify(|process| process.is_started = true);
                self.supervisor.on_reply(SpawnerReply::Started { id, pid: 1 }, self.now_ms);
                return self.carry_out();
            }
        };
        self.end(id, process, reply);
    }

    /// Ends a process that was started.
    fn end_started(&mut self, which: usize) {
        if let Some((id, process)) = self.chosen(which, |process| process.is_started) {
            self.end(id, process, SpawnerReply::Exited { id, status: 0 });
        }
    }

    fn end(&mut self, id: u64, process: Process, reply: SpawnerReply) {
        self.processes.remove(&id);
        self.ended_ms[process.name] = (!process.is_stopping).then_some(self.now_ms);
        self.supervisor.on_reply(reply, self.now_ms);
        self.carry_out();
    }

    fn apply(&mut self, event: Event) {
        match event {
            Event::Pass(ms) => {
                // Programs are started when they are due, and not at the end of the time span.
                let until_ms = self.now_ms + ms;
                while let Some(due_ms) = self.supervisor.deadline_ms()
                    && due_ms <= until_ms
                {
                    self.now_ms = self.now_ms.max(due_ms);
                    self.tick();
                }
                self.now_ms = until_ms;
                self.tick();
            }
            Event::Reply(which, how) => self.reply(which, how),
            Event::End(which) => self.end_started(which),
            Event::Configure(revisions) => self.configure(revisions),
        }
    }

    /// Ends all processes for which a stop was requested.
    fn stop_all(&mut self) {
        while let Some((id, process)) = self.chosen(0, |process| process.is_stopping) {
            self.end(id, process, SpawnerReply::Signaled { id, signal: 15 });
        }
    }
}

proptest! {
    /// The model checks after each event that no program runs twice and none is started too soon.
    #[test]
    fn configured_programs_always_run_in_the_end(events in events()) {
        let mut model = Model::new();
        events.into_iter().for_each(|event| model.apply(event));
        model.stop_all();
        model.apply(Event::Pass(LONGEST_MS));
        for (at, revision) in model.revisions.into_iter().enumerate() {
            let is_there = model.processes.values().any(|process| process.name == at);
            prop_assert_eq!(is_there, revision > 0, "{}", NAMES[at]);
        }
        prop_assert_eq!(model.supervisor.deadline_ms(), None, "nothing waits");
    }

    #[test]
    fn a_stop_always_completes(events in events(), late in events()) {
        let mut model = Model::new();
        events.into_iter().for_each(|event| model.apply(event));
        model.configure([0; 3]);
        prop_assert!(model.processes.values().all(|process| process.is_stopping));
        model.stop_all();
        prop_assert_eq!(model.supervisor.status().count(), 0);
        // A stopping server starts no program, whatever events follow.
        model.configure([1, 1, 1]);
        model.supervisor.stop(model.now_ms);
        let running = model.processes.len();
        late.into_iter().for_each(|event| {
            model.apply(event);
            assert!(model.processes.len() <= running, "nothing is started after the stop");
        });
        prop_assert_eq!(model.supervisor.deadline_ms(), None);
    }
}
