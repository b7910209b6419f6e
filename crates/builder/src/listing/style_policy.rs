//! A listing's style stands in the page, which a site's own `Content-Security-Policy` may forbid.

/// Returns the policies of a field, changed so that they allow the one style of a hash, and nothing
/// else. The directive that governs a style element is found as in CSP Level 3 §6.8.3.
pub(crate) fn allowing_style(policies: &str, hash: &str) -> String {
    let policies = policies.split(',').map(|policy| allowing_in(policy, hash));
    policies.collect::<Vec<_>>().join(",")
}

fn allowing_in(policy: &str, hash: &str) -> String {
    let directives: Vec<&str> = policy.split(';').collect();
    let place = |name: &str| {
        directives.iter().position(|directive| {
            directive.split_ascii_whitespace().next().is_some_and(|n| n.eq_ignore_ascii_case(name))
        })
    };
    // The first directive of a name is the one that counts.
    let own = place("style-src-elem").or_else(|| place("style-src"));
    let Some(place) = own.or_else(|| place("default-src")) else { return policy.to_owned() };
    let words = directives.get(place).map_or("", |directive| directive).split_ascii_whitespace();
    let sources = words.skip(1).filter(|source| !source.eq_ignore_ascii_case("'none'"));
    let sources = sources.chain([hash]).collect::<Vec<_>>().join(" ");
    if own.is_none() {
        return format!("{}; style-src {sources}", policy.trim_end_matches([';', ' ']));
    }
    let mut texts: Vec<String> = directives.iter().map(|text| (*text).to_owned()).collect();
    if let Some(text) = texts.get_mut(place) {
        let start = text.len() - text.trim_start().len();
        let name = text.split_ascii_whitespace().next().unwrap_or_default();
        *text = format!("{}{name} {sources}", text.get(..start).unwrap_or_default());
    }
    texts.join(";")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_policy_allows_the_one_style_and_nothing_else() {
        for (policy, allowing) in [
            ("", ""),
            ("frame-ancestors 'none'", "frame-ancestors 'none'"),
            ("default-src 'self'", "default-src 'self'; style-src 'self' H"),
            ("default-src 'none'; img-src *;", "default-src 'none'; img-src *; style-src H"),
            ("default-src *; style-src 'self'", "default-src *; style-src 'self' H"),
            ("Style-Src 'NONE'; img-src a", "Style-Src H; img-src a"),
            (
                "style-src a; style-src-elem b; style-src-elem c",
                "style-src a; style-src-elem b H; style-src-elem c",
            ),
            (
                "default-src 'self', style-src",
                "default-src 'self'; style-src 'self' H, style-src H",
            ),
        ] {
            assert_eq!(allowing_style(policy, "H"), allowing, "{policy}");
        }
    }
}
