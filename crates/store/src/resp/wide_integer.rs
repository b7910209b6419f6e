//! Integers of arbitrary length, with the few operations that long decimal numbers need.

/// An unsigned integer of arbitrary length. Its words of 32 bits are in little-endian order, and
/// the last one is not zero.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct WideInteger {
    limbs: Vec<u32>,
}

const LIMB_BITS: usize = 32;

impl From<u128> for WideInteger {
    fn from(number: u128) -> Self {
        let limbs = (0..4).map(|index| (number >> (index * LIMB_BITS)) as u32).collect();
        Self { limbs }.trimmed()
    }
}

impl WideInteger {
    /// Returns the number with these digits, the highest one first.
    pub(super) fn from_digits(digits: &[u8], radix: u32) -> Self {
        let mut number = Self::from(0);
        for &digit in digits {
            number.multiply_add(radix, digit.into());
        }
        number
    }

    fn trimmed(mut self) -> Self {
        while self.limbs.last() == Some(&0) {
            self.limbs.pop();
        }
        self
    }

    /// Returns the number of bits of the integer.
    pub(super) fn bits(&self) -> usize {
        let last = self.limbs.last().map_or(0, |limb| limb.leading_zeros() as usize);
        self.limbs.len() * LIMB_BITS - last
    }

    /// Multiplies it by a factor and adds a number.
    pub(super) fn multiply_add(&mut self, factor: u32, added: u32) {
        let mut carry = u64::from(added);
        for limb in &mut self.limbs {
            let product = u64::from(*limb) * u64::from(factor) + carry;
            *limb = product as u32;
            carry = product >> LIMB_BITS;
        }
        if carry > 0 {
            self.limbs.push(carry as u32);
        }
    }

    pub(super) fn shift_left(&mut self, bits: usize) {
        let factor = 1 << (bits % LIMB_BITS);
        self.multiply_add(factor, 0);
        if !self.limbs.is_empty() {
            let zeros = std::iter::repeat_n(0, bits / LIMB_BITS);
            self.limbs.splice(0..0, zeros);
        }
    }

    /// Returns the highest 128 bits, the exponent of the power of two by which they must be
    /// multiplied, and whether any lower bit is set.
    pub(super) fn leading_bits(&self) -> (u128, i64, bool) {
        let first = self.limbs.len().saturating_sub(4);
        let (lower, upper) = self.limbs.split_at(first);
        let bits = upper.iter().rev().fold(0, |bits, &limb| bits << LIMB_BITS | u128::from(limb));
        (bits, (first * LIMB_BITS) as i64, lower.iter().any(|&limb| limb != 0))
    }

    /// Divides it. Returns the quotient and whether there is a remainder; `None` if the quotient
    /// has more than 128 bits.
    pub(super) fn divide_to_128_bits(mut self, divisor: &Self) -> Option<(u128, bool)> {
        let steps = (self.bits() + 1).saturating_sub(divisor.bits());
        if steps > 128 {
            return None;
        }
        let mut shifted = divisor.clone();
        shifted.shift_left(steps.saturating_sub(1));
        let mut quotient = 0;
        for _ in 0..steps {
            quotient <<= 1;
            if !self.is_less_than(&shifted) {
                self.subtract(&shifted);
                quotient |= 1;
            }
            shifted.halve();
        }
        Some((quotient, !self.limbs.is_empty()))
    }

    fn is_less_than(&self, other: &Self) -> bool {
        let by_length = self.limbs.len().cmp(&other.limbs.len());
        by_length.then_with(|| self.limbs.iter().rev().cmp(other.limbs.iter().rev())).is_lt()
    }

    /// Subtracts a number that is not greater.
    fn subtract(&mut self, other: &Self) {
        let mut borrow = false;
        for (index, limb) in self.limbs.iter_mut().enumerate() {
            let subtracted = other.limbs.get(index).copied().unwrap_or(0);
            let (difference, first) = limb.overflowing_sub(subtracted);
            let (difference, second) = difference.overflowing_sub(borrow.into());
            *limb = difference;
            borrow = first || second;
        }
        *self = Self { limbs: std::mem::take(&mut self.limbs) }.trimmed();
    }

    fn halve(&mut self) {
        let mut carry = 0;
        for limb in self.limbs.iter_mut().rev() {
            let next = *limb << (LIMB_BITS - 1);
            *limb = *limb >> 1 | carry;
            carry = next;
        }
        *self = Self { limbs: std::mem::take(&mut self.limbs) }.trimmed();
    }

    /// Returns its decimal digits.
    pub(super) fn to_decimal(&self) -> String {
        const GROUP: u64 = 1_000_000_000;
        let mut limbs = self.limbs.clone();
        let mut groups = Vec::new();
        while !limbs.is_empty() {
            let mut remainder = 0;
            for limb in limbs.iter_mut().rev() {
                let dividend = remainder << LIMB_BITS | u64::from(*limb);
                *limb = (dividend / GROUP) as u32;
                remainder = dividend % GROUP;
            }
            groups.push(remainder);
            while limbs.last() == Some(&0) {
                limbs.pop();
            }
        }
        let Some((first, others)) = groups.split_last() else { return "0".to_owned() };
        let mut text = first.to_string();
        for group in others.iter().rev() {
            text.push_str(&format!("{group:09}"));
        }
        text
    }
}
