//! CPU time of a run of a program by the spawner, compared with posix_spawn(3) in a bare loop.
//!
//! ```sh
//! cargo run --release -p pinion-spawner --example spawn_cost [RUNS [ROUNDS]]
//! ```
//!
//! All run `/bin/true` with a socket as standard input and output, one after the other, in turn for
//! some rounds. The time is that of all processes: of the program, of the loop, and of the spawner
//! with the client. The spawner does more for it: a pipe for standard error, a session of its own,
//! the search for descendants; for CGI also the look-up of the script, and as root another user.

use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;
use std::{env, fs, mem, ptr};

use pinion_spawner::reply::{REPLY_BYTES, SpawnerReply};
use pinion_spawner::spawner_handle::{CgroupUse, Spawner};
use pinion_spawner::start_table::{Identity, ProgramKind, ProgramStart, StartTable};
use pinion_spawner::worker_connection::{SpawnerConnection, stream_sockets};
use pinion_spawner::worker_request::{CgiScript, StartRequest};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::geteuid;

const PROGRAM: &std::ffi::CStr = c"/bin/true";

fn main() {
    let mut arguments = env::args().skip(1);
    let runs = arguments.next().map_or(2000, |text| text.parse().expect("a number of runs"));
    let rounds = arguments.next().map_or(5, |text| text.parse().expect("a number of rounds"));
    println!("CPU time of a run in microseconds, {runs} runs a round");
    let plain = || ProgramStart::new("true", "/bin/true");
    let cgi = ProgramStart { kind: ProgramKind::Cgi, ..ProgramStart::new("bin", "/bin") };
    let user = Identity { uid: 65534, gid: 65534, groups: Vec::new() };
    let identity = geteuid().is_root().then_some(user);
    let ways = [
        ("in groups", CgroupUse::Never, plain()),
        ("in cgroups", CgroupUse::IfDelegated, plain()),
        ("CGI", CgroupUse::Never, ProgramStart { cgi_as_root: true, ..cgi.clone() }),
        ("CGI, user", CgroupUse::Never, ProgramStart { identity, ..cgi }),
    ];
    let mut times = vec![Vec::new(); 1 + ways.len()];
    for _ in 0..rounds {
        times[0].push(bare(runs));
        for (number, (_, cgroups, start)) in (1..).zip(&ways) {
            times[number].push(spawner(runs, *cgroups, start));
        }
    }
    let median = |times: &mut Vec<f64>| {
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    };
    let bare = median(&mut times[0]);
    println!("posix_spawn         {bare:7.1}");
    for (number, (name, _, _)) in (1..).zip(ways) {
        let time = median(&mut times[number]);
        println!("spawner, {name:<10} {time:7.1}  {:.2} x", time / bare);
    }
}

/// Runs the program in a bare loop and returns the CPU time of a run in microseconds.
fn bare(runs: u32) -> f64 {
    let before = cpu_time();
    for _ in 0..runs {
        let (_own, program) = stream_sockets().expect("sockets");
        posix_spawn(program.as_raw_fd());
    }
    (cpu_time() - before).as_secs_f64() * 1e6 / f64::from(runs)
}

fn posix_spawn(socket: i32) {
    let argv = [PROGRAM.as_ptr().cast_mut(), ptr::null_mut()];
    let envp = [ptr::null_mut()];
    let mut pid = 0;
    // SAFETY: the actions are initialised before they are used and destroyed afterwards, and the
    // lists end with null pointers.
    let status = unsafe {
        let mut actions = mem::zeroed();
        libc::posix_spawn_file_actions_init(&raw mut actions);
        libc::posix_spawn_file_actions_adddup2(&raw mut actions, socket, 0);
        libc::posix_spawn_file_actions_adddup2(&raw mut actions, socket, 1);
        let failed = libc::posix_spawn(
            &raw mut pid,
            PROGRAM.as_ptr(),
            &raw const actions,
            ptr::null(),
            argv.as_ptr(),
            envp.as_ptr(),
        );
        assert_eq!(failed, 0);
        libc::posix_spawn_file_actions_destroy(&raw mut actions);
        let mut status = 0;
        assert_eq!(libc::waitpid(pid, &raw mut status, 0), pid);
        status
    };
    assert_eq!(status, 0);
}

/// Runs the program by a spawner of its own and returns the CPU time of a run in microseconds.
fn spawner(runs: u32, cgroups: CgroupUse, start: &ProgramStart) -> f64 {
    let is_cgi = start.kind == ProgramKind::Cgi;
    let variables = b"REQUEST_METHOD=GET\0HTTP_ACCEPT=text/html\0".repeat(10);
    let script = is_cgi.then_some(CgiScript { path: b"true", variables: &variables });
    let table = StartTable { starts: vec![start.clone()] };
    let spawner = Spawner::fork(&table, cgroups, || ()).expect("a spawner");
    let connection = spawner.connect().expect("a connection");
    let run = |id| run(&connection, spawner.generation(), id, script);
    run(0);
    let pid = spawner.pid().as_raw_nonzero().get();
    let before = cpu_time() + cpu_time_of(pid);
    for id in 1..=runs {
        run(u64::from(id));
    }
    let time = cpu_time() + cpu_time_of(pid) - before;
    spawner.stop(Duration::from_secs(10)).expect("nothing is left");
    time.as_secs_f64() * 1e6 / f64::from(runs)
}

fn run(connection: &SpawnerConnection, generation: u32, id: u64, script: Option<CgiScript<'_>>) {
    let (_own, program) = stream_sockets().expect("sockets");
    let arguments = Vec::new();
    let request = StartRequest { id, start: 0, generation, arguments, script };
    connection.start(request, program.as_fd(), None).expect("sent");
    drop(program);
    loop {
        let mut polled = [PollFd::new(connection, PollFlags::IN)];
        poll(&mut polled, None).expect("an answer");
        let mut bytes = [0; REPLY_BYTES];
        let read = rustix::io::read(connection, &mut bytes).expect("an answer");
        assert_eq!(read, REPLY_BYTES);
        match SpawnerReply::decode(&bytes) {
            Some(SpawnerReply::Started { .. }) => {}
            Some(SpawnerReply::Exited { status: 0, .. }) => return,
            other => panic!("{other:?}"),
        }
    }
}

/// CPU time of this process and of its children that have ended.
fn cpu_time() -> Duration {
    [libc::RUSAGE_SELF, libc::RUSAGE_CHILDREN].into_iter().map(usage).sum()
}

fn usage(who: libc::c_int) -> Duration {
    // SAFETY: zeros are a valid value, and the call writes the whole structure.
    let usage = unsafe {
        let mut usage: libc::rusage = mem::zeroed();
        assert_eq!(libc::getrusage(who, &raw mut usage), 0);
        usage
    };
    let time = |time: libc::timeval| {
        Duration::from_secs(time.tv_sec.unsigned_abs())
            + Duration::from_micros(time.tv_usec.unsigned_abs())
    };
    time(usage.ru_utime) + time(usage.ru_stime)
}

/// CPU time of a process and of its children that have ended (proc_pid_stat(5)), in ticks of ten
/// milliseconds.
fn cpu_time_of(pid: i32) -> Duration {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).expect("a process");
    let (_, fields) = stat.rsplit_once(") ").expect("a name");
    let fields = fields.split_ascii_whitespace().skip(11).take(4);
    let ticks: u64 = fields.map(|field| field.parse::<u64>().expect("a number")).sum();
    Duration::from_millis(ticks * 10)
}
