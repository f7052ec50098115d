//! Meaning: rows of `i8` vectors in one block, scanned whole.

const LANES: usize = 32;

/// Vectors of one length. Only their directions count.
pub struct Vectors {
    dim: usize,
    rows: Vec<i8>,
    /// One over the length of each; 0 for a row without a vector.
    scales: Vec<f32>,
}

impl Vectors {
    pub fn new(dim: usize) -> Self {
        Self { dim, rows: Vec::new(), scales: Vec::new() }
    }

    /// Adds the next row; a vector of another length counts as none.
    pub fn push(&mut self, vector: &[i8]) {
        super::grow(&mut self.rows, self.dim);
        super::grow(&mut self.scales, 1);
        if vector.len() == self.dim {
            self.rows.extend_from_slice(vector);
            self.scales.push(scale(vector));
        } else {
            self.rows.resize(self.rows.len() + self.dim, 0);
            self.scales.push(0.0);
        }
    }

    pub fn packed(&self, kept: &[u32]) -> Self {
        let mut rows = Vec::with_capacity(kept.len() * self.dim);
        for row in kept {
            rows.extend_from_slice(self.row(*row as usize));
        }
        Self { dim: self.dim, rows, scales: kept.iter().map(|row| self.scales[*row as usize]).collect() }
    }

    /// The cosine of each row with the question.
    pub fn cosines(&self, question: &[i8], cosines: &mut [f32]) {
        if question.len() != self.dim || self.dim == 0 {
            return;
        }
        let unit = scale(question);
        scan(&self.rows, question, cosines);
        for (cosine, scale) in cosines.iter_mut().zip(&self.scales) {
            *cosine *= scale * unit;
        }
    }

    /// The cosine of two rows.
    pub fn between(&self, a: usize, b: usize) -> f32 {
        let wide: Vec<i16> = self.row(a).iter().map(|n| i16::from(*n)).collect();
        dot(self.row(b), &wide) as f32 * self.scales[a] * self.scales[b]
    }

    pub fn bytes(&self) -> usize {
        self.rows.capacity() + self.scales.capacity() * 4
    }

    fn row(&self, row: usize) -> &[i8] {
        &self.rows[row * self.dim..(row + 1) * self.dim]
    }
}

fn scale(vector: &[i8]) -> f32 {
    let square: i32 = vector.iter().map(|n| i32::from(*n) * i32::from(*n)).sum();
    if square == 0 { 0.0 } else { 1.0 / (square as f32).sqrt() }
}

/// The product of each row with the question, in whole numbers, which are the same on every processor.
fn scan(rows: &[i8], question: &[i8], products: &mut [f32]) {
    #[cfg(target_arch = "x86_64")]
    if question.len().is_multiple_of(WIDE)
        && std::is_x86_feature_detected!("avx512bw")
        && std::is_x86_feature_detected!("avx512vnni")
    {
        // SAFETY: the processor has just said that it can.
        return unsafe { scan_vnni(rows, question, products) };
    }
    let question: Vec<i16> = question.iter().map(|n| i16::from(*n)).collect();
    #[cfg(target_arch = "x86_64")]
    if std::is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has just said that it can.
        return unsafe { scan_avx2(rows, &question, products) };
    }
    scan_with(rows, &question, products);
}

/// So many numbers are multiplied at once by [`scan_vnni`].
#[cfg(target_arch = "x86_64")]
const WIDE: usize = 64;

/// By the instruction that multiplies unsigned with signed numbers: a row is moved up by 128, and what that adds is
/// taken off again. Bound by how fast memory is read.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
fn scan_vnni(rows: &[i8], question: &[i8], products: &mut [f32]) {
    use std::arch::x86_64::{
        _mm512_dpbusd_epi32, _mm512_loadu_si512, _mm512_reduce_add_epi32, _mm512_set1_epi8, _mm512_setzero_si512,
        _mm512_xor_si512,
    };
    let added = 128 * question.iter().map(|n| i32::from(*n)).sum::<i32>();
    let (asked, _) = question.as_chunks::<WIDE>();
    let up = _mm512_set1_epi8(i8::MIN);
    for (row, product) in rows.chunks_exact(question.len()).zip(products) {
        let mut sums = _mm512_setzero_si512();
        let (parts, _) = row.as_chunks::<WIDE>();
        for (a, b) in parts.iter().zip(asked) {
            // SAFETY: both are as long as what is loaded.
            let (a, b) = unsafe { (_mm512_loadu_si512(a.as_ptr().cast()), _mm512_loadu_si512(b.as_ptr().cast())) };
            sums = _mm512_dpbusd_epi32(sums, _mm512_xor_si512(a, up), b);
        }
        *product = (_mm512_reduce_add_epi32(sums) - added) as f32;
    }
}

/// The same code, compiled for processors with wider registers: twice as fast.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn scan_avx2(rows: &[i8], question: &[i16], products: &mut [f32]) {
    scan_with(rows, question, products);
}

#[inline(always)]
fn scan_with(rows: &[i8], question: &[i16], products: &mut [f32]) {
    for (row, product) in rows.chunks_exact(question.len()).zip(products) {
        *product = dot(row, question) as f32;
    }
}

/// In whole numbers, so that no order of adding changes the result; in lanes, which become wide registers.
#[inline(always)]
fn dot(a: &[i8], b: &[i16]) -> i32 {
    let mut sums = [0; LANES];
    let (a_lanes, a_rest) = a.as_chunks::<LANES>();
    let (b_lanes, b_rest) = b.as_chunks::<LANES>();
    for (a, b) in a_lanes.iter().zip(b_lanes) {
        for (sum, (a, b)) in sums.iter_mut().zip(a.iter().zip(b)) {
            *sum += i32::from(*a) * i32::from(*b);
        }
    }
    let rest: i32 = a_rest.iter().zip(b_rest).map(|(a, b)| i32::from(*a) * i32::from(*b)).sum();
    sums.iter().sum::<i32>() + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cosines_are_those_of_the_directions() {
        for dim in [1, 4, 31, 32, 33, 100] {
            let mut vectors = Vectors::new(dim);
            let a: Vec<i8> = (0..dim).map(|n| (n * 37 % 255) as u8 as i8).collect();
            let b: Vec<i8> = (0..dim).map(|n| (n * 91 % 255 + 1) as u8 as i8).collect();
            let half: Vec<i8> = b.iter().map(|x| -(x / 2)).collect();
            [&a, &b, &half].iter().for_each(|vector| vectors.push(vector));
            vectors.push(&[]);
            let mut cosines = [0.0; 4];
            vectors.cosines(&b, &mut cosines);
            let product = |x: &[i8], y: &[i8]| x.iter().zip(y).map(|(x, y)| f32::from(*x) * f32::from(*y)).sum::<f32>();
            let want = product(&a, &b) / (product(&a, &a) * product(&b, &b)).sqrt().max(1e-9);
            assert!((cosines[0] - want).abs() < 1e-5, "{dim}: {cosines:?}, {want}");
            assert!((cosines[1] - 1.0).abs() < 1e-5, "{dim}: {cosines:?}");
            assert!(cosines[2] < -0.97 || half.iter().all(|x| *x == 0), "{dim}: {cosines:?}");
            assert_eq!(cosines[3], 0.0);
            assert!((vectors.between(0, 1) - want).abs() < 1e-5);
        }
    }

    #[test]
    fn every_processor_gives_the_same() {
        for dim in [64, 100, 256] {
            let rows: Vec<i8> = (0..dim * 5).map(|n| (n * 7919 % 256) as u8 as i8).collect();
            let question: Vec<i8> = (0..dim).map(|n| (n * 31 % 256) as u8 as i8).collect();
            let wide: Vec<i16> = question.iter().map(|n| i16::from(*n)).collect();
            let (mut best, mut plain) = ([0.0; 5], [0.0; 5]);
            scan(&rows, &question, &mut best);
            scan_with(&rows, &wide, &mut plain);
            assert_eq!(best, plain);
            #[cfg(target_arch = "x86_64")]
            if std::is_x86_feature_detected!("avx2") {
                // SAFETY: the processor has just said that it can.
                unsafe { scan_avx2(&rows, &wide, &mut best) };
                assert_eq!(best, plain);
            }
        }
    }
}
