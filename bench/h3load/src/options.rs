//! The options of the command line.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result, bail};

const USAGE: &str = "\
usage: pinion-h3load [OPTIONS] https://ADDRESS:PORT/PATH
  -c N            connections [10]
  -m N            requests of a connection that are under way at once [1]
  -d SECONDS      how long requests are begun [2]
  --rps N         requests of a connection in a second, whatever the server does; the time of each
                  counts from when it is due [each begins when another one has ended]
  -n N            requests of a connection in all [no limit]
  --post N        bytes of content that each request sends [GET without content]
  --bytes N       how long the content of each answer must be";

/// The parsed options.
#[derive(Debug, PartialEq)]
pub(crate) struct Options {
    pub(crate) connections: usize,
    pub(crate) streams: usize,
    pub(crate) duration: Duration,
    /// Requests of a connection in a second, if they do not wait for one another.
    pub(crate) rate: Option<f64>,
    pub(crate) requests_max: Option<u64>,
    /// Bytes of content of each request; without it, GET is used.
    pub(crate) upload_bytes: Option<u64>,
    pub(crate) content_bytes: Option<u64>,
    pub(crate) server: SocketAddr,
    pub(crate) path: String,
}

impl Options {
    pub(crate) fn parse(mut words: impl Iterator<Item = String>) -> Result<Self> {
        let (mut connections, mut streams, mut seconds) = (10, 1, 2);
        let (mut content_bytes, mut url) = (None, None);
        let (mut rate, mut requests_max, mut upload_bytes) = (None, None, None);
        while let Some(word) = words.next() {
            let mut count = || {
                let value = words.next().and_then(|value| value.parse().ok());
                value.with_context(|| format!("{word} needs a number\n{USAGE}"))
            };
            match word.as_str() {
                "-c" => connections = count()?,
                "-m" => streams = count()?,
                "-d" => seconds = count()?,
                "--rps" => rate = Some(rate_of(words.next())?),
                "-n" => requests_max = Some(count()?),
                "--post" => upload_bytes = Some(count()?),
                "--bytes" => content_bytes = Some(count()?),
                _ if url.is_none() && !word.starts_with('-') => url = Some(word),
                _ => bail!("not an option: {word}\n{USAGE}"),
            }
        }
        let url = url.context(USAGE)?;
        let (server, path) = split(&url).with_context(|| format!("{url}\n{USAGE}"))?;
        Ok(Self {
            connections: connections as usize,
            streams: streams as usize,
            duration: Duration::from_secs(seconds),
            rate,
            requests_max,
            upload_bytes,
            content_bytes,
            server,
            path,
        })
    }
}

fn rate_of(word: Option<String>) -> Result<f64> {
    let rate = word.and_then(|word| word.parse().ok()).filter(|rate| *rate > 0.0);
    rate.with_context(|| format!("--rps needs a rate\n{USAGE}"))
}

/// Returns the server of a URL, and the path.
fn split(url: &str) -> Option<(SocketAddr, String)> {
    let rest = url.strip_prefix("https://")?;
    let (server, path) = rest.split_once('/')?;
    Some((server.parse().ok()?, format!("/{path}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Options> {
        Options::parse(line.split(' ').map(str::to_owned))
    }

    #[test]
    fn options_of_h3load_are_parsed() {
        let options =
            parse("-c 3 -m 4 -n 1 --rps 2.5 --post 5 --bytes 6 https://127.0.0.1:7/a/b").unwrap();
        let expected = Options {
            connections: 3,
            streams: 4,
            duration: Duration::from_secs(2),
            rate: Some(2.5),
            requests_max: Some(1),
            upload_bytes: Some(5),
            content_bytes: Some(6),
            server: "127.0.0.1:7".parse().unwrap(),
            path: "/a/b".to_owned(),
        };
        assert_eq!(options, expected);
    }

    #[test]
    fn invalid_options_are_refused() {
        for line in
            ["-c", "-c x https://127.0.0.1:7/", "--what", "http://127.0.0.1:7/", "-m 3", "-x 5"]
        {
            assert!(parse(line).is_err(), "{line}");
        }
    }
}
