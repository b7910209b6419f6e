//! `cargo xtask needs`: installs the programs and files of other projects that the tests use.
//!
//! Packages come from Debian, PyPI, npm and the Go module proxy, crates from their registry. The
//! time of each is printed apart: it depends on the network and not on this project.

use crate::debian_packages::{self, Need, Proof};
use crate::step_times::Times;
use crate::{cargo_programs, go_programs, node_packages, process, python_packages, redis_tests};
use anyhow::Result;

/// Packages of Debian.
const DEBIAN: &[Need] = &[
    Need { package: "bsdutils", proof: Proof::Program("script") },
    Need { package: "caddy", proof: Proof::Program("caddy") },
    Need { package: "chromium", proof: Proof::Program("chromium") },
    Need { package: "curl", proof: Proof::Program("curl") },
    Need { package: "fcgiwrap", proof: Proof::Program("fcgiwrap") },
    Need { package: "fish", proof: Proof::Program("fish") },
    Need { package: "git", proof: Proof::File("/usr/lib/git-core/git-http-backend") },
    Need { package: "golang-go", proof: Proof::Program("go") },
    Need { package: "h2o", proof: Proof::Program("h2o") },
    Need { package: "haproxy", proof: Proof::File("/usr/sbin/haproxy") },
    Need {
        package: "libnginx-mod-stream",
        proof: Proof::File("/usr/lib/nginx/modules/ngx_stream_module.so"),
    },
    Need { package: "logrotate", proof: Proof::Program("logrotate") },
    Need { package: "man-db", proof: Proof::Program("man") },
    Need { package: "nghttp2-client", proof: Proof::Program("h2load") },
    Need { package: "nginx-light", proof: Proof::File("/usr/sbin/nginx") },
    Need { package: "nodejs", proof: Proof::Program("node") },
    Need { package: "npm", proof: Proof::Program("npm") },
    Need { package: "openssh-client", proof: Proof::Program("ssh") },
    Need { package: "openssh-server", proof: Proof::File("/usr/sbin/sshd") },
    Need { package: "openssl", proof: Proof::Program("openssl") },
    Need { package: "php8.2-fpm", proof: Proof::File("/usr/sbin/php-fpm8.2") },
    Need {
        package: "php8.2-sqlite3",
        proof: Proof::File("/usr/share/php8.2-sqlite3/sqlite3/pdo_sqlite.ini"),
    },
    Need { package: "pypy3", proof: Proof::Program("pypy3") },
    // Debian packs the module apart from Python itself.
    Need { package: "python3-venv", proof: Proof::Module("ensurepip") },
    Need {
        package: "python3.11-doc",
        proof: Proof::File("/usr/share/doc/python3.11/html/index.html"),
    },
    Need { package: "redis-server", proof: Proof::Program("redis-server") },
    Need { package: "redis-tools", proof: Proof::Program("redis-cli") },
    Need { package: "slowhttptest", proof: Proof::Program("slowhttptest") },
    Need { package: "strace", proof: Proof::Program("strace") },
    Need { package: "systemd", proof: Proof::Program("systemd-analyze") },
    Need { package: "tcl", proof: Proof::Program("tclsh") },
    Need { package: "testssl.sh", proof: Proof::Program("testssl") },
    Need { package: "valgrind", proof: Proof::Program("valgrind") },
    Need { package: "wget", proof: Proof::Program("wget") },
    Need { package: "zsh", proof: Proof::Program("zsh") },
];

/// Installs the missing programs and packages, and prints the duration of each part.
pub(crate) fn run() -> Result<()> {
    let mut times = Times::default();
    times.measure("packages", packages)?;
    times.measure("crates", registry)?;
    print!("{}", times.table());
    Ok(())
}

fn packages() -> Result<()> {
    debian_packages::install(DEBIAN)?;
    python_packages::install()?;
    node_packages::install()?;
    go_programs::install()?;
    redis_tests::install()
}

/// Fetches the crates of the workspace, and builds the programs of others that the tests run.
fn registry() -> Result<()> {
    process::run(&mut process::cargo(&["fetch", "--locked", "--quiet"]))?;
    cargo_programs::install()
}
