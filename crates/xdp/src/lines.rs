//! Text of the lines that programs in the hook log.

use wireloom_codegen_c::xdp::LinePart;
use wireloom_interp::value::{endpoint_text, ip_text};

/// The text of a record: the line's number, then the values of its parts. `None`: it is none.
pub fn text_of(lines: &[Vec<LinePart>], record: &[u8]) -> Option<Vec<u8>> {
    let word = |at: usize| record.get(8 * at..8 * at + 8)?.try_into().ok().map(u64::from_le_bytes);
    let (parts, mut at, mut text) = (lines.get(usize::try_from(word(0)?).ok()?)?, 1, Vec::new());
    for part in parts {
        let address = || -> Option<[u8; 16]> { record.get(8 * at..8 * at + 16)?.try_into().ok() };
        match part {
            LinePart::Text(t) => text.extend_from_slice(t),
            LinePart::Bool => text.extend_from_slice(if word(at)? == 0 { b"false" } else { b"true" }),
            LinePart::Unsigned => text.extend_from_slice(word(at)?.to_string().as_bytes()),
            LinePart::Signed => text.extend_from_slice((word(at)? as i64).to_string().as_bytes()),
            LinePart::Address => text.extend_from_slice(ip_text(address()?).as_bytes()),
            LinePart::Endpoint => text.extend_from_slice(endpoint_text(address()?, word(at + 2)? as u16).as_bytes()),
            LinePart::Bytes(most) => {
                let n = word(at)?.min(*most) as usize;
                text.extend_from_slice(record.get(8 * (at + 1)..8 * (at + 1) + n)?)
            }
        }
        at += part.words();
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_the_text_of_the_language() {
        let line =
            [LinePart::Text(b"n ".to_vec()), LinePart::Unsigned, LinePart::Text(b" ".to_vec()), LinePart::Signed];
        let more = [LinePart::Bool, LinePart::Bytes(5), LinePart::Endpoint];
        let record = |words: &[u64]| words.iter().flat_map(|w| w.to_le_bytes()).collect::<Vec<u8>>();
        let lines = [line.to_vec(), more.to_vec()];
        assert_eq!(text_of(&lines, &record(&[0, 7, u64::MAX])), Some(b"n 7 -1".to_vec()));
        let v4 = u64::from_le_bytes([0, 0, 0xff, 0xff, 10, 0, 0, 1]);
        let words = [1, 1, 3, u64::from_le_bytes(*b"abcdefgh"), 0, v4, 80];
        assert_eq!(text_of(&lines, &record(&words)), Some(b"trueabc10.0.0.1:80".to_vec()));
        // A record that is cut off, or of no line, is none.
        assert_eq!(text_of(&lines, &record(&words[..6])), None);
        assert_eq!(text_of(&lines, &record(&[2, 7])), None);
        assert_eq!(text_of(&lines, &[]), None);
    }
}
