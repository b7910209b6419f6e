//! The applications of docs/recipes/applications.md, with one site in front of them as on the page.

use crate::lua_fetch::Running;
use pinion_tests::binary::source_root;
#[cfg(feature = "long")]
use pinion_tests::external_programs::build_go;
use pinion_tests::external_programs::program;
use pinion_tests::request::Request;
use pinion_tests::server::{Server, Start};
use pinion_tests::temporary_folder::Folder;
use pinion_tests::wait_for;
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};

/// Returns the page.
fn page() -> String {
    let path = source_root().join("docs/recipes/applications.md");
    std::fs::read_to_string(path).expect("the page")
}

/// Returns the first block of the page in a language.
fn block(page: &str, language: &str) -> String {
    let (_, rest) = page.split_once(&format!("```{language}\n")).expect("a block");
    rest.split_once("\n```").expect("its end").0.to_owned() + "\n"
}

/// Returns a port that is free, which programs cannot choose themselves.
fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("its address").port()
}

/// Starts an application, and waits until it listens.
fn start(mut command: Command, port: u16) -> Running {
    command.arg(port.to_string()).stdout(Stdio::null()).stderr(Stdio::null());
    let running = Running::start(&mut command);
    wait_for("the application", || TcpStream::connect(("127.0.0.1", port)).ok());
    running
}

/// Returns a server with the mounts of the page; each application listens at one of these ports.
fn serve(folder: &Folder, page: &str, ports: [(&str, u16); 3]) -> Server {
    let configuration = block(page, "toml");
    let (sites, _programs) = configuration.split_once("[[program]]").expect("programs");
    let sites = ports
        .iter()
        .fold(sites.to_owned(), |sites, (written, port)| sites.replace(written, &port.to_string()));
    folder.write("pinion.toml", sites);
    Start::site(&folder.join("pinion.toml")).start()
}

#[test]
fn applications_in_node_and_python_respond() {
    let page = page();
    let folder = Folder::with("applications", [("public/index.html", "home")]);
    folder.write("app.mjs", block(&page, "js"));
    folder.write("app.py", block(&page, "python"));
    let ports = [("3001", free_port()), ("3002", free_port()), ("3003", free_port())];
    let mut node = program("node", "nodejs");
    node.arg(folder.join("app.mjs"));
    let _node = start(node, ports[0].1);
    let mut python = program("python3", "python3");
    python.arg(folder.join("app.py"));
    let _python = start(python, ports[1].1);
    let server = serve(&folder, &page, ports);
    assert_eq!(server.get("/").text(), "home");
    assert_eq!(server.get("/node/hello?a").text(), "node /hello?a for 127.0.0.1\n");
    assert_eq!(server.get("/node").text(), "node / for 127.0.0.1\n");
    assert_eq!(server.get("/python/hello").text(), "python /hello for 127.0.0.1\n");
    // Its content is stored first.
    let upload = Request::new("POST", "/python/up").chunked(&[b'x'; 200_000], 10_000);
    assert_eq!(server.exchange(&upload).text(), "python /up for 127.0.0.1\n");
    assert_eq!(server.get("/go/hello").status, 502, "it does not run");
    server.stop();
}

/// The application is compiled first: feature `long`.
#[cfg(feature = "long")]
#[test]
fn an_application_in_go_responds() {
    let page = page();
    let folder = Folder::with("applications-go", [("public/index.html", "home")]);
    folder.write("app.go", block(&page, "go"));
    build_go(folder.path(), "app.go", "app");
    let ports = [("3001", free_port()), ("3002", free_port()), ("3003", free_port())];
    let _go = start(Command::new(folder.join("app")), ports[2].1);
    let server = serve(&folder, &page, ports);
    assert_eq!(server.get("/go/hello").text(), "go /hello for 127.0.0.1\n");
    let response = server.get("/go/old");
    assert_eq!((response.status, response.field("Location")), (302, Some("/go/new")));
    server.stop();
}
