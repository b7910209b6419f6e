//! Scanners that know what is wrong with TLS of others: testssl.sh and sslyze. They take minutes,
//! so they run with `long` alone.
#![forbid(unsafe_code)]

use pinion_tests::folder::Folder;
use pinion_tests::peers::{output_within, program, python_program};
use pinion_tests::server::{Server, Start};
use pinion_tests::tls::Pair;
use serde_json::Value;
use std::fs;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(500);

fn serve(files: &Folder) -> Server {
    let pair = Pair::new(files, "a", &["localhost"]);
    files.write("site/index.html", "home");
    Start::site(&files.join("site")).tls(&pair).flags(&["--hsts", "1y"]).start()
}

/// What testssl.sh finds in a certificate that a test made for itself: nobody vouches for it, it is
/// short-lived, and nobody can revoke it.
const OF_THE_CERTIFICATE: &[&str] = &["cert", "OCSP", "DNS_CAArecord", "trust", "certs_"];

#[test]
fn testssl_finds_nothing_above_low() {
    let files = Folder::new("testssl");
    let server = serve(&files);
    let told = files.join("told.json");
    let mut testssl = program("testssl", "testssl.sh");
    testssl.args(["--quiet", "--color", "0", "--warnings", "batch", "--ip", "127.0.0.1"]);
    testssl.arg("--jsonfile").arg(&told);
    let address = server.address_of("https");
    let output = output_within(testssl.arg(format!("localhost:{}", address.port())), PATIENCE);
    let text = fs::read_to_string(&told).unwrap_or_else(|error| panic!("{error}: {output:?}"));
    let findings: Vec<Value> = serde_json::from_str(&text).expect("JSON");
    assert!(findings.len() > 100, "{} findings: {text}", findings.len());
    let is_ours = |finding: &&Value| {
        let id = finding["id"].as_str().unwrap_or_default();
        !OF_THE_CERTIFICATE.iter().any(|known| id.contains(known))
    };
    let is_bad = |finding: &&Value| {
        matches!(finding["severity"].as_str(), Some("MEDIUM" | "HIGH" | "CRITICAL" | "FATAL"))
    };
    let bad: Vec<_> = findings.iter().filter(is_ours).filter(is_bad).collect();
    assert!(bad.is_empty(), "{bad:#?}");
    // No suite is weak, and each has forward secrecy.
    for weak in ["NULL", "aNULL", "EXPORT", "LOW", "3DES_IDEA", "AVERAGE"] {
        let id = format!("cipherlist_{weak}");
        let found = findings.iter().find(|finding| finding["id"] == id.as_str());
        let severity = found.map(|finding| &finding["severity"]);
        assert!(severity.is_some_and(|severity| severity != "LOW"), "{id}: {found:?}");
    }
    server.stop();
}

/// What sslyze looks at when it is not asked to compare with what Mozilla calls good.
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

/// sslyze tries what is known to have been wrong with others.
#[test]
fn sslyze_finds_nothing() {
    let files = Folder::new("sslyze");
    let server = serve(&files);
    let address = server.address_of("https");
    let told = files.join("told.json");
    let mut sslyze = python_program("sslyze");
    sslyze.arg("--json_out").arg(&told).arg("--mozilla_config=disable").args(SCANS);
    let output = output_within(sslyze.arg(format!("localhost:{}", address.port())), PATIENCE);
    let text = fs::read_to_string(&told).unwrap_or_else(|error| panic!("{error}: {output:?}"));
    let report: Value = serde_json::from_str(&text).expect("JSON");
    let result = &report["server_scan_results"][0]["scan_result"];
    let of = |scan: &str| &result[scan]["result"];
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
