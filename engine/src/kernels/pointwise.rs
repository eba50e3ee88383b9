use super::{dot, exp, triple_dot, vectorised};

/// RMSNorm of each row of `[rows, gain.len()]`: `x / sqrt(mean(x²) + epsilon) * gain`. `inverses` receives each row's
/// `1 / sqrt(...)`, which the backward pass needs.
pub(crate) fn rms_norm(rows: &[f32], gain: &[f32], epsilon: f32, normed: &mut [f32], inverses: &mut [f32]) {
    vectorised(
        #[inline(always)]
        || {
            let width = gain.len();
            for row in 0..inverses.len() {
                inverses[row] =
                    norm_row(&rows[row * width..][..width], gain, epsilon, &mut normed[row * width..][..width]);
            }
        },
    );
}

/// Adds to `gradient` (by the rows) and `gain_gradient` (empty for a gain that stays as it is) what `normed_gradient`
/// means for them.
pub(crate) fn rms_norm_backward(
    rows: &[f32],
    gain: &[f32],
    inverses: &[f32],
    normed_gradient: &[f32],
    gradient: &mut [f32],
    gain_gradient: &mut [f32],
) {
    vectorised(
        #[inline(always)]
        || {
            let width = gain.len();
            for row in 0..inverses.len() {
                let place = row * width..(row + 1) * width;
                norm_row_backward(
                    &rows[place.clone()],
                    gain,
                    inverses[row],
                    &normed_gradient[place.clone()],
                    &mut gradient[place],
                    gain_gradient,
                );
            }
        },
    );
}

#[inline(always)]
fn norm_row(row: &[f32], gain: &[f32], epsilon: f32, normed: &mut [f32]) -> f32 {
    let width = row.len();
    let inverse = 1.0 / (dot(row, row) / width as f32 + epsilon).sqrt();
    let (gain, normed) = (&gain[..width], &mut normed[..width]);
    for i in 0..width {
        normed[i] = row[i] * inverse * gain[i];
    }
    inverse
}

#[inline(always)]
fn norm_row_backward(
    row: &[f32],
    gain: &[f32],
    inverse: f32,
    normed_gradient: &[f32],
    gradient: &mut [f32],
    gain_gradient: &mut [f32],
) {
    let width = row.len();
    let (gain, normed_gradient) = (&gain[..width], &normed_gradient[..width]);
    let gradient = &mut gradient[..width];
    if let Some(gain_gradient) = gain_gradient.get_mut(..width) {
        for i in 0..width {
            gain_gradient[i] += normed_gradient[i] * row[i] * inverse;
        }
    }
    let along = triple_dot(normed_gradient, gain, row) * inverse * inverse / width as f32;
    for i in 0..width {
        gradient[i] += inverse * (normed_gradient[i] * gain[i] - row[i] * along);
    }
}

/// Cosines and sines of the rotary embedding, one row of half a head per position.
#[derive(Clone, Debug)]
pub(crate) struct Rotation {
    half: usize,
    cosines: Vec<f32>,
    sines: Vec<f32>,
}

impl Rotation {
    /// From the angle per position of each pair. Angles are computed in f32, as Hugging Face does; cosines and sines are
    /// multiplied with `factor`.
    pub(crate) fn new(frequencies: &[f32], factor: f32, positions: usize) -> Self {
        let angles =
            (0..positions).flat_map(|position| frequencies.iter().map(move |frequency| position as f32 * frequency));
        let (cosines, sines) = angles
            .map(|angle| (f64::from(angle).cos() as f32 * factor, f64::from(angle).sin() as f32 * factor))
            .unzip();
        Self { half: frequencies.len(), cosines, sines }
    }

    #[inline(always)]
    fn at(&self, position: usize) -> (&[f32], &[f32]) {
        let place = position * self.half..(position + 1) * self.half;
        (&self.cosines[place.clone()], &self.sines[place])
    }
}

/// Query and key heads, and their norms.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HeadNorms<'a> {
    pub(crate) query_heads: usize,
    pub(crate) key_heads: usize,
    /// Empty, as the keys', where heads are not normed.
    pub(crate) query_gain: &'a [f32],
    pub(crate) key_gain: &'a [f32],
    pub(crate) epsilon: f32,
}

impl HeadNorms<'_> {
    #[inline(always)]
    fn gain(&self, head: usize) -> &[f32] {
        if head < self.query_heads { self.query_gain } else { self.key_gain }
    }
}

/// Norms and rotates the query and key heads of each row of `projected` (query, key and value heads) into a row of
/// `rotated` (query and key heads). `inverses` receives one number per row and head.
pub(crate) fn norm_and_rotate(
    projected: &[f32],
    positions: &[usize],
    norms: HeadNorms<'_>,
    rotation: &Rotation,
    rotated: &mut [f32],
    inverses: &mut [f32],
) {
    vectorised(
        #[inline(always)]
        || {
            let (head, half) = (2 * rotation.half, rotation.half);
            let heads = norms.query_heads + norms.key_heads;
            let width = (heads + norms.key_heads) * head;
            for row in 0..positions.len() {
                let (cosines, sines) = rotation.at(positions[row]);
                for h in 0..heads {
                    let from = &projected[row * width + h * head..][..head];
                    let to = &mut rotated[(row * heads + h) * head..][..head];
                    match norms.gain(h) {
                        [] => to.copy_from_slice(from),
                        gain => inverses[row * heads + h] = norm_row(from, gain, norms.epsilon, to),
                    }
                    let (low, high) = to.split_at_mut(half);
                    turn(low, high, cosines, sines, 1.0);
                }
            }
        },
    );
}

/// Turns `rotated_gradient` into the gradient of the query and key part of `projected`. `rotated_gradient` is
/// used up.
#[allow(clippy::too_many_arguments)] // forward's arguments, their gradients, and what forward saved
pub(crate) fn norm_and_rotate_backward(
    projected: &[f32],
    positions: &[usize],
    norms: HeadNorms<'_>,
    rotation: &Rotation,
    inverses: &[f32],
    rotated_gradient: &mut [f32],
    projected_gradient: &mut [f32],
    query_gain_gradient: &mut [f32],
    key_gain_gradient: &mut [f32],
) {
    vectorised(
        #[inline(always)]
        || {
            let (head, half) = (2 * rotation.half, rotation.half);
            let heads = norms.query_heads + norms.key_heads;
            let width = (heads + norms.key_heads) * head;
            for row in 0..positions.len() {
                let (cosines, sines) = rotation.at(positions[row]);
                for h in 0..heads {
                    let normed = &mut rotated_gradient[(row * heads + h) * head..][..head];
                    let (low, high) = normed.split_at_mut(half);
                    turn(low, high, cosines, sines, -1.0);
                    let gain_gradient =
                        if h < norms.query_heads { &mut *query_gain_gradient } else { &mut *key_gain_gradient };
                    let place = row * width + h * head..row * width + (h + 1) * head;
                    let gain = norms.gain(h);
                    if gain.is_empty() {
                        projected_gradient[place].copy_from_slice(normed);
                        continue;
                    }
                    projected_gradient[place.clone()].fill(0.0);
                    norm_row_backward(
                        &projected[place.clone()],
                        gain,
                        inverses[row * heads + h],
                        normed,
                        &mut projected_gradient[place],
                        gain_gradient,
                    );
                }
            }
        },
    );
}

/// Rotates each pair `(low[i], high[i])` by its angle; `direction` -1 turns back.
#[inline(always)]
fn turn(low: &mut [f32], high: &mut [f32], cosines: &[f32], sines: &[f32], direction: f32) {
    let half = low.len();
    let (high, cosines, sines) = (&mut high[..half], &cosines[..half], &sines[..half]);
    for i in 0..half {
        let (x, y, sine) = (low[i], high[i], direction * sines[i]);
        low[i] = x * cosines[i] - y * sine;
        high[i] = y * cosines[i] + x * sine;
    }
}

/// Adds `bias` to each row; nothing where it is empty.
pub(crate) fn add_bias(bias: &[f32], rows: &mut [f32]) {
    if bias.is_empty() {
        return;
    }
    vectorised(
        #[inline(always)]
        || {
            let width = bias.len();
            for row in rows.chunks_exact_mut(width) {
                for i in 0..width {
                    row[i] += bias[i];
                }
            }
        },
    );
}

/// Adds each row's gradient to the bias's; nothing where there is no bias.
pub(crate) fn bias_backward(rows_gradient: &[f32], bias_gradient: &mut [f32]) {
    if bias_gradient.is_empty() {
        return;
    }
    vectorised(
        #[inline(always)]
        || {
            let width = bias_gradient.len();
            for row in rows_gradient.chunks_exact(width) {
                for i in 0..width {
                    bias_gradient[i] += row[i];
                }
            }
        },
    );
}

/// `silu(gate) * up` for each row of `[gate, up]`, `width` numbers each.
pub(crate) fn swiglu(gate_up: &[f32], width: usize, activated: &mut [f32]) {
    vectorised(
        #[inline(always)]
        || {
            for row in 0..activated.len() / width {
                let (gate, up) = gate_up[row * 2 * width..][..2 * width].split_at(width);
                let (up, activated) = (&up[..width], &mut activated[row * width..][..width]);
                for i in 0..width {
                    activated[i] = gate[i] / (1.0 + exp(-gate[i])) * up[i];
                }
            }
        },
    );
}

/// The gradient of `[gate, up]` from that of [`swiglu`]'s result.
pub(crate) fn swiglu_backward(gate_up: &[f32], width: usize, activated_gradient: &[f32], gradient: &mut [f32]) {
    vectorised(
        #[inline(always)]
        || {
            for row in 0..activated_gradient.len() / width {
                let place = row * 2 * width..(row + 1) * 2 * width;
                let (gate, up) = gate_up[place.clone()].split_at(width);
                let (gate_gradient, up_gradient) = gradient[place].split_at_mut(width);
                let (up, up_gradient) = (&up[..width], &mut up_gradient[..width]);
                let activated_gradient = &activated_gradient[row * width..][..width];
                for i in 0..width {
                    let sigmoid = 1.0 / (1.0 + exp(-gate[i]));
                    let silu = gate[i] * sigmoid;
                    gate_gradient[i] = activated_gradient[i] * up[i] * (sigmoid + silu * (1.0 - sigmoid));
                    up_gradient[i] = activated_gradient[i] * silu;
                }
            }
        },
    );
}
