//! The simulator's random numbers: PCG-XSH-RR 64/32 (O'Neill, 2014), a fixed algorithm in integers, so that a seed
//! gives the same run on every machine and in every build.

/// One stream of random numbers.
#[derive(Clone, Debug)]
pub struct Rng {
    state: u64,
    step: u64,
}

impl Rng {
    /// Stream number `stream` of `seed`: different streams are independent.
    pub fn new(seed: u64, stream: u64) -> Self {
        let mut rng = Rng { state: 0, step: stream << 1 | 1 };
        rng.next();
        rng.state = rng.state.wrapping_add(seed);
        rng.next();
        rng
    }

    /// The next 32 bits.
    #[allow(clippy::should_implement_trait)] // An endless stream is no iterator to its callers.
    pub fn next(&mut self) -> u32 {
        let old = self.state;
        self.state = old.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(self.step);
        let xorshifted = (((old >> 18) ^ old) >> 27) as u32;
        xorshifted.rotate_right((old >> 59) as u32)
    }

    /// A number below `n`, 0 if `n` is 0. (Biased by less than n / 2^32: of no account here.)
    pub fn below(&mut self, n: u32) -> u32 {
        ((u64::from(self.next()) * u64::from(n)) >> 32) as u32
    }

    /// `value` give or take up to `permille` thousandths of it, evenly.
    pub fn around(&mut self, value: u64, permille: u32) -> u64 {
        let permille = permille.min(1000);
        if permille == 0 {
            return value;
        }
        let factor = u64::from(1000 - permille + self.below(2 * permille + 1));
        (u128::from(value) * u128::from(factor) / 1000) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stream_is_that_of_the_reference_implementation() {
        let mut rng = Rng::new(42, 54);
        let first: Vec<u32> = (0..6).map(|_| rng.next()).collect();
        assert_eq!(first, [0xa15c_02b7, 0x7b47_f409, 0xba1d_3330, 0x83d2_f293, 0xbfa4_784b, 0xcbed_606e]);
    }

    #[test]
    fn a_spread_stays_inside_its_bounds() {
        let mut rng = Rng::new(1, 1);
        assert!((0..1000).all(|_| (800..=1200).contains(&rng.around(1000, 200))));
        assert_eq!(rng.around(7, 0), 7);
        assert_eq!(rng.below(0), 0);
    }
}
