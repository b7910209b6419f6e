//! A page of the store, compared with a file of nginx and a file of Pinion.

use crate::bench::figure_table::{self, Figure};
use crate::bench::load::compared_servers::Workshop;
use crate::bench::load::measured_server::{self, SERVER_CORE, Server, on_core};
use crate::bench::load::wrk::{self, Load, Pattern};
use crate::bench::statistics::Spread;
use crate::process;
use crate::workspace_paths;
use anyhow::{Context, Result, ensure};
use serde_json::{Map, Value, json};
use std::fs;
use std::path::Path;

const ROUNDS: usize = 7;
const SECONDS: u32 = 2;
const CONNECTIONS: u32 = 100;
const PIPELINED: u32 = 16;
/// The page of nginx that shows that it works.
const PAGE_BYTES: usize = 615;
const LONG_PAGE_BYTES: usize = 16 * 1024;

/// The measured cases: a server, and the path on it.
const CASES: [(&str, usize, &str); 8] = [
    ("a file, nginx", 0, "/page.html"),
    ("a file, Pinion", 1, "/page.html"),
    ("a page of the store, Pinion", 1, "/live/page.html"),
    ("a file of 16 KiB, Pinion", 1, "/long.html"),
    ("a page of 16 KiB of the store, Pinion", 1, "/live/long.html"),
    (FRONT_PAGE, 2, "/"),
    ("the front page, rendered each time", 2, "/each"),
    (BARE, 3, "/"),
];

/// That of `examples/front-page`: 53 commands of the store if it is rendered.
const FRONT_PAGE: &str = "the front page of 16 KiB, Pinion";
const BARE: &str = "16 KiB, bare epoll";

/// Requests/s over those of another case, at least; CPU time over that of another case, at most.
const FASTER: [(&str, &str, f64); 2] =
    [("a page of the store, Pinion", "a file, nginx", 10.0), (FRONT_PAGE, "a file, nginx", 1.2)];
const CHEAPER: [(&str, &str, f64); 4] = [
    (FRONT_PAGE, BARE, 1.5),
    // Rendering is 30 % of it then.
    (FRONT_PAGE, "a file of 16 KiB, Pinion", 1.43),
    ("a page of the store, Pinion", "a file, Pinion", 1.2),
    ("a page of 16 KiB of the store, Pinion", "a file of 16 KiB, Pinion", 1.2),
];

struct Round {
    cpu_us: f64,
    per_second: f64,
}

/// Measures, and returns the report and the data.
pub(super) fn run(shop: &Workshop) -> Result<(String, Value)> {
    let turns = shop.turns(ROUNDS);
    let state = shop.file("store-pages");
    fs::create_dir_all(state.join("site"))?;
    let (page, long) = (text(PAGE_BYTES), text(LONG_PAGE_BYTES));
    fs::write(state.join("site/page.html"), &page)?;
    fs::write(state.join("site/long.html"), &long)?;
    let servers = [
        nginx(&state)?,
        pinion(shop, &state, [&page, &long])?,
        front_page(shop, &state)?,
        bare(shop, &state)?,
    ];
    let mut all: Vec<Vec<Round>> = CASES.iter().map(|_| Vec::new()).collect();
    for round in 0..=turns {
        for ((name, server, path), rounds) in CASES.iter().zip(&mut all) {
            let measured = load(&servers[*server], path)?;
            eprintln!("  {name} {round}/{turns}: {:.2} µs", measured.cpu_us);
            if round > 0 {
                rounds.push(measured);
            }
        }
    }
    report(&all)
}

fn report(all: &[Vec<Round>]) -> Result<(String, Value)> {
    let turns = all.first().map_or(0, Vec::len);
    let mut table = String::from("| Response | CPU, µs | Requests/s |\n|---|---|---|\n");
    let mut data = Map::new();
    let spread = |rounds: &[Round], of: fn(&Round) -> f64| {
        Spread::of(rounds.iter().map(of)).context("at least one round")
    };
    for ((name, ..), rounds) in CASES.iter().zip(all) {
        let cpu = spread(rounds, |round| round.cpu_us)?.shown(2);
        let per_second = spread(rounds, |round| round.per_second)?.shown(0);
        table += &format!("| {name} | {cpu} | {per_second} |\n");
        let of = |round: &Round| json!({"cpu_us": round.cpu_us, "per_second": round.per_second});
        data.insert((*name).to_owned(), rounds.iter().map(of).collect());
    }
    let of = |name: &str| {
        let at = CASES.iter().position(|(own, ..)| *own == name).context("the name of a case")?;
        Ok::<_, anyhow::Error>(&all[at])
    };
    let mut figures = Vec::new();
    for (own, other, goal) in FASTER {
        let pairs = of(own)?.iter().zip(of(other)?);
        let over = Spread::of(pairs.map(|(own, other)| own.per_second / other.per_second));
        let over = over.context("at least one round")?;
        let name = format!("{own}: requests/s over {other}");
        figures.push(Figure::spread(name, &over).at_least(goal));
    }
    for (own, other, goal) in CHEAPER {
        let pairs = of(own)?.iter().zip(of(other)?);
        let over = Spread::of(pairs.map(|(own, other)| own.cpu_us / other.cpu_us));
        let over = over.context("at least one round")?;
        figures.push(Figure::spread(format!("{own}: CPU over {other}"), &over).at_most(goal));
    }
    let report = format!(
        "Pages of {PAGE_BYTES} bytes and of 16 KiB, {CONNECTIONS} connections with {PIPELINED} \
         requests pipelined, {SECONDS} s for each load, {turns} rounds in turn. Each server has \
         one worker and one core.\n\n{table}\n{}",
        figure_table::table(&figures)
    );
    Ok((report, data.into()))
}

/// Returns a page of this many bytes.
fn text(bytes: usize) -> Vec<u8> {
    let lines = (0..).map(|line| format!("<p>This is line {line} of the page.</p>\n").into_bytes());
    lines.flatten().take(bytes).collect()
}

fn load(server: &Server, path: &str) -> Result<Round> {
    let load = Load {
        connections: CONNECTIONS,
        seconds: SECONDS,
        url: format!("http://{}{path}", server.address()),
        fields: Vec::new(),
        pattern: Pattern::Pipelined(PIPELINED),
    };
    let before = server.cpu()?;
    let measured = wrk::run(&load)?;
    let used = server.cpu()?.since(&before);
    ensure!(measured.requests > 0 && measured.refusals == 0, "{path}: {measured:?}");
    let cpu_us = used as f64 / 1e3 / measured.requests as f64;
    Ok(Round { cpu_us, per_second: measured.requests_per_second() })
}

fn pinion(shop: &Workshop, state: &Path, pages: [&[u8]; 2]) -> Result<Server> {
    let socket = state.join("store.sock");
    let server = Server::start(&state.join("pinion.log"), |port| {
        let file = state.join("pinion.toml");
        let text = format!(
            "[server]\ncontrol = \"off\"\nworkers = 1\n[[listen]]\naddress = \
             \"127.0.0.1:{port}\"\n[[listen]]\nstore = \"unix:{}\"\n[[site]]\npath = \
             \"{}\"\n[[site.mount]]\npath = \"/live\"\nstore = \"page:\"\n",
            socket.display(),
            state.join("site").display()
        );
        fs::write(&file, text)?;
        let mut command = on_core(SERVER_CORE, shop.pinion());
        command.arg("serve").arg(file);
        Ok(command)
    })?;
    let mut commands = Vec::new();
    for (name, page) in ["page:page.html", "page:long.html"].iter().zip(pages) {
        super::add_command(&mut commands, &[b"SET", name.as_bytes(), page]);
    }
    let mut stream = std::os::unix::net::UnixStream::connect(&socket)?;
    std::io::Write::write_all(&mut stream, &commands)?;
    let mut replies = [0; 10];
    std::io::Read::read_exact(&mut stream, &mut replies)?;
    ensure!(replies == *b"+OK\r\n+OK\r\n", "the pages are not stored");
    Ok(server)
}

/// Starts a server with the example, and with its page without the cached fragment.
fn front_page(shop: &Workshop, state: &Path) -> Result<Server> {
    const KEPT: &str = "fragment(\"front page\", ";
    const EACH_TIME: &str = "(function(_, render) render() end)(\"\", ";
    let example = workspace_paths::root().join("examples/front-page");
    let site = state.join("front-page");
    fs::create_dir_all(site.join("public_html"))?;
    fs::copy(example.join("main.lua"), site.join("main.lua"))?;
    let page = fs::read_to_string(example.join("public_html/index.dyn.html"))?;
    ensure!(page.contains(KEPT), "the example has another fragment");
    fs::write(site.join("public_html/each.dyn.html"), page.replace(KEPT, EACH_TIME))?;
    fs::write(site.join("public_html/index.dyn.html"), page)?;
    Server::start(&state.join("front-page.log"), |port| {
        let mut command = on_core(SERVER_CORE, shop.pinion());
        command.arg("serve").arg(site).args(["--workers", "1", "--control", "off"]);
        command.args(["--store-memory", "64", "--listen", &format!("127.0.0.1:{port}")]);
        Ok(command)
    })
}

fn bare(shop: &Workshop, state: &Path) -> Result<Server> {
    Server::start(&state.join("bare.log"), |port| {
        let mut command = on_core(SERVER_CORE, shop.file("epoll"));
        command.args([port.to_string(), LONG_PAGE_BYTES.to_string()]);
        Ok(command)
    })
}

fn nginx(state: &Path) -> Result<Server> {
    Server::start(&state.join("nginx.log"), |port| {
        let values = [
            ("PORT", port.to_string()),
            ("STATE", state.display().to_string()),
            ("ROOT", state.join("site").display().to_string()),
            ("TYPES", "/etc/nginx/mime.types".to_owned()),
        ];
        let template = measured_server::template("nginx.conf");
        let file = measured_server::configuration(&template, &values, state)?;
        let mut command = on_core(SERVER_CORE, process::find("nginx").context("nginx")?);
        command.arg("-e").arg(state.join("nginx.error")).arg("-p").arg(state).arg("-c").arg(file);
        Ok(command)
    })
}
