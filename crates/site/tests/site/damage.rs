//! A damaged archive costs the resources it touches a 500, and the others nothing.

use crate::sample_site::{archive, ask_opened};
use pinion_archive::{Layout, SectionKind};

#[test]
fn every_flipped_byte_gives_the_same_responses_or_500() {
    const REQUESTS: [&str; 8] = [
        "GET / HTTP/1.1\r\nAccept-Encoding: br",
        "GET /text.txt HTTP/1.1\r\nRange: bytes=0-1,5-6",
        "GET /docs HTTP/1.1",
        "GET /nothing HTTP/1.1",
        "GET /docs/nothing HTTP/1.1",
        "GET /old?x HTTP/1.1",
        "GET /app HTTP/1.1",
        "GET /large HTTP/1.1",
    ];
    let whole = archive();
    let layout = Layout::open(&whole).expect("sound");
    let expected = REQUESTS.map(|request| ask_opened(&layout, &whole, request));
    let bodies = layout.sections().iter().find(|section| section.kind == SectionKind::BODIES);
    let bodies_end = bodies.map(|bodies| bodies.offset + bodies.bytes).expect("required") as usize;
    let mut bytes = whole.clone();
    let mut damaged = 0;
    // The header page and the shared blocks refuse the file, and a body is not read.
    for place in bodies_end..whole.len() {
        bytes[place] ^= 0x10;
        if let Ok(layout) = Layout::open(&bytes) {
            for (request, expected) in REQUESTS.iter().zip(&expected) {
                let response = ask_opened(&layout, &bytes, request);
                assert_eq!(response.damaged, response.status == 500, "{request}, byte {place}");
                if response.damaged {
                    assert_eq!(response.field("Cache-Control"), Some("no-store"));
                    damaged += 1;
                } else {
                    assert_eq!(&response, expected, "byte {place}");
                }
            }
        }
        bytes[place] ^= 0x10;
    }
    assert!(damaged > 1000, "{damaged}");
}
