//! The outputs of commands that documents show, compared with the real ones.

use pinion_tests::document_blocks::fenced_commands;

/// Some blocks of a document, up to one with the output of the last of them, or to the end.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) commands: Vec<String>,
    pub(crate) shown: Option<Shown>,
}

/// The output of the block of commands right before it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Shown {
    /// The number of commands of that block that send requests; their responses are shown as one
    /// text.
    pub(crate) responses: usize,
    pub(crate) text: String,
}

/// The end of a block, and a block of text with nothing else between the two.
const BEHIND: &str = "\n```\n\n```text\n";

/// Cuts a document after every block of output. Only responses of servers are compared: other
/// outputs have times, sizes and digests that differ for each reader.
pub(crate) fn parts(document: &str) -> Vec<Part> {
    let (mut parts, mut rest) = (Vec::new(), document);
    while let Some(at) = rest.find(BEHIND) {
        let (before, behind) = (&rest[..at], &rest[at + BEHIND.len()..]);
        let end = behind.find("\n```").expect("a block has an end");
        let last = before.rfind("\n```").expect("a block has a beginning");
        let last = fenced_commands(&format!("{}\n```\n", &before[last..]));
        let shows = last.last().is_some_and(|command| is_curl(command));
        let shown = shows.then(|| Shown {
            responses: last.iter().filter(|command| is_curl(command)).count(),
            text: behind[..end].to_owned(),
        });
        parts.push(Part { commands: fenced_commands(&format!("{before}\n```\n")), shown });
        rest = &behind[end + "\n```".len()..];
    }
    parts.push(Part { commands: fenced_commands(rest), shown: None });
    parts
}

fn is_curl(command: &str) -> bool {
    command.starts_with("curl ")
}

#[test]
fn text_after_commands_is_checked_as_their_response() {
    let sh = |commands: &str| format!("\n```sh\n{commands}\n```\n");
    let text = |text: &str| format!("\n```text\n{text}\n```\n");
    let document = [
        &sh("pinion serve public\ncurl http://a/\ncurl http://b/ # a remark"),
        &text("one\n\ntwo"),
        &sh("pinion releases live"),
        &text("a date"),
        &sh("curl http://c/"),
        "This is another thing:\n",
        &text("no output"),
        &sh("cargo xtask tidy"),
    ];
    let found = parts(&document.concat());
    let commands: Vec<_> = found.iter().map(|part| part.commands.join("; ")).collect();
    let first = "pinion serve public; curl http://a/; curl http://b/";
    assert_eq!(commands, [first, "pinion releases live", "curl http://c/; cargo xtask tidy"]);
    let shown: Vec<_> = found.into_iter().map(|part| part.shown).collect();
    let output = Shown { responses: 2, text: "one\n\ntwo".to_owned() };
    assert_eq!(shown, [Some(output), None, None]);
}
