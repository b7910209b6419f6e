//! Packed collections, as versions of Redis have written them.

/// Returns a string in a payload.
pub(crate) fn string(bytes: &[u8]) -> Vec<u8> {
    let mut string = vec![0x80];
    string.extend_from_slice(&(bytes.len() as u32).to_be_bytes());
    string.extend_from_slice(bytes);
    string
}

/// Returns a ziplist with these elements, each as the bytes after the length of the previous one.
pub(crate) fn ziplist(elements: &[&[u8]]) -> Vec<u8> {
    const HEAD_BYTES: usize = 10;
    let (mut body, mut tail, mut previous) = (Vec::new(), HEAD_BYTES, 0);
    for element in elements {
        tail = HEAD_BYTES + body.len();
        let start = body.len();
        if previous < 254 {
            body.push(previous as u8);
        } else {
            body.push(254);
            body.extend_from_slice(&(previous as u32).to_le_bytes());
        }
        body.extend_from_slice(element);
        previous = body.len() - start;
    }
    let bytes = (HEAD_BYTES + body.len() + 1) as u32;
    let mut ziplist = bytes.to_le_bytes().to_vec();
    ziplist.extend_from_slice(&(tail as u32).to_le_bytes());
    ziplist.extend_from_slice(&(elements.len() as u16).to_le_bytes());
    ziplist.extend_from_slice(&body);
    ziplist.push(255);
    ziplist
}

/// Returns a listpack with these elements, as bytes before their length.
pub(crate) fn listpack(elements: &[&[u8]]) -> Vec<u8> {
    let mut body = Vec::new();
    for element in elements {
        body.extend_from_slice(element);
        let length = element.len();
        if length < 128 {
            body.push(length as u8);
        } else {
            body.extend_from_slice(&[(length >> 7) as u8, length as u8 & 0x7f | 0x80]);
        }
    }
    let mut listpack = ((body.len() + 7) as u32).to_le_bytes().to_vec();
    listpack.extend_from_slice(&(elements.len() as u16).to_le_bytes());
    listpack.extend_from_slice(&body);
    listpack.push(255);
    listpack
}
