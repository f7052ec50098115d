//! Small numbers in few bytes: seven bits each, the highest says that more follow.

pub fn push(bytes: &mut Vec<u8>, mut number: u32) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

/// The numbers that were pushed.
pub fn read(bytes: &[u8]) -> impl Iterator<Item = u32> {
    let mut bytes = bytes.iter();
    std::iter::from_fn(move || {
        let first = *bytes.next()?;
        if first < 0x80 {
            return Some(u32::from(first));
        }
        let mut number = u32::from(first & 0x7f);
        let mut shift = 7;
        for byte in bytes.by_ref() {
            number |= u32::from(byte & 0x7f) << shift;
            shift += 7;
            if *byte < 0x80 {
                break;
            }
        }
        Some(number)
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn what_is_pushed_is_read() {
        let numbers = [0, 1, 127, 128, 300, 16_383, 16_384, 1 << 21, u32::MAX];
        let mut bytes = Vec::new();
        numbers.iter().for_each(|number| super::push(&mut bytes, *number));
        assert_eq!(super::read(&bytes).collect::<Vec<_>>(), numbers);
        assert_eq!(bytes[..3], [0, 1, 127]);
    }
}
