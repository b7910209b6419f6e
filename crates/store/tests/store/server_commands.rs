use pinion_store::settings::{Clock, EvictionPolicy, LiveSettings, Settings};

use crate::test_client::Conversation;

#[test]
fn handshakes_of_current_client_libraries_are_answered() {
    let mut store = Conversation::new();
    store.expect(&[
        ("HELLO 4", "-NOPROTO unsupported protocol version"),
        ("HELLO x", "-ERR Protocol version is not an integer or out of range"),
        ("CLIENT SETINFO LIB-NAME redis-py", "+OK"),
        ("CLIENT SETINFO LIB-VER 8.0.0", "+OK"),
        ("CLIENT SETINFO x y", "-ERR Unrecognized option 'X'"),
        ("CLIENT MAINT_NOTIFICATIONS ON moving-endpoint-type internal-ip", "+OK"),
        ("CLIENT GETNAME", "$-1"),
        ("CLIENT SETNAME me", "+OK"),
        ("CLIENT GETNAME", "$2 me"),
        ("CLIENT ID", ":1"),
        ("CLIENT NOTHING", "-ERR unknown subcommand 'NOTHING'. Try CLIENT HELP."),
        ("CONFIG GET save", "*2 $4 save $0"),
        ("CONFIG GET nothing", "*0"),
        ("TIME", "*2 $10 1700000000 $1 0"),
        ("ROLE", "*3 $6 master :0 *0"),
        ("COMMAND GETKEYS MSET a 1 b 2", "*2 $1 a $1 b"),
        ("RESET", "+RESET"),
        ("CLIENT GETNAME", "$-1"),
        ("OBJECT ENCODING a", "$-1"),
        ("SET a 1", "+OK"),
        ("OBJECT ENCODING a", "$3 int"),
        ("WAIT 0 0", ":0"),
        ("CLUSTER INFO", "-ERR This instance has cluster support disabled"),
    ]);
    let hello = store.say("HELLO 3 SETNAME you");
    assert!(hello.starts_with("%7 $6 server $5 redis $7 version $"), "{hello}");
    store.expect(&[("GET nothing", "_"), ("CLIENT GETNAME", "$3 you")]);
    let info = store.say("INFO");
    for line in
        ["redis_version:", "redis_mode:standalone", "role:master", "loading:0", "db0:keys=1,"]
    {
        assert!(info.contains(line), "{line}: {info}");
    }
    store.say_as(1, "PING");
    let clients = store.say("CLIENT LIST");
    assert!(clients.contains("id=2 addr=127.0.0.1:50001 "), "{clients}");
    assert!(clients.contains(" name=you ") && clients.contains(" resp=3 "), "{clients}");
    let commands = store.say("COMMAND INFO get nothing");
    assert!(commands.starts_with("*2 *10 $3 get :2 ~2 +readonly +fast :1 :1 :1 "), "{commands}");
}

/// Programs that tune Redis for small memory set these when they start.
#[test]
fn settings_for_the_memory_layout_are_accepted_without_effect() {
    let mut store = Conversation::new();
    store.expect(&[
        ("CONFIG SET list-max-ziplist-size 16 hash-max-listpack-value 0", "+OK"),
        ("CONFIG GET list-max-ziplist-size", "*2 $21 list-max-ziplist-size $2 -2"),
        ("CONFIG GET hash-max-listpack-value", "*2 $23 hash-max-listpack-value $2 64"),
        (
            "CONFIG SET list-compress-depth much",
            "-ERR CONFIG SET failed (possibly related to argument 'list-compress-depth') - \
             argument couldn't be parsed into an integer",
        ),
        (
            "CONFIG SET appendonly yes",
            "-ERR CONFIG SET failed (possibly related to argument 'appendonly') - can't set \
             immutable config",
        ),
        ("FUNCTION FLUSH", "+OK"),
        ("FUNCTION FLUSH SYNC", "+OK"),
        ("FUNCTION FLUSH now", "-ERR syntax error"),
        ("FUNCTION LIST", "*0"),
        ("FUNCTION LOAD code", "-ERR unknown subcommand 'LOAD'. Try FUNCTION HELP."),
    ]);
}

#[test]
fn commands_before_authentication_are_refused() {
    let settings = Settings { password: Some(b"secret"[..].into()), ..Settings::default() };
    let mut store = Conversation::with_settings(settings);
    let wrong = "-WRONGPASS invalid username-password pair or user is disabled.";
    store.expect(&[
        ("GET a", "-NOAUTH Authentication required."),
        ("NOTHING", "-NOAUTH Authentication required."),
        ("AUTH wrong", wrong),
        ("AUTH secre", wrong),
        ("AUTH other secret", wrong),
        ("AUTH secret", "+OK"),
        ("GET a", "$-1"),
        ("RESET", "+RESET"),
        ("GET a", "-NOAUTH Authentication required."),
        ("AUTH default secret", "+OK"),
        ("GET a", "$-1"),
    ]);
    assert!(store.say_as(1, "HELLO 3").starts_with("-NOAUTH HELLO must be called"));
    assert!(store.say_as(1, "HELLO 3 AUTH default secret").starts_with("%7 "));
}

#[test]
fn keys_are_evicted_as_the_policy_says() {
    for (policy, name) in EvictionPolicy::NAMES {
        let live =
            LiveSettings { memory_max_bytes: 4 << 20, eviction: policy, ..LiveSettings::default() };
        let settings = Settings { live, ..Settings::default() };
        let mut store = Conversation::with_settings(settings);
        let value = "x".repeat(500);
        let mut refused = 0;
        for number in 0..20_000 {
            store.now_ms += 100;
            let expiry = if number % 2 == 0 { " EX 100000" } else { "" };
            let reply = store.say(&format!("SET key:{number} {value}{expiry}"));
            refused += usize::from(reply.starts_with("-OOM "));
        }
        let is_refusing = policy == EvictionPolicy::None || name.starts_with("volatile");
        assert_eq!(refused > 0, is_refusing, "{name}: {refused}");
        let used = store.store.used_bytes();
        assert!(used < (4 << 20) + (1 << 20), "{name}: {used}");
        if name == "allkeys-lru" {
            let recent = (19_000..20_000).filter(|n| store.say(&format!("EXISTS key:{n}")) == ":1");
            assert!(recent.count() > 900);
        }
    }
}

#[test]
fn expired_keys_are_removed_in_the_background() {
    let mut store = Conversation::new();
    for number in 0..5000 {
        store.say(&format!("SET key:{number} 1 PX {}", 1 + number % 2 * 100_000));
    }
    store.now_ms += 10;
    let mut cursor = pinion_store::store::ExpiryCursor::default();
    while !store.store.remove_expired(&mut cursor, 100, store.now_ms) {}
    assert_eq!(store.say("DBSIZE"), ":2500");
}

/// A server has a clock with microseconds for `TIME`; all other commands have the time of the pass.
#[test]
fn time_has_the_microseconds_of_its_clock() {
    let unix_clock = Some(Clock(|| 1_700_000_001_000_042));
    let mut store = Conversation::with_settings(Settings { unix_clock, ..Settings::default() });
    store.expect(&[
        ("TIME", "*2 $10 1700000001 $2 42"),
        ("SET a 1 PXAT 1700000000500", "+OK"),
        ("PTTL a", ":500"),
    ]);
}
