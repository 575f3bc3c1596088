//! Sums of the parts of tables that processors have for themselves.

/// Adds the numbers of a value to those of another one: bytes of each, little endian, one behind
/// the other. A sum is cut to its width, as the additions of packets are.
pub(crate) fn add(numbers: &[usize], sum: &mut [u8], value: &[u8]) {
    let mut at = 0;
    for n in numbers {
        let mut carry = 0;
        for (to, b) in sum.iter_mut().zip(value).skip(at).take(*n) {
            let all = u16::from(*to) + u16::from(*b) + carry;
            (*to, carry) = (all as u8, all >> 8);
        }
        at += n;
    }
}

#[cfg(test)]
mod tests {
    use super::add;

    #[test]
    fn numbers_are_added_each_by_itself() {
        let mut sum = [0xff, 0, 0xff, 0xff, 7];
        add(&[2, 2, 1], &mut sum, &[1, 2, 1, 0, 5]);
        assert_eq!(sum, [0, 3, 0, 0, 12]);
    }
}
