//! Hosts of rules: international names become the ASCII form that goes over the wire (RFC 5891,
//! with Punycode, RFC 3492).

use std::borrow::Cow;

use pinion_http::host;

/// The prefix of a label that is not ASCII, and the longest label (RFC 1035 §2.3.4).
const PREFIX: &str = "xn--";
const LABEL_MAX_BYTES: usize = 63;

/// Dots of other scripts (RFC 3490 §3.1).
const DOTS: [char; 3] = ['\u{3002}', '\u{ff0e}', '\u{ff61}'];

/// Returns the host of an authority in lower case and ASCII, without a port.
pub(super) fn host_of(authority: &str) -> Option<Box<[u8]>> {
    let ascii = to_ascii(authority)?;
    let split = host::split(ascii.as_bytes()).ok()?;
    Some(split.host.to_ascii_lowercase().into())
}

/// Returns an authority whose host is ASCII; `None` for a name that has no such form. An ASCII name
/// does not change.
pub(super) fn to_ascii(authority: &str) -> Option<Cow<'_, str>> {
    if authority.is_ascii() {
        return Some(Cow::Borrowed(authority));
    }
    let (name, port) = match authority.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => (name, Some(port)),
        _ => (authority, None),
    };
    let labels = name.split(|c| c == '.' || DOTS.contains(&c));
    let labels: Vec<String> = labels.map(label).collect::<Option<_>>()?;
    let port = port.map_or(String::new(), |port| format!(":{port}"));
    Some(Cow::Owned(labels.join(".") + &port))
}

/// Returns the ASCII form of a label.
fn label(label: &str) -> Option<String> {
    let lower: String = label.chars().flat_map(char::to_lowercase).collect();
    if lower.is_ascii() {
        return Some(lower);
    }
    if !lower.chars().all(is_of_name) {
        return None;
    }
    let encoded = PREFIX.to_owned() + &punycode(&lower)?;
    (encoded.len() <= LABEL_MAX_BYTES).then_some(encoded)
}

/// Returns whether a character can stand in a label. A letter and a mark of its own would have to
/// be made one first (Unicode's form NFC), so such marks are refused.
fn is_of_name(c: char) -> bool {
    let is_single_mark = ('\u{300}'..='\u{36f}').contains(&c);
    let is_punctuation = ('\u{2000}'..='\u{206f}').contains(&c);
    let is_mark_of_script = c > '\u{36f}' && !is_punctuation && !c.is_whitespace();
    c == '-' || c.is_alphanumeric() || (is_mark_of_script && !is_single_mark && !c.is_control())
}

/// Encodes a label in Punycode (RFC 3492 §6.3); returns `None` on overflow.
fn punycode(text: &str) -> Option<String> {
    const TMIN: u32 = 1;
    const TMAX: u32 = 26;
    let mut out: String = text.chars().filter(char::is_ascii).collect();
    let basic = u32::try_from(out.len()).ok()?;
    if basic > 0 {
        out.push('-');
    }
    let count = u32::try_from(text.chars().count()).ok()?;
    let (mut handled, mut n, mut delta, mut bias) = (basic, 128_u32, 0_u32, 72);
    while handled < count {
        let next = text.chars().map(u32::from).filter(|&code| code >= n).min()?;
        delta = (next - n).checked_mul(handled + 1).and_then(|step| delta.checked_add(step))?;
        n = next;
        for code in text.chars().map(u32::from) {
            if code < n {
                delta = delta.checked_add(1)?;
            }
            if code != n {
                continue;
            }
            let (mut q, mut k) = (delta, BASE);
            loop {
                let t = k.saturating_sub(bias).clamp(TMIN, TMAX);
                if q < t {
                    break;
                }
                out.push(digit(t + (q - t) % (BASE - t))?);
                q = (q - t) / (BASE - t);
                k += BASE;
            }
            out.push(digit(q)?);
            bias = adapted(delta, handled + 1, handled == basic, TMIN, TMAX);
            delta = 0;
            handled += 1;
        }
        delta = delta.checked_add(1)?;
        n += 1;
    }
    Some(out)
}

const BASE: u32 = 36;

/// Adapts the bias (RFC 3492 §6.1).
fn adapted(delta: u32, count: u32, is_first: bool, tmin: u32, tmax: u32) -> u32 {
    const SKEW: u32 = 38;
    const DAMP: u32 = 700;
    let mut delta = if is_first { delta / DAMP } else { delta / 2 };
    delta += delta / count;
    let mut k = 0;
    while delta > (BASE - tmin) * tmax / 2 {
        delta /= BASE - tmin;
        k += BASE;
    }
    k + (BASE - tmin + 1) * delta / (delta + SKEW)
}

fn digit(value: u32) -> Option<char> {
    match value {
        0..26 => char::from_u32(u32::from('a') + value),
        26..36 => char::from_u32(u32::from('0') + value - 26),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names that are registered, and samples of RFC 3492 §7.1 as labels.
    #[test]
    fn host_names_are_converted_to_ascii() {
        for (name, expected) in [
            ("example.org:8080", Some("example.org:8080")),
            ("bücher.example", Some("xn--bcher-kva.example")),
            ("Bücher.Example:8080", Some("xn--bcher-kva.example:8080")),
            ("münchen.de", Some("xn--mnchen-3ya.de")),
            ("faß.de", Some("xn--fa-hia.de")),
            ("ü", Some("xn--tda")),
            ("пример.испытание", Some("xn--e1afmkfd.xn--80akhbyknj4f")),
            ("ΠΑΡΆΔΕΙΓΜΑ.ΔΟΚΙΜΉ", Some("xn--hxajbheg2az3al.xn--jxalpdlp")),
            ("例え。テスト", Some("xn--r8jz45g.xn--zckzah")),
            ("他们为什么不说中文.cn", Some("xn--ihqwcrb4cv8a8dqg056pqjye.cn")),
            ("उदाहरण.परीक्षा", Some("xn--p1b6ci4b4b3a.xn--11b5bs3a9aj6g")),
            ("bu\u{308}cher.example", None),
            ("a\u{200d}ü", None),
            ("ü b", None),
        ] {
            assert_eq!(to_ascii(name).as_deref(), expected, "{name}");
        }
        assert_eq!(to_ascii(&"ü".repeat(300)), None);
    }

    #[test]
    fn an_authority_yields_its_host_in_ascii() {
        assert_eq!(host_of("BÜCHER.example:80").as_deref(), Some(&b"xn--bcher-kva.example"[..]));
        assert_eq!(host_of("Example.org").as_deref(), Some(&b"example.org"[..]));
        assert_eq!(host_of("u@ü.example"), None);
        assert_eq!(host_of(""), None);
    }
}
