//! Random commands from tables.

use proptest::prelude::*;
use proptest::strategy::Union;

use crate::GROUPS;
use crate::command_table::{Comparison, Group, Part, Row};

/// All keys. They are few, so that commands meet values of other types too.
pub(crate) const KEYS: [&str; 5] = ["a", "b", "c", "d", "e"];

/// A command with its arguments.
#[derive(Clone)]
pub(crate) struct Request {
    pub(crate) arguments: Vec<Vec<u8>>,
    pub(crate) comparison: Comparison,
}

/// Requests of the group that is compared among 100.
const GROUP_PERCENT: u32 = 90;

/// Longer than the elements of compact values.
const LONG_TEXT: &str = "a-text-of-65-bytes-which-is-too-long-for-the-compact-form-of-any-";

/// Texts that are arguments of no command, or at the edge of a range.
const ODD_TEXTS: [&str; 26] = [
    "",
    "-1",
    "0",
    "9223372036854775807",
    "-9223372036854775808",
    "9223372036854775808",
    "18446744073709551616",
    "4294967296",
    "1.5",
    "-0",
    "nan",
    "inf",
    "-inf",
    " 1",
    "1 ",
    "+1",
    "01",
    "0x10",
    "1e3",
    "3.0e400",
    "\r\n\u{ff}",
    "*",
    "NX",
    "GT",
    "COUNT",
    LONG_TEXT,
];

impl std::fmt::Debug for Request {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (index, argument) in self.arguments.iter().enumerate() {
            let space = if index == 0 { "" } else { " " };
            write!(f, "{space}\"{}\"", argument.escape_ascii())?;
        }
        Ok(())
    }
}

/// Returns requests, most of them of one group, of commands that are compared.
pub(crate) fn requests<F: Fn(&str) -> bool>(
    group: &Group,
    is_compared: F,
) -> impl Strategy<Value = Vec<Request>> + use<F> {
    let one_of = |rows: &mut dyn Iterator<Item = &Row>| {
        let rows = rows.filter(|row| is_compared(row.name));
        Union::new(rows.map(|row| request(row).boxed()).collect::<Vec<_>>())
    };
    let others = one_of(&mut GROUPS.iter().flat_map(|group| group.commands));
    let request = prop_oneof![
        GROUP_PERCENT => one_of(&mut group.commands.iter()),
        100 - GROUP_PERCENT => others,
    ];
    prop::collection::vec(request, 1..50)
}

/// Returns valid requests of one group.
pub(crate) fn valid_requests_of_group(
    group: &Group,
) -> impl Strategy<Value = Vec<Request>> + use<> {
    let rows = group.commands.iter().map(|row| valid_request(row).boxed()).collect::<Vec<_>>();
    prop::collection::vec(Union::new(rows), 1..50)
}

/// Returns the request of a final read for one key.
pub(crate) fn read_request(row: &Row, key: &str) -> Request {
    let arguments = row.parts.iter().map(|part| match part {
        Part::Key => key.into(),
        Part::Word(word) => (*word).into(),
        _ => panic!("{}: the parts of final reads are keys and words", row.name),
    });
    let arguments = [row.name.into()].into_iter().chain(arguments).collect();
    Request { arguments, comparison: row.comparison }
}

/// Returns valid requests of one command.
fn valid_request(row: &Row) -> impl Strategy<Value = Request> + use<> {
    let comparison = row.comparison;
    let name = one_text(&[row.name]);
    (name, all_parts(row.parts)).prop_map(move |(name, parts)| {
        let arguments = [name].into_iter().flatten().chain(parts).collect();
        Request { arguments, comparison }
    })
}

/// Returns requests of one command, some of which are invalid.
fn request(row: &Row) -> impl Strategy<Value = Request> + use<> {
    let left_out = row.left_out.map(str::as_bytes);
    let right = valid_request(row);
    (right, 0..32_u32, any::<prop::sample::Index>(), prop::sample::select(&ODD_TEXTS[..])).prop_map(
        move |(mut request, fault, index, odd)| {
            let arguments = &mut request.arguments;
            let count = arguments.len() - 1;
            match fault {
                1 | 2 if count > 0 => arguments[1 + index.index(count)] = odd.into(),
                3 if count > 0 => {
                    arguments.remove(1 + index.index(count));
                }
                4 => arguments.insert(1 + index.index(count + 1), odd.into()),
                _ => {}
            }
            arguments.retain(|argument| Some(&argument[..]) != left_out);
            request.comparison = request.comparison.for_arguments(&request.arguments);
            request
        },
    )
}

type Texts = BoxedStrategy<Vec<Vec<u8>>>;

fn all_parts(parts: &[Part]) -> Texts {
    let parts: Vec<_> = parts.iter().map(part).collect();
    parts.prop_map(|parts| parts.concat()).boxed()
}

fn one_of(alternatives: &[&[Part]]) -> Texts {
    Union::new(alternatives.iter().map(|parts| all_parts(parts)).collect::<Vec<_>>()).boxed()
}

fn part(part: &Part) -> Texts {
    match *part {
        Part::Key => one_text(&KEYS),
        Part::Member => {
            let texts = ["1", "2", "3", "-5", "40000", "3000000000", "f", "g", "h", "", "Fg"];
            prop_oneof![40 => one_text(&texts), 1 => one_text(&[LONG_TEXT])].boxed()
        }
        Part::Value => {
            let texts = ["1", "10", "-3", "x", "\0\r\n", "", "3.25", "9223372036854775807"];
            prop_oneof![20 => one_text(&texts), 1 => one_text(&[LONG_TEXT])].boxed()
        }
        Part::Integer => prop_oneof![
            9 => (-4..8_i64).prop_map(|number| text(&number.to_string())),
            1 => one_text(&["100", "-100", "9223372036854775807", "-9223372036854775808", "x"]),
        ]
        .boxed(),
        Part::Float => prop_oneof![
            2 => (-40..40_i32).prop_map(|number| text(&(f64::from(number) / 4.0).to_string())),
            1 => (-400..400_i32).prop_map(|number| text(&(f64::from(number) / 100.0).to_string())),
            2 => "[-+]?[0-9]{1,24}(\\.[0-9]{0,24})?(e-?[0-9]{1,3})?".prop_map(|it| text(&it)),
            1 => one_text(&["1e3", "-2.5e-3", "+1", "inf", "-inf", "nan", "1e400", "0x1p3", "-0"]),
        ]
        .boxed(),
        Part::Seconds => one_text(&["1000", "5000", "100000", "1000", "0", "-1", "x"]),
        Part::Milliseconds => one_text(&["1000000", "5000000", "90000000", "0", "-1", "x"]),
        Part::UnixSeconds => one_text(&["9000000000", "9100000000", "9000000000", "1", "0", "-1"]),
        Part::UnixMilliseconds => {
            one_text(&["9000000000000", "9100000000000", "9000000000000", "1", "0", "-1"])
        }
        Part::Word(word) => one_text(&[word]),
        Part::Text(texts) => one_text(texts),
        Part::Optional(parts) => prop_oneof![Just(Vec::new()), all_parts(parts)].boxed(),
        Part::OneOf(alternatives) => one_of(alternatives),
        Part::Several(options) => prop_oneof![
            Just(Vec::new()),
            one_of(options),
            prop::collection::vec(one_of(options), 0..=3).prop_map(|parts| parts.concat()),
        ]
        .boxed(),
        Part::Repeated(parts) => {
            prop::collection::vec(all_parts(parts), 1..=4).prop_map(|all| all.concat()).boxed()
        }
        Part::Counted(parts) => (prop::collection::vec(all_parts(parts), 1..=4), 0..20_usize)
            .prop_map(|(all, fault)| {
                let count = match fault {
                    0 => 0,
                    1 => all.len() + 1,
                    2 => all.len() - 1,
                    _ => all.len(),
                };
                [text(&count.to_string()), all.concat()].concat()
            })
            .boxed(),
    }
}

fn text(text: &str) -> Vec<Vec<u8>> {
    vec![text.into()]
}

/// Returns one of some texts. Words are in upper case sometimes.
fn one_text(texts: &[&'static str]) -> Texts {
    let is_word = |text: &str| text.len() > 1 && text.bytes().all(|it| it.is_ascii_alphabetic());
    let choice = prop::sample::select(texts.to_vec());
    let texts = (choice, any::<bool>()).prop_map(move |(text, is_upper)| {
        let is_upper = is_upper && is_word(text);
        vec![if is_upper { text.to_uppercase().into() } else { text.into() }]
    });
    texts.boxed()
}
