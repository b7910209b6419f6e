use std::cell::Cell;

use pinion_store::settings::{Clock, Settings};

use crate::test_client::Conversation;

thread_local! {
    static NOW_US: Cell<u64> = const { Cell::new(0) };
    /// The microseconds by which each reading of the clock advances: the duration of each timed
    /// command.
    static STEP_US: Cell<u64> = const { Cell::new(0) };
    static LOOKS: Cell<u32> = const { Cell::new(0) };
}

fn clock() -> u64 {
    LOOKS.set(LOOKS.get() + 1);
    NOW_US.set(NOW_US.get() + STEP_US.get());
    NOW_US.get()
}

fn store() -> Conversation {
    Conversation::with_settings(Settings { clock: Some(Clock(clock)), ..Settings::default() })
}

#[test]
fn slow_commands_are_recorded() {
    let mut store = store();
    STEP_US.set(4000);
    store.expect(&[
        (
            "CONFIG GET slowlog*",
            "*4 $23 slowlog-log-slower-than $5 10000 $15 slowlog-max-len $3 128",
        ),
        ("CONFIG SET slowlog-log-slower-than 4000", "+OK"),
        ("SLOWLOG RESET", "+OK"),
        ("SLOWLOG LEN", ":1"),
        ("CLIENT SETNAME me", "+OK"),
        ("LRANGE a 0 -1", "*0"),
        (
            "SLOWLOG GET 1",
            "*1 *6 :3 :1700000000 :4000 *4 $6 LRANGE $1 a $1 0 $2 -1 $15 127.0.0.1:50000 $2 me",
        ),
        ("SLOWLOG GET 0", "*0"),
        ("SLOWLOG GET -2", "-ERR count should be greater than or equal to -1"),
        ("SLOWLOG GET x", "-ERR count should be greater than or equal to -1"),
        (
            "SLOWLOG GET 1 2",
            "-ERR unknown subcommand or wrong number of arguments for 'GET'. Try SLOWLOG HELP.",
        ),
        ("SLOWLOG LEN 2", "-ERR wrong number of arguments for 'slowlog|len' command"),
        ("SLOWLOG X", "-ERR unknown subcommand 'X'. Try SLOWLOG HELP."),
        ("CONFIG SET slowlog-max-len 2", "+OK"),
        ("SLOWLOG LEN", ":2"),
    ]);
    STEP_US.set(3999);
    assert_eq!(store.say("LRANGE a 0 -1"), "*0");
    assert_eq!(store.say("SLOWLOG RESET"), "+OK");
    assert_eq!(store.say("SLOWLOG LEN"), ":0");
    STEP_US.set(1_000_000);
    store.expect(&[
        ("CONFIG SET slowlog-log-slower-than -1", "+OK"),
        ("LRANGE a 0 -1", "*0"),
        ("SLOWLOG LEN", ":0"),
        (
            "CONFIG SET slowlog-log-slower-than -2",
            "-ERR CONFIG SET failed (possibly related to argument 'slowlog-log-slower-than') - \
             argument must be between -1 and 9223372036854775807 inclusive",
        ),
    ]);
}

#[test]
fn the_clock_is_not_read_for_short_commands() {
    let mut store = store();
    store.expect(&[("SET a 1", "+OK"), ("GET a", "$1 1"), ("MULTI", "+OK"), ("EXEC", "*0")]);
    store.say(&format!("SETRANGE b 0 {}", "x".repeat(1000)));
    store.say(&format!("RPUSH list {}", "x ".repeat(5000)));
    store.say("LRANGE list 0 9");
    assert_eq!(LOOKS.get(), 0);
    // This is enough work for a job.
    store.say("LRANGE list 0 -1");
    assert_eq!(LOOKS.get(), 2);
    // With a lower threshold, a worker can be so slow.
    store.say("CONFIG SET slowlog-log-slower-than 4999");
    LOOKS.set(0);
    store.say(&format!("SETRANGE b 0 {}", "x".repeat(1000)));
    assert_eq!(LOOKS.get(), 2);
    store.say(&format!("\"SET\" a {}", "x".repeat(60_000)));
    assert_eq!(LOOKS.get(), 2);
    store.say("CONFIG SET slowlog-log-slower-than 999");
    LOOKS.set(0);
    store.expect(&[("GET b", &format!("$1000 {}", "x".repeat(1000)))]);
    assert_eq!(LOOKS.get(), 2);
}

#[test]
fn the_slow_log_lists_each_command_of_a_transaction() {
    let mut store = store();
    STEP_US.set(5);
    store.say("CONFIG SET slowlog-log-slower-than 5");
    store.say("SLOWLOG RESET");
    store.expect(&[("MULTI", "+OK"), ("GET a", "+QUEUED"), ("LLEN b", "+QUEUED")]);
    assert_eq!(store.say("EXEC"), "*2 $-1 :0");
    let log = store.say("SLOWLOG GET");
    assert!(log.starts_with("*3 ") && !log.contains("EXEC"), "{log}");
    assert!(log.find("LLEN") < log.find("GET"), "{log}");
}

#[test]
fn long_commands_are_cut_and_passwords_left_out() {
    let mut store = Conversation::with_settings(Settings {
        clock: Some(Clock(clock)),
        password: Some(b"secret"[..].into()),
        ..Settings::default()
    });
    STEP_US.set(1);
    store.say("AUTH secret");
    store.say("CONFIG SET slowlog-log-slower-than 0");
    store.say("SLOWLOG RESET");
    store.say("AUTH default secret");
    store.say("HELLO 2 AUTH default secret SETNAME me");
    store.say("HELLO 2 SETNAME auth AUTH default secret");
    store.say(&format!("DEL {}", "x".repeat(130)));
    store.say(&format!("DEL{}", " a".repeat(40)));
    let log = store.say("SLOWLOG GET");
    assert!(!log.contains("secret"), "{log}");
    assert!(log.contains("$4 AUTH $10 (redacted) $10 (redacted)"), "{log}");
    let all = "$4 AUTH $10 (redacted) $10 (redacted) $10 (redacted) $10 (redacted)";
    assert!(log.contains(all), "{log}");
    assert!(log.contains(&format!("$146 {}... (2 more bytes)", "x".repeat(128))), "{log}");
    assert!(log.contains("*32 $3 DEL") && log.contains("... (10 more arguments)"), "{log}");
}
