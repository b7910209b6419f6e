//! `Accept-Encoding`: RFC 9110 §12.5.3 with strings and a map.

use std::collections::BTreeMap;

use pinion_http::content_coding::Coding;
use pinion_http::limits::LIST_MEMBERS_MAX;
use pinion_http::negotiate::{accepted, choose};

/// The first byte selects the existing representations and the smaller one; the rest is the values
/// of the field lines, one per line.
pub(crate) fn check(data: &[u8]) {
    let [available, value @ ..] = data else { return };
    let lines: Vec<&[u8]> = value.split(|&byte| byte == b'\n').collect();
    let qualities = read(&lines);
    let found = accepted(lines.iter().copied());
    for coding in Coding::ALL {
        assert_eq!(found.quality(coding), qualities[&coding], "{coding:?}");
    }

    // Identity is always there; sizes differ by two more bits.
    let sizes: [u64; 4] = match available >> 4 & 3 {
        0 => [100, 50, 40, 45],
        1 => [100, 40, 50, 45],
        2 => [30, 50, 40, 45],
        _ => [50, 50, 50, 50],
    };
    let there: Vec<(Coding, u64)> = Coding::ALL
        .into_iter()
        .filter(|c| *c == Coding::Identity || available >> c.number() & 1 == 1)
        .map(|coding| (coding, sizes[usize::from(coding.number())]))
        .collect();
    let (coding, bytes) = there[choose(&found, there.iter().copied())];
    let best = there.iter().map(|(coding, _)| qualities[coding]).max().unwrap();
    if best == 0 {
        assert_eq!(coding, Coding::Identity, "the fallback");
    } else {
        assert_eq!(qualities[&coding], best);
        let mut equals = there.iter().filter(|(coding, _)| qualities[coding] == best);
        assert!(equals.all(|&(_, other)| bytes <= other));
    }
}

fn read(lines: &[&[u8]]) -> BTreeMap<Coding, u16> {
    let all = lines.iter().flat_map(|line| members(&String::from_utf8_lossy(line)));
    let mut named: BTreeMap<String, u16> = BTreeMap::new();
    for member in all.take(LIST_MEMBERS_MAX) {
        let (token, weight) = match member.split_once(';') {
            Some((token, weight)) => (token, Some(weight)),
            None => (member.as_str(), None),
        };
        let quality = match weight {
            None => 1000,
            Some(weight) => match quality(weight.trim_matches([' ', '\t'])) {
                Some(quality) => quality,
                None => continue,
            },
        };
        let token = token.trim_matches([' ', '\t']).to_ascii_lowercase();
        let token = if token == "x-gzip" { "gzip".into() } else { token };
        named.entry(token).or_insert(quality);
    }
    let star = named.get("*").copied();
    let one = lines.len() == 1 && lines[0].is_empty();
    Coding::ALL
        .into_iter()
        .map(|coding| {
            let of = named.get(coding.token()).copied().or(star).unwrap_or(0);
            (coding, if one && coding == Coding::Identity { 1000 } else { of })
        })
        .collect()
}

/// Members of the list, empty ones left out. A quote makes a member that is no coding, up to its
/// closing quote.
fn members(text: &str) -> Vec<String> {
    let mut members = vec![String::new()];
    let mut quoted = false;
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            ',' if !quoted => {
                members.push(String::new());
                continue;
            }
            '"' => quoted = !quoted,
            '\\' if quoted => {
                members.last_mut().unwrap().extend(chars.next());
            }
            _ => {}
        }
        members.last_mut().unwrap().push(c);
    }
    let trimmed = members.iter().map(|member| member.trim_matches([' ', '\t']).to_string());
    trimmed.filter(|member| !member.is_empty()).collect()
}

/// RFC 9110 §12.4.2: 0 or 1 with up to three decimals, in thousandths.
fn quality(weight: &str) -> Option<u16> {
    let value = weight.strip_prefix("q=").or_else(|| weight.strip_prefix("Q="))?;
    let (whole, decimals) = value.split_once('.').unwrap_or((value, ""));
    let digits = decimals.len() <= 3 && decimals.chars().all(|c| c.is_ascii_digit());
    if !digits || !(whole == "0" || whole == "1") {
        return None;
    }
    let thousandths = format!("{whole}{decimals:0<3}").parse().ok()?;
    (thousandths <= 1000).then_some(thousandths)
}
