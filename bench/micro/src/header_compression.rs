//! The stations of HTTP/2 and HTTP/3: decoding and encoding field sections, and the cost of a block
//! of an archive when it is opened.

use std::hint::black_box;

use pinion_http::field_section::FieldSection;
use pinion_http::hpack::decoder::Decoder;
use pinion_http::limits::Limits;
use pinion_http::{hpack, qpack};

/// The request of a browser.
const REQUEST: [(&str, &str); 10] = [
    (":method", "GET"),
    (":scheme", "https"),
    (":authority", "www.example.org"),
    (":path", "/pages/123.txt"),
    ("user-agent", "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"),
    ("accept", "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"),
    ("accept-language", "en-US,en;q=0.5"),
    ("accept-encoding", "gzip, deflate, br, zstd"),
    ("sec-fetch-mode", "navigate"),
    ("priority", "u=0, i"),
];

/// The common fields of the pages of a site.
pub(crate) const SHARED: &[u8] = b"Content-Type: text/plain; charset=utf-8\r\n\
    Cache-Control: max-age=0, must-revalidate\r\n\
    Accept-Ranges: bytes\r\n\
    X-Content-Type-Options: nosniff\r\n\
    Referrer-Policy: strict-origin-when-cross-origin\r\n\
    X-Frame-Options: SAMEORIGIN\r\n";

/// The field sections of a client, and their decoder.
pub(crate) struct Compressed {
    decoder: Decoder,
    section: FieldSection,
    /// All fields but the path refer to the table that the first request has filled.
    again: Vec<u8>,
    /// All fields are in Huffman code.
    literal: Vec<u8>,
    qpack: Vec<u8>,
    out: Vec<u8>,
}

impl Compressed {
    pub(crate) fn new() -> Compressed {
        let mut made = Compressed {
            decoder: Decoder::new(4096),
            section: FieldSection::new(),
            again: vec![0x82, 0x87],
            literal: Vec::new(),
            qpack: qpack::static_encoder::PREFIX.to_vec(),
            out: Vec::new(),
        };
        let mut first = Vec::new();
        for (name, value) in REQUEST {
            hpack::static_encoder::field(&mut made.literal, name.as_bytes(), value.as_bytes());
            qpack::static_encoder::field(&mut made.qpack, name.as_bytes(), value.as_bytes());
        }
        let kept =
            REQUEST.iter().filter(|(name, _)| ![":method", ":path", ":scheme"].contains(name));
        for (place, (name, value)) in kept.enumerate() {
            first.push(0x40);
            for part in [name, value] {
                first.push(part.len() as u8);
                first.extend_from_slice(part.as_bytes());
            }
            made.again.push(0x80 | (62 + place) as u8);
        }
        hpack::static_encoder::field(&mut made.again, b":path", b"/pages/123.txt");
        made.decode_hpack(&first);
        made
    }

    pub(crate) fn again(&mut self) -> u64 {
        let block = std::mem::take(&mut self.again);
        let lines = self.decode_hpack(&block);
        self.again = block;
        lines
    }

    pub(crate) fn literal(&mut self) -> u64 {
        let block = std::mem::take(&mut self.literal);
        let lines = self.decode_hpack(&block);
        self.literal = block;
        lines
    }

    /// Returns the section in its form for HTTP/3.
    pub(crate) fn of_qpack(self) -> Vec<u8> {
        self.qpack
    }

    pub(crate) fn qpack(&mut self) -> u64 {
        let section = &mut self.section;
        let fit = qpack::decoder::decode(black_box(&self.qpack), section, &Limits::default());
        black_box(fit).map_or(0, |_| self.section.fields().len() as u64)
    }

    /// Renders a block of an archive, in both forms.
    pub(crate) fn render(&mut self) -> u64 {
        self.out.clear();
        hpack::static_encoder::lines(&mut self.out, black_box(SHARED));
        qpack::static_encoder::lines(&mut self.out, black_box(SHARED));
        black_box(&self.out).len() as u64
    }

    fn decode_hpack(&mut self, block: &[u8]) -> u64 {
        let fit = self.decoder.decode(black_box(block), &mut self.section, &Limits::default());
        black_box(fit).map_or(0, |_| self.section.fields().len() as u64)
    }
}
