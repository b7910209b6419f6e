//! Scanners that search for problems of TLS: testssl.sh and sslyze.

use pinion_tests::external_programs::{output_within, program, python_program};
use pinion_tests::server::{Server, Start};
use pinion_tests::temporary_folder::Folder;
use pinion_tests::tls_certificates::{KEYS, Pair};
use serde_json::Value;
use std::fs;
use std::time::Duration;

/// testssl.sh takes a minute on an idle machine.
const PATIENCE: Duration = Duration::from_secs(if cfg!(feature = "long") { 3000 } else { 500 });

const P256: &[&str] = KEYS[0];
const RSA_2048: &[&str] = KEYS[4];

fn serve(files: &Folder, key: &[&str]) -> Server {
    let pair = Pair::with_key(files, "a", &["localhost"], key);
    files.write("site/index.html", "home");
    Start::site(&files.join("site")).tls(&pair).flags(&["--hsts", "1y"]).start()
}

/// Findings of testssl.sh about a self-signed certificate of a test: no authority has signed it,
/// its lifetime is short, and it cannot be revoked.
const OF_THE_CERTIFICATE: &[&str] =
    &["cert_chain_of_trust", "cert_expirationStatus", "cert_notAfter", "cert_revocation"];

/// Checks that testssl.sh cannot make, with the reasons why they are not needed.
const NOT_LOOKED_AT: &[&str] = &[
    // GOST suites are missing in Debian's openssl; rustls has none either.
    "engine_problem",
    // The scanner leaves before the tickets of TLS 1.3 arrive, and finds none. `tls_negotiation.rs`
    // waits for them.
    "sessionresumption_ticket",
];

/// Protocols, suites, forward secrecy, the certificate, headers and vulnerabilities.
#[cfg(not(feature = "long"))]
const CHECKS: &[&str] =
    &["--protocols", "--std", "--fs", "--server-defaults", "--headers", "--vulnerable"];
/// All checks: these, the order of preference, and simulated clients, whose findings are only
/// informative.
#[cfg(feature = "long")]
const CHECKS: &[&str] = &[];

/// A run with fewer findings has not made all checks.
const FINDINGS_MIN: usize = if cfg!(feature = "long") { 100 } else { 80 };

#[test]
fn testssl_finds_nothing_above_low() {
    let keys = if cfg!(feature = "long") { &[P256, RSA_2048][..] } else { &[P256] };
    keys.iter().for_each(|key| testssl_has_nothing_to_say(key));
}

#[track_caller]
fn testssl_has_nothing_to_say(key: &[&str]) {
    let files = Folder::new("testssl");
    let server = serve(&files, key);
    let report_path = files.join("report.json");
    let mut testssl = program("testssl", "testssl.sh");
    testssl.args(["--quiet", "--color", "0", "--warnings", "batch", "--ip", "127.0.0.1"]);
    testssl.arg("--jsonfile").arg(&report_path).args(CHECKS);
    let address = server.address_of("https");
    let output = output_within(testssl.arg(format!("localhost:{}", address.port())), PATIENCE);
    let text =
        fs::read_to_string(&report_path).unwrap_or_else(|error| panic!("{error}: {output:?}"));
    let findings: Vec<Value> = serde_json::from_str(&text).expect("JSON");
    assert!(findings.len() > FINDINGS_MIN, "{} findings: {text}", findings.len());
    let is_bad = |finding: &&Value| {
        let id = finding["id"].as_str().unwrap_or_default();
        match finding["severity"].as_str().unwrap_or_default() {
            "OK" | "INFO" | "LOW" => false,
            "WARN" => !NOT_LOOKED_AT.contains(&id),
            _ => !OF_THE_CERTIFICATE.contains(&id),
        }
    };
    let bad: Vec<_> = findings.iter().filter(is_bad).collect();
    assert!(bad.is_empty(), "{key:?}: {bad:#?}");
    let severity = |id: &str| {
        let found = findings.iter().find(|finding| finding["id"] == id);
        found.and_then(|finding| finding["severity"].as_str())
    };
    // Checks with a good result were really made.
    for id in ["cert_keySize", "cert_signatureAlgorithm", "cert_trust", "PFS", "heartbleed"] {
        assert!(matches!(severity(id), Some("OK" | "INFO")), "{key:?}, {id}: {:?}", severity(id));
    }
    // No suite is weak, and each has forward secrecy.
    for weak in ["NULL", "aNULL", "EXPORT", "LOW", "3DES_IDEA", "AVERAGE"] {
        let id = format!("cipherlist_{weak}");
        let found = severity(&id);
        assert!(found.is_some_and(|severity| severity != "LOW"), "{key:?}, {id}: {found:?}");
    }
    server.stop();
}

/// The checks of sslyze without its comparison with the recommendations of Mozilla.
const SCANS: &[&str] = &[
    "--sslv2",
    "--sslv3",
    "--tlsv1",
    "--tlsv1_1",
    "--tlsv1_2",
    "--tlsv1_3",
    "--heartbleed",
    "--openssl_ccs",
    "--compression",
    "--reneg",
    "--robot",
];

/// sslyze checks for known vulnerabilities of other servers.
#[test]
fn sslyze_finds_nothing() {
    [P256, RSA_2048].iter().for_each(|key| sslyze_has_nothing_to_say(key));
}

#[track_caller]
fn sslyze_has_nothing_to_say(key: &[&str]) {
    let files = Folder::new("sslyze");
    let server = serve(&files, key);
    let address = server.address_of("https");
    let report_path = files.join("report.json");
    let mut sslyze = python_program("sslyze");
    sslyze.arg("--json_out").arg(&report_path).arg("--mozilla_config=disable").args(SCANS);
    let output = output_within(sslyze.arg(format!("localhost:{}", address.port())), PATIENCE);
    let text =
        fs::read_to_string(&report_path).unwrap_or_else(|error| panic!("{error}: {output:?}"));
    let report: Value = serde_json::from_str(&text).expect("JSON");
    let result = &report["server_scan_results"][0]["scan_result"];
    let of = |scan: &str| {
        assert_eq!(result[scan]["status"].as_str(), Some("COMPLETED"), "{scan}: {}", result[scan]);
        &result[scan]["result"]
    };
    for old in ["ssl_2_0", "ssl_3_0", "tls_1_0", "tls_1_1"] {
        let accepted = of(&format!("{old}_cipher_suites"))["accepted_cipher_suites"].as_array();
        assert_eq!(accepted.map(Vec::len), Some(0), "{old}");
    }
    for new in ["tls_1_2", "tls_1_3"] {
        let accepted = of(&format!("{new}_cipher_suites"))["accepted_cipher_suites"].as_array();
        assert!(accepted.is_some_and(|accepted| !accepted.is_empty()), "{new}");
    }
    for (scan, field, right) in [
        ("heartbleed", "is_vulnerable_to_heartbleed", false),
        ("openssl_ccs_injection", "is_vulnerable_to_ccs_injection", false),
        ("tls_compression", "supports_compression", false),
        ("session_renegotiation", "is_vulnerable_to_client_renegotiation_dos", false),
        ("session_renegotiation", "supports_secure_renegotiation", true),
    ] {
        assert_eq!(of(scan)[field].as_bool(), Some(right), "{scan} {field}: {}", of(scan));
    }
    let robot = of("robot")["robot_result"].as_str().unwrap_or_default();
    assert!(robot.starts_with("NOT_VULNERABLE"), "{robot}");
    server.stop();
}
