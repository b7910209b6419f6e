//! The cost of a response by Lua: the part of the table of scenarios for scripts.

use super::compared_servers::{Content, Program};
use super::scenario::{Ask, BARE, Case, PINION, Scenario, cpu, cpu_without_goal, scenario};
use super::served_content::ROWS_BYTES;

/// Returns the scenarios in the order of the report.
pub(crate) fn all(seconds: u32) -> Vec<Scenario> {
    vec![hello(seconds), template(seconds)]
}

/// Returns a case that runs a script.
pub(crate) fn scripted(label: String, program: Program, content: Content, ask: Ask) -> Case {
    let mut case = Case::new(label, program, ask);
    case.setup.content = content;
    case
}

/// Returns the request for a server that greets by name.
pub(crate) fn greeting(program: Program) -> Ask {
    let path = if program == Program::Eighties { "/echo?name=you" } else { "/hello/you" };
    Ask { keeps: true, ..Ask::new(path) }
}

fn label(program: Program, variant: &str) -> String {
    format!("{}, {variant}", program.name())
}

/// Returns a scenario of a handler that greets, compared with a file and with handlers of other
/// servers.
fn hello(seconds: u32) -> Scenario {
    let (mut cases, mut comparisons) = (Vec::new(), Vec::new());
    let peers = [Program::Nginx, Program::Eighties];
    for program in PINION {
        let file = Ask { keeps: true, ..Ask::new("/hello.txt") };
        cases.push(Case::new(label(*program, "file"), *program, file));
    }
    for program in PINION.iter().chain(&peers).copied() {
        let (label, ask) = (label(program, "Lua"), greeting(program));
        cases.push(scripted(label, program, Content::Script, ask));
    }
    for &program in BARE {
        let loop_alone = program.name().to_owned();
        cases.push(Case::new(loop_alone.clone(), program, greeting(program)));
        comparisons.push(cpu_without_goal(loop_alone, label(Program::Nginx, "Lua")));
    }
    for program in PINION.iter().copied() {
        comparisons.push(cpu(label(program, "Lua"), label(program, "file"), 1.15));
        for peer in peers {
            comparisons.push(cpu(label(program, "Lua"), label(peer, "Lua"), 0.75));
        }
    }
    scenario(
        "lua-hello",
        "A handler in Lua that answers `Hi, NAME!`, beside a small file and beside the same by \
         others with LuaJIT.",
        seconds,
        cases,
        comparisons,
    )
}

/// Returns a scenario of a page of a template, compared with the same page as a file.
fn template(seconds: u32) -> Scenario {
    let (mut cases, mut comparisons) = (Vec::new(), Vec::new());
    for program in PINION.iter().copied() {
        for (variant, path) in
            [("file", "/plain"), ("template", "/rows?name=you"), ("new texts", "/names")]
        {
            let ask = Ask { body_bytes: Some(ROWS_BYTES as u64), ..Ask::new(path) };
            cases.push(scripted(label(program, variant), program, Content::Pages, ask));
        }
        for variant in ["template", "new texts"] {
            comparisons.push(cpu(label(program, variant), label(program, "file"), 3.0));
        }
    }
    scenario(
        "lua-template",
        "A page of 16 KiB from a template with 200 values in it, all of them one text or 200 \
         others for each request, beside the same page as a file.",
        seconds,
        cases,
        comparisons,
    )
}
