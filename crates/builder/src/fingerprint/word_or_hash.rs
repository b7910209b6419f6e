//! Decides whether a part of a name is a word or a number, or looks random.

use super::name_group::Alphabet;

/// The kind of a part of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PartKind {
    /// Words, a word with a number, or a date: never a hash, whatever the other names of the folder
    /// are.
    Word,
    /// Undecided: a hash only if other names of the group are evidence for hashes. It is no
    /// evidence itself.
    Ambiguous,
    /// It looks random: evidence that the names of the group have hashes.
    Random,
}

/// Classes of characters that runs consist of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Letters,
    Digits,
    Other,
}

/// Classifies a part, all characters of which are in `alphabet`. Of random parts of eight
/// characters in any of the alphabets, less than 4 in 1000 are taken for words, and less than 10 in
/// 100 are ambiguous.
pub(super) fn classify(part: &[u8], alphabet: Alphabet) -> PartKind {
    let runs = runs(part);
    let count = |class: Class| runs.iter().filter(|(of, _)| *of == class).count();
    let (words, numbers) = (count(Class::Letters), count(Class::Digits));
    let count = |test: fn(&u8) -> bool| part.iter().filter(|byte| test(byte)).count();
    let (letters, digits) = (count(u8::is_ascii_alphabetic), count(u8::is_ascii_digit));
    if alphabet == Alphabet::Hex {
        return match (words, numbers) {
            (_, 0) => PartKind::Word,
            (0 | 1, 1) if begins_with_year(part) => PartKind::Word,
            // `abcd2024` is a word and a number, or a hash.
            (0 | 1, 1) => PartKind::Ambiguous,
            _ => PartKind::Random,
        };
    }
    let is_word_and_number = (words, numbers) == (1, 1);
    if alphabet == Alphabet::Base32 {
        // Of random parts of eight characters, 19 in 100 have no digit, and 9 in 100 have a single
        // one at an end, so neither is enough.
        let is_ambiguous = are_words(part) || is_word_and_number && digits >= 2;
        return if is_ambiguous { PartKind::Ambiguous } else { PartKind::Random };
    }
    if letters <= 1 || are_words(part) || is_word_and_number && digits >= 4 {
        return PartKind::Word;
    }
    // Product and model numbers consist of capitals and digits: `RTX4090D`.
    let is_of_one_case = count(u8::is_ascii_uppercase) == 0 || count(u8::is_ascii_lowercase) == 0;
    let is_ambiguous = words == 1 && numbers <= 1 || is_of_one_case;
    if is_ambiguous { PartKind::Ambiguous } else { PartKind::Random }
}

/// Returns whether everything between `-` and `_` is a word or a number, and the part does not mix
/// lower case with two capitals in a row.
fn are_words(part: &[u8]) -> bool {
    let has_lower_case = part.iter().any(u8::is_ascii_lowercase);
    let has_capitals_in_a_row = part.windows(2).any(|pair| pair.iter().all(u8::is_ascii_uppercase));
    !(has_lower_case && has_capitals_in_a_row)
        && part.split(|byte| b"-_".contains(byte)).all(is_word)
}

/// Returns whether a text is a number, or a word or several with a number at the end, or one word
/// with a number in front. Words have a vowel and letters that follow each other in words. They
/// have three letters or more, but for one in front (`iPhone`) or before the number (`GalaxyS9`).
fn is_word(text: &[u8]) -> bool {
    let runs = runs(text);
    let is_number = |run: &&(Class, &[u8])| run.0 == Class::Digits;
    let numbers = runs.iter().filter(is_number).count();
    let words: Vec<&[u8]> =
        runs.iter().filter(|run| !is_number(run)).map(|(_, word)| *word).collect();
    let ends_in_number = runs.last().is_some_and(|run| is_number(&run));
    let is_in_place = match numbers {
        0 => true,
        1 => ends_in_number || words.len() == 1 && words.iter().all(|word| word.len() >= 3),
        _ => false,
    };
    let is_vowel = |byte: &u8| b"aeiouy".contains(&byte.to_ascii_lowercase());
    let is_pronounceable = |word: &&[u8]| word.len() == 1 || word.iter().any(is_vowel);
    let mut short = words.iter().enumerate().filter(|(_, word)| word.len() < 3);
    let is_short_in_place =
        |(at, _): (usize, &&[u8])| at == 0 || at + 1 == words.len() && ends_in_number;
    !text.is_empty()
        && is_in_place
        && short.next().is_none_or(is_short_in_place)
        && short.next().is_none()
        && words.iter().all(|word| is_pronounceable(word) && word.windows(2).all(follows_in_words))
}

/// Runs of letters, of digits, and of `-` and `_`. A capital after a small letter begins a new
/// word, and so does the last of several capitals before a small letter: `myHTMLPage`.
fn runs(part: &[u8]) -> Vec<(Class, &[u8])> {
    let class = |byte: u8| match byte {
        b'A'..=b'Z' | b'a'..=b'z' => Class::Letters,
        b'0'..=b'9' => Class::Digits,
        _ => Class::Other,
    };
    let is_upper = |at: usize| part.get(at).is_some_and(u8::is_ascii_uppercase);
    let is_lower = |at: usize| part.get(at).is_some_and(u8::is_ascii_lowercase);
    let (mut runs, mut start) = (Vec::new(), 0);
    for at in 1..=part.len() {
        let (Some(&before), next) = (part.get(at - 1), part.get(at)) else { continue };
        let ends = next.is_none_or(|&next| class(next) != class(before))
            || is_upper(at) && (is_lower(at - 1) || is_upper(at - 1) && is_lower(at + 1));
        if ends {
            runs.extend(part.get(start..at).map(|run| (class(before), run)));
            start = at;
        }
    }
    runs
}

/// Returns whether a part of one number and at most one word is a date, or a year and a word.
fn begins_with_year(part: &[u8]) -> bool {
    let digits = part.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let is_year = part.starts_with(b"19") || part.starts_with(b"20");
    is_year && (digits == 4 || digits == part.len())
}

/// The letters that follow each letter in English words and in names.
const FOLLOWERS: [&[u8]; 26] = [
    b"bcdfghiklmnprstuvwxyz",
    b"abeijlorsuy",
    b"acehiklorstuy",
    b"adegilmnorsuvwy",
    b"abcdefghilmnopqrstuvwxy",
    b"aefilortuy",
    b"aeghilnorstuy",
    b"aeilmnortuwy",
    b"abcdefgklmnoprstuvxz",
    b"aeiou",
    b"aeilnosuwy",
    b"abcdefgiklmopstuvy",
    b"abeimnopsuy",
    b"acdefgijklmnoqstuvxyz",
    b"abcdefghiklmnoprstuvwxyz",
    b"aehiloprstuy",
    b"u",
    b"abcdefghiklmnoprstuvwy",
    b"abcehiklmnopqstuwy",
    b"acehilmnorstuwyz",
    b"abcdefgiklmnoprstvxz",
    b"aeioruy",
    b"aehiklnorsy",
    b"aceiloptuy",
    b"abcdeilmnoprstw",
    b"aeilouyz",
];

/// Returns whether the second letter follows the first in words, in upper or lower case.
fn follows_in_words(pair: &[u8]) -> bool {
    let [one, next] = pair else { return true };
    let row = one.to_ascii_lowercase().wrapping_sub(b'a');
    let followers = FOLLOWERS.get(usize::from(row)).copied().unwrap_or_default();
    followers.contains(&next.to_ascii_lowercase())
}
