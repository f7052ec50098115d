//! Meaning: rows of `i8` vectors in one block, scanned whole.

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
        let wide: Vec<i16> = question.iter().map(|n| i16::from(*n)).collect();
        scan(&self.rows, &wide, cosines);
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

/// The product of each row with the question.
fn scan(rows: &[i8], question: &[i16], products: &mut [f32]) {
    #[cfg(target_arch = "x86_64")]
    if std::is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has just said that it can.
        return unsafe { scan_avx2(rows, question, products) };
    }
    scan_with(rows, question, products);
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

/// In whole numbers, so that no order of adding changes the result.
#[inline(always)]
fn dot(a: &[i8], b: &[i16]) -> i32 {
    let mut sum = 0;
    for (a, b) in a.iter().zip(b) {
        sum += i32::from(i16::from(*a)) * i32::from(*b);
    }
    sum
}
