//! Tests of TLS settings, which are made only when they are needed.

use super::*;
use crate::client_tls::ServerTrust;
use crate::lazy_client_tls::LazyClientTls;

#[test]
fn tls_settings_are_created_only_for_https() {
    let pin = "0".repeat(64).parse().expect("a pin");
    let made = || Arc::new(LazyClientTls::new(ServerTrust::Pins(vec![pin]), &[b"http/1.1"]));
    let mut run = Run::new(4);
    let tls = made();
    let id = run.start(ClientRequest { tls: Some(Arc::clone(&tls)), ..get(URL) });
    let (server, _) = run.accept();
    run.respond(server, &redirect_to("/other"));
    run.respond(server, OK);
    assert_eq!(run.read_all(id), (b"ok".to_vec(), ReadOutcome::End));
    assert!(!tls.is_made());
    let redirected = run.start(ClientRequest { tls: Some(Arc::clone(&tls)), ..get(URL) });
    run.respond(server, &redirect_to("https://192.0.2.1/"));
    assert!(run.network.next_opened().is_some() && tls.is_made(), "a redirect leads to https");
    let tls = made();
    let url = "https://192.0.2.1/";
    let direct = run.start(ClientRequest { tls: Some(Arc::clone(&tls)), ..get(url) });
    assert!(tls.is_made());
    run.end(&[id, redirected, direct]);
}

/// The error is that of the settings, and comes without a connection.
#[test]
fn invalid_tls_settings_are_an_error_only_for_https() {
    let broken = Arc::new(LazyClientTls::new(ServerTrust::Pins(Vec::new()), &[]));
    let mut run = Run::new(4);
    let tls = Some(Arc::clone(&broken));
    let request = ClientRequest { tls: tls.clone(), ..get("https://192.0.2.1/") };
    let now_ms = run.now_ms();
    let error = run.client().start(request, now_ms).expect_err("no settings");
    assert!(error.to_string().contains("list of pins is empty"), "{error}");
    let id = run.start(ClientRequest { tls, ..get(URL) });
    let (server, _) = run.accept();
    run.respond(server, &redirect_to("https://192.0.2.1/"));
    let error = run.error(id).expect("an error");
    assert!(error.contains("list of pins is empty"), "{error}");
    assert!(run.network.next_opened().is_none());
    run.end(&[id]);
}
