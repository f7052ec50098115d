//! What is sealed is read again, and no other file is taken for it.

use super::*;

fn key(byte: u8) -> Secret<Vec<u8>> {
    Secret::new(vec![byte; 32])
}

fn head(salt: &str) -> Head {
    let created_at = "2026-01-01T00:00:00Z".parse().unwrap();
    Head { form: FORM, butlerd: "0".into(), created_at, key_id: key_id(&key(1)), salt: salt.into() }
}

fn seal(salt: &str, content: &[u8]) -> Vec<u8> {
    let mut sealer = Sealer::begin(Vec::new(), &head(salt), &key(1)).unwrap();
    sealer.write_all(content).unwrap();
    sealer.finish().unwrap()
}

fn open(file: &[u8], key: &Secret<Vec<u8>>) -> Result<Vec<u8>, String> {
    let mut from = file;
    let (head, bytes) = match beginning(&mut from).unwrap() {
        Beginning::Head(head, bytes) => (head, bytes),
        Beginning::Foreign => return Err("foreign".into()),
        Beginning::Cut(at) => return Err(SealError::Cut(at).to_string()),
    };
    let mut clear = Vec::new();
    let read = Opener::behind(from, &head, &bytes, key).read_to_end(&mut clear);
    read.map(|_| clear).map_err(|e| seal_error(&e).unwrap().to_string())
}

/// Where the chunks are in a file.
fn chunks(file: &[u8]) -> Vec<std::ops::Range<usize>> {
    let mut at = 20 + u32::from_be_bytes(file[16..20].try_into().unwrap()) as usize;
    let mut found = Vec::new();
    while at < file.len() {
        let length = (u32::from_be_bytes(file[at..at + 4].try_into().unwrap()) & !LAST) as usize;
        found.push(at..at + 4 + length);
        at += 4 + length;
    }
    found
}

#[test]
fn what_was_sealed_is_read_again() {
    for size in [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK] {
        let content: Vec<u8> = (0..size).map(|i| (i % 251) as u8).collect();
        assert_eq!(open(&seal("a", &content), &key(1)).unwrap(), content, "{size}");
    }
}

#[test]
fn no_other_file_is_taken_for_it() {
    let content = vec![7u8; 3 * CHUNK + 5];
    let file = seal("a", &content);
    let parts = chunks(&file);
    assert_eq!(parts.len(), 4);
    assert!(open(&file, &key(2)).unwrap_err().contains("damaged"));
    // Cut off anywhere, between two chunks as well.
    for at in (1..file.len()).step_by(37).chain(parts.iter().map(|p| p.start)).chain([file.len() - 1]) {
        let said = open(&file[..at], &key(1)).unwrap_err();
        assert!(said.contains("cut off"), "{at}: {said}");
    }
    // A bit flipped anywhere.
    for at in (0..file.len()).step_by(13).chain(0..parts[0].start + 30) {
        let mut other = file.clone();
        other[at] ^= 1;
        assert!(open(&other, &key(1)).is_err(), "{at}");
    }
    let with = |order: &[usize], of: &[u8]| -> Vec<u8> {
        let body = order.iter().flat_map(|i| of[parts[*i].clone()].to_vec());
        file[..parts[0].start].iter().copied().chain(body).collect()
    };
    assert_eq!(open(&with(&[0, 1, 2, 3], &file), &key(1)).unwrap(), content);
    for order in [&[1, 0, 2, 3][..], &[0, 1, 3], &[0, 1, 1, 2, 3], &[3], &[0, 1, 2, 3, 3]] {
        assert!(open(&with(order, &file), &key(1)).is_err(), "{order:?}");
    }
    // The chunks of another backup under the same key.
    assert!(open(&with(&[0, 1, 2, 3], &seal("b", &content)), &key(1)).is_err());
    assert!(open(b"something else altogether", &key(1)).unwrap_err().contains("foreign"));
}
