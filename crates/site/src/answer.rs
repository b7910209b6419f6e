//! The order of everything.

use pinion_archive::{Archive, Damage, Entry, Role};
use pinion_http::date::UnixSeconds;
use pinion_http::method::Method;
use pinion_http::prepared::{Location, Prepared, SharedFields};
use pinion_http::request::RequestHead;
use pinion_http::target::Form;

use crate::generated;
use crate::location;
use crate::resolve::{Outcome, resolve};
use crate::resource;
use crate::work::{Pieces, Work};

/// What every step needs to know.
#[derive(Clone, Copy)]
pub(crate) struct Question<'q, 'x> {
    pub(crate) archive: Archive<'x>,
    pub(crate) head: &'q RequestHead<'x>,
    pub(crate) now: UnixSeconds,
}

/// The answer of a site to a request.
///
/// The look-up comes before the method: an unknown URL is 404 for every method. A resource is
/// there for GET and HEAD, answers OPTIONS, and 405 or 501 to the rest. Damage found on the way is
/// a 500; [`Work::damage`] then says what it was.
#[inline]
pub fn answer<'x>(
    archive: &Archive<'x>,
    head: &RequestHead<'x>,
    now: UnixSeconds,
    work: &'x mut Work,
    pieces: &'x mut Pieces<'x>,
) -> Prepared<'x> {
    work.damage = None;
    let question = Question { archive: *archive, head, now };
    // RFC 9110 §9.3.6: a server without tunnels answers 501, whatever the target.
    if head.method == Method::Connect {
        return generated::error(501, archive, head);
    }
    if head.target.form == Form::Asterisk {
        return generated::options(archive);
    }
    match resolve(archive, head, work) {
        Ok(outcome) => outcome_answer(&question, outcome, work, pieces),
        Err(damage) => {
            work.damage = Some(damage);
            generated::error(500, archive, head)
        }
    }
}

#[inline(always)]
fn outcome_answer<'x>(
    question: &Question<'_, 'x>,
    outcome: Outcome,
    work: &'x mut Work,
    pieces: &'x mut Pieces<'x>,
) -> Prepared<'x> {
    let Question { archive, head, .. } = question;
    let Work { scratch, text, damage, .. } = work;
    match (outcome, scratch.entry()) {
        (Outcome::Resource, Some(entry)) => match head.method {
            Method::Get | Method::Head => {
                sound(resource::answer(question, entry, text, pieces), question, damage)
            }
            Method::Options => generated::options(archive),
            // RFC 9110 §9.1: 501 for a method that is not known, 405 for one that is.
            Method::Other => generated::error(501, archive, head),
            _ => generated::error(405, archive, head),
        },
        (Outcome::Page(status), Some(entry)) => {
            sound(page(question, entry, status, text, pieces), question, damage)
        }
        (Outcome::Redirect, Some(entry)) => match head.method {
            Method::Options => generated::options(archive),
            _ => sound(redirect(question, entry, text, pieces), question, damage),
        },
        (Outcome::SlashRedirect, _) => match head.method {
            Method::Options => generated::options(archive),
            _ => slash_redirect(question, text),
        },
        (Outcome::RuleRedirect(status), _) => match head.method {
            Method::Options => generated::options(archive),
            _ => rule_redirect(question, status, text),
        },
        (Outcome::Error(status), _) => generated::error(status, archive, head),
        (Outcome::Resource | Outcome::Page(_) | Outcome::Redirect, None) => {
            generated::error(500, archive, head)
        }
    }
}

/// The answer, or a 500 if damage was found. Inlined, so that an answer is made where it is wanted.
#[inline(always)]
fn sound<'x>(
    answer: Result<Prepared<'x>, Damage>,
    question: &Question<'_, 'x>,
    damage: &mut Option<Damage>,
) -> Prepared<'x> {
    match answer {
        Ok(answer) => answer,
        Err(found) => {
            *damage = Some(found);
            generated::error(500, &question.archive, question.head)
        }
    }
}

/// What every error has, once.
pub(crate) const NEVER_STORED: &[u8] = b"Cache-Control: no-store\r\n";

/// The content of an entry with another status. A rule may give an error the content of a page that
/// may be kept for a while; an error may not (docs/rules.md).
fn page<'x>(
    question: &Question<'_, 'x>,
    entry: Entry<'x>,
    status: u16,
    text: &'x mut Vec<u8>,
    pieces: &'x mut Pieces<'x>,
) -> Result<Prepared<'x>, Damage> {
    let answer = resource::content(question, entry, status, pieces)?;
    if status < 400 || entry.status() >= 400 {
        return Ok(answer);
    }
    text.clear();
    for line in answer.shared.h1.split_inclusive(|&byte| byte == b'\n') {
        let name = line.split(|&byte| byte == b':').next().unwrap_or_default();
        let is = |other: &str| name.eq_ignore_ascii_case(other.as_bytes());
        if !["Cache-Control", "Expires", "Accept-Ranges"].into_iter().any(is) {
            text.extend_from_slice(line);
        }
    }
    text.extend_from_slice(NEVER_STORED);
    Ok(Prepared { shared: SharedFields::h1(text), ..answer })
}

/// 308 to the slash form that exists, with the query (RFC 9110 §15.4.9).
fn slash_redirect<'x>(question: &Question<'_, 'x>, text: &'x mut Vec<u8>) -> Prepared<'x> {
    let location = location::slash(text, question.head.target.query);
    empty_redirect(question, 308, location)
}

/// A redirect to the location that a rule has left in `text`.
fn rule_redirect<'x>(
    question: &Question<'_, 'x>,
    status: u16,
    text: &'x mut Vec<u8>,
) -> Prepared<'x> {
    empty_redirect(question, status, Location { path: text, query: None })
}

/// A redirect without an entry: fields that the site has for such answers, and no body.
fn empty_redirect<'x>(
    question: &Question<'_, 'x>,
    status: u16,
    location: Location<'x>,
) -> Prepared<'x> {
    let shared = question.archive.shared_for(Role::SlashRedirect);
    let own = shared.map(|block| block.fields_without_type());
    Prepared {
        shared: own.unwrap_or_else(|| generated::generated_fields(&question.archive)),
        location: Some(location),
        content_length: Some(0),
        ..Prepared::empty(status)
    }
}

/// A redirect entry: its own fields and, if it has one, its own body.
fn redirect<'x>(
    question: &Question<'_, 'x>,
    entry: Entry<'x>,
    text: &'x mut Vec<u8>,
    pieces: &'x mut Pieces<'x>,
) -> Result<Prepared<'x>, Damage> {
    let query = question.head.target.query.filter(|_| entry.keeps_query());
    let location = location::with_query(entry.target().unwrap_or_default(), query, text);
    let answer = match entry.representation(0) {
        Some(_) => resource::content(question, entry, entry.status(), pieces)?,
        None => {
            let shared = match entry.shared() {
                Some(id) => question.archive.shared(id)?.fields_without_type(),
                None => generated::generated_fields(&question.archive),
            };
            Prepared { shared, content_length: Some(0), ..Prepared::empty(entry.status()) }
        }
    };
    Ok(Prepared { location: Some(location), ..answer })
}
