//! The resolver against a DNS server on loopback.

mod dns_server;
mod resolver_fixture;

use std::net::UdpSocket;
use std::path::Path;
use std::sync::mpsc::channel;

use dns_server::{
    A, DnsServer, Message, NAME_ERROR, NO_ERROR, Question, REFUSED, Record, Response,
    SERVER_FAILURE, gated,
};
use pinion_client::connect_target::HostName;
use pinion_client::happy_eyeballs::AddressFamily::{Ipv4, Ipv6};
use pinion_client::limits::{ADDRESSES_PER_FAMILY_MAX, LOOKUP_TIMEOUT_MS, TTL_MAX_SECONDS};
use pinion_client::resolver::{ResolveError, ResolverSettings};
use resolver_fixture::{Fixture, addresses, message, no_such_name, wait};

/// Returns a server with both families.
fn dual_stack(ttl: u32) -> DnsServer {
    DnsServer::start(move |question| {
        Message::addresses(question, ttl, &["192.0.2.1", "192.0.2.2", "2001:db8::1"])
    })
}

#[test]
fn both_address_families_are_queried() {
    let server = dual_stack(300);
    let fixture = Fixture::of(&server);
    let answers = fixture.resolve("Example.ORG");
    assert_eq!(addresses(&answers, Ipv4), ["192.0.2.1", "192.0.2.2"]);
    assert_eq!(addresses(&answers, Ipv6), ["2001:db8::1"]);
    assert_eq!(answers[&Ipv4].as_ref().expect("addresses").ttl_seconds, 300);
    assert_eq!(server.questions(), ["A example.org udp", "AAAA example.org udp"]);
}

#[test]
fn addresses_are_kept_for_their_time_to_live() {
    let kept = dual_stack(300);
    let fixture = Fixture::of(&kept);
    fixture.resolve("a.example");
    let again = fixture.resolve("a.example");
    assert_eq!(addresses(&again, Ipv4), ["192.0.2.2", "192.0.2.1"], "rotated");
    assert_eq!(kept.questions().len(), 2, "asked once");

    let fleeting = dual_stack(0);
    let fixture = Fixture::of(&fleeting);
    fixture.resolve("a.example");
    fixture.resolve("a.example");
    assert_eq!(fleeting.questions().len(), 4, "asked each time");

    let long = dual_stack(u32::MAX >> 1);
    let answers = Fixture::of(&long).resolve("a.example");
    assert_eq!(answers[&Ipv4].as_ref().expect("addresses").ttl_seconds, TTL_MAX_SECONDS);
}

#[test]
fn absent_names_are_kept_by_their_soa_record() {
    let server = DnsServer::start(|question| match question.name.as_str() {
        "kept.example" => Message::absent(NAME_ERROR, 60),
        "fleeting.example" => Message::absent(NAME_ERROR, 0),
        _ => Message::absent(NO_ERROR, 60),
    });
    let fixture = Fixture::of(&server);
    for _ in 0..2 {
        for name in ["kept.example", "fleeting.example"] {
            let answers = fixture.resolve(name);
            assert_eq!(message(&answers, Ipv4), no_such_name(name));
            assert_eq!(message(&answers, Ipv6), no_such_name(name));
        }
    }
    let answers = fixture.resolve("empty.example");
    assert_eq!(message(&answers, Ipv4), "the name empty.example has no IPv4 address");
    assert_eq!(message(&answers, Ipv6), "the name empty.example has no IPv6 address");
    let asked = |name: &str| server.questions().iter().filter(|q| q.contains(name)).count();
    assert_eq!((asked("kept"), asked("fleeting"), asked("empty")), (2, 4, 2));
}

#[test]
fn one_family_may_be_absent() {
    let server = DnsServer::start(|question| Message::addresses(question, 60, &["192.0.2.1"]));
    let answers = Fixture::of(&server).resolve("a.example");
    assert_eq!(addresses(&answers, Ipv4), ["192.0.2.1"]);
    assert_eq!(message(&answers, Ipv6), "the name a.example has no IPv6 address");
}

#[test]
fn errors_of_the_server_are_named() {
    let server = DnsServer::start(|question| match question.name.as_str() {
        "failing.example" => Message::error(SERVER_FAILURE),
        _ => Message::error(REFUSED),
    });
    let fixture = Fixture::of(&server);
    let answers = fixture.resolve("failing.example");
    let expected = "the name server cannot resolve failing.example: Server Failure";
    assert_eq!(message(&answers, Ipv4), expected);
    let answers = fixture.resolve("refused.example");
    let expected = "the name server cannot resolve refused.example: Query Refused";
    assert_eq!(message(&answers, Ipv6), expected);
}

#[test]
fn silence_ends_with_the_timeout() {
    let server = DnsServer::start(|_| Response::Silence);
    let fixture = Fixture::with(&[server.address], "", "", |settings| settings.timeout_ms = 300);
    let answers = fixture.resolve("a.example");
    let expected = "no name server has answered for a.example within 300 ms";
    assert_eq!(
        (message(&answers, Ipv4), message(&answers, Ipv6)),
        (expected.into(), expected.into())
    );
    assert!(server.questions().len() >= 2);
}

/// A family without a response does not delay the other one.
#[test]
fn a_family_is_reported_when_it_is_known() {
    let server = DnsServer::start(|question| match question.kind {
        A => Message::addresses(question, 60, &["192.0.2.1"]),
        _ => Response::Silence,
    });
    let fixture = Fixture::with(&[server.address], "", "", |settings| settings.timeout_ms = 1000);
    let receiver = fixture.begin("a.example");
    let (family, result) = receiver.recv().expect("the first family");
    assert_eq!(family, Ipv4);
    assert!(result.is_ok());
    let (family, result) = receiver.recv().expect("the second family");
    assert_eq!(family, Ipv6);
    assert!(matches!(result, Err(ResolveError::NoAnswer { .. })), "{result:?}");
}

/// `options timeout` and `attempts` of resolv.conf: silence is not waited for longer.
#[test]
fn resolv_conf_has_the_timeout_of_a_server() {
    let server = DnsServer::start(|_| Response::Silence);
    let fixture = Fixture::new(&[server.address], "options timeout:1 attempts:1", "");
    let answers = fixture.resolve("a.example");
    let Err(ResolveError::NoAnswer { waited_ms, .. }) = answers[&Ipv4] else {
        panic!("{answers:?}");
    };
    assert!((1000..LOOKUP_TIMEOUT_MS).contains(&waited_ms), "{waited_ms}");
}

#[test]
fn a_silent_server_is_followed_by_the_next_one() {
    let silent = DnsServer::start(|_| Response::Silence);
    let good = dual_stack(60);
    for servers in [[silent.address, good.address], [good.address, silent.address]] {
        let fixture = Fixture::new(&servers, "options timeout:1", "");
        let answers = fixture.resolve("a.example");
        assert_eq!(addresses(&answers, Ipv4), ["192.0.2.1", "192.0.2.2"]);
        assert_eq!(addresses(&answers, Ipv6), ["2001:db8::1"]);
    }
}

/// A server that cannot resolve a name does not speak for the others; one that knows it does.
#[test]
fn a_failing_server_is_followed_by_the_next_one() {
    let failing = DnsServer::start(|_| Message::error(SERVER_FAILURE));
    let garbling = DnsServer::start(|question| {
        Response::Raw(vec![[&question.id.to_be_bytes()[..], &[0xff; 40]].concat()])
    });
    let good = DnsServer::start(|question| match question.name.as_str() {
        "absent.example" => Message::absent(NAME_ERROR, 0),
        _ => Message::addresses(question, 0, &["192.0.2.1", "2001:db8::1"]),
    });
    for bad in [&failing, &garbling] {
        for servers in [[bad.address, good.address], [good.address, bad.address]] {
            let fixture = Fixture::new(&servers, "", "");
            for _ in 0..5 {
                let answers = fixture.resolve("a.example");
                assert_eq!(addresses(&answers, Ipv4), ["192.0.2.1"]);
                assert_eq!(addresses(&answers, Ipv6), ["2001:db8::1"]);
                let absent = fixture.resolve("absent.example");
                assert_eq!(message(&absent, Ipv4), no_such_name("absent.example"));
            }
        }
    }
}

/// RFC 7766 §5: the query of a truncated response is repeated over TCP.
#[test]
fn truncated_responses_are_repeated_over_tcp() {
    let server = DnsServer::start(|question| {
        let mut response = Message::addresses(question, 60, &["192.0.2.1", "2001:db8::1"]);
        if let Response::Message(message) = &mut response
            && !question.is_tcp
        {
            (message.is_truncated, message.negative_ttl) = (true, None);
            message.answers.clear();
        }
        response
    });
    let answers = Fixture::of(&server).resolve("a.example");
    assert_eq!(addresses(&answers, Ipv4), ["192.0.2.1"]);
    assert_eq!(addresses(&answers, Ipv6), ["2001:db8::1"]);
    let questions = server.questions();
    assert!(questions.contains(&"A a.example udp".to_owned()), "{questions:?}");
    assert!(questions.contains(&"AAAA a.example tcp".to_owned()), "{questions:?}");
}

#[test]
fn large_responses_over_tcp_are_cut_to_the_limit() {
    let server = DnsServer::start(|question| {
        let record =
            |n: u16| Record::address(&question.name, 60, &format!("10.0.{}.{}", n / 256, n % 256));
        let is_whole = question.is_tcp && question.kind == A;
        let answers = if is_whole { (0..2000).map(record).collect() } else { Vec::new() };
        Response::Message(Message { is_truncated: !question.is_tcp, answers, ..Message::default() })
    });
    let answers = Fixture::of(&server).resolve("many.example");
    assert_eq!(addresses(&answers, Ipv4).len(), ADDRESSES_PER_FAMILY_MAX);
}

#[test]
fn a_response_that_stays_truncated_is_an_error() {
    let server = DnsServer::start(|_| {
        Response::Message(Message { is_truncated: true, ..Message::default() })
    });
    let answers = Fixture::of(&server).resolve("a.example");
    assert!(matches!(answers[&Ipv4], Err(ResolveError::Unusable { .. })), "{answers:?}");
    assert!(message(&answers, Ipv4).contains("truncated"), "{answers:?}");
}

/// `options use-vc` of resolv.conf(5).
#[test]
fn resolv_conf_may_ask_for_tcp() {
    let server = dual_stack(60);
    let fixture = Fixture::new(&[server.address], "options use-vc", "");
    fixture.resolve("a.example");
    assert_eq!(server.questions(), ["A a.example tcp", "AAAA a.example tcp"]);
}

#[test]
fn a_server_that_refuses_connections_is_named() {
    let udp = UdpSocket::bind("127.0.0.1:0").expect("a port that no program listens on over TCP");
    let address = udp.local_addr().expect("an address");
    let fixture = Fixture::new(&[address], "options use-vc attempts:1", "");
    let answers = fixture.resolve("a.example");
    let expected = "the name servers cannot be used to resolve a.example: no name server accepts a \
                    connection";
    assert_eq!(message(&answers, Ipv4), expected);
}

fn alias_chain(question: &Question) -> Response {
    let alias = |name: &str, target: &str, ttl| {
        let answers = vec![Record::alias(name, ttl, target)];
        Response::Message(Message { answers, ..Message::default() })
    };
    let whole = || {
        let answers = vec![
            Record::alias("whole.example", 300, "b.example"),
            Record::alias("b.example", 20, "c.example"),
            Record::address("c.example", 100, if question.kind == A { "192.0.2.9" } else { "::9" }),
        ];
        Response::Message(Message { answers, ..Message::default() })
    };
    match question.name.as_str() {
        "whole.example" => whole(),
        "parts.example" => alias("parts.example", "next.example", 10),
        "next.example" => alias("next.example", "last.example", 300),
        "last.example" => Message::addresses(question, 200, &["192.0.2.8", "2001:db8::8"]),
        "dead.example" => alias("dead.example", "gone.example", 10),
        "gone.example" => Message::absent(NAME_ERROR, 60),
        "loop.example" => alias("loop.example", "pool.example", 60),
        "pool.example" => alias("pool.example", "loop.example", 60),
        "self.example" => alias("self.example", "self.example", 60),
        name => {
            let (front, number) = name.split_once('-').expect("long-N.example");
            let number: u32 = number.strip_suffix(".example").expect(name).parse().expect(name);
            alias(name, &format!("{front}-{}.example", number + 1), 60)
        }
    }
}

/// RFC 1034 §3.6.2: aliases are followed, in one response or in several.
#[test]
fn aliases_are_followed() {
    let server = DnsServer::start(alias_chain);
    let fixture = Fixture::of(&server);
    let whole = fixture.resolve("whole.example");
    assert_eq!(addresses(&whole, Ipv4), ["192.0.2.9"]);
    assert_eq!(whole[&Ipv4].as_ref().expect("addresses").ttl_seconds, 20, "the shortest of all");
    let parts = fixture.resolve("parts.example");
    assert_eq!(addresses(&parts, Ipv4), ["192.0.2.8"]);
    assert_eq!(addresses(&parts, Ipv6), ["2001:db8::8"]);
    assert_eq!(message(&fixture.resolve("dead.example"), Ipv4), no_such_name("dead.example"));
}

#[test]
fn loops_of_aliases_end() {
    let server = DnsServer::start(alias_chain);
    let fixture = Fixture::of(&server);
    for name in ["loop.example", "self.example", "long-1.example"] {
        let answers = fixture.resolve(name);
        let is_error = |family| answers[&family].is_err();
        assert!(is_error(Ipv4) && is_error(Ipv6), "{answers:?}");
    }
    assert!(server.questions().len() < 100, "{} questions", server.questions().len());
}

/// Datagrams that are no response to the question are ignored; the right one counts.
#[test]
fn garbage_before_the_response_is_ignored() {
    let server = DnsServer::start(|question| {
        let right = Message {
            answers: vec![Record::address(
                &question.name,
                60,
                if question.kind == A { "192.0.2.1" } else { "2001:db8::1" },
            )],
            ..Message::default()
        };
        let other_id = Question { id: !question.id, ..question.clone() };
        let other_name = Question { name: "other.example".to_owned(), ..question.clone() };
        let forged = Message {
            answers: vec![Record::address("other.example", 60, "203.0.113.1")],
            ..Message::default()
        };
        Response::Raw(vec![
            Vec::new(),
            vec![0],
            forged.encode(&other_id),
            forged.encode(&other_name),
            right.encode(question),
        ])
    });
    let answers = Fixture::of(&server).resolve("a.example");
    assert_eq!(addresses(&answers, Ipv4), ["192.0.2.1"]);
    assert_eq!(addresses(&answers, Ipv6), ["2001:db8::1"]);
}

#[test]
fn garbage_with_the_right_id_is_an_error() {
    let server = DnsServer::start(|question| {
        let mut bytes = question.id.to_be_bytes().to_vec();
        bytes.extend([0xff; 40]);
        Response::Raw(vec![bytes])
    });
    let fixture = Fixture::with(&[server.address], "", "", |settings| settings.timeout_ms = 2000);
    let answers = fixture.resolve("a.example");
    assert!(answers.values().all(Result::is_err), "{answers:?}");
}

/// RFC 6761 §6.3: no question for `localhost` leaves the machine.
#[test]
fn localhost_is_the_loopback_address() {
    let server = dual_stack(60);
    let fixture = Fixture::new(&[server.address], "", "10.0.0.1 localhost");
    for name in ["localhost", "LocalHost.", "a.b.localhost"] {
        let answers = fixture.resolve(name);
        assert_eq!(addresses(&answers, Ipv4), ["127.0.0.1"], "{name}");
        assert_eq!(addresses(&answers, Ipv6), ["::1"], "{name}");
    }
    assert_eq!(server.questions(), [""; 0]);
}

#[test]
fn the_hosts_file_comes_first() {
    let server = dual_stack(60);
    let hosts = "10.0.0.1 db.internal db\nfd00::1 db.internal\n10.0.0.2 db.internal";
    let fixture = Fixture::new(&[server.address], "", hosts);
    let answers = fixture.resolve("DB.internal");
    assert_eq!(addresses(&answers, Ipv4), ["10.0.0.1", "10.0.0.2"]);
    assert_eq!(addresses(&answers, Ipv6), ["fd00::1"]);
    let answers = fixture.resolve("db");
    assert_eq!(addresses(&answers, Ipv4), ["10.0.0.1"]);
    assert_eq!(message(&answers, Ipv6), "the name db has no IPv6 address");
    assert_eq!(server.questions(), [""; 0]);
}

#[test]
fn changed_files_are_read_again() {
    let server = dual_stack(300);
    let no_wait = |settings: &mut ResolverSettings| settings.config_check_ms = 0;
    let fixture = Fixture::with(&[server.address], "", "10.0.0.1 db.internal", no_wait);
    assert_eq!(addresses(&fixture.resolve("db.internal"), Ipv4), ["10.0.0.1"]);
    fixture.folder.write("hosts", "10.0.0.2 db.internal");
    assert_eq!(addresses(&fixture.resolve("db.internal"), Ipv4), ["10.0.0.2"]);
    fixture.folder.write("resolv.conf", "options no-aaaa");
    assert_eq!(
        message(&fixture.resolve("a.example"), Ipv6),
        "the name a.example has no IPv6 address"
    );
    assert_eq!(server.questions(), ["A a.example udp"]);
}

/// resolv.conf(5): `search` and `ndots`.
#[test]
fn the_search_list_completes_names() {
    let server = DnsServer::start(|question| match question.name.as_str() {
        "db.b.example" => Message::addresses(question, 60, &["192.0.2.1"]),
        "empty.a.example" => Message::absent(NO_ERROR, 60),
        _ => Message::absent(NAME_ERROR, 60),
    });
    let fixture = Fixture::new(&[server.address], "search a.example b.example", "");
    assert_eq!(addresses(&fixture.resolve("db"), Ipv4), ["192.0.2.1"]);
    let asked: Vec<String> =
        server.questions().into_iter().filter(|q| q.starts_with("A ")).collect();
    assert_eq!(asked, ["A db.a.example udp", "A db.b.example udp"], "and not the name alone");
    assert_eq!(message(&fixture.resolve("db."), Ipv4), no_such_name("db"));
    assert_eq!(message(&fixture.resolve("x.y"), Ipv4), no_such_name("x.y"));
    let empty = "the name empty has no IPv4 address";
    assert_eq!(message(&fixture.resolve("empty"), Ipv4), empty);
}

/// A candidate that cannot be resolved is not skipped: the next one may be another host.
#[test]
fn a_failure_ends_the_search() {
    let server = DnsServer::start(|question| match question.name.as_str() {
        "db.a.example" => Message::error(SERVER_FAILURE),
        _ => Message::addresses(question, 60, &["203.0.113.1"]),
    });
    let fixture = Fixture::new(&[server.address], "search a.example b.example", "");
    let expected = "the name server cannot resolve db: Server Failure";
    assert_eq!(message(&fixture.resolve("db"), Ipv4), expected);
}

#[test]
fn callers_of_the_same_name_share_its_lookup() {
    let (server, gate) = gated();
    let fixture = Fixture::of(&server);
    let receivers: Vec<_> = (0..1000).map(|_| fixture.begin("a.example")).collect();
    gate.open();
    for receiver in &receivers {
        assert_eq!(addresses(&wait(receiver), Ipv6), ["2001:db8::1"]);
    }
    let mut questions = server.questions();
    // A query may be sent again before it has a response, but not once for each caller.
    questions.dedup();
    assert_eq!(questions, ["A a.example udp", "AAAA a.example udp"]);
}

#[test]
fn too_many_names_at_once_are_refused() {
    let (server, gate) = gated();
    let few = |settings: &mut ResolverSettings| settings.lookups_max = 100;
    let fixture = Fixture::with(&[server.address], "", "", few);
    let names: Vec<String> = (0..101).map(|n| format!("n{n}.example")).collect();
    let receivers: Vec<_> = names.iter().map(|name| fixture.begin(name)).collect();
    let refused = "too many names are being looked up (at most 100); try again later";
    let last = wait(&receivers[100]);
    assert_eq!((message(&last, Ipv4), message(&last, Ipv6)), (refused.into(), refused.into()));
    let joined = fixture.begin("n0.example");
    gate.open();
    for receiver in receivers[..100].iter().chain([&joined]) {
        assert_eq!(addresses(&wait(receiver), Ipv4), ["192.0.2.1"]);
    }
    assert_eq!(addresses(&fixture.resolve("n100.example"), Ipv4), ["192.0.2.1"], "room again");
}

#[test]
fn callers_are_notified_of_the_end_of_the_resolver() {
    let (server, _gate) = gated();
    let fixture = Fixture::of(&server);
    let receiver = fixture.begin("a.example");
    drop(fixture);
    let answers = wait(&receiver);
    assert_eq!(message(&answers, Ipv4), "the lookup of a.example was stopped");
    assert_eq!(message(&answers, Ipv6), "the lookup of a.example was stopped");
}

#[test]
fn a_callback_may_panic_and_may_resolve_again() {
    let server = dual_stack(0);
    let fixture = Fixture::of(&server);
    let name = HostName::parse("a.example").expect("a name");
    fixture.resolver.resolve(&name, Box::new(|_, _| panic!("on purpose")));
    let (sender, receiver) = channel();
    let resolver = fixture.resolver.clone();
    let other = HostName::parse("b.example").expect("a name");
    let callback = move |_, _| {
        let sender = sender.clone();
        let inner = move |family, result| sender.send((family, result)).expect("a receiver");
        resolver.resolve(&other, Box::new(inner));
    };
    fixture.resolver.resolve(&name, Box::new(callback));
    let results: Vec<_> = receiver.iter().collect();
    assert_eq!(results.len(), 4, "two callbacks, each with two families");
    assert!(results.iter().all(|(_, result)| result.is_ok()), "{results:?}");
    assert_eq!(addresses(&fixture.resolve("a.example"), Ipv4).len(), 2);
}

/// The files of this system can be read, with any content.
#[test]
fn the_files_of_the_system_are_read() {
    let settings = ResolverSettings::default();
    assert_eq!(settings.resolv_conf, Path::new("/etc/resolv.conf"));
    let server = dual_stack(60);
    let fixture = Fixture::with(&[server.address], "", "", |changed| {
        (changed.resolv_conf, changed.hosts) = (settings.resolv_conf, settings.hosts);
    });
    assert_eq!(addresses(&fixture.resolve("a.example."), Ipv4), ["192.0.2.1", "192.0.2.2"]);
}
